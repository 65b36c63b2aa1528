from datetime import UTC, date, datetime

import msgspec
import pytest

from tollhouse.services.defense.events.event import EventRecord, Geo
from tollhouse.services.defense.ingest.scores import reasons, severity_tier, significance, to_event

RECORD = EventRecord(
    id="conflict_0123456789abcdef", url="https://example.org/a", title="Army shells town", title_basis="url",
    event_date=date(2019, 10, 24), category="Battles", subcategory="Armed clash", geo=Geo("Syria", "", 35.0, 38.0),
    country_code="SY", fatalities=0, fatalities_basis="not_reported", confidence=0.91234567, goldstein=-10.0,
    is_state_on_state=False, is_violent=True, relevance=0.5, publishers=1,
    first_reported_at=datetime(2019, 10, 24, 14, 30, tzinfo=UTC),
    last_reported_at=datetime(2019, 10, 24, 14, 30, tzinfo=UTC), row_ids=["1"], reasons={"category": "because"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("goldstein", "deaths", "relevance", "publishers", "expected"),
    [
        (0.0, 0, 0.0, 0, 0.0),
        (-10.0, 0, 0.0, 0, 0.35),
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
    assert significance(goldstein, deaths, relevance, publishers) == expected


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
    record = msgspec.structs.replace(RECORD, **changes)
    assert severity_tier(record, publishers) == tier
    assert reasons(record, publishers)["severity_tier"].startswith(f"{tier}: ")


def test_event_carries_the_record_and_its_story() -> None:
    event = to_event(RECORD, 3, "story_1")
    assert (event.id, event.source_urls, event.story_id) == (RECORD.id, [RECORD.url], "story_1")
    assert event.metrics.significance == significance(-10.0, 0, 0.5, 3)
    assert (event.metrics.severity_tier, event.metrics.confidence) == ("high", 0.9123)


def test_reasons_show_every_number_of_the_sum() -> None:
    why = reasons(RECORD, 3)
    assert why["category"] == "because"
    assert why["significance"] == (
        "0.45 x 0.3526 (publishers 3) + 0.35 x 1.0000 (Goldstein value -10, deaths 0) + 0.20 x 0.5000 "
        "(defense relevance) = 0.6087"
    )
