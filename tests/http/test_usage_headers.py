import pytest

from tollhouse import clock
from tollhouse.accounts.plans import open_plans
from tollhouse.admission.call_headers import usage_headers
from tollhouse.config.settings import Settings
from tollhouse.http.terms import KeyCaller
from tollhouse.metering.meter import SECONDS_PER_DAY, reserve
from tollhouse.storage.counters import Tally

PLANS = open_plans(Settings())
NOON = 20_000.5 * SECONDS_PER_DAY


@pytest.fixture(autouse=True)
def noon(monkeypatch):
    monkeypatch.setattr(clock, "seconds", lambda: NOON)


def told(tier, calls=1, at=NOON, **limits: int):
    caller = KeyCaller("key_a", tier, None, "2026-01-01T00:00:00Z", **limits)
    tally = Tally()
    verdicts = [reserve(tally, PLANS.windows_of(caller), at) for _ in range(calls)]
    return {name.decode(): value.decode() for name, value in usage_headers(tier, verdicts[-1])}


def test_free_plan_speaks_of_the_day():
    assert told("free", 3) == {
        "x-credits-tier": "free",
        "x-ratelimit-limit": "100",
        "x-ratelimit-remaining": "97",
        "ratelimit-policy": '"day";q=100;w=86400, "minute";q=10;w=60',
        "ratelimit": '"day";r=97;t=43200, "minute";r=7;t=60',
    }


def test_pro_plan_speaks_of_the_day():
    headers = told("pro")
    assert (headers["x-ratelimit-limit"], headers["x-ratelimit-remaining"]) == ("10000", "9999")


def test_enterprise_plan_speaks_of_the_minute():
    assert told("enterprise", 4) == {
        "x-credits-tier": "enterprise",
        "x-ratelimit-limit": "1000",
        "x-ratelimit-remaining": "996",
        "ratelimit-policy": '"minute";q=1000;w=60',
        "ratelimit": '"minute";r=996;t=60',
    }


def test_limits_of_a_key_go_before_its_tiers():
    headers = told("free", per_day=7, per_minute=3)
    assert (headers["x-ratelimit-limit"], headers["x-ratelimit-remaining"]) == ("7", "6")
    assert headers["ratelimit-policy"] == '"day";q=7;w=86400, "minute";q=3;w=60'


def test_full_window_has_nothing_left():
    headers = told("free", 14)
    assert headers["ratelimit"] == '"day";r=90;t=43200, "minute";r=0;t=60'


def test_seconds_left_are_rounded_up_and_never_negative():
    assert '"minute";r=9;t=1' in told("free", at=NOON - 59.5)["ratelimit"]
    assert '"minute";r=9;t=0' in told("free", at=NOON - 70)["ratelimit"]


@pytest.mark.parametrize(
    ("tier", "per_day", "per_minute", "month", "year"),
    [("free", 100, 10, 0, None), ("pro", 10_000, 100, 49_000_000, 490_000_000),
     ("enterprise", None, 1_000, 499_000_000, 4_990_000_000)],
)  # fmt: skip
def test_plans_are_the_documents(tier, per_day, per_minute, month, year):
    plan = next(plan for plan in PLANS.all if plan.name == tier)
    assert (plan.limits.requests_per_day, plan.limits.requests_per_minute) == (per_day, per_minute)
    assert (plan.month_micros, plan.year_micros) == (month, year)
    assert PLANS.limits_of(KeyCaller("key_a", tier, None, "")) == plan.limits
