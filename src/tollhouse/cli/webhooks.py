"""`tollhouse webhooks`: the operator's hand on endpoints and on what was delivered to them."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from tollhouse import logs
from tollhouse.admission.context import open_context
from tollhouse.cli.options import HERE, Where
from tollhouse.services import SERVICES
from tollhouse.storage.database import Database
from tollhouse.webhooks.store import State
from tollhouse.webhooks.subscriptions import NewSecret
from tollhouse.webhooks.webhooks import Webhooks, open_webhooks

webhooks = App(name="webhooks", help="Register endpoints, see what was delivered to them, deliver it again.")

Types = Annotated[str | None, Parameter(help="Types of event, separated by commas (default: all of the service)")]


@webhooks.command
def add(*, service: str, url: str, email: str, types: Types = None, where: Where = HERE) -> None:
    """Register an endpoint and print it with its secret, this once, as JSON."""
    if service not in SERVICES:
        raise ValueError(f"there is no service {service!r}; there are {', '.join(SERVICES)}")

    async def run() -> None:
        async with _opened(where) as (room, database):
            target = await room.subscriptions.vetted(url)
            async with database.writing() as transaction:
                made = await room.subscriptions.add(transaction, service, target, email, _split(types))
            _print(_with_secret(made))

    _run(run())


@webhooks.command(name="list")
def list_endpoints(*, where: Where = HERE) -> None:
    """Print every endpoint and how it fares, one JSON object a line; never a secret."""

    async def run() -> None:
        async with _opened(where) as (room, _):
            for endpoint in await room.subscriptions.listed():
                _print(endpoint)

    _run(run())


@webhooks.command
def change(
    endpoint_id: str,
    *,
    url: str | None = None,
    email: str | None = None,
    types: Types = None,
    where: Where = HERE,
) -> None:
    """Alter an endpoint's address, email or types (`--types ""` for all); its secret stays."""

    async def run() -> None:
        async with _opened(where) as (room, database):
            target = None if url is None else await room.subscriptions.vetted(url)
            named = None if types is None else _split(types)
            async with database.writing() as transaction:
                changed = await room.subscriptions.change(
                    transaction, endpoint_id, vetted_url=target, email=email, types=named
                )
            _print(changed)

    _run(run())


@webhooks.command
def rotate(endpoint_id: str, *, where: Where = HERE) -> None:
    """Give an endpoint a new secret and print it, this once; the old one signs too for 24 hours."""

    async def run() -> None:
        async with _opened(where) as (room, database), database.writing() as transaction:
            made = await room.subscriptions.rotate(transaction, endpoint_id)
        _print(_with_secret(made))

    _run(run())


@webhooks.command
def enable(endpoint_id: str, *, where: Where = HERE) -> None:
    """Call an endpoint again that was disabled by its answer 410; `replay --endpoint` sends what it missed."""

    async def run() -> None:
        async with _opened(where) as (room, database), database.writing() as transaction:
            enabled = await room.subscriptions.enable(transaction, endpoint_id)
        _print(enabled)

    _run(run())


@webhooks.command
def remove(endpoint_id: str, *, where: Where = HERE) -> None:
    """Tell an endpoint nothing more, what is pending included."""

    async def run() -> None:
        async with _opened(where) as (room, database), database.writing() as transaction:
            was_there = await room.subscriptions.remove(transaction, endpoint_id)
        if not was_there:
            raise ValueError(f"there is no endpoint {endpoint_id}")
        _print({"removed": True, "id": endpoint_id})

    _run(run())


@webhooks.command
def deliveries(
    *, endpoint: str | None = None, state: State | None = None, limit: int = 100, where: Where = HERE
) -> None:
    """Print deliveries with their attempts, the newest first, one JSON object a line."""
    if limit < 1:
        raise ValueError("--limit must be at least 1")

    async def run() -> None:
        async with _opened(where) as (room, _):
            for delivery in await room.deliveries.listed(endpoint, state, limit):
                _print(delivery)

    _run(run())


@webhooks.command
def replay(
    delivery_id: str | None = None,
    *,
    endpoint: Annotated[str | None, Parameter(help="Instead of one delivery: all that is parked for it")] = None,
    since: Annotated[datetime | None, Parameter(help="With --endpoint: only what was made since then (UTC)")] = None,
    where: Where = HERE,
) -> None:
    """Send a delivery again, or all that is parked for an endpoint; the server does it within seconds."""
    if (delivery_id is None) == (endpoint is None):
        raise ValueError("name one delivery, or an endpoint with --endpoint")
    if since is not None and endpoint is None:
        raise ValueError("--since needs --endpoint")

    async def run() -> None:
        async with _opened(where) as (room, database), database.writing() as transaction:
            if endpoint is not None:
                replayed = await room.deliveries.replay_parked(transaction, endpoint, _seconds(since))
                answer: Any = {"endpoint": endpoint, "replayed": replayed}
            else:
                answer = await room.deliveries.replay(transaction, str(delivery_id))
        _print(answer)

    _run(run())


@asynccontextmanager
async def _opened(where: Where) -> AsyncIterator[tuple[Webhooks, Database]]:
    settings = where.settings()
    async with open_context(settings, answers_calls=False) as context:
        room = open_webhooks(settings, context.database)
        try:
            yield room, context.database
        finally:
            await room.close()


def _with_secret(made: NewSecret) -> dict[str, Any]:
    return {**msgspec.to_builtins(made.endpoint), "secret": made.secret}


def _split(types: str | None) -> list[str]:
    return [name.strip() for name in (types or "").split(",") if name.strip()]


def _seconds(moment: datetime | None) -> float:
    if moment is None:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _print(answer: Any) -> None:
    print(msgspec.json.encode(answer).decode())


def _run(work: Coroutine[object, object, None]) -> None:
    logs.configure("warning")
    asyncio.run(work)
