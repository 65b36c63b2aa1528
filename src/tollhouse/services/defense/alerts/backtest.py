"""Backtests: when a rule would have notified over stored history, without sending anything."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from datetime import timedelta
from itertools import accumulate, pairwise

from msgspec import Struct

from tollhouse import clock
from tollhouse.config.settings import Recorded
from tollhouse.errors import Problem
from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.alerts import store
from tollhouse.services.defense.alerts.aggregates import (
    BINS,
    HELD_HOURS,
    HOURS,
    MINUTES_PER_BIN,
    BriefFigures,
    EventSample,
    Histogram,
    build_sample,
    counted_value,
    measure,
    production_lines,
    to_minute,
)
from tollhouse.services.defense.alerts.evaluator import (
    MOST_EVENTS,
    EvaluationResult,
    LastNotification,
    event_order,
    is_due,
)
from tollhouse.services.defense.alerts.monitor import AlertWindow, to_integer, window_ending
from tollhouse.services.defense.alerts.rule import BRIEF, COUNTED_FIGURES, SEVERITY, STALENESS, Rule
from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.events.filter import EventFilter, event_tests
from tollhouse.services.defense.events.history import (
    ServedPool,
    entities_named,
    entries_after,
    served_pool,
)
from tollhouse.services.defense.ingest.export_parser import compact, slot_time
from tollhouse.storage.database import Database, Transaction


class PreviewFiring(Struct, frozen=True):
    """A notification that would have been sent at `at`, with the ids of its events."""

    at: str
    value: float
    window: AlertWindow
    event_ids: list[str]


class PreviewPoint(Struct, frozen=True):
    """The rule's value for the window that ended at `at`; null where it could not be determined."""

    at: str
    value: float | None
    is_met: bool


class AlertPreview(Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """The rule over the stored windows that end after `from`, up to `to`: one for each slot of the provider."""

    metric: str
    since: str | None
    until: str | None
    would_fire: int
    fired: list[PreviewFiring]
    values: list[PreviewPoint]


class _History(Struct, frozen=True):
    """Samples that the rule counts, in order of time, and the minutes of the slots that were read."""

    ids: list[str]
    samples: list[EventSample]
    slots: list[int]
    lines: bytes


class Backtester:
    """Runs one backtest at a time: each reads days of events."""

    def __init__(self, database: Database, *, recorded: Recorded) -> None:
        self._database = database
        self._recorded = recorded
        self._lock = asyncio.Semaphore(1)

    async def preview(self, rule: Rule, hours: int) -> AlertPreview:
        """The rule over the `hours` up to the newest stored slot."""
        async with self._lock, self._database.reading() as connection:
            served = await served_pool(connection, recorded=self._recorded)
            if served is None:
                raise Problem("upstream-unavailable", "No events are stored yet.", upstream="gdelt")
            history = await _read(connection, served, rule, hours)
        return await asyncio.to_thread(_preview, rule, history, to_minute(served.as_of) - 60 * hours)


async def _read(connection: Transaction, served: ServedPool, rule: Rule, hours: int) -> _History:
    after = served.as_of - timedelta(hours=hours + HELD_HOURS)
    slots = await store.slots_after(connection, served.pool, compact(after))
    minutes = [to_minute(moment) for slot in slots if (moment := slot_time(slot))]
    lines = await events_store.read_document_body(connection, events_store.PRODUCTION_LINES) or b""
    if rule.metric == STALENESS:
        return _History([], [], minutes, lines)
    filters: EventFilter = rule.filters
    if rule.metric.startswith(BRIEF):
        # A figure that is not a count is made from battles.
        category, _, tier, _ = COUNTED_FIGURES.get(rule.metric.removeprefix(BRIEF)) or ("Battles", None, None, True)
        filters = EventFilter(category=category, severity_tier=tier)
    entities = frozenset[str]()
    if filters.entity:
        entities = (await entities_named(connection, served.pool, [filters.entity]))[filters.entity]
    tests, matches = event_tests(filters, entities), []
    async for entries in entries_after(connection, served.pool, after):
        for event_id, entry in entries:
            if all(test(entry) for test in tests):
                sample = build_sample(entry)
                matches.append((sample.minute, event_id, sample))
    matches.sort(key=lambda one: one[:2])
    return _History([event_id for _, event_id, _ in matches], [sample for *_, sample in matches], minutes, lines)


def _preview(rule: Rule, history: _History, begin: int) -> AlertPreview:
    values, fired, last = [], [], LastNotification()
    measured: list[tuple[int, float | None]]
    if rule.metric == STALENESS:
        # Measured just before each slot arrived.
        measured = [(slot, float(slot - before)) for before, slot in pairwise(history.slots) if slot > begin]
    else:
        value_at = _value_at(rule, history)
        measured = [(slot, value_at(slot)) for slot in history.slots if slot > begin]
    for minute, value in measured:
        at = 60.0 * minute
        result = EvaluationResult(value, rule.is_met(value), f"{minute}:{value!r}")
        shown = None if value is None else to_integer(value)
        values.append(PreviewPoint(clock.iso(clock.at(at)), shown, result.is_met))
        if shown is not None and is_due(rule, result, last, at):
            last = LastNotification(at, result.window_state)
            window = window_ending(at, rule.window_hours)
            fired.append(PreviewFiring(values[-1].at, shown, window, _events_behind(rule, history, minute)))
    return AlertPreview(
        metric=rule.metric,
        since=values[0].at if values else None,
        until=values[-1].at if values else None,
        would_fire=len(fired),
        fired=fired,
        values=values,
    )


def _value_at(rule: Rule, history: _History) -> Callable[[int], float | None]:
    """A function from the end of a window to the rule's value."""
    if not rule.metric.startswith(BRIEF):
        timeline = _Timeline(history)
        return lambda at: measure(rule.metric, timeline.histogram(at), rule.window_hours, timeline.read(at))
    figure = rule.metric.removeprefix(BRIEF)
    if figure in COUNTED_FIGURES:
        timeline = _Timeline(history)
        return lambda at: counted_value(timeline.histogram(at))
    figures = BriefFigures(production_lines(history.lines))
    minutes = [sample.minute for sample in history.samples]
    events = [sample.entry and sample.entry.event for sample in history.samples]

    def battles(at: int) -> list[Event]:
        """The battles of the 24 hours up to a minute."""
        first, last = bisect_right(minutes, at - 60 * HOURS), bisect_right(minutes, at)
        return [event for event in events[first:last] if event]

    return lambda at: figures.value(figure, lambda: battles(at))


def _events_behind(rule: Rule, history: _History, at: int) -> list[str]:
    if rule.metric == STALENESS or rule.metric.startswith(BRIEF):
        return []
    minutes = [sample.minute for sample in history.samples]
    inside = range(bisect_right(minutes, at - 60 * rule.window_hours), bisect_right(minutes, at))
    ordered = sorted(inside, key=lambda index: (*event_order(rule, history.samples[index]), history.ids[index]))
    return [history.ids[index] for index in ordered[:MOST_EVENTS]]


class _Timeline:
    """Cumulative sums over time, which give the histogram of any moment without reading single events."""

    def __init__(self, history: _History) -> None:
        samples = history.samples
        self._slots = history.slots
        self._minutes = [sample.minute for sample in samples]
        self._deaths = [0, *accumulate(sample.fatalities for sample in samples)]
        self._tiers = {
            number: [0, *accumulate(int(sample.severity_tier == tier) for sample in samples)]
            for tier, number in SEVERITY.items()
        }

    def histogram(self, at: int) -> Histogram:
        """The events by age at a minute."""
        ends = [bisect_right(self._minutes, at - MINUTES_PER_BIN * age) for age in range(BINS + 1)]
        spans, tiers = [(low, high) for high, low in pairwise(ends)], self._tiers.items()
        return Histogram(
            [high - low for low, high in spans],
            [self._deaths[high] - self._deaths[low] for low, high in spans],
            [max((tier for tier, sums in tiers if sums[high] > sums[low]), default=0) for low, high in spans],
        )

    def read(self, at: int) -> list[bool]:
        """For each quarter-hour before a minute, whether it has a slot."""
        read = [False] * BINS
        first, last = bisect_right(self._slots, at - MINUTES_PER_BIN * BINS), bisect_right(self._slots, at)
        for slot in self._slots[first:last]:
            read[(at - slot) // MINUTES_PER_BIN] = True
        return read
