"""The programs of docs/library.md, run as they stand: each is an application with its own lifespan."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.guide.documents import ROOT, blocks

PAGE = ROOT / "docs" / "library.md"
PROGRAMS = [block for block in blocks(PAGE) if block.language == "python"]


@pytest.fixture
def names(request, data_dir, monkeypatch) -> dict[str, Any]:
    """What the program under this heading names, run in a folder without settings of its own."""
    monkeypatch.setenv("TOLLHOUSE_DATA_DIR", str(data_dir))
    monkeypatch.setenv("TOLLHOUSE_RECORDED", "false")
    monkeypatch.setenv("TOLLHOUSE_BACKGROUND_WORK", "false")
    monkeypatch.chdir(data_dir)
    (program,) = (block for block in PROGRAMS if request.param in block.text)
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(program.text, "program.py", "exec"), names)  # noqa: S102 - the documentation's own programs
    return names


@contextlib.asynccontextmanager
async def running(app: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the application, between the start and the end of its lifespan."""
    heard: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    told: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    living = asyncio.create_task(
        app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, heard.get, told.put)
    )
    await heard.put({"type": "lifespan.startup"})
    assert (await told.get())["type"] == "lifespan.startup.complete"
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://test") as client:
        yield client
    await heard.put({"type": "lifespan.shutdown"})
    assert (await told.get())["type"] == "lifespan.shutdown.complete"
    await living


@pytest.mark.parametrize("names", ["create_app"], indirect=True)
async def test_mounted_server_answers_below_its_path(names):
    async with running(names["app"]) as client:
        assert (await client.get("/paid/defense/health")).status_code == 200
        assert (await client.post("/paid/api/keys/create", json={"email": "ada@example.org"})).status_code == 200
