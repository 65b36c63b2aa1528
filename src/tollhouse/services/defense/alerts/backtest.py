"""When a rule would have come true and been told over stored history: the same decisions, nothing sent."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import accumulate, pairwise

from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.alerts import store
from tollhouse.services.defense.alerts.brief_figures import HOURS, BriefFigures, counted_key, counted_value, figure_of
from tollhouse.services.defense.alerts.entity_stories import ids_meant, stories_naming
from tollhouse.services.defense.alerts.evaluation_result import Told, Verdict, is_due
from tollhouse.services.defense.alerts.evaluator import MOST_EVENTS, weight
from tollhouse.services.defense.alerts.event_samples import Mark, mark_of, minute_of
from tollhouse.services.defense.alerts.metrics import (
    BINS,
    HELD_HOURS,
    MINUTES_PER_BIN,
    Histogram,
    measured,
)
from tollhouse.services.defense.alerts.monitor import production_lines
from tollhouse.services.defense.alerts.notifications import AlertWindow, window_ending
from tollhouse.services.defense.alerts.rule import BRIEF, SEVERITY, STALENESS, Key, Rule, plain
from tollhouse.services.defense.analysis.history import Served, entries_after, served, stories_after
from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.ingest.batches import compact, slot_time
from tollhouse.storage.database import Database, Transaction


class PreviewFiring(Struct, frozen=True):
    """A delivery that would have been made at `at`; `event_ids` are the events it would have carried."""

    at: str
    value: float
    window: AlertWindow
    event_ids: list[str]


class PreviewPoint(Struct, frozen=True):
    """What the rule came to when the window ended at `at`; `value` is null where it could not be determined."""

    at: str
    value: float | None
    is_met: bool


class AlertPreview(Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """The rule over the stored windows that end after `from`, up to `to`, one for each slot of the provider."""

    metric: str
    since: str | None
    until: str | None
    would_fire: int
    fired: list[PreviewFiring]
    values: list[PreviewPoint]


class _History(Struct, frozen=True):
    """Marks that the rule can count, in the order of time, and the minutes at which slots were read."""

    ids: list[str]
    marks: list[Mark]
    slots: list[int]
    lines: bytes


class Previewing:
    """Runs one preview at a time: each reads days of events."""

    def __init__(self, database: Database, *, recorded: bool | None) -> None:
        self._database = database
        self._recorded = recorded
        self._turn = asyncio.Semaphore(1)

    async def preview(self, rule: Rule, hours: int) -> AlertPreview:
        """The rule over the `hours` up to the end of what is stored."""
        async with self._turn, self._database.reading() as connection:
            now = await served(connection, recorded=self._recorded)
            if now is None:
                raise Problem(
                    "upstream-unavailable", "Nothing is stored that the rule could be run over.", upstream="gdelt"
                )
            history = await _read(connection, now, rule, hours)
        return await asyncio.to_thread(_previewed, rule, history, minute_of(now.as_of) - 60 * hours)


async def _read(connection: Transaction, now: Served, rule: Rule, hours: int) -> _History:
    after = now.as_of - timedelta(hours=hours + HELD_HOURS)
    slots = [
        moment for slot in await store.slots_after(connection, now.pool, compact(after)) if (moment := slot_time(slot))
    ]
    lines = await events_store.read_document_body(connection, events_store.PRODUCTION_LINES) or b""
    found: list[tuple[int, str, Mark]] = []
    if rule.metric != STALENESS:
        found = await _counted(connection, now, rule, hours)
    return _History([one[1] for one in found], [one[2] for one in found], [minute_of(slot) for slot in slots], lines)


async def _counted(connection: Transaction, now: Served, rule: Rule, hours: int) -> list[tuple[int, str, Mark]]:
    after = now.as_of - timedelta(hours=hours + HELD_HOURS)
    told = await stories_after(connection, now.pool, after)
    stories = None
    if rule.filters.entity:
        meant = await ids_meant(connection, now.pool, [rule.filters.entity])
        stories = stories_naming(meant, {story.id: story for story in told.values()})[rule.filters.entity]
    key, found = _key(rule), []
    async for entries in entries_after(connection, now.pool, after, told):
        for identity, entry in entries:
            mark = mark_of(entry)
            if _is_meant(mark, key) and (stories is None or mark.story_id in stories):
                found.append((mark.minute, identity, mark))
    return sorted(found, key=lambda one: one[:2])


def _key(rule: Rule) -> Key:
    if not rule.metric.startswith(BRIEF):
        return rule.key
    return counted_key(figure_of(rule.metric)) or ("Battles", None, None)


def _is_meant(mark: Mark, key: Key) -> bool:
    return all(wanted is None or wanted == has for wanted, has in zip(key, mark.cell, strict=True))


def _previewed(rule: Rule, history: _History, begin: int) -> AlertPreview:
    values, fired, told = [], [], Told()
    for minute, value in _values(rule, history, begin):
        at = 60.0 * minute
        verdict = Verdict(value, rule.is_met(value), f"{minute}:{value!r}")
        values.append(PreviewPoint(clock.iso(clock.at(at)), None if value is None else plain(value), verdict.is_met))
        if value is not None and is_due(rule, verdict, told, at):
            told = Told(at, verdict.window_state)
            window = window_ending(at, rule.window_hours)
            fired.append(PreviewFiring(values[-1].at, plain(value), window, _shown(rule, history, minute)))
    return AlertPreview(
        metric=rule.metric,
        since=values[0].at if values else None,
        until=values[-1].at if values else None,
        would_fire=len(fired),
        fired=fired,
        values=values,
    )


def _values(rule: Rule, history: _History, begin: int) -> list[tuple[int, float | None]]:
    """The value at each slot read after `begin`. Staleness is that of the moment before the slot came."""
    if rule.metric == STALENESS:
        return [(slot, float(slot - before)) for before, slot in pairwise(history.slots) if slot > begin]
    value = _valued(rule, history)
    return [(slot, value(slot)) for slot in history.slots if slot > begin]


def _valued(rule: Rule, history: _History) -> Callable[[int], float | None]:
    if not rule.metric.startswith(BRIEF):
        timeline = _Timeline(history)
        return lambda at: measured(rule.metric, timeline.histogram(at), rule.window_hours, timeline.read(at))
    figure = figure_of(rule.metric)
    if counted_key(figure) is not None:
        timeline = _Timeline(history)
        return lambda at: counted_value(timeline.histogram(at))
    figures, battles = BriefFigures(production_lines(history.lines)), _Battles(history)
    return lambda at: figures.value(figure, lambda: battles.before(at))


def _shown(rule: Rule, history: _History, at: int) -> list[str]:
    if rule.metric == STALENESS or rule.metric.startswith(BRIEF):
        return []
    minutes = [mark.minute for mark in history.marks]
    meant = range(bisect_right(minutes, at - 60 * rule.window_hours), bisect_right(minutes, at))
    heaviest = sorted(meant, key=lambda index: (*weight(rule, history.marks[index]), history.ids[index]))
    return [history.ids[index] for index in heaviest[:MOST_EVENTS]]


class _Battles:
    """The battles of any 24 hours."""

    def __init__(self, history: _History) -> None:
        self._minutes = [mark.minute for mark in history.marks]
        self._events = [mark.battle for mark in history.marks]

    def before(self, at: int) -> Sequence[Event]:
        first, last = bisect_right(self._minutes, at - 60 * HOURS), bisect_right(self._minutes, at)
        return [event for event in self._events[first:last] if event]


class _Timeline:
    """Sums over time, so that the histogram of any moment takes no look at single events."""

    def __init__(self, history: _History) -> None:
        marks = history.marks
        self._slots = history.slots
        self._minutes = [mark.minute for mark in marks]
        self._deaths = [0, *accumulate(mark.fatalities for mark in marks)]
        self._tiers = {
            number: [0, *accumulate(int(mark.severity_tier == tier) for mark in marks)]
            for tier, number in SEVERITY.items()
        }

    def histogram(self, at: int) -> Histogram:
        """The events by their age at a minute."""
        ends = [bisect_right(self._minutes, at - MINUTES_PER_BIN * age) for age in range(BINS + 1)]
        spans = [(low, high) for high, low in pairwise(ends)]
        return Histogram(
            [high - low for low, high in spans],
            [self._deaths[high] - self._deaths[low] for low, high in spans],
            [self._worst(low, high) if high > low else 0 for low, high in spans],
        )

    def read(self, at: int) -> list[bool]:
        """Which quarters of an hour before a minute were read."""
        read = [False] * BINS
        first, last = bisect_right(self._slots, at - MINUTES_PER_BIN * BINS), bisect_right(self._slots, at)
        for slot in self._slots[first:last]:
            read[(at - slot) // MINUTES_PER_BIN] = True
        return read

    def _worst(self, low: int, high: int) -> int:
        return max((tier for tier, sums in self._tiers.items() if sums[high] > sums[low]), default=0)
