import csv
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tests.fakes.website import Asked, Reply, website
from tollhouse.download import UpstreamFailure
from tollhouse.services.defense.events.event import EventRecord, FatalityRecord, Geo, kilometres, match_fatalities
from tollhouse.services.defense.providers.ucdp import parse_ucdp, ucdp_records

SAMPLE = Path(__file__).parents[2] / "data" / "ucdp_bangladesh.csv"
DAY = date(2026, 10, 3)


def raw(**changes: Any) -> dict[str, Any]:
    """An event with the fields that the API documents and we read, and some that we do not."""
    return {
        "id": 500001,
        "relid": "SUD-2026-1-1-1",
        "type_of_violence": 1,
        "country": "Sudan",
        "country_id": 625,
        "source_headline": "Shelling kills seven in El Fasher",
        "where_prec": 1,
        "latitude": 13.63,
        "longitude": 25.35,
        "date_prec": 1,
        "date_start": "2026-10-03T00:00:00",
        "date_end": "2026-10-03T00:00:00",
        "best": 7,
        "high": 9,
        "low": 5,
        **changes,
    }


def page(*events: dict[str, Any], pages: int = 1) -> Reply:
    body = {"TotalCount": 9, "TotalPages": pages, "PreviousPageUrl": "", "NextPageUrl": "", "Result": events}
    return Reply(body=json.dumps(body).encode(), headers={"Content-Type": "application/json"})


async def asked_ucdp(answer):
    async with website(answer) as site, httpx2.AsyncClient() as client:
        records = await ucdp_records(
            client, "a-token", "26.0.10", DAY, DAY + timedelta(days=30), api=site.url + "/api/"
        )
        return records, site.asked


async def failure_of(reply: Reply) -> UpstreamFailure:
    with pytest.raises(UpstreamFailure) as caught:
        await asked_ucdp(lambda _: reply)
    return caught.value


async def test_question_carries_token_release_and_days():
    _, asked = await asked_ucdp(lambda _: page())
    assert asked[0].path == "/api/gedevents/26.0.10"
    assert asked[0].headers["x-ucdp-access-token"] == "a-token"
    assert asked[0].query == {"pagesize": "1000", "page": "0", "StartDate": "2026-10-03", "EndDate": "2026-11-02"}


async def test_event_becomes_a_record():
    found, _ = await asked_ucdp(lambda _: page(raw()))
    assert found.bad == 0
    assert found.records == [
        FatalityRecord(
            provider="ucdp",
            id="500001",
            date=DAY,
            days=1,
            country="SD",
            latitude=13.63,
            longitude=25.35,
            best=7,
            high=9,
            low=5,
            headline="Shelling kills seven in El Fasher",
            where_precision=1,
            source_url="https://ucdp.uu.se/event/500001",
        )
    ]


async def test_every_page_is_read():
    found, asked = await asked_ucdp(lambda request: page(raw(id=int(request.query["page"])), pages=3))
    assert [record.id for record in found.records] == ["0", "1", "2"]
    assert len(asked) == 3


async def test_empty_page_ends_the_reading_whatever_the_count_says():
    _, asked = await asked_ucdp(lambda _: page(pages=10**6))
    assert len(asked) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"country": "Atlantis"},
        {"best": None},
        {"best": -1},
        {"best": 10},
        {"latitude": 91},
        {"latitude": "here"},
        {"date_start": "2026-10-04T00:00:00"},
        {"date_start": "long ago"},
        {"where_prec": ""},
    ],
)
async def test_bad_event_is_counted_and_costs_itself_alone(changes):
    found, _ = await asked_ucdp(lambda _: page(raw(**changes), raw(id=2)))
    assert ([record.id for record in found.records], found.bad) == (["2"], 1)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Myanmar (Burma)", "MM"),
        ("Russia (Soviet Union)", "RU"),
        ("DR Congo (Zaire)", "CD"),
        ("Yemen (North Yemen)", "YE"),
    ],
)
def test_names_with_their_former_ones_are_known(name, code):
    assert parse_ucdp([raw(country=name)]).records[0].country == code


def test_columns_of_the_published_files_are_read_too():
    rows = list(csv.DictReader(SAMPLE.read_text("utf-8").splitlines()))
    found = parse_ucdp(rows)
    # The second line of the file holds HXL tags.
    assert (len(found.records), found.bad) == (6, 1)
    assert {record.country for record in found.records} == {"BD"}
    assert [record.days for record in found.records] == [2, 1, 1, 1, 26, 1]


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        (Reply(401, body=b"API token required"), "denied"),
        (Reply(429, headers={"Retry-After": "60"}), "status"),
        (Reply(500), "status"),
        (Reply(302, headers={"Location": "https://elsewhere.example/"}), "status"),
        (Reply(body=b"<html>Maintenance</html>"), "malformed"),
        (Reply(body=b'{"Result": "none"}'), "malformed"),
        (Reply(body=b'{"TotalPages": 1}'), "malformed"),
        (Reply(body=b"{", headers={"Content-Length": str(10**10)}), "too-large"),
    ],
)
async def test_failing_provider_is_a_typed_failure(reply, failure):
    caught = await failure_of(reply)
    assert (caught.failure, caught.code, caught.status) == (failure, "upstream-unavailable", 502)
    assert "a-token" not in caught.detail


async def test_wish_to_be_asked_later_is_kept():
    assert (await failure_of(Reply(429, headers={"Retry-After": "60"}))).retry_after_seconds == 60


async def test_failure_of_a_later_page_fails_the_whole():
    def answer(asked: Asked) -> Reply:
        return page(raw(), pages=2) if asked.query["page"] == "0" else Reply(500)

    with pytest.raises(UpstreamFailure):
        await asked_ucdp(answer)


def event(**changes: Any) -> EventRecord:
    given = EventRecord(
        id="event_1",
        title="Shelling in El Fasher",
        title_basis="url",
        event_date=DAY,
        category="Battles",
        subcategory="Artillery",
        geo=Geo("Sudan", "North Darfur", 13.6289, 25.3493),
        country_code="SD",
        fatalities=0,
        fatalities_basis="not_reported",
        confidence=0.8,
        goldstein=-10.0,
        is_state_on_state=False,
        is_violent=True,
        relevance=0.5,
        source_urls=["https://example.org/a"],
        source_count=1,
        first_reported_at=datetime(2026, 10, 3, tzinfo=UTC),
        last_reported_at=datetime(2026, 10, 3, tzinfo=UTC),
        reasons={},
    )
    return msgspec.structs.replace(given, **changes)


def record(**changes: Any) -> FatalityRecord:
    return parse_ucdp([raw(**changes)]).records[0]


def test_event_finds_the_record_that_speaks_of_it():
    assert match_fatalities(event(), [record(id=1, latitude=15.5), record(id=2)]) == record(id=2)


@pytest.mark.parametrize(
    "changes",
    [
        {"country": "Chad"},
        {"date_start": "2026-10-05", "date_end": "2026-10-05"},
        {"date_start": "2026-10-01", "date_end": "2026-10-01"},
        {"date_start": "2026-10-01", "date_end": "2026-10-05"},
        {"latitude": 13.90},
        {"latitude": 14.10, "where_prec": 2},
        {"where_prec": 4},
        {"where_prec": 6},
    ],
    ids=["country", "later", "earlier", "long", "beside-the-place", "too-far", "province", "whole-country"],
)
def test_record_that_may_speak_of_something_else_is_not_taken(changes):
    assert match_fatalities(event(), [record(**changes)]) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"date_start": "2026-10-04", "date_end": "2026-10-04"},
        {"date_start": "2026-10-01", "date_end": "2026-10-02"},
        {"latitude": 13.90, "where_prec": 2},
    ],
)
def test_a_day_away_or_roughly_placed_still_fits(changes):
    assert match_fatalities(event(), [record(**changes)]) is not None


def test_two_records_that_fit_are_none():
    assert match_fatalities(event(), [record(id=1), record(id=2)]) is None
    assert match_fatalities(event(), [record(id=1), record(id=1)]) is not None


@pytest.mark.parametrize("changes", [{"is_violent": False}, {"geo": Geo("Sudan", "", 13.6289, 25.3493)}])
def test_event_without_violence_or_place_has_no_figure(changes):
    assert match_fatalities(event(**changes), [record()]) is None


def test_distance_is_that_of_the_globe():
    assert kilometres(52.52, 13.405, 48.8566, 2.3522) == pytest.approx(878, abs=2)
    assert kilometres(0, 179.9, 0, -179.9) == pytest.approx(22.2, abs=0.1)
    assert kilometres(90, 0, -90, 0) == pytest.approx(20015, abs=1)
