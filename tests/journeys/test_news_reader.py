"""A reader of the news: stories, the entities they name and the brief, over the recording, through the front door."""

import re
from datetime import datetime
from math import log

import pytest

FORMULA = re.compile(
    r"(?:0\.5 \(it reports the past\) x \()?0\.45 x ([\d.]+) \(publishers (\d+)\) \+ 0\.35 x ([\d.]+) \(.*\)"
    r" \+ 0\.20 x ([\d.]+) \(\w+\)\)? = ([\d.]+)"
)
STORY = {
    "id", "title", "summary", "category", "countries", "first_seen", "last_seen", "article_count", "source_count",
    "sources", "articles", "entities", "event_ids", "significance", "tone",
}  # fmt: skip
ENTITY = {
    "id", "name", "type", "mentions", "source_count", "first_seen", "last_seen", "aliases", "story_ids", "related",
    "geo",
}  # fmt: skip
ARTICLE_FACTS = ("outlet_country", "event_id", "fatalities")
BRIEF = {
    "generated_at", "as_of", "production_summary", "events_live", "capability_gaps", "top_stories", "sources",
}  # fmt: skip
FEEDS = ("/feeds/events", "/feeds/stories", "/feeds/entities", "/feeds/defense-brief")


@pytest.fixture(scope="module")
def client(server, key):
    with server.client(key) as client:
        yield client


@pytest.fixture(scope="module")
def stories(client):
    return read_all(client, "stories")


@pytest.fixture(scope="module")
def entities(client):
    return read_all(client, "entities")


@pytest.fixture(scope="module")
def events(client):
    return read_all(client, "events")


@pytest.fixture(scope="module")
def brief(client):
    return client.get("/feeds/defense-brief").json()


def read_all(client, feed, **query: object):
    """Everything that a query finds, page by page; the total must not change on the way, and nothing comes twice."""
    found, totals, cursor = [], set(), None
    while True:
        given = {"limit": 100, **query, **({"cursor": cursor} if cursor else {})}
        answer = client.get(f"/feeds/{feed}", params=given)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert page["count"] == len(page[feed]) <= 100
        found += page[feed]
        totals.add(page["total"])
        cursor = page["next_cursor"]
        if cursor is None:
            assert totals == {len(found)}
            assert len(set(ids(found))) == len(found)
            return found


def ids(items):
    return [item["id"] for item in items]


def words(text):
    return set(re.findall(r"\w+", text.casefold()))


def test_pages_lead_through_every_story_once_most_significant_first(client, stories):
    assert len(stories) > 300
    assert [story["significance"] for story in stories] == sorted((s["significance"] for s in stories), reverse=True)
    first = client.get("/feeds/stories").json()
    assert ids(first["stories"]) == ids(stories[:20])
    assert (first["source"], first["as_of"], first["window_hours"]) == ("recorded", "2020-11-15T11:00:00Z", 24)
    assert (first["applied_filters"], first["stale"]) == ({}, False)


@pytest.mark.parametrize("limit", [1, 7, 99])
def test_pages_of_any_size_hold_the_same_stories_in_the_same_order(client, stories, limit):
    first = client.get("/feeds/stories", params={"limit": limit}).json()
    second = client.get("/feeds/stories", params={"limit": limit, "cursor": first["next_cursor"]}).json()
    assert ids(first["stories"] + second["stories"]) == ids(stories[: 2 * limit])


def test_every_story_has_exactly_the_contracts_fields(stories):
    for story in stories:
        assert set(story) == STORY
        assert re.fullmatch(r"story_[0-9a-f]{16}", story["id"])
        assert story["title"].strip()
        assert 0 <= story["significance"] <= 1
        assert story["article_count"] == len(story["articles"]) >= story["source_count"] >= 1
        assert set(story["sources"]) == {article["publisher"] for article in story["articles"]}
        published = [article["published"] for article in story["articles"]]
        assert published == sorted(published, reverse=True)
        assert (story["first_seen"], story["last_seen"]) == (published[-1], published[0])


def test_stories_with_several_sources_are_told_once(stories):
    told = [story for story in stories if story["source_count"] > 3]
    assert len(told) > 10
    articles = [article["url"] for story in stories for article in story["articles"]]
    assert len(articles) == len(set(articles))


@pytest.mark.parametrize("category", ["Battles", "Protests", "Political", "Economic"])
def test_category_keeps_its_own_stories_and_all_of_them(client, stories, category):
    meant = [story["id"] for story in stories if story["category"] == category]
    assert 0 < len(meant) < len(stories)
    assert ids(read_all(client, "stories", category=category)) == meant


@pytest.mark.parametrize("spelling", ["Ethiopia", "ethiopia", "ET", "ETH"])
def test_country_finds_the_stories_that_happen_there(client, stories, spelling):
    meant = [story["id"] for story in stories if "Ethiopia" in story["countries"]]
    assert 0 < len(meant) < len(stories)
    assert ids(read_all(client, "stories", country=spelling)) == meant


def test_words_must_all_stand_in_title_or_summary(client, stories):
    meant = [s["id"] for s in stories if {"gaza", "rocket"} <= words(f"{s['title']} {s['summary']}")]
    assert 0 < len(meant) < len(stories)
    assert ids(read_all(client, "stories", q="Rocket GAZA")) == meant
    assert read_all(client, "stories", q="zzzunheardof") == []


def test_since_leaves_out_what_has_nothing_newer(client, stories):
    meant = [story["id"] for story in stories if story["last_seen"] > "2020-11-15T10:00:00Z"]
    assert 0 < len(meant) < len(stories)
    assert ids(read_all(client, "stories", since="2020-11-15T10:00:00Z")) == meant
    assert ids(read_all(client, "stories", since="2020-11-15T12:00:00+02:00")) == meant


def test_filters_narrow_together_and_are_echoed(client, stories):
    given = {"category": "Battles", "country": "ET"}
    meant = [s["id"] for s in stories if s["category"] == "Battles" and "Ethiopia" in s["countries"]]
    assert meant
    assert ids(read_all(client, "stories", **given)) == meant
    assert client.get("/feeds/stories", params=given).json()["applied_filters"] == given


def test_unknown_country_is_told_its_near_matches(client):
    answer = client.get("/feeds/stories", params={"country": "Ethiopa"})
    assert answer.status_code == 400
    assert (answer.json()["code"], answer.json()["parameter"]) == ("invalid-parameter", "country")
    assert "Ethiopia" in answer.json()["allowed"]


@pytest.mark.parametrize(
    "wrong",
    ["stories?limit=0", "stories?limit=101", "stories?limit=many", "stories?category=battles", "stories?cursor=x",
     "stories?since=yesterday", "stories?since=2020-11-15T10:00:00", "stories?type=person", "entities?limit=0",
     "entities?limit=101", "entities?type=ship", "entities?cursor=1-zz", "entities?category=Battles"],
)  # fmt: skip
def test_malformed_parameter_is_refused_by_name(client, wrong):
    answer = client.get(f"/feeds/{wrong}")
    assert answer.status_code == 400, answer.text
    assert answer.json()["parameter"] == wrong.partition("?")[2].partition("=")[0]


@pytest.mark.parametrize("path", [*FEEDS, f"/feeds/stories/story_{'0' * 16}", f"/feeds/entities/entity_{'0' * 16}"])
def test_without_a_key_nothing_is_told(server, path):
    with server.client() as stranger:
        assert stranger.get(path).status_code == 401


@pytest.mark.parametrize(
    "path",
    [f"/feeds/stories/story_{'0' * 16}", f"/feeds/entities/entity_{'0' * 16}", "/feeds/stories/nonsense",
     "/feeds/entities/nonsense"],
)  # fmt: skip
def test_unknown_id_is_not_found(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json()["code"] == "not-found"


def test_story_is_the_same_alone_as_in_the_list(client, stories):
    for story in stories[:5]:
        alone = client.get(f"/feeds/stories/{story['id']}").json()
        more = {name: alone.pop(name) for name in ("succeeds", "events", "named", "related_stories", "reasons")}
        reports = [{name: article.pop(name) for name in (*ARTICLE_FACTS,)} for article in alone["articles"]]
        assert alone == story
        assert more["succeeds"] is None
        assert set(ids(more["events"])) == set(story["event_ids"])
        assert {report["event_id"] for report in reports} <= {None, *story["event_ids"]}
        assert ids(more["named"]) == [one for one in story["entities"] if one in ids(more["named"])] != []
        assert story["id"] not in ids(more["related_stories"])
        assert all(related["shared"] for related in more["related_stories"])


def test_event_names_its_entities_and_what_is_related(client, events, stories):
    toll = next(event for event in events if event["fatalities_basis"] == "headline" and event["source_count"] > 5)
    shown = client.get(f"/feeds/events/{toll['id']}").json()
    assert toll["fatalities"] in [report["fatalities"] for report in shown["timeline"]]
    assert {report["outlet_country"] for report in shown["timeline"]} > {None, "United States"}
    assert shown["named"]
    told = {story["id"]: story for story in stories}
    for other in shown["related"]:
        assert other["shared"] or other["same_story"]
        assert other["same_story"] == (other["id"] in told[toll["story_id"]]["event_ids"])


def test_every_event_is_told_by_the_story_it_names(client, events, stories):
    told = {story["id"]: story for story in stories}
    assert len(events) > 250
    for event in events:
        assert event["id"] in told[event["story_id"]]["event_ids"]
    tellings = [identity for story in stories for identity in story["event_ids"]]
    assert len(tellings) == len(set(tellings))
    for event in events[:10]:
        alone = client.get(f"/feeds/stories/{event['story_id']}").json()
        assert event["id"] in alone["event_ids"]
        assert not set(event["source_urls"]).isdisjoint(article["url"] for article in alone["articles"])


def test_significance_counts_the_independent_publishers_of_the_event(client, events):
    middle = events[len(events) // 2]
    assert events[0]["source_count"] > events[-1]["source_count"]
    for event in (*events[:10], middle, events[-1]):
        shown = client.get(f"/feeds/events/{event['id']}").json()
        found = FORMULA.fullmatch(shown["provenance"]["reasons"]["significance"])
        assert found, shown["provenance"]["reasons"]["significance"]
        publishers = int(found[2])
        reach, harm, relevance, score = (float(found[number]) for number in (1, 3, 4, 5))
        assert publishers == event["source_count"]
        assert reach == pytest.approx(min(1, log(1 + publishers) / log(51)), abs=5e-5)
        factor = 0.5 if shown["provenance"]["is_retrospective"] else 1
        assert score == pytest.approx(factor * (0.45 * reach + 0.35 * harm + 0.20 * relevance), abs=1.1e-4)
        assert event["metrics"]["significance"] == shown["metrics"]["significance"] == score


def test_story_is_as_significant_as_its_most_significant_event_by_its_own_sources(client, stories, events):
    score = {event["id"]: event["metrics"]["significance"] for event in events}
    sources = {event["id"]: event["source_count"] for event in events}
    # A story remembers events of 36 hours, the events feed those of 24.
    whole = [story for story in stories if story["event_ids"] and set(story["event_ids"]) <= set(score)]
    assert len(whole) > 100
    for story in whole:
        most = max(score[identity] for identity in story["event_ids"])
        is_spread = any(sources[identity] > story["source_count"] for identity in story["event_ids"])
        assert story["significance"] <= most if is_spread else story["significance"] == most
    for story in whole[:10]:
        reason = client.get(f"/feeds/stories/{story['id']}").json()["reasons"]["significance"]
        assert reason.endswith(f"= {story['significance']:.4f}")


def test_pages_lead_through_every_entity_once_most_mentioned_first(client, entities):
    assert len(entities) > 150
    assert [it["mentions"] for it in entities] == sorted((it["mentions"] for it in entities), reverse=True)
    assert ids(client.get("/feeds/entities").json()["entities"]) == ids(entities[:20])


def test_every_entity_has_exactly_the_contracts_fields(entities):
    for entity in entities:
        assert set(entity) == ENTITY
        assert re.fullmatch(r"entity_[0-9a-f]{16}", entity["id"])
        assert entity["type"] in {"person", "organization", "location", "platform"}
        assert entity["mentions"] >= entity["source_count"] >= 1
        assert entity["first_seen"] <= entity["last_seen"] <= "2020-11-15T11:00:00Z"
        assert entity["name"] not in entity["aliases"]
        assert entity["geo"] is None or entity["type"] == "location"


@pytest.mark.parametrize("kind", ["person", "organization", "location"])
def test_type_keeps_its_own_entities_and_all_of_them(client, entities, kind):
    meant = [entity["id"] for entity in entities if entity["type"] == kind]
    assert 0 < len(meant) < len(entities)
    assert ids(read_all(client, "entities", type=kind)) == meant


def test_entity_is_found_by_its_name_or_by_one_alias(client, entities):
    meant = [it["id"] for it in entities if any("biden" in words(name) for name in (it["name"], *it["aliases"]))]
    assert meant
    assert ids(read_all(client, "entities", q="BIDEN")) == meant
    assert "Joe Biden" in [it["name"] for it in read_all(client, "entities", q="joe biden")]


def test_surname_alone_means_the_person_everybody_names_in_full(entities):
    people = {entity["name"]: entity for entity in entities if entity["type"] == "person"}
    assert "Biden" in people["Joe Biden"]["aliases"]
    assert "Biden" not in people
    assert people["Joe Biden"]["mentions"] > 10


def test_entity_alone_is_as_in_the_list_and_leads_to_its_stories(client, entities, stories):
    told = {story["id"]: story for story in stories}
    for entity in entities[:5]:
        alone = client.get(f"/feeds/entities/{entity['id']}").json()
        more = {name: alone.pop(name) for name in ("succeeds", "stories", "timeline")}
        assert alone == entity
        assert ids(more["stories"]) == [one for one in entity["story_ids"] if one in told]
        hours = more["timeline"]["hours"]
        assert sum(hour["mentions"] or 0 for hour in hours) == entity["mentions"]
        assert {hour["mentions"] is None for hour in hours} == {True, False}
        assert all((hour["mentions"] is None) == (hour["coverage"] == 0) for hour in hours)
        assert ids(more["timeline"]["related"]) == ids(entity["related"])
        for other in more["timeline"]["related"]:
            assert 0 <= sum(count or 0 for count in other["mentions"]) == other["total"] <= entity["mentions"]
        assert entity["story_ids"]
        assert any(entity["id"] in told[identity]["entities"] for identity in entity["story_ids"] if identity in told)


def test_related_entities_lead_to_each_other(client, entities):
    near = next(entity for entity in entities if entity["name"] == "Ethiopia")["related"]
    assert "Tigray" in [entity["name"] for entity in near]
    for other in near:
        assert 0 < other["weight"] <= 1
        assert client.get(f"/feeds/entities/{other['id']}").json()["name"] == other["name"]


def test_known_place_lies_where_it_lies(entities):
    israel = next(it for it in entities if it["name"] == "Israel")
    assert israel["geo"]["latitude"] == pytest.approx(31.5, abs=1)
    assert israel["geo"]["longitude"] == pytest.approx(34.75, abs=1)


def test_brief_has_the_contracts_members(brief, stories):
    assert set(brief) == BRIEF
    assert brief["as_of"] == "2020-11-15T11:00:00Z"
    total = brief["production_summary"]["total_market_value_b"]
    assert isinstance(total, float)
    assert total > 0
    assert {"basis", "fiscal_year", "programs"} <= set(brief["production_summary"])
    for gap in brief["capability_gaps"]:
        assert {"area", "demand", "supply", "gap_score", "trend", "evidence", "explanation"} <= set(gap)
        assert gap["gap_score"] is None or 0 <= gap["gap_score"] <= 1
    assert brief["capability_gaps"]
    assert ids(brief["top_stories"]) == ids(stories[: len(brief["top_stories"])])
    assert brief["top_stories"]


def test_brief_counts_the_events_of_the_feed(brief, events):
    live = brief["events_live"]
    assert type(live["battle_events_24h"]) is int
    assert live["battle_events_24h"] == sum(event["category"] == "Battles" for event in events) > 0
    assert live["events_24h"] == len(events)
    for category, count in live["by_category"].items():
        assert count == sum(event["category"] == category for event in events)
    for tier, count in live["by_severity"].items():
        assert count == sum(event["metrics"]["severity_tier"] == tier for event in events)
    assert live["by_country"]["Ethiopia"] == sum(event["geo"]["country"] == "Ethiopia" for event in events)


def test_unchanged_brief_is_not_sent_again(client):
    first = client.get("/feeds/defense-brief")
    again = client.get("/feeds/defense-brief", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = client.get("/feeds/defense-brief", headers={"If-None-Match": 'W/"another"'})
    assert (other.status_code, other.content) == (200, first.content)
    assert datetime.fromisoformat(first.json()["generated_at"]).tzinfo is not None


@pytest.mark.parametrize("path", FEEDS)
def test_each_feed_uses_one_request_of_the_plan(server, path):
    key = server.new_key(f"meter-{path.rpartition('/')[2]}@example.org")["api_key"]
    assert server.used(key)["day"]["used"] == 0
    with server.client(key) as client:
        for used in (1, 2):
            assert client.get(path).status_code == 200
            assert server.used(key)["day"]["used"] == used
