"""`tollhouse keys`: the operator's hand on keys of any tier."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from tollhouse import logs
from tollhouse.accounts.key_endpoints import issued
from tollhouse.accounts.plans import Plans
from tollhouse.admission.context import open_context
from tollhouse.cli.options import HERE, Where

keys = App(name="keys", help="Create, list, revoke and move keys.")


@keys.command
def create(
    *,
    email: str,
    tier: str | None = None,
    label: str | None = None,
    per_minute: Annotated[int | None, Parameter(help="A limit of this key's own")] = None,
    per_day: Annotated[int | None, Parameter(help="A limit of this key's own")] = None,
    where: Where = HERE,
) -> None:
    """Make a key of any tier and print it, this once, as JSON."""
    for name, limit in (("--per-minute", per_minute), ("--per-day", per_day)):
        if limit is not None and limit < 1:
            raise ValueError(f"{name} must be at least 1")

    async def run() -> None:
        async with open_context(where.settings(), answers_calls=False) as context:
            plan = _plan(context.plans, tier or context.plans.default.name)
            key = await context.keys.create(email, plan, label, per_day=per_day, per_minute=per_minute)
            print(msgspec.json.encode(issued(key, context.plans)).decode())

    _run(run())


@keys.command(name="list")
def list_keys(*, where: Where = HERE) -> None:
    """Print every key, one JSON object a line; never a key's text."""

    async def run() -> None:
        async with open_context(where.settings(), answers_calls=False) as context:
            for key in await context.keys.listed():
                print(json.dumps(key))

    _run(run())


@keys.command
def revoke(key_id: str, *, where: Where = HERE) -> None:
    """Stop a key for good."""

    async def run() -> None:
        async with open_context(where.settings(), answers_calls=False) as context:
            _known(await context.keys.revoke(key_id), key_id)
            print(json.dumps({"revoked": True, "key_id": key_id}))

    _run(run())


@keys.command
def set_tier(key_id: str, tier: str, *, where: Where = HERE) -> None:
    """Move a key to another tier."""

    async def run() -> None:
        async with open_context(where.settings(), answers_calls=False) as context:
            _known(await context.keys.set_tier(key_id, _plan(context.plans, tier)), key_id)
            print(json.dumps({"key_id": key_id, "tier": tier}))

    _run(run())


def _plan(plans: Plans, name: str) -> str:
    if name not in plans:
        raise ValueError(f"there is no plan {name}: choose one of {', '.join(plans.names)}")
    return name


def _known(changed: bool, key_id: str) -> None:
    if not changed:
        raise ValueError(f"there is no active key {key_id}")


def _run(work: Coroutine[object, object, None]) -> None:
    logs.configure("warning")
    asyncio.run(work)
