from datetime import UTC, date, datetime

import msgspec
import pytest

from tollhouse.services.defense.events.event import (
    EventRecord,
    Geo,
    reasons,
    severity_tier,
    significance,
    to_event,
    weigh,
)

RECORD = EventRecord(
    id="conflict_0123456789abcdef", title="Army shells town", title_basis="url",
    event_date=date(2019, 10, 24), category="Battles", subcategory="Armed clash", geo=Geo("Syria", "", 35.0, 38.0),
    country_code="SY", fatalities=0, fatalities_basis="not_reported", confidence=0.91234567, goldstein=-10.0,
    is_state_on_state=False, is_violent=True, relevance=0.5, source_urls=["https://example.org/a"], source_count=1,
    first_reported_at=datetime(2019, 10, 24, 14, 30, tzinfo=UTC),
    last_reported_at=datetime(2019, 10, 24, 14, 30, tzinfo=UTC), reasons={"category": "because"},
)  # fmt: skip

THRICE = msgspec.structs.replace(RECORD, source_count=3, story_id="story_1")


@pytest.mark.parametrize(
    ("goldstein", "deaths", "relevance", "publishers", "expected"),
    [
        (0.0, 0, 0.0, 0, 0.0),
        (-10.0, 0, 0.0, 0, 0.0),
        (-10.0, 0, 0.0, 1, 0.0793),
        (-10.0, 0, 0.0, 51, 0.8),
        (10.0, 0, 0.0, 0, 0.0),
        (0.0, 99, 0.0, 0, 0.35),
        (0.0, 0, 1.0, 0, 0.2),
        (0.0, 0, 0.0, 50, 0.45),
        (0.0, 0, 0.0, 5000, 0.45),
        (-5.0, 9, 0.5, 3, 0.4337),
        (-10.0, 50_000, 1.0, 5000, 1.0),
    ],
)
def test_significance_follows_its_formula(
    goldstein: float, deaths: int, relevance: float, publishers: int, expected: float
) -> None:
    assert weigh(goldstein, deaths, relevance, publishers) == expected


@pytest.mark.parametrize(
    ("changes", "publishers", "tier"),
    [
        ({"fatalities": 25}, 1, "critical"),
        ({"fatalities": 24}, 1, "high"),
        ({"fatalities": 5}, 1, "high"),
        ({"fatalities": 4}, 1, "low"),
        ({"is_state_on_state": True}, 3, "critical"),
        ({"is_state_on_state": True}, 2, "medium"),
        ({}, 3, "high"),
        ({}, 2, "medium"),
        ({}, 1, "low"),
        ({"category": "Protests"}, 9, "medium"),
        ({"category": "Protests", "is_violent": False}, 9, "low"),
        ({"category": "Political", "is_violent": False}, 9, "low"),
        ({"fatalities": 25, "confidence": 0.49}, 1, "medium"),
        ({"fatalities": 25, "confidence": 0.5}, 1, "critical"),
        ({"confidence": 0.4}, 1, "low"),
    ],
)
def test_severity_is_the_first_tier_whose_rule_holds(changes: dict[str, object], publishers: int, tier: str) -> None:
    record = msgspec.structs.replace(RECORD, source_count=publishers, **changes)
    assert severity_tier(record) == tier
    assert reasons(record)["severity_tier"].startswith(f"{tier}: ")


def test_event_carries_the_record_and_its_story() -> None:
    event = to_event(THRICE)
    assert (event.id, event.source_urls, event.story_id) == (RECORD.id, RECORD.source_urls, "story_1")
    assert event.metrics.significance == weigh(-10.0, 0, 0.5, 3)
    assert (event.metrics.severity_tier, event.metrics.confidence) == ("high", 0.9123)


def test_reasons_show_every_number_of_the_sum() -> None:
    why = reasons(THRICE)
    assert why["category"] == "because"
    assert why["significance"] == (
        "0.45 x 0.3526 (publishers 3) + 0.35 x 0.2794 (Goldstein value -10, deaths 0) + 0.20 x 0.5000 "
        "(relevance) = 0.3565"
    )


def test_code_of_one_report_does_not_outrank_more_publishers() -> None:
    single = msgspec.structs.replace(RECORD, relevance=0.9)
    twice = msgspec.structs.replace(single, goldstein=0.0, source_count=2)
    assert significance(single) < significance(twice)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({},
         "low: no deaths reported, category Battles (confidence 0.91), 1 publisher: no rule of a higher tier matches"),
        ({"fatalities": 1, "category": "Political"},
         "low: 1 death reported, category Political (confidence 0.91), 1 publisher: no rule of a higher tier matches"),
        ({"source_count": 3, "confidence": 0.52}, "high: category Battles (confidence 0.52), 3 publishers, 3 or more"),
        ({"source_count": 3, "is_state_on_state": True},
         "critical: coded as a strike between two states, 3 publishers, 3 or more"),
    ],
)  # fmt: skip
def test_severity_reason_states_what_is_reported(changes: dict[str, object], why: str) -> None:
    assert reasons(msgspec.structs.replace(RECORD, **changes))["severity_tier"] == why


def test_report_about_the_past_ranks_below_todays_and_says_why() -> None:
    past = msgspec.structs.replace(THRICE, is_retrospective=True, fatalities=40)
    today = msgspec.structs.replace(past, is_retrospective=False)
    assert significance(past) == round(significance(today) / 2, 4)
    assert reasons(past)["significance"].startswith("0.5 (it reports the past) x (")
    assert (severity_tier(today), severity_tier(past)) == ("critical", "medium")
