"""The tiers: what each may use and what it costs, in one table (document 1, section 8)."""

from functools import lru_cache

from msgspec import Struct

from tollhouse.caller import KeyCaller, Tier, WalletCaller
from tollhouse.metering.windows import Windows
from tollhouse.money import MICROS_PER_USD


class Limits(Struct, frozen=True):
    """Requests per UTC day and per sliding minute; None is unlimited."""

    requests_per_day: int | None
    requests_per_minute: int


class Plan(Struct, frozen=True):
    """One tier. Prices are micro-USD; a yearly price of None means the plan has none."""

    tier: Tier
    limits: Limits
    month_micros: int
    year_micros: int | None
    includes: tuple[str, ...]


PLANS: dict[Tier, Plan] = {
    plan.tier: plan
    for plan in (
        Plan("free", Limits(100, 10), 0, None, ("events", "stories", "entities", "defense brief")),
        Plan("pro", Limits(10_000, 100), 49 * MICROS_PER_USD, 490 * MICROS_PER_USD, ("all feeds", "chat")),
        Plan(
            "enterprise",
            Limits(None, 1_000),
            499 * MICROS_PER_USD,
            4_990 * MICROS_PER_USD,
            ("all feeds", "unlimited chat", "webhook alerts", "custom analysis"),
        ),
    )
}

# What an agent's signed call costs, and the least it may deposit (document 1, section 8).
AGENT_CALL_MICROS = 10_000
MINIMUM_DEPOSIT_MICROS = MICROS_PER_USD

RANK: dict[Tier, int] = {tier: rank for rank, tier in enumerate(PLANS)}


def limits_of(caller: KeyCaller) -> Limits:
    """The tier's limits, or the key's own where the operator gave some."""
    plan = PLANS[caller.tier].limits
    return Limits(caller.per_day or plan.requests_per_day, caller.per_minute or plan.requests_per_minute)


@lru_cache(maxsize=4096)
def windows_of(caller: KeyCaller | WalletCaller) -> Windows:
    """The windows this caller's calls are counted in: an agent has the enterprise tier's minute and no day."""
    if isinstance(caller, WalletCaller):
        return Windows(None, PLANS["enterprise"].limits.requests_per_minute)
    limits = limits_of(caller)
    return Windows(limits.requests_per_day, limits.requests_per_minute)
