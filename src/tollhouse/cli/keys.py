"""`tollhouse keys`: create, list, revoke and change API keys."""

from typing import Annotated

from cyclopts import App, Parameter

from tollhouse.accounts.key_endpoints import KeyIssued, issued
from tollhouse.accounts.plans import Plans
from tollhouse.admission.context import AppContext
from tollhouse.cli.options import DEFAULTS, CommonOptions, print_json, print_lines

keys = App(name="keys", help="Create, list, revoke and change API keys.")

KeyId = Annotated[str, Parameter(help="Id of the key: key_…, as `keys list` prints it")]


@keys.command
def create(
    *,
    email: Annotated[str, Parameter(help="Email address of the holder")],
    tier: Annotated[str | None, Parameter(help="Plan of the key (default: `default_plan`)")] = None,
    label: Annotated[str | None, Parameter(help="Name to tell keys apart")] = None,
    per_minute: Annotated[int | None, Parameter(help="Requests per minute, instead of the plan's limit")] = None,
    per_day: Annotated[int | None, Parameter(help="Requests per day, instead of the plan's limit")] = None,
    common: CommonOptions = DEFAULTS,
) -> None:
    """Create a key on any plan; print it as JSON. The key is shown only once."""
    for name, limit in (("--per-minute", per_minute), ("--per-day", per_day)):
        if limit is not None and limit < 1:
            raise ValueError(f"{name} must be at least 1")

    async def command(context: AppContext) -> KeyIssued:
        plan = _plan(context.plans, tier or context.plans.default.name)
        key = await context.keys.create(email, plan, label, per_day=per_day, per_minute=per_minute)
        return issued(key, context.plans)

    print_json(common.run(command))


@keys.command(name="list")
def list_keys(*, common: CommonOptions = DEFAULTS) -> None:
    """Print all keys, one JSON object per line, without the keys themselves."""
    print_lines(common.run(lambda context: context.keys.listed()))


@keys.command
def revoke(key_id: KeyId, *, common: CommonOptions = DEFAULTS) -> None:
    """Revoke a key permanently."""
    _check_known(common.run(lambda context: context.keys.revoke(key_id)), key_id)
    print_json({"revoked": True, "key_id": key_id})


@keys.command
def set_tier(
    key_id: KeyId, tier: Annotated[str, Parameter(help="Name of the new plan")], *, common: CommonOptions = DEFAULTS
) -> None:
    """Move a key to another plan."""
    _check_known(common.run(lambda context: context.keys.set_tier(key_id, _plan(context.plans, tier))), key_id)
    print_json({"key_id": key_id, "tier": tier})


def _plan(plans: Plans, name: str) -> str:
    if name not in plans:
        raise ValueError(f"there is no plan {name}: choose one of {', '.join(plans.names)}")
    return name


def _check_known(changed: bool, key_id: str) -> None:
    if not changed:
        raise ValueError(f"there is no active key {key_id}")
