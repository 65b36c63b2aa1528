"""An application with the middleware under two ASGI servers: start, streams, uploads, clients that leave, stop."""

import asyncio
import sys
from contextlib import asynccontextmanager
from functools import partial

import httpx2
import pytest

from tests.servers.databases import migrated_copy
from tests.servers.shared import free_port

PROGRAM = """
import asyncio, os, sys
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route
from tollhouse import Settings, TollMiddleware, toll

left = []

@toll("0.002", free_per_day=9)
async def upload(request):
    return JSONResponse({"size": sum([len(piece) async for piece in request.stream()])})

@toll("0.002", free_per_day=9)
async def ticks(request):
    async def pieces():
        try:
            for number in range(10_000):
                yield f"data: {number}\\n\\n".encode()
                await asyncio.sleep(0.05)
        finally:
            left.append(1)
    return StreamingResponse(pieces(), media_type="text/event-stream")

@toll("0.002", free_per_day=9)
async def cut(request):
    async def pieces():
        yield b"x" * 2_000_000
        raise ZeroDivisionError
    return StreamingResponse(pieces())

async def state(request):
    return JSONResponse({"left": len(left)})

settings = Settings(data_dir=os.environ["FOLDER"], background_work=False)
app = Starlette(routes=[Route("/upload", upload, methods=["POST"]), Route("/ticks", ticks), Route("/cut", cut),
                        Route("/state", state)], middleware=[Middleware(TollMiddleware, settings=settings)])
"""
SERVERS = {
    "uvicorn": ["-m", "uvicorn", "program:app", "--log-level", "error", "--port"],
    "granian": ["-m", "granian", "program:app", "--interface", "asgi", "--log-level", "error", "--port"],
}


@asynccontextmanager
async def served(server, folder):
    """A client of the program under this server, which stops cleanly when the block ends."""
    (folder / "program.py").write_text(PROGRAM)
    port, data = free_port(), migrated_copy(folder / "data")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *SERVERS[server], str(port), cwd=folder,
        env={"FOLDER": str(data), "PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            await until(partial(answers, client))
            yield client
        process.terminate()
        _, complaints = await asyncio.wait_for(process.communicate(), 20)
        assert b"never retrieved" not in complaints
        assert b"was destroyed" not in complaints
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def until(claim) -> None:
    async with asyncio.timeout(30):
        while not await claim():  # noqa: ASYNC110 - the server is another process
            await asyncio.sleep(0.05)


async def has_left(client) -> bool:
    return (await client.get("/state")).json()["left"] == 1


async def answers(client) -> bool:
    try:
        return (await client.get("/state")).status_code == 200
    except httpx2.TransportError:
        return False


@pytest.mark.parametrize("server", SERVERS)
async def test_toll_works_under_the_server(server, tmp_path):
    async with served(server, tmp_path) as client:
        answer = await client.post("/upload", content=b"x" * 3_000_000)
        assert (answer.json(), answer.headers["x-ratelimit-remaining"]) == ({"size": 3_000_000}, "8")
        async with client.stream("GET", "/ticks") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert await anext(stream.aiter_bytes())
        await until(partial(has_left, client))
        for _ in range(12):
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.get("/cut")
        created = await client.post("/api/keys/create", json={"email": "ada@example.org"})
        key = {"Authorization": f"Bearer {created.json()['api_key']}"}
        assert (await client.post("/upload", content=b"abc", headers=key)).json() == {"size": 3}
