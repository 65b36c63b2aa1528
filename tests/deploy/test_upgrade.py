"""A store that an earlier version left: the next start migrates it, and every row in it is still there."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

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


def until(revision: str, folder: Path) -> Chain:
    """The migrations that a version had which knew none after `revision`."""
    folder.mkdir()
    shutil.copy(MAIN.versions.parent / "env.py", folder)
    (folder / "versions").mkdir()
    for file in MAIN.versions.glob("[0-9]*.py"):
        if file.name[:4] <= revision:
            shutil.copy(file, folder / "versions")
    return Chain(folder / "versions", MAIN.version_table)


async def fill(database: Database) -> dict[str, list[dict[str, Any]]]:
    """A row in each table there is, made up from the columns' types; tells what was put in."""
    found = sa.MetaData()
    async with database.writing() as connection:
        await connection.run_sync(found.reflect)
        rows: dict[str, list[dict[str, Any]]] = {}
        for table in found.sorted_tables:
            if table.name in {MAIN.version_table, "schema_compatibility"}:
                continue
            row = {column.name: _value(column) for column in table.columns}
            await connection.execute(table.insert(), row)
            rows[table.name] = [row]
    return rows


def _value(column: sa.Column[Any]) -> Any:
    kind = column.type.python_type
    length = getattr(column.type, "length", None) or 10
    return {int: 7, float: 1.5, bytes: b"x", bool: True, str: column.name[:length]}[kind]


async def stored(database: Database, names: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """What is in those columns now."""
    found = sa.MetaData()
    async with database.reading() as connection:
        await connection.run_sync(found.reflect)
        rows = {}
        for name, (row,) in names.items():
            columns = [found.tables[name].c[column] for column in row]
            rows[name] = [dict(line) for line in (await connection.execute(sa.select(*columns))).mappings()]
    return rows


@pytest.mark.parametrize("revision", REVISIONS[:-1])
async def test_rows_of_every_earlier_version_are_kept(revision, empty_database_url, tmp_path) -> None:
    database = open_database(Settings(database_url=empty_database_url))
    await migrate(database, until(revision, tmp_path / "earlier"))
    rows = await fill(database)
    assert len(rows) > 5
    # Triggers of that version may have written more.
    before = await stored(database, rows)
    assert all(before.values())
    await migrate(database)
    async with database.reading() as connection:
        assert await connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == newest_version()
    assert await stored(database, rows) == before
    await database.close()


async def copy_rows(newer: Database, older: Database) -> None:
    """Every row of a newer store, as far as an older one has a place for it."""
    found = sa.MetaData()
    async with newer.reading() as source, older.writing() as target:
        await target.run_sync(found.reflect)
        for table in found.sorted_tables:
            if table.name not in {MAIN.version_table, "schema_compatibility"}:
                rows = (await source.execute(sa.select(*table.columns))).mappings().all()
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
