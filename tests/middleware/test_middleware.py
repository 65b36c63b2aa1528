"""A toll inside applications of several frameworks: what passes, what is refused, and what a failure costs."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from tests.middleware.apps import APPS, FORECAST, of_starlette
from tests.middleware.conftest import UNCLOSED
from tests.middleware.lifespan import running
from tollhouse import Settings, TollMiddleware, toll
from tollhouse.http.server import ResponseCut
from tollhouse.middleware.routes import Rule

pytestmark = pytest.mark.filterwarnings(UNCLOSED)


@pytest.fixture
def settings(data_dir):
    return Settings(data_dir=str(data_dir), background_work=False)


@pytest.fixture
async def client(settings):
    async with running(of_starlette(settings)) as client:
        yield client


async def new_key(client) -> dict[str, str]:
    created = await client.post("/api/keys/create", json={"email": "ada@example.org"})
    return {"Authorization": f"Bearer {created.json()['api_key']}"}


@pytest.mark.parametrize("make", APPS.values(), ids=APPS)
async def test_route_with_a_toll_is_counted_and_the_others_are_not(settings, make):
    async with running(make(settings)) as client:
        first, second, third = [await client.get("/forecast/Bern") for _ in range(3)]
        assert first.json() | {"city": "Bern", "payment": "allowance", "caller": "AddressCaller"} == first.json()
        assert (second.status_code, second.headers["x-ratelimit-remaining"]) == (200, "0")
        assert (third.status_code, third.json()["code"]) == (402, "payment-required")
        assert "payment-required" in third.headers
        for _ in range(3):
            free = await client.get("/forecast/latest")
            assert (free.status_code, free.json()["free"]) == (200, True)
            assert "x-ratelimit-limit" not in free.headers
        assert (await client.get("/nothing")).status_code == 404


@pytest.mark.parametrize("make", APPS.values(), ids=APPS)
@pytest.mark.parametrize(
    "path", ["/forecast/Bern/", "//forecast/Bern", "/forecast//Bern", "/forecast%2FBern", "/FORECAST/x"]
)
async def test_other_spelling_of_a_tolled_path_is_not_answered_without_the_toll(settings, make, path):
    async with running(make(settings)) as client:
        answers = [await client.get(path, follow_redirects=True) for _ in range(4)]
        assert not [
            answer for answer in answers if answer.status_code == 200 and "x-ratelimit-limit" not in answer.headers
        ]
        assert answers[-1].status_code >= 400


async def test_credentials_stay_with_the_toll_and_what_is_the_applications_passes(client):
    key = await new_key(client)
    sent = {**key, "Cookie": "session=1", "X-Payment": "e30="}
    tolled = (await client.get("/paid", headers=key)).json()
    assert tolled["payment"] in {"allowance", "plan"}
    seen = (await client.get("/forecast/Bern", headers={"Cookie": "session=1", "X-Payment": "e30="})).json()
    assert (seen["cookie"], seen["x-payment"], seen["host"]) == ("session=1", None, "test")
    free = await client.get("/forecast/latest", headers=sent)
    assert free.json()["authorization"] == key["Authorization"]


async def test_key_opens_a_route_that_requires_one(client):
    refused = await client.get("/nested/deep/1")
    assert (refused.status_code, refused.json()["code"]) == (401, "missing-credentials")
    answer = await client.get("/nested/deep/1", headers=await new_key(client))
    assert answer.json() == {"city": "deep", "payment": "plan", "caller": "KeyCaller"}
    assert (await client.get("/nested/deep/x")).status_code == 404


async def test_body_streams_in_and_events_stream_out(client):
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 100_000

    assert (await client.post("/upload", content=pieces())).json() == {"size": 4_000_000}
    assert (await client.put("/upload", content=b"12345")).json() == {"size": 5}
    answer = await client.get("/events")
    assert answer.text == "data: 0\n\ndata: 1\n\ndata: 2\n\n"
    assert (answer.headers["content-type"], answer.headers["x-own"]) == ("text/event-stream; charset=utf-8", "1")


async def test_refused_call_does_not_read_the_body(settings):
    app = of_starlette(settings)
    heard = []

    async def receive() -> None:
        heard.append(1)
        await asyncio.sleep(60)

    async def send(message) -> None:
        heard.append(message.get("status"))

    async with running(app):
        scope = {"type": "http", "method": "POST", "path": "/paid", "query_string": b"", "scheme": "http",
                 "headers": [(b"host", b"h"), (b"transfer-encoding", b"chunked"), (b"expect", b"100-continue"),
                             (b"authorization", b"Bearer th_live_none")], "client": ("127.0.0.9", 1)}  # fmt: skip
        await app(scope, receive, send)
    assert heard == [401, None]


@pytest.mark.parametrize("at", ["once", "soon", "late"])
async def test_answer_that_the_application_breaks_off_counts_nowhere(client, at):
    for _ in range(5):
        with pytest.raises((ZeroDivisionError, ResponseCut)):
            await client.get(f"/broken?at={at}")
    assert (await client.get("/forecast/Bern")).headers["x-ratelimit-remaining"] == "1"


async def test_allowance_is_exact_under_concurrent_calls(client):
    answers = await asyncio.gather(*(client.put("/upload", content=b"1") for _ in range(150)))
    assert sorted(answer.status_code for answer in answers) == [200] * 100 + [402] * 50


def test_client_of_starlette_starts_and_stops_the_toll(settings):
    app = of_starlette(settings)
    for remaining in ("1", "0"):
        with TestClient(app) as client:
            assert client.get("/forecast/Bern").headers["x-ratelimit-remaining"] == remaining


async def test_application_that_raises_answers_500_and_its_error_is_raised_outside(settings):
    app = of_starlette(settings)
    async with running(app):
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            for _ in range(5):
                assert (await client.get("/broken?at=once")).status_code == 500


async def test_cross_origin_page_gets_the_applications_own_headers_once(client):
    answer = await client.get("/forecast/Bern", headers={"Origin": "https://page.test"})
    assert answer.headers.get_list("access-control-allow-origin") == ["https://page.test"]
    preflight = {"Origin": "https://page.test", "Access-Control-Request-Method": "GET"}
    assert (await client.options("/forecast/Bern", headers=preflight)).status_code == 200


async def test_requests_start_the_toll_where_no_lifespan_does_and_websockets_pass(settings):
    seen = []

    async def app(scope, receive, send) -> None:
        seen.append(scope["type"])
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})

    tolled = TollMiddleware(app, routes={"/a": FORECAST}, settings=settings, openapi="")
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=tolled), base_url="http://test") as client:
        assert [(await client.get("/a")).status_code for _ in range(3)] == [200, 200, 402]
        assert (await client.get("/b")).text == "ok"
    await tolled({"type": "websocket", "path": "/a"}, None, None)
    assert seen == ["http", "http", "http", "websocket"]
    await tolled.aclose()


@pytest.mark.parametrize(
    "make", [of_starlette, APPS["FastAPI"], APPS["Django"]], ids=["Starlette", "FastAPI", "Django"]
)
async def test_tolled_application_below_a_path_has_its_toll_and_accounts_there(settings, make):
    tolled = make(settings)
    parent = Starlette(routes=[Mount("/v1", tolled)])
    async with running(tolled), running(parent) as client:
        answers = [await client.get("/v1/forecast/Bern") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 402]
        challenge = json.loads(base64.b64decode(answers[2].headers["payment-required"]))
        assert challenge["resource"]["url"] == "http://test/v1/forecast/Bern"
        key = (await client.post("/v1/api/keys/create", json={"email": "ada@example.org"})).json()
        assert key["tier"] == "free"
        assert (await client.get("/v1/forecast/latest")).json()["free"] is True


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (toll, "needs a price"),
        (lambda: toll("0"), "greater than zero"),
        (lambda: toll("0.0000001"), "whole millionths"),
        (lambda: toll("much"), "'much' is not"),
        (lambda: toll("0.1", free_per_day=-1), "must not be negative"),
        (lambda: toll("0.1", free_per_day=1, requires_key=True), "not both"),
        (lambda: TollMiddleware(print, settings=Settings()), "a table of `routes`"),
        (lambda: Rule("forecast", None), "is not a route"),
        (lambda: Rule("FETCH /forecast", None), "is not a route"),
    ],
)  # fmt: skip
def test_invalid_declaration_is_refused(declare, message):
    with pytest.raises(ValueError, match=message):
        declare()


@pytest.mark.parametrize(
    ("rule", "covers", "nearly"),
    [
        ("GET /a/{id}", ["/a/1", "/a/x y"], ["/a/1/", "//a/1", "/A/1", "/A/1;x"]),
        ("/files/{rest:path}", ["/files/", "/files/a/b"], ["/Files/a", "//files/a"]),
        ("/", ["/"], ["//"]),
    ],
)
def test_rule_covers_its_paths_and_nearly_those_that_servers_take_for_them(rule, covers, nearly):
    line = Rule(rule, FORECAST)
    assert [path for path in covers if not line.covers("GET", path)] == []
    assert [path for path in nearly if line.covers("GET", path) or not line.nearly_covers("GET", path)] == []
    assert not line.nearly_covers("GET", "/other/thing")
