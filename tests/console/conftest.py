"""What the tests of the pages start from: a server over the recording; browser.py is a plugin of the whole run."""

from pathlib import Path

import pytest

from tests.journeys.conftest import key, recorded_data, server, start_server
from tests.journeys.server import run
from tests.services.tables.books import as_csv, books

__all__ = ["key", "recorded_data", "server", "start_server"]


@pytest.fixture(scope="module")
def tables_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two declared tables: many books, and one whose texts look like markup."""
    home = tmp_path_factory.mktemp("tables")
    (home / "books.csv").write_text(books(300))
    (home / "odd.csv").write_text(as_csv([["</script><b>x</b>", "é|ü", "-1"]] * 3, ("<i>name</i>", 'a"b', "n")))
    for name in ("books", "odd"):
        options = ("--title", f"{name} <of> all kinds", "--licence", "CC0-1.0", "--free-per-day", 10_000)
        made = run("new", name, "--from", f"{name}.csv", *options, cwd=home)
        assert made.returncode == 0, made.stderr
    return home
