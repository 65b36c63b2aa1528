"""Database migrations with Alembic; quick when the schema is current."""

from pathlib import Path
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse.errors import OperatorError
from tollhouse.logs import logger
from tollhouse.storage.database import Database

log = logger("storage")

VERSIONS = Path(__file__).parent / "migrations" / "versions"


class Chain(Struct, frozen=True):
    """A chain of migrations, and the table that stores the version of a database."""

    versions: Path
    version_table: str


MAIN = Chain(VERSIONS, "alembic_version")
# On SQLite the ledger has a database file of its own, so it has a chain of its own.
LEDGER = Chain(Path(__file__).parent / "migrations" / "ledger" / "versions", "ledger_version")


class NewerSchemaError(OperatorError):
    """The database was migrated by a later version of Tollhouse than this one."""


async def migrate(database: Database, chain: Chain = MAIN) -> None:
    """Apply missing migrations in one transaction, one process at a time. Raises NewerSchemaError."""
    async with database.writing(lock="migrate") as connection:
        current = await connection.run_sync(_current, chain)
        newest = newest_version(chain)
        if current == newest:
            return
        if current is not None and current > newest:
            raise NewerSchemaError(f"the database is at schema {current}, this version knows up to {newest}")
        log.info("migrating", from_version=current, to_version=newest)
        await _upgrade(connection, chain)


def newest_version(chain: Chain = MAIN) -> str:
    """The number of the last migration; files are named `0001_what_it_does.py`."""
    return max(path.name for path in chain.versions.glob("[0-9]*.py"))[:4]


def _current(connection: Connection, chain: Chain) -> str | None:
    if not inspect(connection).has_table(chain.version_table):
        return None
    return connection.execute(text(f"SELECT version_num FROM {chain.version_table}")).scalar()  # noqa: S608 - our name


async def _upgrade(connection: AsyncConnection, chain: Chain) -> None:
    # Importing Alembic takes a quarter of a second: import it only to migrate.
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(chain.versions.parent))
    script = ScriptDirectory.from_config(config)

    def upgrade(plain: Connection) -> None:
        def steps(revision: Any, _context: object) -> list[object]:
            return list(script._upgrade_revs("head", revision))  # noqa: SLF001 - as Alembic's own commands do

        with EnvironmentContext(config, script, fn=steps) as environment:
            environment.configure(connection=plain, transactional_ddl=False, version_table=chain.version_table)
            environment.run_migrations()

    await connection.run_sync(upgrade)
