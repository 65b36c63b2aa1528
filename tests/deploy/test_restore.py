"""What `tollhouse backup` and `tollhouse restore` refuse, and what they leave as it was."""

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from tests.servers.databases import migrated_copy
from tollhouse.admission.context import open_context
from tollhouse.cli.backup import backup, restore
from tollhouse.cli.options import CommonOptions
from tollhouse.config.settings import Settings
from tollhouse.storage.migrate import NewerSchemaError

pytestmark = pytest.mark.both_databases


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A backup of a folder with the operator's file in it, and that folder."""
    home = tmp_path_factory.mktemp("made")
    migrated_copy(home / "data")
    (home / "data" / "mattress-retailers.toml").write_text("# the operator's\n")
    (home / "data" / "background-work.lock").touch()
    backup(home / "copy", common=CommonOptions(data_dir=str(home / "data")))
    return home


@pytest.fixture
def copy(made, tmp_path):
    return shutil.copytree(made / "copy", tmp_path / "copy")


def into(folder) -> CommonOptions:
    return CommonOptions(data_dir=str(folder))


def test_backup_holds_databases_and_the_operators_files_and_says_so(made):
    contents = json.loads((made / "copy" / "backup.json").read_text())
    assert set(contents["files"]) == {"tollhouse.db", "ledger.db", "mattress-retailers.toml"}
    assert set(contents["schemas"]) == {"tollhouse.db", "ledger.db"}
    assert {file.name for file in (made / "copy").iterdir()} == {*contents["files"], "backup.json"}
    assert (made / "copy").stat().st_mode & 0o777 == 0o700


def test_restored_folder_has_all_of_it(copy, tmp_path, capsys):
    restore(copy, common=into(tmp_path / "new"))
    assert json.loads(capsys.readouterr().out)["replaced"] is None
    for name in ("tollhouse.db", "ledger.db", "mattress-retailers.toml"):
        assert (tmp_path / "new" / name).read_bytes() == (copy / name).read_bytes()


def test_backup_does_not_write_into_a_folder_with_something_in_it(made, tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(ValueError, match="not an empty folder"):
        backup(tmp_path, common=into(made / "data"))
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_nothing_to_back_up_leaves_no_folder_behind(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(ValueError, match="nothing to back up"):
        backup(tmp_path / "copy", common=into(tmp_path / "data"))
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


def test_folder_that_is_no_backup_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ValueError, match="is not a backup"):
            restore(folder, common=into(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["tollhouse.db", "ledger.db", "mattress-retailers.toml"])
def test_backup_that_was_altered_or_lost_a_file_is_refused(copy, tmp_path, name):
    (copy / name).write_bytes((copy / name).read_bytes() + b"x")
    with pytest.raises(ValueError, match=name):
        restore(copy, common=into(tmp_path / "new"))
    (copy / name).unlink()
    with pytest.raises(ValueError, match=name):
        restore(copy, common=into(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_backup_cannot_name_a_file_elsewhere(copy, tmp_path):
    contents = json.loads((copy / "backup.json").read_text())
    contents["files"]["../elsewhere"] = contents["files"]["mattress-retailers.toml"]
    shutil.copy(copy / "mattress-retailers.toml", tmp_path / "elsewhere")
    (copy / "backup.json").write_text(json.dumps(contents))
    with pytest.raises(ValueError, match="elsewhere"):
        restore(copy, common=into(tmp_path / "new"))


def test_backup_of_a_later_version_is_refused(copy, tmp_path):
    contents = json.loads((copy / "backup.json").read_text())
    contents["schemas"]["ledger.db"] = "9999"
    (copy / "backup.json").write_text(json.dumps(contents))
    with pytest.raises(NewerSchemaError, match="newer version"):
        restore(copy, common=into(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_folder_with_something_in_it_is_left_alone_without_force(copy, data_dir):
    before = {file.name: file.read_bytes() for file in data_dir.glob("*.db")}
    with pytest.raises(ValueError, match="--force"):
        restore(copy, common=into(data_dir))
    assert {file.name: file.read_bytes() for file in data_dir.glob("*.db")} == before


def test_with_force_what_was_there_is_moved_aside_and_nothing_is_lost(made, copy, tmp_path, capsys):
    home = shutil.copytree(made / "data", tmp_path / "home")
    with closing(sqlite3.connect(home / "tollhouse.db")) as connection, connection:
        connection.execute("INSERT INTO feed_revision VALUES ('events', 7)")
    (home / "notes").write_text("mine")
    restore(copy, force=True, common=into(home))
    replaced = json.loads(capsys.readouterr().out)["replaced"]
    with closing(sqlite3.connect(f"{replaced}/tollhouse.db")) as connection:
        assert connection.execute("SELECT revision FROM feed_revision").fetchall() == [(7,)]
    with closing(sqlite3.connect(home / "tollhouse.db")) as connection:
        assert connection.execute("SELECT revision FROM feed_revision").fetchall() == []
    assert (home / "notes").read_text() == "mine"


async def test_folder_of_a_server_that_runs_is_refused_even_with_force(copy, data_dir):
    async with open_context(Settings(data_dir=str(data_dir))):
        with pytest.raises(ValueError, match="stop it first"):
            await asyncio.to_thread(restore, copy, force=True, common=into(data_dir))
    await asyncio.to_thread(restore, copy, force=True, common=into(data_dir))


@pytest.mark.parametrize("command", [backup, restore])
def test_postgres_is_left_to_its_own_tools(command, tmp_path, monkeypatch):
    monkeypatch.setenv("TOLLHOUSE_DATABASE_URL", "postgresql://nobody@127.0.0.1:9/nothing")
    with pytest.raises(ValueError, match="pg_dump"):
        command(tmp_path / "copy", common=into(tmp_path / "data"))
