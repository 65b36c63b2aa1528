"""A declared table behind the real server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.http.conftest import asgi_client
from tests.servers.databases import migrated_copy
from tests.services.mattress.conftest import Asking
from tests.services.tables.books import books, declare
from tollhouse import app
from tollhouse.config.settings import Settings

# More than any test uses, so that no test depends on the allowance.
PLENTY = 10_000_000


@asynccontextmanager
async def serving(home: Path, name: str = "books", **given: Any) -> AsyncIterator[Any]:
    options = {"service": name, "services_dir": str(home / "services"), "background_work": False}
    settings = Settings(**{**options, "data_dir": str(home / "data"), **given})
    async with app.serving(settings) as server, asgi_client(server.handle) as client:
        yield client


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder to work in, with a data folder and without settings."""
    monkeypatch.chdir(tmp_path)
    migrated_copy(tmp_path / "data")
    return tmp_path


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """A service of 400 books for tests that only read."""
    folder = tmp_path_factory.mktemp("books")
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.chdir(folder)
        migrated_copy(folder / "data")
        declare(folder, books(400), free_per_day=PLENTY, licence="CC0-1.0", source="Made up")
        stack = AsyncExitStack()
        client = runner.run(stack.enter_async_context(serving(folder)))
        patch.undo()
        try:
            yield Asking(runner, client)
        finally:
            runner.run(stack.aclose())
