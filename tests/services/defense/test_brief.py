import json
from datetime import UTC, date, datetime

import msgspec

from tests.services.defense.served import count_events, survey
from tollhouse.services.defense.brief.brief import Day, Source, TopStory, build_brief
from tollhouse.services.defense.brief.live_events import WHOLE, Coverage
from tollhouse.services.defense.brief.production import bundled_lines
from tollhouse.services.defense.events.event import Event, Geo, Metrics

GENERATED = datetime(2026, 11, 21, 8, tzinfo=UTC)
AS_OF = datetime(2026, 11, 21, 7, 45, tzinfo=UTC)
PROVIDER = Source("The GDELT Project", "https://www.gdeltproject.org/", "free with citation", ["events_live"])
STORY = TopStory("story_1", "Rockets over the port", 12, 5, 0.7)


def battle(number):
    return Event(
        id=f"conflict_{number:016x}",
        title="Drones and missiles hit the port",
        event_date=date(2026, 11, 20),
        category="Battles",
        subcategory="Air strike",
        geo=Geo("Ukraine", "", 49.0, 32.0),
        fatalities=0,
        metrics=Metrics(0.5, "low", 0.9),
        source_urls=[],
        source_count=1,
        story_id=None,
        fatalities_basis="not_reported",
        title_basis="url",
    )


def day_of(as_of, window, previous, stories, coverage=WHOLE):
    counts, before = count_events(window), count_events(previous).by_category
    return Day(as_of, counts, before, survey(window), stories, PROVIDER, coverage)


def wire(day):
    return json.loads(msgspec.json.encode(build_brief(day, bundled_lines(), GENERATED)))


def test_brief_has_exactly_the_members_of_the_contract():
    brief = wire(day_of(AS_OF, [battle(n) for n in range(20)], [battle(99)], [STORY]))
    members = {
        "generated_at",
        "as_of",
        "production_summary",
        "events_live",
        "capability_gaps",
        "top_stories",
        "sources",
    }
    assert set(brief) == members
    assert (brief["generated_at"], brief["as_of"]) == ("2026-11-21T08:00:00Z", "2026-11-21T07:45:00Z")
    assert set(brief["production_summary"]["programs"][0]) >= {
        "name",
        "category",
        "value_b",
        "quantity",
        "trend",
        "source",
    }
    assert brief["events_live"]["battle_events_24h"] == 20
    assert brief["top_stories"][0]["id"] == "story_1"
    gap = {"area", "demand", "supply", "gap_score", "trend", "evidence", "explanation"}
    assert all(set(entry) >= gap for entry in brief["capability_gaps"])
    assert all(0 <= entry["gap_score"] <= 1 for entry in brief["capability_gaps"])


def test_brief_without_events_keeps_its_two_numbers():
    brief = wire(day_of(None, [], [], []))
    assert brief["as_of"] is None
    assert brief["production_summary"]["total_market_value_b"] == 72.275611
    assert brief["events_live"]["battle_events_24h"] == 0
    assert (brief["top_stories"], len(brief["capability_gaps"])) == ([], 11)


def test_every_null_has_a_reason_beside_it():
    brief = wire(day_of(None, [], [], []))
    assert unreasoned(brief["production_summary"]) == []
    assert unreasoned(brief["events_live"]) == ["/recording"], "it is no recording"
    assert unreasoned(brief["capability_gaps"]) == []


def test_same_inputs_give_the_same_brief():
    day = day_of(AS_OF, [battle(n) for n in range(30)], [], [])
    assert wire(day) == wire(day)


def test_sources_name_the_provider_and_the_exhibits():
    brief = wire(day_of(None, [], [], []))
    assert [source["name"][:9] for source in brief["sources"]] == ["The GDELT", "US Depart", "US Depart"]
    assert brief["events_live"]["provider"] == "The GDELT Project"
    assert all(source["licence"] and source["url"] and source["used_for"] for source in brief["sources"])


def test_unequal_coverage_reaches_the_counts():
    brief = wire(day_of(AS_OF, [battle(1)], [battle(2)], [], Coverage(0.18, 0.06)))
    assert "18%" in brief["events_live"]["change"]["Battles"]["reason"]


def unreasoned(node, path=""):
    """Paths of the nulls whose object says nothing of why; a reason may itself be null when nothing is."""
    if isinstance(node, list):
        return [found for place, item in enumerate(node) for found in unreasoned(item, f"{path}/{place}")]
    if not isinstance(node, dict):
        return []
    nulls = [name for name, value in node.items() if value is None and "reason" not in name]
    said = [value for name, value in node.items() if "reason" in name and value]
    silent = [f"{path}/{name}" for name in nulls if not said]
    return silent + [found for name, value in node.items() for found in unreasoned(value, f"{path}/{name}")]
