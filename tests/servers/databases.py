"""Databases of each kind, migrated already: the migrations run once a run, and each test gets a copy without a row."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.servers.postgres import drop, emptied, fingerprint
from tests.servers.shared import made_once
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate

_BY_KIND = {"database_url", "empty_database_url", "new_database"}


def migrated_copy(folder: Path) -> Path:
    """The folder, made if it is not there, with both databases of SQLite: a twentieth of what the migrations cost."""
    migrated = made_once("migrated", lambda empty: _migrate(Settings(data_dir=str(empty))))
    folder.mkdir(parents=True, exist_ok=True)
    for file in migrated.glob("*.db"):
        shutil.copyfile(file, folder / file.name)
    return folder


@pytest.fixture(scope="session")
def migrated_template(new_postgres_database: Callable[..., str]) -> str:
    """The name of a PostgreSQL database of which others are made."""

    def make(folder: Path) -> None:
        url = new_postgres_database(is_kept=True)
        _migrate(Settings(database_url=url, data_dir=str(folder)))
        (folder / "name").write_text(url.rpartition("/")[2])
        # The ledger that migrated it left the pages of its lease.
        emptied(url, "")
        (folder / "fingerprint").write_text(fingerprint(url))

    return (made_once("migrated-postgres", make) / "name").read_text()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The test's own folder, with both databases in it."""
    return migrated_copy(tmp_path)


@pytest.fixture(scope="session")
def migrated_fingerprint(migrated_template: str) -> str:
    """What `fingerprint` says of a database without a row."""
    return (made_once("migrated-postgres", lambda _: None) / "fingerprint").read_text()


@pytest.fixture(scope="session")
def unused_databases() -> list[str]:
    """The URLs of migrated databases of PostgreSQL that no test of this worker uses at the moment."""
    return []


@pytest.fixture
def postgres_url(
    new_postgres_database: Callable[..., str],
    migrated_template: str,
    migrated_fingerprint: str,
    unused_databases: list[str],
) -> Iterator[str]:
    """A PostgreSQL database that no other test uses, without a row.

    One is emptied for the next test: to copy the template's thousand files for each would cost five times as much.
    """
    url = unused_databases.pop() if unused_databases else new_postgres_database(migrated_template)
    yield url
    if emptied(url, migrated_fingerprint):
        unused_databases.append(url)
    else:
        drop(url)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "both_databases: a store's contract, checked on SQLite and on PostgreSQL")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A store's contract is checked on both databases; what is built on the stores is checked on SQLite."""
    is_contract = metafunc.definition.get_closest_marker("both_databases")
    for name in _BY_KIND & set(metafunc.fixturenames):
        metafunc.parametrize(name, ["sqlite", "postgres"] if is_contract else ["sqlite"], indirect=True)


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """A migrated database: SQLite, and PostgreSQL too where the test is marked `both_databases`."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{request.getfixturevalue('data_dir')}/tollhouse.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def new_database(request: pytest.FixtureRequest) -> Callable[[Path], str]:
    """A function that makes a migrated database, one of SQLite in the folder, and answers its URL."""
    if request.param == "sqlite":
        return lambda folder: f"sqlite+aiosqlite:///{migrated_copy(folder)}/tollhouse.db"
    template = request.getfixturevalue("migrated_template")
    return lambda _: str(request.getfixturevalue("new_postgres_database")(template))


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """One of each kind, opened and migrated."""
    opened = open_database(Settings(database_url=database_url))
    await migrate(opened)
    yield opened
    await opened.close()


@pytest.fixture
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """As `database_url`, before any migration."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path}/tollhouse.db"
        return
    url = request.getfixturevalue("new_postgres_database")()
    yield url
    drop(url)


def _migrate(settings: Settings) -> None:
    """In a thread, because an event loop may be running in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _migrated(settings)).result()


async def _migrated(settings: Settings) -> None:
    database = open_database(settings)
    await migrate(database)
    ledger = await open_ledger(settings, database)
    await ledger.close()
    await database.close()
