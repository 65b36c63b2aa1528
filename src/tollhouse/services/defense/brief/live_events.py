"""What happened in the last 24 hours, counted, and set against the 24 hours before."""

from collections.abc import Mapping, Sequence
from typing import get_args

from msgspec import Struct

from tollhouse.config.settings import RecordedDay
from tollhouse.services.defense.events.event import Category, SeverityTier

NO_PREVIOUS = "nothing is stored for the previous 24 hours"
# A side may lack this share of the other's updates; more makes a change of its own.
COMPARABLE_COVERAGE = 0.02
NONE_BEFORE = "there was none in the previous 24 hours"
BASIS = (
    "Reported occurrences, grouped and classified by machine: neither verified nor complete. "
    "0 can also mean that nothing was read."
)


class Change(Struct, frozen=True):
    """`absolute` is now minus before, `share` that as a share of before; `reason` says why one is null."""

    absolute: int | None
    share: float | None
    reason: str | None


class Coverage(Struct, frozen=True):
    """Which part of each 24 hours the provider's files were read for, 0..1: counts follow it."""

    window: float
    previous: float


WHOLE = Coverage(1.0, 1.0)


class EventsLive(Struct, frozen=True):
    """Counts of the window. `change` has a member for `events` and one for each category.

    `by_category` and `by_severity` name every value, `by_country` those that occur, the commonest first. An event
    without a country counts in `without_country`. `recording` is the day that names the bundled recording; null for
    other data.
    """

    battle_events_24h: int
    events_24h: int
    by_category: dict[str, int]
    by_severity: dict[str, int]
    by_country: dict[str, int]
    without_country: int
    change: dict[str, Change]
    coverage: Coverage
    recording: RecordedDay | None
    provider: str
    basis: str


class EventCounts(Struct, frozen=True):
    """Counts of some events by the values that occur. The country "" is that of events without one."""

    by_category: Mapping[str, int] = {}
    by_severity: Mapping[str, int] = {}
    by_country: Mapping[str, int] = {}


def events_live(
    window: EventCounts,
    previous: Mapping[str, int],
    provider: str,
    coverage: Coverage = WHOLE,
    recording: RecordedDay | None = None,
) -> EventsLive:
    """The counts of the last 24 hours, and their change since the 24 hours before, counted by category."""
    by_category, before = _named(window.by_category, get_args(Category)), _named(previous, get_args(Category))
    countries = {name: count for name, count in window.by_country.items() if name}
    incomparable = _incomparable(before, coverage)
    now = {"events": sum(by_category.values()), **by_category}
    then = {"events": sum(before.values()), **before}
    return EventsLive(
        battle_events_24h=by_category["Battles"],
        events_24h=now["events"],
        by_category=by_category,
        by_severity=_named(window.by_severity, get_args(SeverityTier)),
        by_country=dict(sorted(countries.items(), key=lambda item: (-item[1], item[0]))),
        without_country=window.by_country.get("", 0),
        change={name: _change(then[name], count, incomparable) for name, count in now.items()},
        coverage=coverage,
        recording=recording,
        provider=provider,
        basis=BASIS,
    )


def _named(counts: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    return {name: counts.get(name, 0) for name in names}


def _incomparable(before: Mapping[str, int], coverage: Coverage) -> str | None:
    if not any(before.values()):
        return NO_PREVIOUS
    if abs(coverage.window - coverage.previous) > COMPARABLE_COVERAGE * max(coverage.window, coverage.previous):
        return (
            f"{coverage.window:.0%} of these 24 hours were read and {coverage.previous:.0%} of those before: "
            "the counts cannot be compared"
        )
    return None


def _change(before: int, now: int, incomparable: str | None) -> Change:
    if incomparable:
        return Change(None, None, incomparable)
    if before == 0:
        return Change(now, None, NONE_BEFORE)
    return Change(now - before, round((now - before) / before, 4), None)
