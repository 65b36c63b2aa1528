"""The whole server without a socket, and a small service of the tests' own."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Annotated, Any, Literal

import httpx2
import msgspec
import pytest
from msgspec import Meta, Struct

from tollhouse import app
from tollhouse.gate.admission import Admission
from tollhouse.gate.answering import etag_of
from tollhouse.gate.operation import Answer, Asked, Operation
from tollhouse.gate.rooms import Rooms
from tollhouse.gate.routing import Router
from tollhouse.gate.server import Gate
from tollhouse.gate.service import Service
from tollhouse.gate.terms import FREE
from tollhouse.settings import Settings

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


async def _echo(asked: Asked) -> Echo:
    return Echo(asked.query, asked.body, asked.path)


async def _long(asked: Asked) -> Answer:
    return Answer(LONG, asked.media_type, etag_of(LONG))


async def _short(asked: Asked) -> Answer:
    return Answer(SHORT, "text/plain", etag_of(SHORT))


async def _picture(asked: Asked) -> Answer:
    return Answer(LONG, "image/png", etag_of(LONG))


async def _fails(asked: Asked) -> Answer:
    raise ZeroDivisionError("th_live_secret")


OPERATIONS = [
    Operation("listThings", "GET", "/things", "", _echo, FREE, query=ThingQuery,
              answers={"application/json": Echo, "text/plain": {}},
              formats={"json": "application/json", "text": "text/plain"}),
    Operation("getThing", "GET", "/things/{id}", "", _echo, FREE, answers={"application/json": Echo}),
    Operation("newestThing", "GET", "/things/newest", "", _short, FREE, answers={"text/plain": {}}),
    Operation("makeThing", "POST", "/things", "", _echo, FREE, body=ThingBody, answers={"application/json": Echo}),
    Operation("getPart", "GET", "/things/{id}/parts/{part}", "", _echo, FREE, answers={"application/json": Echo}),
    Operation("dropThing", "DELETE", "/things/{id}", "", _echo, FREE, answers={"application/json": Echo}),
    Operation("getLong", "GET", "/long", "", _long, FREE, answers={"text/plain": {}, "application/json": {}}),
    Operation("getPicture", "GET", "/picture", "", _picture, FREE, answers={"image/png": {}}),
    Operation("fail", "GET", "/fails", "", _fails, FREE, answers={"application/json": {}}),
]  # fmt: skip


async def _health() -> dict[str, str]:
    return {"status": "ok"}


@pytest.fixture
def things() -> Service:
    return Service("things", "Things", "1.0", "", OPERATIONS, _health, {"type": "object"})


@pytest.fixture
def gate(things) -> Gate:
    """The gate over the tests' own service: everything is free there, so its rooms stay empty."""
    router = Router()
    router.mount(things, "")
    settings = Settings(request_deadline_seconds=0.2, body_limit_bytes=10_000)
    empty = dict.fromkeys((room.name for room in fields(Rooms)), None)
    return Gate(settings, Admission(Rooms(**{**empty, "settings": settings})), router, {})


@pytest.fixture
async def client(gate):
    async with asgi_client(gate.answer) as client:
        yield client


@asynccontextmanager
async def asgi_client(application, base_url="http://test"):
    transport = httpx2.ASGITransport(app=application)
    async with httpx2.AsyncClient(transport=transport, base_url=base_url, headers={"Accept-Encoding": ""}) as client:
        yield client


@pytest.fixture
async def server(data_dir):
    """The whole application with nothing stored: `/defense` and the front."""
    settings = Settings(data_dir=str(data_dir), recorded=False, background_work=False)
    async with app.serving(settings) as gate, asgi_client(gate.answer) as client:
        yield client


@pytest.fixture(scope="session")
def description(tmp_path_factory):
    """The defense service's OpenAPI document."""

    async def read() -> dict[str, Any]:
        folder = str(tmp_path_factory.mktemp("description"))
        settings = Settings(data_dir=folder, recorded=False, background_work=False)
        async with app.serving(settings) as gate, asgi_client(gate.answer) as client:
            answer = await client.get("/defense/api/openapi.json")
            return msgspec.json.decode(answer.content)

    return asyncio.run(read())
