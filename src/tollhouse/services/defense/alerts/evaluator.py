"""Evaluation of alert rules in memory: which rules a change affects, and the value of each."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from tollhouse.services.defense.alerts.aggregates import (
    BINS,
    HOURS,
    Aggregates,
    BriefFigures,
    Cell,
    EventSample,
    SampleTest,
    counted_value,
    keys_of_cell,
    measure,
)
from tollhouse.services.defense.alerts.rule import BRIEF, COUNTED_FIGURES, SEVERITY, STALENESS, Key, Rule
from tollhouse.services.defense.brief.production import Line
from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.events.filter import EventFilter, event_tests

MOST_EVENTS = 20


class EvaluationResult(Struct, frozen=True):
    """The value of a rule. `window_state` identifies the data behind it: each state is notified at most once."""

    value: float | None
    is_met: bool
    window_state: str


class LastNotification(Struct, frozen=True):
    """When a rule last notified, in seconds since 1970, and of which window state; None if it never did."""

    at: float | None = None
    window_state: str | None = None


def is_due(rule: Rule, result: EvaluationResult, last: LastNotification, now: float) -> bool:
    """Whether to notify now: the rule is met, its window state was not notified, and the cooldown is over.

    So a rule notifies when it becomes met. While it stays met it notifies once per cooldown, if the window moved or the
    value changed; a rule that becomes met again within the cooldown waits for its end.
    """
    cooldown_ends = 0.0 if last.at is None else last.at + 60 * rule.cooldown_minutes
    return result.is_met and result.window_state != last.window_state and now >= cooldown_ends


class LastSuccess(Struct, frozen=True):
    """When data last arrived, in seconds since 1970: from the feed's provider, and from each source.

    `feed` is None if nothing ever arrived. `is_recorded`: the feed is a recording.
    """

    now: float
    feed: float | None = None
    sources: Mapping[str, float | None] = {}
    is_recorded: bool = False


class ActiveAlert(Struct, frozen=True):
    """An alert under evaluation. `stated_at` is when its condition last changed, in seconds since 1970."""

    id: str
    version: int
    name: str
    endpoint_id: str
    rule: Rule
    stated_at: float


class Evaluator:
    """The alerts by id, and the ids of those `affected` by changes since their last evaluation.

    `by_kind` has the alerts on `spike`, BRIEF and STALENESS, `needing_entries` those with a filter that only whole
    events can answer.
    """

    def __init__(self) -> None:
        self.aggregates = Aggregates()
        self.alerts: dict[str, ActiveAlert] = {}
        self.affected: set[str] = set()
        self.window_name = ""
        self._read: Sequence[bool] = [True] * BINS
        self._by_key: dict[Key, set[str]] = {}
        self._by_entity: dict[str, set[str]] = {}
        self.by_kind: dict[str, set[str]] = {"spike": set(), BRIEF: set(), STALENESS: set()}
        self._unindexed: dict[str, EventFilter] = {}
        self.needing_entries: set[str] = set()
        self._hours: Counter[int] = Counter()
        self._denoted: dict[str, frozenset[str]] = {}
        self._figures: BriefFigures | None = None

    def set_alert(self, alert: ActiveAlert) -> None:
        self.drop_alert(alert.id)
        self.alerts[alert.id] = alert
        self.affected.add(alert.id)
        rule = alert.rule
        if (key := _index_key(rule)) is not None:
            self._by_key.setdefault(key, set()).add(alert.id)
        self._hours[rule.window_hours] += 1
        if rule.filters.entity:
            self._by_entity.setdefault(rule.filters.entity, set()).add(alert.id)
        if (unindexed := rule.unindexed) is not None:
            self._unindexed[alert.id] = unindexed
            if unindexed != EventFilter(entity=unindexed.entity, relevance="all"):
                self.needing_entries.add(alert.id)
        if (kind := _kind(rule)) in self.by_kind:
            self.by_kind[kind].add(alert.id)

    def drop_alert(self, alert_id: str) -> None:
        self.affected.discard(alert_id)
        alert = self.alerts.pop(alert_id, None)
        if alert is None:
            return
        rule = alert.rule
        if (key := _index_key(rule)) is not None:
            self._by_key[key].discard(alert_id)
        self._hours[rule.window_hours] -= 1
        if rule.filters.entity:
            self._by_entity[rule.filters.entity].discard(alert_id)
            if not self._by_entity[rule.filters.entity]:
                del self._by_entity[rule.filters.entity]
        self._unindexed.pop(alert_id, None)
        self.needing_entries.discard(alert_id)
        if (kind := _kind(rule)) in self.by_kind:
            self.by_kind[kind].discard(alert_id)

    @property
    def entities(self) -> Collection[str]:
        """The entities that rules filter by."""
        return self._by_entity.keys()

    def apply(
        self, changed: Mapping[str, EventSample | None], as_of: int, window_name: str, read: Sequence[bool]
    ) -> None:
        """Apply changed events, None for a removed one.

        Windows end at the minute `as_of`; `read` says for each quarter-hour before it whether the provider was read.
        """
        is_later = window_name != self.window_name
        if is_later or read != self._read:
            self.affected |= self.by_kind["spike"]
            self._read = read
        cells: set[Cell] = set()
        if is_later:
            hours = [hours for hours, alerts in self._hours.items() if alerts]
            cells |= self.aggregates.move(as_of, hours)
            self.window_name = window_name
        for event_id, sample in changed.items():
            cells |= self.aggregates.put(event_id, sample)
        for key in {key for cell in cells for key in keys_of_cell(cell)}:
            self.affected |= self._by_key.get(key, set())
        if is_later or changed:
            self.affected |= self.by_kind[BRIEF]

    def set_entities(self, denoted: Mapping[str, frozenset[str]]) -> None:
        """Set the ids that each text of `entities` denotes."""
        for entity, ids in denoted.items():
            if ids != self._denoted.get(entity):
                self.affected |= self._by_entity.get(entity, set())
        self._denoted = dict(denoted)

    def set_lines(self, lines: Sequence[Line]) -> None:
        """Set the procurement lines of the brief."""
        self._figures = BriefFigures(lines)
        self.affected |= self.by_kind[BRIEF]

    def evaluate(self, alert_ids: Iterable[str], last_success: LastSuccess) -> dict[str, EvaluationResult]:
        """The results of these alerts. Alerts that count the same events share one histogram."""
        results: dict[str, EvaluationResult] = {}
        counted: dict[tuple[Key, EventFilter | None], list[ActiveAlert]] = {}
        figures: dict[str, list[ActiveAlert]] = {}
        for alert in (self.alerts[alert_id] for alert_id in alert_ids if alert_id in self.alerts):
            rule = alert.rule
            figure = rule.metric.removeprefix(BRIEF)
            key = COUNTED_FIGURES.get(figure) if _kind(rule) == BRIEF else rule.key
            if rule.metric == STALENESS:
                results[alert.id] = _staleness(alert, last_success)
            elif key is None:
                figures.setdefault(figure, []).append(alert)
            else:
                counted.setdefault((key, self._unindexed.get(alert.id)), []).append(alert)
        for (key, unindexed), alerts in counted.items():
            histogram = self.aggregates.histogram(key, self._sample_test(unindexed))
            for alert in alerts:
                value: float | None = None
                if self.window_name and _kind(alert.rule) == BRIEF:
                    value = counted_value(histogram)
                elif self.window_name:
                    value = measure(alert.rule.metric, histogram, alert.rule.window_hours, self._read)
                results[alert.id] = self._result(alert.rule, value)
        for figure, alerts in figures.items():
            value = self._figures.value(figure, self._battles) if self._figures else None
            results |= {alert.id: self._result(alert.rule, value) for alert in alerts}
        return results

    def events_behind(self, rule: Rule) -> list[str]:
        """The ids of at most MOST_EVENTS events that a rule counts, those that matter most to its metric first."""
        if _kind(rule) in {BRIEF, STALENESS}:
            return []
        since, samples = self.aggregates.as_of - 60 * rule.window_hours, self.aggregates.samples
        ids = self.aggregates.ids(rule.key, self._sample_test(rule.unindexed))
        inside = [event_id for event_id in ids if since < samples[event_id].minute <= self.aggregates.as_of]
        return sorted(inside, key=lambda event_id: (*event_order(rule, samples[event_id]), event_id))[:MOST_EVENTS]

    def _sample_test(self, unindexed: EventFilter | None) -> SampleTest | None:
        if unindexed is None:
            return None
        entities = self._denoted.get(unindexed.entity or "", frozenset[str]())
        if unindexed == EventFilter(entity=unindexed.entity, relevance="all"):
            return lambda sample: not entities.isdisjoint(sample.entities)
        tests = event_tests(unindexed, entities)
        return lambda sample: sample.entry is not None and all(test(sample.entry) for test in tests)

    def _battles(self) -> list[Event]:
        since, as_of = self.aggregates.as_of - 60 * HOURS, self.aggregates.as_of
        samples = (self.aggregates.samples[event_id] for event_id in self.aggregates.ids(("Battles", None, None, True)))
        return [sample.entry.event for sample in samples if sample.entry and since < sample.minute <= as_of]

    def _result(self, rule: Rule, value: float | None) -> EvaluationResult:
        return EvaluationResult(value, rule.is_met(value), f"{self.window_name}:{value!r}")


def event_order(rule: Rule, sample: EventSample) -> tuple[float, float]:
    """The sort key of the events of a delivery: what the metric is about, then significance, largest first."""
    first = {"fatalities": sample.fatalities, "max_severity": SEVERITY[sample.severity_tier]}.get(rule.metric, 0)
    return -first, -sample.significance


def _staleness(alert: ActiveAlert, last_success: LastSuccess) -> EvaluationResult:
    """A source that never succeeded is as stale as the rule is old. A recording is never stale."""
    source = alert.rule.filters.source
    if source is None and last_success.is_recorded:
        return EvaluationResult(0, alert.rule.is_met(0), "recorded")
    since = last_success.feed if source is None else last_success.sources.get(source)
    since = alert.stated_at if since is None else since
    value = round(max(0.0, last_success.now - since) / 60, 1)
    # One outage is one state, whatever the value grows to.
    return EvaluationResult(value, alert.rule.is_met(value), f"since:{since:.0f}")


def _kind(rule: Rule) -> str:
    return BRIEF if rule.metric.startswith(BRIEF) else rule.metric


def _index_key(rule: Rule) -> Key | None:
    """The events whose changes affect the rule; every change affects rules on the brief."""
    return None if _kind(rule) in {BRIEF, STALENESS} else rule.key
