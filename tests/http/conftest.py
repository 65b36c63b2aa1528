"""The whole server without a socket, and a small service of the tests' own."""

import asyncio
from contextlib import ExitStack, asynccontextmanager
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, Literal

import httpx2
import msgspec
import pytest
from msgspec import Meta, Struct

from tests.http.stock import StockApplication
from tests.proxy.stage import express, fastapi
from tests.servers.databases import migrated_copy
from tollhouse import app
from tollhouse.accounts.plans import open_plans
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import AppContext
from tollhouse.config.settings import Settings
from tollhouse.http.endpoint import Endpoint, Request, Response
from tollhouse.http.response import compute_etag
from tollhouse.http.router import Router
from tollhouse.http.server import Server
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE


@pytest.fixture(scope="module")
def start_application(tmp_path_factory):
    """A function that answers the URL of an application of this kind, started once."""
    with ExitStack() as stack:

        @cache
        def start(kind: str) -> str:
            return stack.enter_context({"fastapi": fastapi, "express": express}[kind](tmp_path_factory.mktemp(kind)))

        yield start


@pytest.fixture
def served(request, start_application):
    """See `on_every_application`."""
    kind = getattr(request, "param", "own")
    return None if kind == "own" else StockApplication(start_application(kind))


LONG = b"a line of text that repeats itself\n" * 200
SHORT = b"short"


class ThingQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Every kind of parameter there is."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    share: Annotated[float, Meta(ge=0, le=1)] | None = None
    sort: Literal["name", "price"] = "name"
    brand: list[str] = []
    box: tuple[float, float] | None = None
    is_new: bool | None = None
    q: Annotated[str, Meta(min_length=1, max_length=10)] | None = None
    format: Literal["json", "text"] | None = None


class ThingBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A body with a member inside a member."""

    name: Annotated[str, Meta(max_length=10)]
    size: Annotated[int, Meta(ge=0)] = 0
    tags: list[str] = []


class Echo(Struct, frozen=True):
    """What was understood."""

    query: ThingQuery | None = None
    body: ThingBody | None = None
    path: dict[str, str] = {}


async def _echo(asked: Request) -> Echo:
    return Echo(asked.query, asked.body, asked.path)


async def _long(asked: Request) -> Response:
    return Response(LONG, asked.media_type, compute_etag(LONG))


async def _short(asked: Request) -> Response:
    return Response(SHORT, "text/plain", compute_etag(SHORT))


async def _picture(asked: Request) -> Response:
    return Response(LONG, "image/png", compute_etag(LONG))


async def _fails(asked: Request) -> Response:
    raise ZeroDivisionError("th_live_secret")


OPERATIONS = [
    Endpoint("listThings", "GET", "/things", "", _echo, FREE, query=ThingQuery,
              responses={"application/json": Echo, "text/plain": {}},
              formats={"json": "application/json", "text": "text/plain"}),
    Endpoint("getThing", "GET", "/things/{id}", "", _echo, FREE, responses={"application/json": Echo}),
    Endpoint("newestThing", "GET", "/things/newest", "", _short, FREE, responses={"text/plain": {}}),
    Endpoint("makeThing", "POST", "/things", "", _echo, FREE, body=ThingBody, responses={"application/json": Echo}),
    Endpoint("getPart", "GET", "/things/{id}/parts/{part}", "", _echo, FREE, responses={"application/json": Echo}),
    Endpoint("dropThing", "DELETE", "/things/{id}", "", _echo, FREE, responses={"application/json": Echo}),
    Endpoint("getLong", "GET", "/long", "", _long, FREE, responses={"text/plain": {}, "application/json": {}}),
    Endpoint("getPicture", "GET", "/picture", "", _picture, FREE, responses={"image/png": {}}),
    Endpoint("fail", "GET", "/fails", "", _fails, FREE, responses={"application/json": {}}),
]  # fmt: skip


async def _health() -> dict[str, str]:
    return {"status": "ok"}


@pytest.fixture
def things() -> Service:
    return Service("things", "Things", "1.0", "", OPERATIONS, _health, {"type": "object"})


@pytest.fixture
def gate(things) -> Server:
    """The gate over the tests' own service: everything is free there, so its rooms stay empty."""
    router = Router()
    router.mount(things, "")
    settings = Settings(request_deadline_seconds=0.2, body_limit_bytes=10_000)
    empty = dict.fromkeys((room.name for room in fields(AppContext)), None)
    context = AppContext(**{**empty, "settings": settings, "plans": open_plans(settings)})
    return Server(settings, Admission(context), router, {})


@pytest.fixture
async def client(gate):
    async with asgi_client(gate.handle) as client:
        yield client


class Transport(httpx2.ASGITransport):
    """Each request in a turn of the event loop of its own, as over a network: those of one turn are a queue."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(0)
        return await super().handle_async_request(request)


@asynccontextmanager
async def asgi_client(application, base_url="http://test"):
    transport = Transport(app=application)
    async with httpx2.AsyncClient(transport=transport, base_url=base_url, headers={"Accept-Encoding": ""}) as client:
        yield client


@pytest.fixture
async def server(data_dir):
    """The whole application with nothing stored: `/defense` and the front."""
    settings = Settings(data_dir=str(data_dir), recorded=False, background_work=False)
    async with app.serving(settings) as gate, asgi_client(gate.handle) as client:
        yield client


@pytest.fixture(scope="session")
def description(tmp_path_factory):
    """The defense service's OpenAPI document."""

    async def read() -> dict[str, Any]:
        folder = str(migrated_copy(tmp_path_factory.mktemp("description")))
        settings = Settings(data_dir=folder, recorded=False, background_work=False)
        async with app.serving(settings) as gate, asgi_client(gate.handle) as client:
            answer = await client.get("/defense/api/openapi.json")
            return msgspec.json.decode(answer.content)

    return asyncio.run(read())
