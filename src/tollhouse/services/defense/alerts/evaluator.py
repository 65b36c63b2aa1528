"""Every rule in memory beside the board: which ones a change can touch, and what they come to."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from tollhouse.services.defense.alerts.aggregates import Board, Cell, keys_of
from tollhouse.services.defense.alerts.brief_figures import (
    HOURS,
    BriefFigures,
    counted_key,
    counted_value,
    figure_of,
)
from tollhouse.services.defense.alerts.evaluation_result import Verdict
from tollhouse.services.defense.alerts.event_samples import Mark
from tollhouse.services.defense.alerts.metrics import BINS, Histogram, measured
from tollhouse.services.defense.alerts.rule import BRIEF, SEVERITY, STALENESS, Key, Rule
from tollhouse.services.defense.brief.production import Line
from tollhouse.services.defense.events.event import Event

MOST_EVENTS = 20


class Ages(Struct, frozen=True):
    """Since when nothing new has come, in seconds since 1970: from the feed's provider, and from each source.

    `feed` is None where nothing ever came, `is_recorded` where nothing is to come.
    """

    now: float
    feed: float | None = None
    sources: Mapping[str, float | None] = {}
    is_recorded: bool = False


class Active(Struct, frozen=True):
    """An alert as it is evaluated. `stated_at` is when its criterion was last changed, in seconds since 1970."""

    id: str
    version: int
    name: str
    endpoint_id: str
    rule: Rule
    stated_at: float


class Evaluator:
    """Rules by id, and those of them that were touched since they were last evaluated."""

    def __init__(self) -> None:
        self.board = Board()
        self.rules: dict[str, Active] = {}
        self.touched: set[str] = set()
        self._read: Sequence[bool] = [True] * BINS
        self.window_name = ""
        self._by_key: dict[Key, set[str]] = {}
        self._by_entity: dict[str, set[str]] = {}
        self._hours: Counter[int] = Counter()
        self._of_kind: dict[str, set[str]] = {"spike": set(), BRIEF: set(), STALENESS: set()}
        self._naming: dict[str, frozenset[str]] = {}
        self._figures: BriefFigures | None = None

    def set_rule(self, active: Active) -> None:
        """Take a rule in, new or changed."""
        self.drop_rule(active.id)
        self.rules[active.id] = active
        self.touched.add(active.id)
        rule = active.rule
        if (key := _indexed(rule)) is not None:
            self._by_key.setdefault(key, set()).add(active.id)
        self._hours[rule.window_hours] += 1
        if rule.filters.entity:
            self._by_entity.setdefault(rule.filters.entity, set()).add(active.id)
        if (kind := _kind(rule)) in self._of_kind:
            self._of_kind[kind].add(active.id)

    def drop_rule(self, identity: str) -> None:
        """Forget a rule."""
        self.touched.discard(identity)
        active = self.rules.pop(identity, None)
        if active is None:
            return
        rule = active.rule
        if (key := _indexed(rule)) is not None:
            self._by_key[key].discard(identity)
        self._hours[rule.window_hours] -= 1
        if rule.filters.entity:
            self._by_entity[rule.filters.entity].discard(identity)
            if not self._by_entity[rule.filters.entity]:
                del self._by_entity[rule.filters.entity]
        if (kind := _kind(rule)) in self._of_kind:
            self._of_kind[kind].discard(identity)

    @property
    def entities(self) -> Collection[str]:
        """The entities that rules name."""
        return self._by_entity.keys()

    def of_kind(self, kind: str) -> set[str]:
        """The rules on `spike`, BRIEF or STALENESS."""
        return self._of_kind[kind]

    def take(self, changed: Mapping[str, Mark | None], as_of: int, window_name: str, read: Sequence[bool]) -> None:
        """Take in what changed, None for an event that left.

        Windows end at the minute `as_of`; `read` are the quarters of an hour before it that the provider was read in.
        """
        is_later = window_name != self.window_name
        if is_later or read != self._read:
            self.touched |= self._of_kind["spike"]
            self._read = read
        cells: set[Cell] = set()
        if is_later:
            hours = [hours for hours, rules in self._hours.items() if rules]
            cells |= self.board.move(as_of, hours)
            self.window_name = window_name
        for identity, mark in changed.items():
            cells |= self.board.put(identity, mark)
        for key in {key for cell in cells for key in keys_of(cell)}:
            self.touched |= self._by_key.get(key, set())
        if is_later or changed:
            self.touched |= self._of_kind[BRIEF]

    def name_stories(self, naming: Mapping[str, frozenset[str]]) -> None:
        """Say which stories name each entity that rules name."""
        for entity, stories in naming.items():
            if stories != self._naming.get(entity):
                self.touched |= self._by_entity.get(entity, set())
        self._naming = dict(naming)

    def take_lines(self, lines: Sequence[Line]) -> None:
        """Take in other procurement lines for the brief."""
        self._figures = BriefFigures(lines)
        self.touched |= self._of_kind[BRIEF]

    def evaluated(self, chosen: Iterable[str], ages: Ages) -> dict[str, Verdict]:
        """What these rules come to now."""
        verdicts: dict[str, Verdict] = {}
        counted: dict[tuple[Key, str | None], list[Active]] = {}
        figures: dict[str, list[Active]] = {}
        for active in (self.rules[identity] for identity in chosen if identity in self.rules):
            rule = active.rule
            key = _counted(rule)
            if rule.metric == STALENESS:
                verdicts[active.id] = _stale(active, ages)
            elif key is None:
                figures.setdefault(figure_of(rule.metric), []).append(active)
            else:
                counted.setdefault((key, rule.filters.entity), []).append(active)
        for (key, entity), rules in counted.items():
            histogram = self.board.histogram(key, self._stories(entity))
            verdicts |= {active.id: self._verdict(active.rule, self._value(active.rule, histogram)) for active in rules}
        for figure, rules in figures.items():
            value = self._figures.value(figure, self._battles) if self._figures else None
            verdicts |= {active.id: self._verdict(active.rule, value) for active in rules}
        return verdicts

    def telling(self, rule: Rule) -> list[str]:
        """The ids of at most MOST_EVENTS of the events a rule was measured by, those that weigh most in it first."""
        if _kind(rule) in {BRIEF, STALENESS}:
            return []
        since = self.board.as_of - 60 * rule.window_hours
        marks = self.board.marks
        found = self.board.ids(rule.key, self._stories(rule.filters.entity))
        meant = [identity for identity in found if since < marks[identity].minute <= self.board.as_of]
        return sorted(meant, key=lambda identity: (*weight(rule, marks[identity]), identity))[:MOST_EVENTS]

    def _stories(self, entity: str | None) -> frozenset[str] | None:
        return None if entity is None else self._naming.get(entity, frozenset())

    def _value(self, rule: Rule, histogram: Histogram) -> float | None:
        if not self.window_name:
            return None
        if _kind(rule) == BRIEF:
            return counted_value(histogram)
        return measured(rule.metric, histogram, rule.window_hours, self._read)

    def _battles(self) -> list[Event]:
        since = self.board.as_of - 60 * HOURS
        marks = (self.board.marks[identity] for identity in self.board.ids(("Battles", None, None), None))
        return [mark.battle for mark in marks if mark.battle and since < mark.minute <= self.board.as_of]

    def _verdict(self, rule: Rule, value: float | None) -> Verdict:
        return Verdict(value, rule.is_met(value), f"{self.window_name}:{value!r}")


def weight(rule: Rule, mark: Mark) -> tuple[float, float]:
    """What orders the events of a delivery: what the metric is about, then significance; the heaviest first."""
    first = {"fatalities": mark.fatalities, "max_severity": SEVERITY[mark.severity_tier]}.get(rule.metric, 0)
    return -first, -mark.significance


def _stale(active: Active, ages: Ages) -> Verdict:
    """A source that never answered is as stale as the rule is old; a recording does not age."""
    source = active.rule.filters.source
    if source is None and ages.is_recorded:
        return Verdict(0, active.rule.is_met(0), "recorded")
    since = ages.feed if source is None else ages.sources.get(source)
    since = active.stated_at if since is None else since
    value = round(max(0.0, ages.now - since) / 60, 1)
    # Whatever the value grows to, one outage is one state.
    return Verdict(value, active.rule.is_met(value), f"since:{since:.0f}")


def _kind(rule: Rule) -> str:
    return BRIEF if rule.metric.startswith(BRIEF) else rule.metric


def _counted(rule: Rule) -> Key | None:
    """The events that a rule counts, None where it counts none."""
    if rule.metric == STALENESS:
        return None
    return counted_key(figure_of(rule.metric)) if _kind(rule) == BRIEF else rule.key


def _indexed(rule: Rule) -> Key | None:
    """The events whose changes touch the rule; figures of the brief are touched by every change."""
    return None if _kind(rule) in {BRIEF, STALENESS} else rule.key
