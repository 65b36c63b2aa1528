import asyncio
import importlib
import pkgutil
import shutil

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text
from sqlalchemy.exc import ProgrammingError

import tollhouse
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.storage.database import Database, metadata, open_database
from tollhouse.storage.migrate import MAIN, Chain, NewerSchemaError, migrate, newest_version

pytestmark = pytest.mark.both_databases

# A store declares its tables when it is imported.
for module in pkgutil.walk_packages(tollhouse.__path__, "tollhouse."):
    if module.name.endswith("store"):
        importlib.import_module(module.name)

# Spoken to in SQL alone, so declared by the migration alone.
# event_story is what earlier versions left behind.
UNDECLARED = {"tally", "lease", "alembic_version", "schema_compatibility", "event_story"}
PARTITIONS = "event_rows_"


@pytest.fixture
async def open_another(empty_database_url):
    opened = []

    def another() -> Database:
        opened.append(open_database(Settings(database_url=empty_database_url)))
        return opened[-1]

    yield another
    for database in opened:
        await database.close()


async def tables(database):
    async with database.reading() as connection:
        names = await connection.run_sync(lambda plain: inspect(plain).get_table_names())
    return {name for name in names if not name.startswith(PARTITIONS)}


async def test_migrated_schema_is_the_one_the_stores_declare(open_another):
    database = open_another()
    await migrate(database)

    def differences(connection) -> list[object]:
        def is_declared(_object, name, kind, _reflected, _other) -> bool:
            return kind != "table" or (name not in UNDECLARED and not name.startswith(PARTITIONS))

        context = MigrationContext.configure(connection, opts={"include_object": is_declared})
        return list(compare_metadata(context, metadata))

    async with database.reading() as connection:
        assert await connection.run_sync(differences) == []
    assert await tables(database) == set(metadata.tables) | UNDECLARED


async def test_second_run_changes_nothing(open_another):
    database = open_another()
    await migrate(database)
    async with database.writing() as connection:
        await connection.execute(text("INSERT INTO feed_revision VALUES ('events', 7)"))
    before = await tables(database)
    await migrate(database)
    await migrate(open_another())
    assert await tables(database) == before
    async with database.reading() as connection:
        assert await connection.scalar(text("SELECT revision FROM feed_revision")) == 7
        assert await connection.scalar(text("SELECT version_num FROM alembic_version")) == newest_version()


async def test_newer_schema_is_refused_and_left_alone(open_another):
    database = open_another()
    await migrate(database)
    async with database.writing() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerSchemaError, match="9999"):
        await migrate(database)
    async with database.reading() as connection:
        assert await connection.scalar(text("SELECT version_num FROM alembic_version")) == "9999"


def chain_of(folder, *, until="9999", more="") -> Chain:
    """The migrations of another version: ours up to one, and one more."""
    versions = folder / "versions"
    versions.mkdir(parents=True)
    shutil.copy(MAIN.versions.parent / "env.py", folder)
    for file in MAIN.versions.glob("[0-9]*.py"):
        if file.name[:4] <= until:
            shutil.copy(file, versions)
    if more:
        (versions / "9001_more.py").write_text(
            f"import sqlalchemy as sa\nfrom alembic import op\nrevision = '9001'\n"
            f"down_revision = '{newest_version()}'\n{more}\ndef upgrade() -> None:\n"
            "    op.add_column('feed_revision', sa.Column('more', sa.Integer))\n"
        )
    return Chain(versions, MAIN.version_table)


async def test_server_of_before_restarts_while_a_rolling_update_adds_to_the_schema(open_another, tmp_path):
    database = open_another()
    await migrate(database)
    await migrate(open_another(), chain_of(tmp_path / "newer", more="# Additive."))
    await migrate(database)
    async with database.writing() as connection:
        await connection.execute(text("INSERT INTO feed_revision (feed, revision) VALUES ('events', 7)"))
        assert await connection.scalar(text("SELECT version_num FROM alembic_version")) == "9001"


async def test_newer_schema_that_breaks_earlier_servers_is_refused(open_another, tmp_path):
    database = open_another()
    await migrate(database)
    await migrate(open_another(), chain_of(tmp_path / "newer", more="is_breaking = True"))
    with pytest.raises(NewerSchemaError, match="9001"):
        await migrate(database)


# The first schema that servers accept before they know it.
SINCE = "0012"
REVISIONS = sorted(path.name[:4] for path in MAIN.versions.glob("[0-9]*.py") if path.name[:4] >= SINCE)


async def test_migration_that_is_not_additive_says_so(open_another, tmp_path):
    database = open_another()
    await migrate(database, chain_of(tmp_path / SINCE, until=SINCE))
    old = await columns(database)
    for after in REVISIONS[1:]:
        await migrate(database, chain_of(tmp_path / after, until=after))
        new = await columns(database)
        tables_of_old = {table for table, _ in old}
        added = [fact for name, fact in new.items() if name not in old and name[0] in tables_of_old]
        is_additive = old.items() <= new.items() and all(is_filled for _, is_filled in added)
        (file,) = MAIN.versions.glob(f"{after}_*.py")
        assert is_additive or "is_breaking = True" in file.read_text(), after
        old = new


async def columns(database) -> dict[tuple[str, str], tuple[str, bool]]:
    """The type of each column, and whether a row may be inserted that does not name it."""
    async with database.reading() as connection:
        listed = await connection.run_sync(lambda plain: inspect(plain).get_multi_columns())
    return {
        (table, column["name"]): (str(column["type"]), column["nullable"] or column["default"] is not None)
        for (_, table), every in listed.items()
        for column in every
    }


async def test_many_migrations_at_once_make_one_schema(open_another):
    await asyncio.gather(*(migrate(open_another()) for _ in range(5)))
    database = open_another()
    async with database.reading() as connection:
        assert await connection.scalar(text("SELECT count(*) FROM alembic_version")) == 1
    assert set(metadata.tables) <= await tables(database)


async def test_migration_that_fails_leaves_nothing(open_another):
    database = open_another()
    async with database.writing() as connection:
        # In the way of the last table that the first migration makes.
        await connection.execute(text("CREATE TABLE source_health (id INTEGER)"))
    with pytest.raises((Problem, ProgrammingError)):
        await migrate(database)
    assert await tables(database) == {"source_health"}
