"""A store that an earlier version left: the next start migrates it, and every row in it is still there."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.journeys.conftest import recorded_data, start_server
from tests.journeys.server import run
from tollhouse.accounts.keys import open_key_ring
from tollhouse.accounts.wallets import WalletRegistry
from tollhouse.client import Agent
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.ledger.types import TREASURY, Transfer, agent_account
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import MAIN, Chain, migrate, newest_version

pytestmark = pytest.mark.both_databases

__all__ = ["recorded_data", "start_server"]

REVISIONS = sorted(path.name[:4] for path in MAIN.versions.glob("[0-9]*.py"))
# The first in which agents could register.
WITH_AGENTS = "0004"
PARTITIONS = "event_rows_"


def until(revision: str, folder: Path) -> Chain:
    """The migrations that a version had which knew none after `revision`. The folder may have some of them already."""
    (folder / "versions").mkdir(parents=True, exist_ok=True)
    shutil.copy(MAIN.versions.parent / "env.py", folder)
    for file in MAIN.versions.glob("[0-9]*.py"):
        if file.name[:4] <= revision and not (folder / "versions" / file.name).exists():
            shutil.copy(file, folder / "versions")
    return Chain(folder / "versions", MAIN.version_table)


async def columns_now(connection: AsyncConnection) -> list[sa.TableClause]:
    """The tables there are with their columns, those of the migrations themselves and partitions aside."""
    listed = await connection.run_sync(lambda plain: sa.inspect(plain).get_multi_columns())
    return [
        sa.table(name, *(sa.column(one["name"], one["type"]) for one in columns))
        for (_, name), columns in listed.items()
        if name not in {MAIN.version_table, "schema_compatibility"} and not name.startswith(PARTITIONS)
    ]


async def fill(connection: AsyncConnection, tables: list[sa.TableClause], number: int) -> None:
    """Another row in each table, made up from the columns' types."""
    for table in tables:
        await connection.execute(table.insert(), {column.name: _value(column, number) for column in table.columns})


def _value(column: sa.Column[Any], number: int) -> Any:
    kind = column.type.python_type
    text = f"{number}{column.name}"[: getattr(column.type, "length", None) or 10]
    return {int: number, float: number + 0.5, bytes: b"%d" % number, bool: True, str: text}[kind]


async def stored(connection: AsyncConnection, tables: list[sa.TableClause]) -> dict[str, list[str]]:
    """The rows of the tables, in the columns that these had then."""
    return {table.name: sorted(map(repr, await connection.execute(sa.select(table)))) for table in tables}


async def test_rows_of_every_earlier_version_are_kept(empty_database_url, tmp_path) -> None:
    """Each migration finds rows of every version before it, and leaves them as they are."""
    database = open_database(Settings(database_url=empty_database_url))
    await migrate(database, until(REVISIONS[0], tmp_path / "earlier"))
    for number, newer in enumerate(REVISIONS[1:], 1):
        async with database.writing() as connection:
            tables = await columns_now(connection)
            await fill(connection, tables, number)
            # Triggers of that version may have written more.
            before = await stored(connection, tables)
        assert len(before) > 5
        assert all(before.values())
        await migrate(database, MAIN if newer == REVISIONS[-1] else until(newer, tmp_path / "earlier"))
        async with database.reading() as connection:
            assert await stored(connection, tables) == before, newer
    async with database.reading() as connection:
        assert await connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == newest_version()
    await database.close()


async def copy_rows(newer: Database, older: Database) -> None:
    """Every row of a newer store, as far as an older one has a place for it."""
    async with newer.reading() as source, older.writing() as target:
        for table in await columns_now(target):
            rows = (await source.execute(sa.select(table))).mappings().all()
            if rows:
                await target.execute(table.insert(), [dict(row) for row in rows])


async def test_server_starts_on_an_earlier_versions_store_and_its_callers_go_on(tmp_path, start_server) -> None:
    settings = Settings(data_dir=str(tmp_path / "data"))
    database, newer = open_database(settings), open_database(Settings(data_dir=str(tmp_path / "newer")))
    await migrate(database, until(WITH_AGENTS, tmp_path / "earlier"))
    await migrate(newer)
    key = (await (await open_key_ring(newer, "")).create("ada@example.org", "pro", None)).text
    agent = Agent("0x" + "5" * 64)
    registered = await WalletRegistry(newer, "service").register(agent.address)
    await copy_rows(newer, database)
    await newer.close()
    ledger = await open_ledger(settings, database)
    await ledger.move(Transfer("deposit-1", TREASURY, agent_account(registered.agent_id), 1_000_000, "deposit"))
    await ledger.close()
    await database.close()

    server = start_server("--recorded", home=tmp_path, is_recorded=False)
    assert "migrating" in server.told()
    with server.client(key) as client:
        assert client.get("/api/keys/verify").json()["tier"] == "pro"
    with server.client() as client:
        assert client.get("/feeds/events", headers=agent.headers("/feeds/events")).status_code == 200
        balance = client.get("/api/agent/balance", params={"wallet_address": agent.address}).json()
    assert (balance["deposited_usd"], balance["balance_usd"]) == ("1.00", "0.99")
    verified = run("ledger", "verify", "--data-dir", server.data_dir, cwd=tmp_path)
    assert json.loads(verified.stdout)["balanced"] is True
