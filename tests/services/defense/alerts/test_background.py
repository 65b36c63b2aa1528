"""The whole of it as a server does it: watch and deliveries in the background, told once whoever leads."""

import asyncio

import msgspec
import pytest

from tests.http.conftest import asgi_client
from tests.services.defense.alerts.conftest import House, record, rule
from tests.waiting import until
from tests.webhooks.conftest import is_signed
from tollhouse import app
from tollhouse.config.settings import Settings
from tollhouse.http.endpoint import endpoints_of
from tollhouse.http.service import Service
from tollhouse.services import EVERY_SERVICE
from tollhouse.services.defense.alerts.endpoints import AlertEndpoints
from tollhouse.services.defense.alerts.monitor import AlertMonitor


async def _health() -> dict[str, str]:
    return {"status": "ok"}


@pytest.mark.parametrize("number", [1, 2])
async def test_server_tells_by_itself_once_whoever_leads(tmp_path, database_url, hook, monkeypatch, number):
    open_context = []

    async def opened(context) -> Service:
        open_context.append(context)
        watch = AlertMonitor(context.database, recorded=None, plans=["enterprise"])
        operations = endpoints_of(AlertEndpoints(context))
        return Service("defense", "", "2.0", "", operations, _health, {"type": "object"}, leader_tasks=[watch.run])

    monkeypatch.setitem(EVERY_SERVICE, "defense", opened)
    settings = Settings(
        data_dir=str(tmp_path), database_url=database_url, service="defense", webhook_allow_loopback=True
    )
    async with app.serving(settings) as gate, asgi_client(gate.handle) as client:
        key = (await open_context[0].keys.create("ada@example.org", tier="enterprise")).text
        house = House(
            client, open_context[0], key, AlertMonitor(open_context[0].database, recorded=None, plans=["enterprise"])
        )
        made = await house.make(hook.url(), **rule())
        for _ in range(number - 1):
            # Another leader over the same database, as when the first one's host hangs.
            other = asyncio.create_task(_for_ever(AlertMonitor(house.database, recorded=None, plans=["enterprise"])))
        await house.put(record(1), record(2))
        await until(lambda: hook.taken)
        await asyncio.sleep(1.5)
        (told,) = hook.taken
        assert is_signed(told, made["secret"])
        assert msgspec.json.decode(told.body)["data"]["value"] == 2
        assert (await house.alert(made["id"]))["state"]["status"] == "met"
        if number > 1:
            other.cancel()
            await asyncio.gather(other, return_exceptions=True)


async def _for_ever(watch: AlertMonitor) -> None:
    while True:
        await watch.run_once()
        await asyncio.sleep(0.05)
