"""The server below another application: who starts it, where its links lead, and what closes it."""

import asyncio
import base64
import contextlib
import json
import sys
from collections.abc import AsyncIterator

import pytest
from litestar import Litestar, asgi
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from tests.http.conftest import asgi_client
from tests.servers.processes import run
from tollhouse.app import create_app
from tollhouse.config.settings import Settings
from tollhouse.http.request import split_path


@pytest.fixture
def settings(data_dir):
    return Settings(data_dir=str(data_dir), recorded=False, background_work=False, free_per_ip_per_day=1)  # fmt: skip


async def home(request):
    return PlainTextResponse("the parent's own page")


def below_starlette(paid, lifespan=None):
    return Starlette(routes=[Route("/", home), Mount("/paid", paid)], lifespan=lifespan)


def below_litestar(paid):
    return Litestar([asgi("/paid", is_mount=True, copy_scope=True)(paid)])


@pytest.mark.parametrize("mount", [below_starlette, below_litestar], ids=["Starlette", "Litestar"])
async def test_mounted_server_starts_with_its_first_request_and_links_below_its_path(settings, mount):
    paid = create_app(settings)
    async with asgi_client(mount(paid), "http://shop.test") as client:
        answers = await asyncio.gather(*(client.get("/paid/health-of-none") for _ in range(5)))
        assert {answer.status_code for answer in answers} == {404}
        document = (await client.get("/paid/mattress/api/openapi.json")).json()
        assert document["servers"] == [{"url": "/paid/mattress"}]
        assert (await client.get("/paid/")).json()["services"][0]["docs"].startswith("/paid/")
        assert "(/paid/mattress/api/openapi.json)" in (await client.get("/paid/llms.txt")).text
        card = (await client.get("/paid/.well-known/agent-card.json")).json()
        assert card["supportedInterfaces"][0]["url"].startswith("http://shop.test/paid/")
        assert (await client.get("/paid/mattress/api/search?q=firm")).status_code == 200
        required = await client.get("/paid/mattress/api/search?q=firm")
        assert required.status_code == 402
        challenge = json.loads(base64.b64decode(required.headers["payment-required"]))
        assert challenge["resource"]["url"] == "http://shop.test/paid/mattress/api/search?q=firm"
    await paid.__aexit__()


async def test_links_and_files_of_a_mounted_page_exist(settings):
    async with create_app(settings) as paid, asgi_client(below_starlette(paid)) as client:
        page = (await client.get("/paid/keys", headers={"Accept": "text/html"})).text
        links = {part.partition('"')[0] for name in ("href", "src") for part in page.split(f' {name}="')[1:]}
        local = sorted(link.partition("#")[0] for link in links if link.startswith("/"))
        assert len(local) > 10
        assert all(link.startswith("/paid/") for link in local), local
        for link in local:
            assert (await client.get(link)).status_code in {200, 401}, link
        assert 'data-root="/paid"' in page


async def test_server_of_the_parents_lifespan_is_closed_with_it(settings):
    paid = create_app(settings)

    @contextlib.asynccontextmanager
    async def lifespan(_app) -> AsyncIterator[None]:
        async with paid:
            yield

    parent = below_starlette(paid, lifespan=lifespan)
    async with parent.router.lifespan_context(parent), asgi_client(parent) as client:
        assert (await client.get("/paid/defense/health")).status_code == 200
    async with asgi_client(parent) as client:
        after = await client.get("/paid/defense/health")
        assert (after.status_code, after.json()["code"]) == (503, "not-configured")
    # The folder's lock is free: the same application starts again.
    async with parent.router.lifespan_context(parent), asgi_client(parent) as client:
        assert (await client.get("/paid/defense/health")).status_code == 200


async def test_server_that_cannot_start_answers_503_until_it_can(settings):
    async with create_app(settings), asgi_client(below_starlette(create_app(settings))) as client:
        refused = await client.get("/paid/defense/health")
        assert (refused.status_code, refused.json()["code"]) == (503, "not-configured")
        assert (await client.get("/")).text == "the parent's own page"


@pytest.mark.parametrize("can_deny", [True, False])
async def test_websocket_is_refused(settings, can_deny):
    sent = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/x", "query_string": b"", "headers": [(b"host", b"h")],
             "extensions": {"websocket.http.response": {}} if can_deny else {}}  # fmt: skip
    await create_app(settings)(scope, receive, send)
    if can_deny:
        assert (sent[0]["type"], sent[0]["status"]) == ("websocket.http.response.start", 400)
        assert b"WebSocket" in sent[1]["body"]
    else:
        assert [(one["type"], one["code"]) for one in sent] == [("websocket.close", 1008)]


def write_remaining(data_dir: str) -> None:
    """What one call leaves of the allowance, in a process that ends without closing the server."""

    async def call() -> None:
        parent = below_starlette(create_app(Settings(data_dir=data_dir, recorded=False)))
        async with asgi_client(parent) as client:
            sys.stdout.write((await client.get("/paid/mattress/api/search?q=firm")).headers["x-ratelimit-remaining"])

    asyncio.run(call())


def test_counts_of_a_server_that_is_stopped_with_its_event_loop_are_written(data_dir):
    runs = [run(write_remaining, str(data_dir), cwd=data_dir) for _ in range(2)]
    assert [done.returncode for done in runs] == [0, 0], runs
    first, second = (int(done.stdout) for done in runs)
    assert second == first - 1


@pytest.mark.parametrize(
    ("path", "raw", "root", "split"),
    [
        ("/a/b", b"/a/b", "", ("", "/a/b")),
        ("/a/b", None, "", ("", "/a/b")),
        ("/m/a", b"/m/a", "/m", ("/m", "/a")),
        ("/m", b"/m", "/m", ("/m", "/")),
        ("/a", b"/a", "/m", ("/m", "/a")),
        ("/a", b"/m/a", "", ("/m", "/a")),
        ("/", b"/m/", "", ("/m", "/")),
        ("/a", b"/r/m/a", "/r", ("/r/m", "/a")),
        ("/m/a/b", b"/m/a%2Fb", "/m", ("/m", "/a%2Fb")),
        ("//", b"/%2F", "", ("", "/%2F")),
        ("/mm/a", b"/mm/a", "/m", ("/m", "/mm/a")),
    ],
)
def test_path_is_split_at_the_mount(path, raw, root, split):
    assert split_path({"path": path, "raw_path": raw, "root_path": root}) == split
