"""Limits hold exactly: under parallel connections, over several processes, and across crashes."""

import asyncio
import os
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial

import httpx2
import pytest

from tests.journeys.server import Server
from tests.proxy.stage import express, fastapi
from tests.waiting import Patient

CONNECTIONS = 50
FLEETS = ["one process", "two workers", "three servers", "two workers before fastapi", "one process before express"]
DECLARATION = """title = "Shop"
access = "key"
[upstream]
url = "{url}"
[routes."GET /page"]
"""


class Fleet:
    """The servers that share one set of counts, and what they were started with."""

    def __init__(self, start, homes, *arguments: object, path="/feeds/events?limit=1", **settings: object) -> None:
        self._start, self._homes, self._arguments, self.settings = start, homes, arguments, settings
        self.path = path
        self.servers: list[Server] = []
        self.start()

    def start(self) -> None:
        self.servers = [self._start(*self._arguments, home=home, **self.settings) for home in self._homes]

    def kill(self) -> None:
        for server in self.servers:
            server.kill()

    def stop(self) -> list[int]:
        return [server.stop() for server in self.servers]

    def operators_key(self, *options: object) -> str:
        return self.servers[0].operators_key(*options, **self.settings)


@pytest.fixture(scope="module", params=FLEETS)
def fleet(request, start_server, tmp_path_factory):
    homes = [tmp_path_factory.mktemp("fleet") for _ in range(3 if request.param == "three servers" else 1)]
    arguments: list[object] = ["--workers", 2] if "two workers" in request.param else []
    settings, (_, _, application) = {}, request.param.partition(" before ")
    if request.param == "three servers":
        worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        # Not the database that the `redis_url` fixture empties.
        settings["redis_url"] = f"{request.getfixturevalue('redis_server')}/{32 + worker % 32}"
        settings["database_url"] = request.getfixturevalue("new_postgres_database")(
            request.getfixturevalue("migrated_template")
        )
    with ExitStack() as stack:
        if application:
            run = {"fastapi": fastapi, "express": express}[application]
            url = stack.enter_context(run(tmp_path_factory.mktemp(application)))
            (homes[0] / "services").mkdir()
            (homes[0] / "services" / "shop.toml").write_text(DECLARATION.format(url=url))
            arguments, settings = ["shop", *arguments], {"path": "/page"}
        fleet = Fleet(partial(start_server, is_recorded=not application), homes, *arguments, **settings)
        yield fleet
        fleet.kill()


async def _spend(fleet, key, each) -> list[httpx2.Response]:
    headers = {"Authorization": f"Bearer {key}"}
    gate = asyncio.Event()

    async def caller(client) -> list[httpx2.Response]:
        await gate.wait()
        return [await client.get(fleet.path) for _ in range(each)]

    transports = [Patient(httpx2.AsyncHTTPTransport(verify=False)) for _ in range(CONNECTIONS)]
    clients = [
        httpx2.AsyncClient(
            base_url=fleet.servers[number % len(fleet.servers)].base, headers=headers, timeout=60, transport=transport
        )
        for number, transport in enumerate(transports)
    ]
    callers = [asyncio.create_task(caller(client)) for client in clients]
    gate.set()
    answers = [answer for listed in await asyncio.gather(*callers) for answer in listed]
    await asyncio.gather(*(client.aclose() for client in clients))
    return answers


def spend(fleet, key, each):
    """What `CONNECTIONS` parallel connections get for `each` calls of theirs."""
    return asyncio.run(_spend(fleet, key, each))


def refusals(answers):
    return {(a.status_code, a.json()["code"], a.json()["window"]) for a in answers if a.status_code != 200}


def test_fifty_connections_spend_a_free_minute_exactly(fleet):
    key = fleet.servers[0].new_key()["api_key"]
    answers = spend(fleet, key, 1)
    assert Counter(answer.status_code for answer in answers) == {200: 10, 429: 40}
    assert refusals(answers) == {(429, "rate-limited", "minute")}
    for answer in answers:
        if answer.status_code == 429:
            assert 1 <= int(answer.headers["retry-after"]) <= 60
            assert answer.json()["retry_after_seconds"] == int(answer.headers["retry-after"])
    left = sorted(int(answer.headers["x-ratelimit-remaining"]) for answer in answers if answer.status_code == 200)
    assert left == list(range(90, 100))
    usage = fleet.servers[-1].used(key)
    assert (usage["day"]["used"], usage["minute"]["used"]) == (10, 10)


def test_fifty_connections_spend_a_day_exactly(fleet):
    key = fleet.operators_key("--per-minute", 1_000, "--per-day", 100)
    answers = spend(fleet, key, 4)
    assert Counter(answer.status_code for answer in answers) == {200: 100, 429: 100}
    assert refusals(answers) == {(429, "quota-exceeded", "day")}
    usage = fleet.servers[-1].used(key)
    assert (usage["day"]["used"], usage["minute"]["used"]) == (100, 100)


def test_key_works_on_every_process_at_once(fleet):
    for _ in range(4):
        key = fleet.servers[0].new_key("bob@example.org")["api_key"]
        assert {answer.status_code for answer in spend(fleet, key, 1)} == {200, 429}


def test_counts_survive_kill_9(fleet):
    server = fleet.servers[0]
    key = server.new_key("eve@example.org")["api_key"]
    with server.client(key) as client:
        for _ in range(7):
            assert client.get(fleet.path).status_code == 200
        time.sleep(1.0)  # what the contract allows to be lost
        assert client.get(fleet.path).status_code == 200
    fleet.kill()
    fleet.start()
    usage = fleet.servers[-1].used(key)
    assert usage["day"]["used"] in {7, 8}
    assert usage["minute"]["used"] == usage["day"]["used"]
    left = 10 - usage["minute"]["used"]
    answers = spend(fleet, key, 1)
    assert Counter(answer.status_code for answer in answers) == {200: left, 429: CONNECTIONS - left}


def test_graceful_stop_loses_no_count(fleet):
    key = fleet.servers[0].new_key("zoe@example.org")["api_key"]
    assert Counter(answer.status_code for answer in spend(fleet, key, 1))[200] == 10
    assert fleet.stop() == [0] * len(fleet.servers)
    fleet.start()
    usage = fleet.servers[0].used(key)
    assert (usage["day"]["used"], usage["minute"]["used"]) == (10, 10)


@pytest.fixture
def fresh(server):
    key = server.new_key("meter@example.org")["api_key"]
    with server.client(key) as client:
        yield client, lambda: server.used(key)["day"]["used"]
        client.post("/api/keys/revoke")


@pytest.mark.parametrize(
    ("method", "path", "status", "cost"),
    [
        ("GET", "/feeds/events", 200, 1), ("HEAD", "/feeds/events", 200, 1), ("OPTIONS", "/feeds/events", 200, 0),
        ("GET", "/feeds/events?limit=0", 400, 1), ("GET", "/feeds/events?nonsense=1", 400, 1),
        ("GET", "/feeds/events/conflict_0000000000000000", 404, 1), ("POST", "/feeds/events", 405, 0),
        ("GET", "/api/keys/verify", 200, 0), ("GET", "/api/keys/verify?x=1", 400, 0), ("GET", "/health", 200, 0),
        ("GET", "/api/openapi.json", 200, 0), ("GET", "/nothing", 404, 0),
    ],
)  # fmt: skip
def test_each_call_uses_what_the_contract_says(fresh, method, path, status, cost):
    client, used = fresh
    assert client.request(method, path).status_code == status
    assert used() == cost


def test_unchanged_answer_uses_one(fresh):
    client, used = fresh
    etag = client.get("/feeds/events").headers["etag"]
    assert client.get("/feeds/events", headers={"If-None-Match": etag}).status_code == 304
    assert used() == 2


def test_refused_call_uses_nothing(fresh):
    client, used = fresh
    statuses = [client.get("/feeds/events?limit=1").status_code for _ in range(14)]
    assert statuses == [200] * 10 + [429] * 4
    assert used() == 10


def test_metering_headers_count_down(fresh):
    client, _ = fresh
    for left in (99, 98, 97):
        answer = client.get("/feeds/events?limit=1")
        assert answer.headers["x-ratelimit-limit"] == "100"
        assert answer.headers["x-ratelimit-remaining"] == str(left)
        assert answer.headers["x-credits-tier"] == "free"
        assert answer.headers["ratelimit-policy"] == '"day";q=100;w=86400, "minute";q=10;w=60'
        assert f'"day";r={left};t=' in answer.headers["ratelimit"]
        assert f'"minute";r={left - 90};t=' in answer.headers["ratelimit"]


def test_enterprise_headers_speak_of_the_minute(server):
    key = server.operators_key("--tier", "enterprise")
    with server.client(key) as client:
        answer = client.get("/feeds/events?limit=1")
        verified = client.get("/api/keys/verify").json()
    assert answer.headers["x-ratelimit-limit"] == "1000"
    assert answer.headers["x-ratelimit-remaining"] == "999"
    assert answer.headers["ratelimit-policy"] == '"minute";q=1000;w=60'
    assert verified["limits"] == {"requests_per_day": None, "requests_per_minute": 1_000}
    assert verified["usage"]["day"]["limit"] is None
    assert verified["usage"]["day"]["remaining"] is None
    assert verified["usage"]["day"]["used"] == 1


def test_retry_at_the_told_moment_succeeds(server):
    key = server.operators_key("--per-minute", 1, "--per-day", 10)
    with server.client(key) as client:
        assert client.get("/feeds/events?limit=1").status_code == 200
        refused = client.get("/feeds/events?limit=1")
        assert refused.status_code == 429
        reset = refused.json()["retry_after_seconds"]
        assert 58 <= reset <= 60
