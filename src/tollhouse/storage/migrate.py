"""Database migrations with Alembic; quick when the schema is current.

A migration is additive: new tables and indexes, and new columns that are null or have a default in the database, so
that servers of the version before keep working, and can restart, while a rolling update runs. One that is not declares
`is_breaking = True`, and earlier versions refuse its schema.
"""

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

# Written with each migration: the earliest schema that a server may know and still work with this one.
_MAKE_RECORDS = """CREATE TABLE IF NOT EXISTS schema_compatibility
    (chain VARCHAR(40) PRIMARY KEY, version VARCHAR(32) NOT NULL, oldest VARCHAR(32) NOT NULL)"""
_RECORD = """INSERT INTO schema_compatibility VALUES (:chain, :version, :oldest) ON CONFLICT (chain)
    DO UPDATE SET version = excluded.version, oldest = excluded.oldest"""
_OLDEST = "SELECT oldest FROM schema_compatibility WHERE chain = :chain AND version = :version"


class NewerSchemaError(OperatorError):
    """A later version of Tollhouse migrated the database so that this one cannot use it."""


async def migrate(database: Database, chain: Chain = MAIN) -> None:
    """Apply missing migrations in one transaction, one process at a time.

    A newer schema is accepted if it has only additions. Raises NewerSchemaError.
    """
    async with database.writing(lock="migrate") as connection:
        current = await connection.run_sync(_current, chain)
        newest = newest_version(chain)
        if current == newest:
            return
        if current is not None and current > newest:
            oldest = await connection.run_sync(_oldest, chain, current)
            if oldest is None or newest < oldest:
                raise NewerSchemaError(f"the database is at schema {current}, this version knows up to {newest}")
            log.warning("the database has a newer schema", current=current, known=newest)
            return
        log.info("migrating", from_version=current, to_version=newest)
        await _upgrade(connection, chain)


def newest_version(chain: Chain = MAIN) -> str:
    """The number of the last migration; files are named `0001_what_it_does.py`."""
    return max(path.name for path in chain.versions.glob("[0-9]*.py"))[:4]


def _current(connection: Connection, chain: Chain) -> str | None:
    if not inspect(connection).has_table(chain.version_table):
        return None
    return connection.execute(text(f"SELECT version_num FROM {chain.version_table}")).scalar()  # noqa: S608 - our name


def _oldest(connection: Connection, chain: Chain, current: str) -> str | None:
    """The earliest schema that a server must know; None where no version recorded it."""
    if not inspect(connection).has_table("schema_compatibility"):
        return None
    values = {"chain": chain.version_table, "version": current}
    return connection.execute(text(_OLDEST), values).scalar()


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
        steps_known = list(script.walk_revisions())
        breaking = [one.revision for one in steps_known if getattr(one.module, "is_breaking", False)]
        values = {"chain": chain.version_table, "version": steps_known[0].revision, "oldest": max(breaking, default="")}
        plain.execute(text(_MAKE_RECORDS))
        plain.execute(text(_RECORD), values)

    await connection.run_sync(upgrade)
