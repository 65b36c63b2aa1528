"""What rules come to by changes alone is what they would come to from scratch; and the figures themselves."""

import random
from itertools import product

import pytest

from tollhouse.services.defense.alerts.aggregates import BINS, Aggregates, EventSample, deviations, spike
from tollhouse.services.defense.alerts.evaluator import (
    MOST_EVENTS,
    ActiveAlert,
    EvaluationResult,
    Evaluator,
    LastNotification,
    LastSuccess,
    is_due,
)
from tollhouse.services.defense.alerts.rule import SEVERITY, AlertFilters, Rule
from tollhouse.services.defense.gazetteer import find_country

COUNTRIES = ("Ethiopia", "Kenya", "Sudan")
CATEGORIES = ("Battles", "Protests")
NOW = LastSuccess(0.0)
ALL_READ = [True] * BINS


def mark(chance, minute):
    return EventSample(
        category=chance.choice(CATEGORIES),
        country_code=find_country(chance.choice(COUNTRIES)).alpha2,
        severity_tier=chance.choice(list(SEVERITY)),
        fatalities=chance.choice([0, 0, 0, 1, 7]),
        significance=round(chance.random(), 4),
        minute=minute,
        entities=chance.choice([(), ("named_a",), ("named_b",)]),
        is_relevant=chance.random() < 0.8,
        entry=None,
    )


def some_rules(chance, number):
    metrics = ["event_count", "fatalities", "max_severity", "spike"]
    for index in range(number):
        filters = AlertFilters(
            category=chance.choice([None, *CATEGORIES]),
            country=chance.choice([None, *COUNTRIES]),
            entity=chance.choice([None, None, None, "entity_a", "entity_b"]),
            severity_tier=chance.choice([None, None, *SEVERITY]),
            relevance=chance.choice([None, None, "all"]),
        )
        operator, hours = chance.choice([">=", "<", "=="]), chance.choice([1, 2, 6, 23, 24])
        rule = Rule(chance.choice(metrics), filters, operator, chance.randint(0, 9), hours, 60)
        yield ActiveAlert(f"alert_{index}", 1, "", "", rule, 0.0)


def from_scratch(rule, marks, as_of, naming, read):
    """The value by going through every event."""
    filters = rule.filters

    def is_meant(one) -> bool:
        return (
            filters.category in {None, one.category}
            and (filters.country is None or find_country(filters.country).alpha2 == one.country_code)
            and filters.severity_tier in {None, one.severity_tier}
            and (filters.entity is None or not naming.get(filters.entity, frozenset()).isdisjoint(one.entities))
            and (filters.relevance == "all" or one.is_relevant)
        )

    def within(first, last) -> list[EventSample]:
        return [one for one in marks.values() if is_meant(one) and as_of - last < one.minute <= as_of - first]

    minutes = 60 * rule.window_hours
    here = within(0, minutes)
    if rule.metric == "event_count":
        return len(here)
    if rule.metric == "fatalities":
        return sum(one.fatalities for one in here)
    if rule.metric == "max_severity":
        return max((SEVERITY[one.severity_tier] for one in here), default=0)
    bins = 4 * rule.window_hours
    known = [sum(read[start : start + bins]) for start in range(0, BINS - bins + 1, bins)]
    before = [
        len(within(minutes * index, minutes * (index + 1))) * known[0] / share
        for index, share in enumerate(known)
        if index and share and share >= known[0] / 4
    ]
    return deviations(len(here), before) if known[0] else None


@pytest.mark.parametrize("seed", range(6))
def test_values_followed_by_change_are_those_from_scratch(seed):
    chance, evaluator = random.Random(seed), Evaluator()
    marks, naming, as_of, values = {}, {}, 1_000_000, {}
    for active in some_rules(chance, 60):
        evaluator.set_alert(active)
    for _ in range(40):
        as_of += 15 * chance.choice([0, 0, 1, 1, 4, 40])
        changed = {}
        for number in chance.sample(range(80), chance.randint(0, 8)):
            # Late reports come in too.
            changed[f"e{number}"] = mark(chance, as_of - 15 * chance.choice([0, 0, 0, 1, 5, 90, 150]))
        for number in chance.sample(range(80), chance.choice([0, 0, 2])):
            changed[f"e{number}"] = None
        for identity in [identity for identity, one in marks.items() if one.minute <= as_of - 48 * 60]:
            changed[identity] = None
        marks = {identity: one for identity, one in {**marks, **changed}.items() if one}
        if chance.random() < 0.3:
            names = [["named_a"], ["named_b"], [], ["named_a", "named_b"]]
            naming = {entity: frozenset(chance.choice(names)) for entity in ("entity_a", "entity_b")}
        if chance.random() < 0.2:
            for active in chance.sample(list(some_rules(chance, 60)), 5):
                evaluator.set_alert(active)
        read = [chance.random() < 0.8 for _ in range(BINS)] if chance.random() < 0.2 else [True] * BINS
        evaluator.apply(changed, as_of, str(as_of), read)
        evaluator.set_entities(naming)
        chosen, evaluator.affected = evaluator.affected, set()
        values |= {identity: verdict.value for identity, verdict in evaluator.evaluate(chosen, NOW).items()}
        expected = {
            identity: from_scratch(active.rule, marks, as_of, naming, read)
            for identity, active in evaluator.alerts.items()
        }
        assert values == expected
    assert any(values.values())


def test_change_touches_only_rules_that_could_count_it():
    chance, evaluator = random.Random(1), Evaluator()
    for category, country in product([None, *CATEGORIES], [None, *COUNTRIES]):
        rule = Rule("event_count", AlertFilters(category=category, country=country), ">=", 1, 24, 60)
        evaluator.set_alert(ActiveAlert(f"{category} {country}", 1, "", "", rule, 0.0))
    evaluator.affected = set()
    one = mark(chance, 1_000)
    one = EventSample(
        **{
            **{name: getattr(one, name) for name in one.__struct_fields__},
            "category": "Battles",
            "country_code": "KE",
            "is_relevant": True,
        }
    )
    evaluator.apply({"e1": one}, 1_000, "a", ALL_READ)
    assert evaluator.affected == {"None None", "Battles None", "None Kenya", "Battles Kenya"}


def test_delivery_holds_the_heaviest_twenty():
    chance, evaluator = random.Random(2), Evaluator()
    rule = Rule("fatalities", AlertFilters(), ">=", 1, 24, 60)
    evaluator.apply({f"e{number}": mark(chance, 10_000 - number) for number in range(200)}, 10_000, "a", ALL_READ)
    shown = evaluator.events_behind(rule)
    deaths = [evaluator.aggregates.samples[identity].fatalities for identity in shown]
    assert len(shown) == MOST_EVENTS
    assert deaths == sorted(deaths, reverse=True)
    assert deaths[0] == 7


def test_board_that_was_emptied_holds_nothing():
    chance, aggregates = random.Random(3), Aggregates()
    for number in range(50):
        aggregates.put(f"e{number}", mark(chance, number))
    for number in range(50):
        aggregates.put(f"e{number}", None)
    assert not aggregates.samples
    assert list(aggregates.ids((None, None, None, None))) == []
    assert sum(aggregates.histogram((None, None, None, None)).counts) == 0


@pytest.mark.parametrize(
    ("count", "before", "value"),
    [
        (5, [], None),
        (1, [0, 0, 0], 1.0),  # one event where there never is any is no spike
        (8, [0], 8.0),
        (12, [4], 2.83),  # (12 - 4) / sqrt(4 x 2): one window says little
        (12, [4] * 9, 3.79),
        (12, [4, 0, 9, 2, 14, 4, 6], 1.8),  # usual 4, median deviation 2... and chance is the larger
        (130, [100] * 4, 2.68),
        (1_300, [1_000] * 9, 3.0),  # news varies by a tenth
        (0, [100] * 4, -8.94),
    ],
)
def test_spike_is_told_in_deviations_from_the_usual(count, before, value):
    if before == [4, 0, 9, 2, 14, 4, 6]:
        value = round(8 / max(1.4826 * 2, (4 * (1 + 1 / 7)) ** 0.5), 2)
    assert deviations(count, before) == value


def test_spike_scales_windows_of_which_less_was_read():
    counts, read = [0] * BINS, [True] * BINS
    counts[:4] = [3, 3, 3, 3]
    counts[4:8], read[4:8] = [6, 0, 0, 0], [True, True, False, False]
    read[8:] = [False] * (BINS - 8)
    # Six in half an hour are twelve in an hour: nothing out of the usual.
    assert spike(counts, read, 1) == 0
    assert spike(counts, [False] * BINS, 1) is None
    assert spike(counts, [True] * 4 + [False] * (BINS - 4), 1) is None


RULE = Rule("event_count", AlertFilters(), ">=", 1, 24, 60)


@pytest.mark.parametrize(
    ("verdict", "told", "now", "due"),
    [
        (EvaluationResult(1, True, "a"), LastNotification(), 0.0, True),
        (EvaluationResult(0, False, "a"), LastNotification(), 0.0, False),
        (EvaluationResult(None, False, "a"), LastNotification(), 0.0, False),
        (EvaluationResult(1, True, "a"), LastNotification(0.0, "a"), 99_999.0, False),
        (EvaluationResult(1, True, "b"), LastNotification(0.0, "a"), 3_599.0, False),
        (EvaluationResult(1, True, "b"), LastNotification(0.0, "a"), 3_600.0, True),
    ],
)
def test_rule_is_due(verdict, told, now, due):
    assert is_due(RULE, verdict, told, now) is due
