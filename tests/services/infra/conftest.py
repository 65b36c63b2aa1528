"""The infra service alone on the real server: one of each module, and each test calls it from an address of its own."""

from itertools import count
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from tests.servers.databases import migrated_copy
from tollhouse import app
from tollhouse.config.settings import Settings
from tollhouse.services.infra.settings import InfraSettings
from tollhouse.services.infra.supply_graph import SupplyGraph, load_supply_graph

HERE = Path(__file__).parent
_NUMBERS = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a module share an event loop, as they share its server."""
    for item in items:
        if item.path.parent == HERE and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest.fixture(scope="session")
def graph() -> SupplyGraph:
    return load_supply_graph()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory):
    settings = Settings(
        data_dir=str(migrated_copy(tmp_path_factory.mktemp("infra"))),
        service="infra",
        background_work=False,
        sections=(InfraSettings(infra_chat_per_minute=5),),
    )
    async with app.serving(settings) as gate:
        yield gate


@pytest_asyncio.fixture(loop_scope="module")
async def client(served):
    address = f"10.0.{next(_NUMBERS)}.1"
    transport = httpx2.ASGITransport(app=served.handle, client=(address, 9))
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://test", headers={"Accept-Encoding": ""}
    ) as client:
        yield client
