"""One event filter: every field is in the feed, alerts and analysis, and filters the same events in each.

The chat's questions test the same attributes of events.
"""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.services.defense.alerts.conftest import NOON, hook, house, record, rule, settings  # noqa: F401 - fixtures
from tollhouse.http.endpoint import JSON, Request
from tollhouse.questions.answering import Engine
from tollhouse.questions.execution import Tables
from tollhouse.questions.query import AllOf, Figure, Related, Rows, Test
from tollhouse.services.defense.brief.brief import BriefFeed
from tollhouse.services.defense.chat.dataset import FeedDataset
from tollhouse.services.defense.chat.snapshot import Snapshots
from tollhouse.services.defense.events.event import Geo
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.events.filter import FILTER_FIELDS, RULES
from tollhouse.services.defense.events.pages import EventsQuery
from tollhouse.services.defense.news.entity import Entity
from tollhouse.services.defense.news.feeds import NewsFeeds

ENTITY = {
    "id": "entity_00000000000000aa", "name": "NATO", "aliases": ["Atlantic Alliance"], "type": "organization",
    "mentions": 1, "source_count": 1, "first_seen": "2026-03-10T11:00:00Z", "last_seen": "2026-03-10T12:00:00Z",
    "story_ids": ["story_0000000000000001"], "related": [], "geo": None,
}  # fmt: skip
# A value for each field that one of the events `special` and `plain` passes.
VALUES: dict[str, Any] = {
    "category": "Protests",
    "country": "Kenya",
    "region": "nairobi",
    "severity_tier": "critical",
    "min_confidence": 0.8,
    "min_sources": 3,
    "bbox": [36.0, -2.0, 37.5, 0.0],
    "q": "drone strike",
    "since": "2026-03-10T11:30:00Z",
    "until": "2026-03-10T11:30:00Z",
    "entity": "Atlantic Alliance",
}


def special():
    return record(
        1, category="Protests", country="Kenya", geo=Geo("Kenya", "Nairobi", -1.3, 36.8), deaths=30, confidence=0.9,
        title="Drone strike reported",
    )  # fmt: skip


def plain():
    return record(2, NOON - timedelta(hours=1), confidence=0.5, title="Talks resume")


@pytest.fixture
async def stored(house):  # noqa: F811 - the fixture
    await house.put(special(), plain())
    await house.tell_story(1, [special()], [ENTITY], voices=4)
    return house


async def from_feed(stored, filters: dict[str, Any]) -> int:
    feed = EventsFeed(stored.database, recorded=None)
    await feed.refresh()
    query = msgspec.convert({**filters, **({"bbox": tuple(filters["bbox"])} if "bbox" in filters else {})}, EventsQuery)
    page = msgspec.json.decode((await feed.page(Request(query, None, {}, None, "", JSON))).body)
    assert set(page["applied_filters"]) == set(filters)
    return page["total"]


async def from_analysis(stored, filters: dict[str, Any]) -> int:
    answer = await stored.ask("POST", "/api/analysis", {"group_by": ["day"], "filters": filters})
    assert answer.status_code == 200, answer.text
    return answer.json()["events"]


async def from_alert(stored, filters: dict[str, Any]) -> int:
    alert = await stored.make("http://127.0.0.1:9999/hook", filters=filters, threshold=100)
    await stored.watch.run_once()
    body = {**rule(threshold=100), "filters": filters, "hours": 1}
    preview = (await stored.ask("POST", "/api/alerts/preview", body)).json()
    value = (await stored.alert(alert["id"]))["state"]["value"]
    assert preview["values"][-1]["value"] == value
    return value


async def dataset(stored) -> FeedDataset:
    events = EventsFeed(stored.database, recorded=None)
    await events.refresh()
    news = NewsFeeds(stored.database, events)
    feeds = Snapshots(stored.database, events, news, BriefFeed(stored.database, events, news))
    built = await feeds.present(Request(None, None, {}, None, "", JSON))
    return FeedDataset(replace(built.holdings, entities=[msgspec.convert(ENTITY, Entity)]))


# What the chat tests for each field of the filter.
CONDITIONS = {
    "category": Test("category", "is", ("Protests",)),
    "country": Test("country", "is", ("Kenya",)),
    "region": Test("region", "is", ("nairobi",)),
    "severity_tier": Test("severity", "is", ("critical",)),
    "min_confidence": Test("confidence", "at_least", (0.8,)),
    "min_sources": Test("publishers", "at_least", (3,)),
    "bbox": AllOf((Test("latitude", "at_least", (-2.0,)), Test("longitude", "at_most", (37.5,)))),
    "q": Test("text", "contains", ("drone strike",)),
    "since": Test("reported", "above", ("2026-03-10T11:30:00Z",)),
    "until": Test("reported", "at_most", ("2026-03-10T11:30:00Z",)),
    "entity": Related("names", outgoing=True, to=Test("id", "is", (ENTITY["id"],))),
}


async def from_chat(stored, filters: dict[str, Any]) -> float | None:
    where = AllOf(tuple(CONDITIONS[name] for name in filters))
    return Tables(await dataset(stored)).run(Figure(Rows("event", where))).value


def test_every_field_has_a_rule_and_a_value_here():
    assert set(FILTER_FIELDS) == {*VALUES, "relevance"} == {*RULES, "entity", "relevance"}


@pytest.mark.parametrize("count", [from_feed, from_analysis, from_alert, from_chat])
async def test_field_selects_the_same_event_everywhere(stored, count):
    assert await count(stored, {}) == 2
    counted = {name: await count(stored, {name: value}) for name, value in VALUES.items()}
    assert counted == dict.fromkeys(VALUES, 1)


@pytest.mark.parametrize("count", [from_feed, from_analysis, from_alert])
async def test_irrelevant_event_is_counted_on_request_only(stored, count):
    await stored.put(record(3, is_relevant=False))
    assert await count(stored, {}) == 2
    assert await count(stored, {"relevance": "all"}) == 3
    assert await count(stored, {"relevance": "all", "q": "number"}) == 1


async def test_every_field_is_in_the_descriptions_of_all_three(stored):
    schemas = (await stored.client.get("/api/openapi.json")).json()["components"]["schemas"]
    described = [
        schemas["AlertFilters"]["properties"],
        schemas["AnalysisFilters"]["properties"],
        msgspec.json.schema_components([EventsQuery])[1]["EventsQuery"]["properties"],
    ]
    for properties in described:
        assert set(FILTER_FIELDS) <= set(properties)


async def test_question_states_the_smallest_number_of_publishers(stored):
    engine = Engine(await dataset(stored))
    assert engine.answer("How many events were reported by at least 3 publishers?").value == 1
