"""Documented requests and the operator's pages do not read all stored rows: what databases read at three sizes."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from sqlalchemy import LargeBinary, String, Table, Text, insert

from tests.http.conftest import asgi_client
from tests.services.defense.alerts.conftest import NOON, record
from tests.storage.work import MOST_EXPONENT, SIZES, database_work, exponents
from tollhouse import app, clock
from tollhouse.accounts.store import api_key
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.payments.credit import CALL
from tollhouse.payments.ledger.types import REVENUE, TREASURY, Transfer, agent_account
from tollhouse.payments.x402.store import payment
from tollhouse.services.defense import store
from tollhouse.services.defense.ingest.export_parser import compact
from tollhouse.statistics.store import recent
from tollhouse.webhooks import store as webhooks

TOKEN = "the-operators-own-token"
VERIFYING = "200 /operator/api/audit"
"""It reads every transfer (docs/scale.md)."""
OPERATOR = ("traffic", "calls", "revenue", "transfers", "audit", "deliveries", "sources", "chain")


def made_row(table: Table, number: int, **given: Any) -> dict[str, Any]:
    """A row with a value of its own in each column."""
    row = {}
    for column in table.columns:
        text = f"{number:032x}"[: getattr(column.type, "length", None) or 32]
        value: Any = number
        if isinstance(column.type, LargeBinary):
            value = text.encode()
        elif isinstance(column.type, String | Text):
            value = text
        row[column.name] = given.get(column.name, None if column.nullable else value)
    return row


async def fill(database, size):
    now = clock.seconds()
    numbers = range(size)
    stored = [record(number, NOON - timedelta(minutes=15 * (number % 190))) for number in numbers]
    rows = {
        api_key: [made_row(api_key, n, tier="free", created_at="2026-03-10T12:00:00Z") for n in numbers],
        recent: [made_row(recent, n, at=now - n / 1_000, is_refused=False, status=200) for n in numbers],
        webhooks.event: [made_row(webhooks.event, n, created_at=now - n) for n in numbers],
        webhooks.delivery: [
            made_row(webhooks.delivery, n, endpoint_id=f"wh_{n % 3}", state="delivered", created_at=now - n)
            for n in numbers
        ],
        payment: [made_row(payment, n, state="settled", settled_at=now - n, payment_id=f"{n}") for n in numbers],
        store.event: [
            {
                "pool": "provider",
                "id": one.id,
                "last_slot": compact(one.last_reported_at),
                "record": msgspec.json.encode(one),
                "revision": 1,
            }
            for one in stored
        ],
    }
    async with database.writing(lock="ingest") as connection:
        for table, values in rows.items():
            await connection.execute(insert(table), values)
        await store.bump_revision(connection, store.EVENTS_FEED)
        await store.set_published_until(connection, "provider", NOON)
    return stored


async def fill_ledger(ledger, size):
    """Deposits of wallets, and calls that they paid for."""
    agents = [agent_account(f"{number}") for number in range(size // 10)]
    await asyncio.gather(
        *(ledger.move(Transfer(f"deposit:{agent}", TREASURY, agent, 10**9, "deposit")) for agent in agents)
    )

    async def call(number) -> None:
        await ledger.reserve(f"call:{number}", agents[number % len(agents)], REVENUE, 10, CALL, b"f")
        await ledger.post(f"call:{number}", None)

    await asyncio.gather(*map(call, range(size)))
    while await ledger.sum_up():
        pass


async def work_by_request(settings, size, monkeypatch) -> dict[str, int]:
    """The least that each request reads, of several: tasks in the background read some too."""
    steps = {}
    async with (
        database_work(monkeypatch, settings.database_url) as work,
        app.serving(settings) as gate,
        asgi_client(gate.handle) as client,
    ):
        async with open_context(settings, answers_calls=False) as context:
            stored = await fill(context.database, size)
            await fill_ledger(context.ledger, size)
            await work.analyze()
            key = (await context.keys.create("ada@example.org", "enterprise")).text
        headers = {"Authorization": f"Bearer {key}"}
        # The server shows them at its next look.
        while (await client.get("/defense/feeds/events", headers=headers)).is_error:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        paths = [f"/operator/api/{name}" for name in OPERATOR]
        description = (await client.get("/defense/api/openapi.json")).json()
        for path, methods in description["paths"].items():
            parameters = methods.get("get", {}).get("parameters", [])
            if "get" in methods and not any(each.get("required") for each in parameters):
                paths.append(f"/defense{path}" if not path.startswith("/defense") else path)
        paths.append(f"/defense/feeds/events/{stored[0].id}")
        for path in paths:
            headers = {"Authorization": f"Bearer {TOKEN if path.startswith('/operator') else key}"}
            counts = []
            for _ in range(4):
                before = await work.read()
                answer = await client.get(path, headers=headers)
                counts.append(await work.read() - before)
            steps[f"{answer.status_code} {path}"] = min(counts)
    return steps


@pytest.mark.both_databases
@pytest.mark.timeout(300)
async def test_requests_read_hardly_more_of_more_rows(new_database, tmp_path, monkeypatch):
    async def measured(attempt) -> list[dict[str, int]]:
        steps = []
        for size in SIZES:
            folder = tmp_path / f"{attempt}-{size}"
            url = new_database(folder)
            settings = Settings(
                data_dir=str(folder), database_url=url, recorded=False, background_work=False, operator_token=TOKEN
            )
            steps.append(await work_by_request(settings, size, monkeypatch))
        return steps

    steps = await measured(1)
    # Free calls, paid ones, and those of the operator were answered.
    assert sum(name.startswith("200 ") for name in steps[0]) > 20
    assert steps[0].keys() == steps[-1].keys()
    growth = exponents(steps)
    assert growth.pop(VERIFYING) > 0.8, "counting shows a request that reads every transfer"
    if max(growth.values()) > MOST_EXPONENT:
        # On a busy machine a database may read for others, or plan with what it knew before: what does so twice counts.
        again = exponents(await measured(2))
        growth = {name: min(power, again.get(name, power)) for name, power in growth.items()}
    steep = {name: round(power, 2) for name, power in growth.items() if power > MOST_EXPONENT}
    assert steep == {}, {name: [each[name] for each in steps] for name in steep}
