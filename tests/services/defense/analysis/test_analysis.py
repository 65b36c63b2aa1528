"""Events counted by what callers ask, over HTTP: groups, filters, order, formats, bounds, saved queries."""

import csv
import io
from datetime import timedelta
from typing import Any

import pytest

from tests.services.defense.alerts.conftest import NOON, record
from tollhouse.services.defense.analysis import endpoints
from tollhouse.services.defense.events.event import to_event
from tollhouse.services.defense.events.pages import EventsPage, encode_page


async def analyse(house, **body: Any) -> dict[str, Any]:
    answer = await house.ask("POST", "/api/analysis", {"group_by": ["country"], **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def store_some(house):
    """Three battles in Ethiopia, a protest in Ethiopia and one in Kenya, and an old battle in Kenya."""
    old = NOON - timedelta(hours=30)
    await house.put(
        *(record(n, deaths=n, title=f"Drone strike {n}") for n in range(3)),
        record(3, category="Protests", confidence=0.3),
        record(4, country="Kenya", category="Protests", deaths=1),
    )
    await house.put(record(5, old, country="Kenya"), slot=old)


def figures(result, *names: str):
    return [tuple(group[name] for name in names) for group in result["groups"]]


@pytest.mark.both_databases
async def test_events_are_counted_by_country(house):
    await store_some(house)
    result = await analyse(house)
    assert figures(result, "country", "count", "fatalities") == [("Ethiopia", 4, 3), ("Kenya", 1, 1)]
    assert (result["events"], result["total_groups"], result["is_truncated"]) == (5, 2, False)
    assert (result["as_of"], result["hours"], result["source"]) == ("2026-03-10T12:00:00Z", 24, "live")


async def test_significance_is_added_up_averaged_and_its_most_is_told(house):
    await store_some(house)
    result = await analyse(house, filters={"category": "Battles"})
    significance = result["groups"][0]["significance"]
    # 0.45 ln 2 / ln 51 + 0.35 log10(1 + deaths) / 2 + 0.20 x 0.5 of each of the three.
    assert significance == {"sum": 0.6741, "mean": 0.2247, "max": 0.2628}


GROUPS = [
    (["category"], [("Battles", 3), ("Protests", 2)]),
    (["day"], [("2026-03-10", 5)]),
    (["country", "category"], [("Ethiopia", "Battles", 3), ("Ethiopia", "Protests", 1), ("Kenya", "Protests", 1)]),
    (["category", "country"], [("Battles", "Ethiopia", 3), ("Protests", "Ethiopia", 1), ("Protests", "Kenya", 1)]),
    (["entity"], []),
]


async def test_one_or_two_dimensions_group(house):
    await store_some(house)
    for group_by, expected in GROUPS:
        result = await analyse(house, group_by=group_by)
        assert figures(result, *group_by, "count") == expected, group_by
        assert result["group_by"] == group_by


@pytest.mark.both_databases
async def test_more_hours_reach_further_back(house):
    await store_some(house)
    result = await analyse(house, group_by=["day"], hours=48)
    assert figures(result, "day", "count") == [("2026-03-10", 5), ("2026-03-09", 1)]


@pytest.mark.both_databases
async def test_event_counts_for_every_entity_of_its_story(house):
    await store_some(house)
    nato = {"id": "entity_00000000000000aa", "name": "NATO", "aliases": []}
    abiy = {"id": "entity_00000000000000bb", "name": "Abiy Ahmed", "aliases": []}
    await house.tell_story(1, [record(0), record(1)], [nato, abiy])
    await house.tell_story(2, [record(4)], [nato])
    result = await analyse(house, group_by=["entity", "country"])
    assert figures(result, "entity", "entity_name", "country", "count") == [
        (nato["id"], "NATO", "Ethiopia", 2),
        (abiy["id"], "Abiy Ahmed", "Ethiopia", 2),
        (nato["id"], "NATO", "Kenya", 1),
    ]


FILTERS = [
    ({}, 5),
    ({"category": "Protests"}, 2),
    ({"country": "ken"}, 1),
    ({"severity_tier": "critical"}, 0),
    ({"min_confidence": 0.5}, 4),
    ({"q": "STRIKE drone"}, 3),
    ({"q": "…"}, 0),
    ({"bbox": [38, 8, 40, 10]}, 5),
    ({"bbox": [0, 0, 1, 1]}, 0),
    ({"region": "Tigray"}, 0),
    ({"since": "2026-03-10T11:59:59Z"}, 5),
    ({"since": "2026-03-10T12:00:00Z"}, 0),
    ({"category": "Battles", "country": "Ethiopia", "q": "2"}, 1),
]


async def test_filters_are_the_feeds(house):
    await store_some(house)
    for filters, events in FILTERS:
        result = await analyse(house, filters=filters)
        assert result["events"] == events, filters
        assert set(result["applied_filters"]) == set(filters)


async def test_order_is_as_asked_and_equals_go_by_their_groups(house):
    places = {"Kenya": 2, "Sudan": 2, "Egypt": 3, "Chad": 2}
    events = [
        record(f"{place}{n}", country=place, deaths=9 if place == "Chad" else 0)
        for place, number in places.items()
        for n in range(number)
    ]
    await house.put(*events)
    assert figures(await analyse(house), "country") == [("Egypt",), ("Chad",), ("Kenya",), ("Sudan",)]
    assert figures(await analyse(house, order_by="fatalities"), "country")[0] == ("Chad",)
    assert figures(await analyse(house, order_by="significance_max"), "country")[0] == ("Chad",)
    by_name = await analyse(house, order_by="group", limit=3)
    assert figures(by_name, "country") == [("Chad",), ("Egypt",), ("Kenya",)]
    assert (by_name["total_groups"], by_name["is_truncated"]) == (4, True)


async def test_csv_has_a_line_for_each_group(house):
    await store_some(house)
    body = {"group_by": ["country", "category"]}
    for path, headers in (("/api/analysis?format=csv", {}), ("/api/analysis", {"Accept": "text/csv"})):
        sent = {"Authorization": f"Bearer {house.key}", **headers}
        answer = await house.client.post(path, json=body, headers=sent)
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert list(rows[0]) == ["country", "category", "count", "fatalities", "significance_sum", "significance_mean",
                                 "significance_max"]  # fmt: skip
        assert [(row["country"], row["category"], row["count"]) for row in rows] == [
            ("Ethiopia", "Battles", "3"), ("Ethiopia", "Protests", "1"), ("Kenya", "Protests", "1")
        ]  # fmt: skip


async def test_no_csv_runs_a_formula_of_a_publisher(house):
    formula = '=HYPERLINK("https://evil.example","Open")'
    told = record(0, title=formula)
    await house.put(told)
    await house.tell_story(1, [told], [{"id": "entity_00000000000000aa", "name": formula, "aliases": []}])
    sent = {"Authorization": f"Bearer {house.key}", "Accept": "text/csv"}
    analysis = await house.client.post("/api/analysis", json={"group_by": ["entity"]}, headers=sent)
    (row,) = csv.DictReader(io.StringIO(analysis.text))
    assert row["entity_name"] == f"'{formula}"
    page = EventsPage(1, 1, "eq", "2026-01-31T08:00:00Z", 48, 1.0, "live", None, False, None, {}, [to_event(told)])
    (row,) = csv.DictReader(io.StringIO(encode_page(page, "text/csv").decode()))
    assert row["title"] == f"'{formula}"


BAD_MEMBERS = [
    ({"group_by": []}, "group_by"),
    ({"group_by": ["country", "day", "category"]}, "group_by"),
    ({"group_by": ["country", "country"]}, "group_by"),
    ({"group_by": ["colour"]}, "group_by"),
    ({"group_by": "country"}, "group_by"),
    ({"hours": 0}, "hours"),
    ({"hours": 169}, "hours"),
    ({"limit": 0}, "limit"),
    ({"limit": 1_001}, "limit"),
    ({"order_by": "luck"}, "order_by"),
    ({"filters": {"country": "Etiopia"}}, "filters.country"),
    ({"filters": {"category": "War"}}, "filters.category"),
    ({"filters": {"min_confidence": 2}}, "filters.min_confidence"),
    ({"filters": {"bbox": [0, 0, 1]}}, "filters.bbox"),
    ({"filters": {"since": "yesterday"}}, "filters.since"),
    ({"filters": {"limit": 3}}, "filters.limit"),
    ({"colour": "red"}, "colour"),
]


async def test_bad_member_is_named(house):
    for body, parameter in BAD_MEMBERS:
        for path, sent in (
            ("/api/analysis", {"group_by": ["country"], **body}),
            ("/api/analysis/queries", {"name": "x", "query": {"group_by": ["country"], **body}}),
        ):
            answer = await house.ask("POST", path, sent)
            assert answer.status_code == 400, (path, body)
            assert answer.json()["parameter"].removeprefix("query.") == parameter, (path, body)


async def test_work_is_bounded(house, monkeypatch):
    await store_some(house)
    monkeypatch.setattr(endpoints, "MOST_EVENTS", 3)
    answer = await house.ask("POST", "/api/analysis", {"group_by": ["country"]})
    assert (answer.status_code, answer.json()["parameter"]) == (400, "hours")
    monkeypatch.undo()
    monkeypatch.setattr(endpoints, "MOST_GROUPS", 1)
    answer = await house.ask("POST", "/api/analysis", {"group_by": ["country"]})
    assert (answer.status_code, answer.json()["parameter"]) == (400, "group_by")


async def test_new_events_change_the_answer(house):
    await store_some(house)
    assert (await analyse(house))["events"] == 5
    assert (await analyse(house))["events"] == 5
    await house.put(record(9))
    assert (await analyse(house))["events"] == 6


async def test_nothing_stored_is_an_upstream_failure(house):
    answer = await house.ask("POST", "/api/analysis", {"group_by": ["country"]})
    assert (answer.status_code, answer.json()["code"]) == (502, "upstream-unavailable")


@pytest.mark.both_databases
async def test_query_is_saved_listed_run_and_deleted(house):
    await store_some(house)
    query = {"group_by": ["category"], "filters": {"country": "ET"}, "order_by": "group"}
    saved = (await house.ask("POST", "/api/analysis/queries", {"name": "Ethiopia", "query": query})).json()
    assert saved["id"].startswith("query_")
    assert saved["query"]["group_by"] == ["category"]
    listed = (await house.ask("GET", "/api/analysis/queries")).json()
    assert (listed["queries"], listed["count"]) == ([saved], 1)
    run = await house.ask("POST", f"/api/analysis/queries/{saved['id']}/run")
    assert run.json() == await analyse(house, **query)
    as_csv = await house.ask("POST", f"/api/analysis/queries/{saved['id']}/run?format=csv")
    assert as_csv.text.startswith("category,count,")

    other = (await house.context.keys.create("bob@example.org", tier="enterprise")).text
    assert (await house.ask("GET", "/api/analysis/queries", key=other)).json()["count"] == 0
    assert (await house.ask("POST", f"/api/analysis/queries/{saved['id']}/run", key=other)).status_code == 404
    assert (await house.ask("DELETE", f"/api/analysis/queries/{saved['id']}", key=other)).status_code == 404
    gone = await house.ask("DELETE", f"/api/analysis/queries/{saved['id']}")
    assert gone.json() == {"deleted": True, "id": saved["id"]}
    assert (await house.ask("DELETE", f"/api/analysis/queries/{saved['id']}")).status_code == 404


@pytest.mark.both_databases
async def test_key_saves_a_bounded_number_of_queries(house, monkeypatch):
    monkeypatch.setattr(endpoints, "MOST_QUERIES_PER_KEY", 1)
    body = {"name": "x", "query": {"group_by": ["day"]}}
    assert (await house.ask("POST", "/api/analysis/queries", body)).status_code == 200
    answer = await house.ask("POST", "/api/analysis/queries", body)
    assert (answer.status_code, answer.json()["limit"]) == (400, 1)
