"""Bring a database to the schema this version needs: quick when it is there already."""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse.logs import logger
from tollhouse.storage.database import Database

log = logger("storage")

VERSIONS = Path(__file__).parent / "migrations" / "versions"


class NewerSchemaError(Exception):
    """The database was migrated by a later version of Tollhouse than this one."""


async def migrate(database: Database) -> None:
    """Apply what is missing, in one transaction, one process at a time. Raises NewerSchemaError."""
    async with database.writing(lock="migrate") as connection:
        current = await connection.run_sync(_current)
        newest = newest_version()
        if current == newest:
            return
        if current is not None and current > newest:
            raise NewerSchemaError(f"the database is at schema {current}, this version knows up to {newest}")
        log.info("migrating", from_version=current, to_version=newest)
        await _upgrade(connection)


def newest_version() -> str:
    """The last migration's number: files are called `0001_what_it_does.py`."""
    return max(path.name for path in VERSIONS.glob("[0-9]*.py"))[:4]


def _current(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


async def _upgrade(connection: AsyncConnection) -> None:
    # Alembic takes a quarter of a second to import: only a start that migrates pays it.
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(VERSIONS.parent))
    script = ScriptDirectory.from_config(config)

    def upgrade(plain: Connection) -> None:
        def steps(revision: Any, _context: object) -> list[object]:
            return list(script._upgrade_revs("head", revision))  # noqa: SLF001 - as Alembic's own commands do

        with EnvironmentContext(config, script, fn=steps) as environment:
            environment.configure(connection=plain, transactional_ddl=False)
            environment.run_migrations()

    await connection.run_sync(upgrade)
