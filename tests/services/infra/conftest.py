"""The infra service alone on the real server."""

import pytest

from tests.http.conftest import asgi_client
from tollhouse import app
from tollhouse.config.settings import Settings
from tollhouse.services.infra.settings import InfraSettings
from tollhouse.services.infra.supply_graph import SupplyGraph, load_supply_graph


@pytest.fixture(scope="session")
def graph() -> SupplyGraph:
    return load_supply_graph()


@pytest.fixture
async def client(data_dir):
    settings = Settings(
        data_dir=str(data_dir),
        service="infra",
        background_work=False,
        sections=(InfraSettings(infra_chat_per_minute=5),),
    )
    async with app.serving(settings) as gate, asgi_client(gate.handle) as client:
        yield client
