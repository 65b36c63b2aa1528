"""The mattress service alone on the real server, over the demonstration."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.http.conftest import asgi_client
from tests.servers.databases import migrated_copy
from tollhouse import app
from tollhouse.config.settings import Settings

# More than any test asks, so that nothing here is about the allowance.
PLENTY = 10_000_000


@asynccontextmanager
async def serving(**given: Any) -> AsyncIterator[Any]:
    options = {
        "service": "mattress",
        "background_work": False,
        "free_per_ip_per_day": PLENTY,
        "public_url": "http://test",
    }
    async with app.serving(Settings(**{**options, **given})) as gate, asgi_client(gate.handle) as client:
        yield client


class Asking:
    """A started service that plain tests may ask."""

    def __init__(self, runner: asyncio.Runner, client: Any) -> None:
        self._runner = runner
        self._client = client

    def get(self, path, headers=None, **params: Any):
        return self._runner.run(self._client.get(path, params=params or None, headers=headers))

    def post(self, path, body, headers=None):
        return self._runner.run(self._client.post(path, json=body, headers=headers))

    def send(self, path, content, content_type="application/json"):
        return self._runner.run(self._client.post(path, content=content, headers={"Content-Type": content_type}))

    def products(self, path="/api/products", **params: Any):
        answer = self.get(path, **{"limit": 250, **params})
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="session")
def mattress(tmp_path_factory):
    """One service for every test that only asks."""
    folder = str(migrated_copy(tmp_path_factory.mktemp("mattress")))
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        client = runner.run(stack.enter_async_context(serving(data_dir=folder)))
        try:
            yield Asking(runner, client)
        finally:
            runner.run(stack.aclose())


@pytest.fixture(scope="session")
def everything(mattress):
    """The whole catalogue, as the export has it."""
    lines = mattress.get("/api/products.ndjson").text.splitlines()

    return [msgspec.json.decode(line) for line in lines]
