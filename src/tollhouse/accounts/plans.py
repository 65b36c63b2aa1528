"""Plans: the limits, prices and entitlements of API keys, as data (document 1, section 8, and the setting `plans`)."""

import re
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Literal, TypeVar

from msgspec import Struct, structs

from tollhouse.config.settings import PlanSettings, SettingError, Settings
from tollhouse.http.terms import KeyCaller, WalletCaller
from tollhouse.metering.meter import Windows
from tollhouse.money import MICROS_PER_USD, micros, usd

# The least a wallet may deposit (document 1, section 8).
MINIMUM_DEPOSIT_MICROS = MICROS_PER_USD

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,15}")

T = TypeVar("T")


class Limits(Struct, frozen=True):
    """Requests per UTC day and per sliding minute; None is unlimited."""

    requests_per_day: int | None
    requests_per_minute: int


class Plan(Struct, frozen=True):
    """One plan. A yearly price of None means that it is not sold by the year.

    `entitlements` open operations whose terms ask for one. `chat_per_day` caps the questions of a UTC day, where the
    plan includes `chat`; None is unlimited.
    """

    name: str
    limits: Limits
    month_micros: int
    year_micros: int | None = None
    entitlements: tuple[str, ...] = ()
    chat_per_day: int | None = None

    def described(self) -> dict[str, object]:
        """The plan as price lists and pages show it."""
        return {
            "tier": self.name,
            "requests_per_day": self.limits.requests_per_day,
            "requests_per_minute": self.limits.requests_per_minute,
            "price_per_month_usd": usd(self.month_micros),
            "price_per_year_usd": None if self.year_micros is None else usd(self.year_micros),
            "entitlements": list(self.entitlements),
            "chat_per_day": self.chat_per_day,
            "includes": ["all feeds", *map(self._included, self.entitlements)],
        }

    def _included(self, entitlement: str) -> str:
        if entitlement == "chat":
            return f"chat ({self.chat_per_day:,} questions a day)" if self.chat_per_day else "unlimited chat"
        return entitlement


DEFAULT_PLANS = (
    Plan("free", Limits(100, 10), 0),
    Plan("pro", Limits(10_000, 100), 49 * MICROS_PER_USD, 490 * MICROS_PER_USD, ("chat",), chat_per_day=200),
    Plan(
        "enterprise", Limits(None, 1_000), 499 * MICROS_PER_USD, 4_990 * MICROS_PER_USD, ("chat", "alerts", "analysis")
    ),
)


class Plans:
    """The plans of one server, cheapest first. New keys start on `default`."""

    def __init__(self, plans: Iterable[Plan], default: str) -> None:
        self._by_name = {plan.name: plan for plan in sorted(plans, key=lambda plan: plan.month_micros)}
        self.default = self._by_name[default]
        self.all = tuple(self._by_name.values())
        # Agents have no daily limit and the minute of the most expensive plan (document 1, section 8).
        self.agent_windows = Windows(None, self.all[-1].limits.requests_per_minute)
        self.windows_of = lru_cache(maxsize=4096)(self._windows_of)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    @property
    def names(self) -> list[str]:
        """The names of the plans, cheapest first."""
        return list(self._by_name)

    def plan_of(self, caller: KeyCaller) -> Plan:
        """The plan of a key; the default plan where the key's plan is no longer configured."""
        return self._by_name.get(caller.tier, self.default)

    def including(self, entitlement: str) -> list[str]:
        """The names of the plans with this entitlement, cheapest first; of all plans for an empty one."""
        return [plan.name for plan in self.all if not entitlement or entitlement in plan.entitlements]

    def limits_of(self, caller: KeyCaller) -> Limits:
        """The limits of the key's plan, or the key's own where the operator set some."""
        limits = self.plan_of(caller).limits
        return Limits(caller.per_day or limits.requests_per_day, caller.per_minute or limits.requests_per_minute)

    def _windows_of(self, caller: KeyCaller | WalletCaller) -> Windows:
        """The windows in which the calls of a key or a wallet are counted."""
        if isinstance(caller, WalletCaller):
            return self.agent_windows
        limits = self.limits_of(caller)
        return Windows(limits.requests_per_day, limits.requests_per_minute)


def open_plans(settings: Settings) -> Plans:
    """The default plans with the changes and additions of the settings. Raises SettingError."""
    plans = {plan.name: plan for plan in DEFAULT_PLANS}
    for name, given in settings.plans.items():
        if not _NAME.fullmatch(name):
            raise SettingError(
                f"plans: the name {name!r} must have 1 to 16 lowercase letters, digits, `-` or `_`, a letter first"
            )
        plans[name] = _changed(plans[name], given) if name in plans else _added(name, given)
    default = plans.get(settings.default_plan)
    if default is None or default.month_micros:
        raise SettingError("default_plan: must name a plan whose price is 0")
    sold = [name for name, plan in plans.items() if plan.month_micros]
    for price_id, name in settings.stripe_prices.items():
        if name not in sold:
            raise SettingError(f"stripe_prices: {price_id} names the plan {name!r}, not one of {', '.join(sold)}")
    return Plans(plans.values(), settings.default_plan)


def _added(name: str, given: PlanSettings) -> Plan:
    if given.requests_per_minute is None or given.price_usd_month is None:
        raise SettingError(f"plans.{name}: a new plan needs `requests_per_minute` and `price_usd_month`")
    return _changed(Plan(name, Limits(None, given.requests_per_minute), 0), given)


def _changed(plan: Plan, given: PlanSettings) -> Plan:
    """The plan with every member that the settings give."""
    limits = Limits(
        _count(plan.name, "requests_per_day", given.requests_per_day, plan.limits.requests_per_day),
        _count(plan.name, "requests_per_minute", given.requests_per_minute, plan.limits.requests_per_minute) or 0,
    )
    return structs.replace(
        plan,
        limits=limits,
        month_micros=_price(plan.name, "price_usd_month", given.price_usd_month, plan.month_micros),
        year_micros=_price(plan.name, "price_usd_year", given.price_usd_year, plan.year_micros),
        entitlements=plan.entitlements if given.entitlements is None else tuple(dict.fromkeys(given.entitlements)),
        chat_per_day=_count(plan.name, "chat_per_day", given.chat_per_day, plan.chat_per_day),
    )


def _count(plan: str, member: str, given: int | Literal["unlimited"] | None, current: int | None) -> int | None:
    if given is None:
        return current
    if given == "unlimited":
        return None
    if given < 1:
        raise SettingError(f"plans.{plan}: `{member}` must be at least 1")
    return given


def _price(plan: str, member: str, given: Decimal | None, current: T) -> int | T:
    if given is None:
        return current
    if not 0 <= given < 1_000_000 or given * 100 % 1:
        raise SettingError(f"plans.{plan}: `{member}` must be an amount in USD with at most two decimals")
    return micros(given)
