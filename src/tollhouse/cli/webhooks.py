"""`tollhouse webhooks`: manage webhook endpoints and their deliveries."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from tollhouse.admission.context import AppContext
from tollhouse.cli.options import DEFAULTS, CommonOptions, print_json, print_lines, seconds_of
from tollhouse.services import offered
from tollhouse.webhooks.store import State
from tollhouse.webhooks.subscriptions import Endpoint, NewSecret

webhooks = App(name="webhooks", help="Manage webhook endpoints and deliveries.")

Types = Annotated[str | None, Parameter(help="Event types, separated by commas (default: all of the service)")]


@webhooks.command
def add(
    *,
    service: Annotated[str, Parameter(help="Service whose events to send")],
    url: Annotated[str, Parameter(help="https URL that receives the events")],
    email: Annotated[str, Parameter(help="Where to report an endpoint that fails")],
    types: Types = None,
    common: CommonOptions = DEFAULTS,
) -> None:
    """Register an endpoint; print it as JSON with its secret, which is shown only once."""
    services = offered(common.settings())
    if service not in services:
        raise ValueError(f"there is no service {service!r}; there are {', '.join(services)}")

    async def command(context: AppContext) -> NewSecret:
        target = await context.webhooks.subscriptions.validate(url)
        async with context.database.writing() as transaction:
            return await context.webhooks.subscriptions.add(transaction, service, target, email, _split(types))

    print_json(_with_secret(common.run(command)))


@webhooks.command(name="list")
def list_endpoints(*, common: CommonOptions = DEFAULTS) -> None:
    """Print all endpoints and their state, one JSON object per line, without secrets."""
    print_lines(common.run(lambda context: context.webhooks.subscriptions.all()))


@webhooks.command
def change(
    endpoint_id: str,
    *,
    url: str | None = None,
    email: str | None = None,
    types: Types = None,
    common: CommonOptions = DEFAULTS,
) -> None:
    """Change the URL, email or types of an endpoint (`--types ""` means all). The secret stays."""

    async def command(context: AppContext) -> Endpoint:
        target = None if url is None else await context.webhooks.subscriptions.validate(url)
        named = None if types is None else _split(types)
        async with context.database.writing() as transaction:
            return await context.webhooks.subscriptions.change(
                transaction, endpoint_id, target=target, email=email, types=named
            )

    print_json(common.run(command))


@webhooks.command
def rotate(endpoint_id: str, *, common: CommonOptions = DEFAULTS) -> None:
    """Give an endpoint a new secret and print it once. The old secret stays valid for 24 hours."""

    async def command(context: AppContext) -> NewSecret:
        async with context.database.writing() as transaction:
            return await context.webhooks.subscriptions.rotate(transaction, endpoint_id)

    print_json(_with_secret(common.run(command)))


@webhooks.command
def enable(endpoint_id: str, *, common: CommonOptions = DEFAULTS) -> None:
    """Enable an endpoint that a 410 response disabled. Use `replay --endpoint` to send what it missed."""

    async def command(context: AppContext) -> Endpoint:
        async with context.database.writing() as transaction:
            return await context.webhooks.subscriptions.enable(transaction, endpoint_id)

    print_json(common.run(command))


@webhooks.command
def remove(endpoint_id: str, *, common: CommonOptions = DEFAULTS) -> None:
    """Remove an endpoint with its pending deliveries."""

    async def command(context: AppContext) -> bool:
        async with context.database.writing() as transaction:
            return await context.webhooks.subscriptions.remove(transaction, endpoint_id)

    if not common.run(command):
        raise ValueError(f"there is no endpoint {endpoint_id}")
    print_json({"removed": True, "id": endpoint_id})


@webhooks.command
def deliveries(
    *, endpoint: str | None = None, state: State | None = None, limit: int = 100, common: CommonOptions = DEFAULTS
) -> None:
    """Print deliveries with their attempts, newest first, one JSON object per line."""
    if limit < 1:
        raise ValueError("--limit must be at least 1")
    print_lines(common.run(lambda context: context.webhooks.deliveries.newest(endpoint, state, limit)))


@webhooks.command
def replay(
    delivery_id: str | None = None,
    *,
    endpoint: Annotated[str | None, Parameter(help="Replay all parked deliveries of this endpoint")] = None,
    since: Annotated[datetime | None, Parameter(help="With --endpoint: only those created since then (UTC)")] = None,
    common: CommonOptions = DEFAULTS,
) -> None:
    """Send a delivery again, or all parked deliveries of an endpoint. The server sends them within seconds."""
    if (delivery_id is None) == (endpoint is None):
        raise ValueError("name one delivery, or an endpoint with --endpoint")
    if since is not None and endpoint is None:
        raise ValueError("--since needs --endpoint")

    async def command(context: AppContext) -> Any:
        async with context.database.writing() as transaction:
            if endpoint is None:
                return await context.webhooks.deliveries.replay(transaction, str(delivery_id))
            begun_at = 0.0 if since is None else seconds_of(since)
            replayed = await context.webhooks.deliveries.replay_parked(transaction, endpoint, begun_at)
            return {"endpoint": endpoint, "replayed": replayed}

    print_json(common.run(command))


def _with_secret(made: NewSecret) -> dict[str, Any]:
    return {**msgspec.to_builtins(made.endpoint), "secret": made.secret}


def _split(types: str | None) -> list[str]:
    return [name.strip() for name in (types or "").split(",") if name.strip()]
