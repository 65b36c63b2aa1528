import json
from datetime import date
from typing import Any

import httpx2
import pytest

from tests.fakes.website import Answer, Asked, Reply, website
from tollhouse.download import UpstreamFailure
from tollhouse.services.defense.providers import acled
from tollhouse.services.defense.providers.acled import AcledAccount, acled_records, parse_acled

ACCOUNT = AcledAccount("operator@example.org", "s3cret")
SINCE, UNTIL = date(2026, 10, 1), date(2026, 10, 31)


def raw(**changes: Any) -> dict[str, Any]:
    """An event as the API answers: numbers are strings."""
    return {
        "event_id_cnty": "SUD12345",
        "event_date": "2026-10-03",
        "time_precision": "1",
        "country": "Sudan",
        "latitude": "13.6289",
        "longitude": "25.3493",
        "geo_precision": "1",
        "fatalities": "7",
        **changes,
    }


def reply(body: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def answering(events: Answer) -> Answer:
    def answer(asked: Asked) -> Reply:
        if asked.path == "/oauth/token":
            is_right = asked.form["password"] == "s3cret"
            return reply(
                {"token_type": "Bearer", "expires_in": 86400, "access_token": "t0ken"}, 200 if is_right else 401
            )
        return events(asked) if asked.headers.get("authorization") == "Bearer t0ken" else Reply(403)

    return answer


def page(*events: dict[str, Any]) -> Reply:
    return reply({"status": 200, "success": True, "count": len(events), "data": events})


async def asked_acled(events: Answer, account: AcledAccount = ACCOUNT):
    async with website(answering(events)) as site, httpx2.AsyncClient() as client:
        return await acled_records(client, account, SINCE, UNTIL, site=site.url + "/"), site.asked


async def failure_of(events: Answer, account: AcledAccount = ACCOUNT) -> UpstreamFailure:
    with pytest.raises(UpstreamFailure) as caught:
        await asked_acled(events, account)
    return caught.value


async def test_login_comes_first_and_its_token_opens_the_pages():
    _, asked = await asked_acled(lambda _: page())
    assert [request.method for request in asked] == ["POST", "GET"]
    assert asked[0].form == {
        "username": "operator@example.org",
        "password": "s3cret",
        "grant_type": "password",
        "client_id": "acled",
    }
    assert asked[1].query["event_date"] == "2026-10-01|2026-10-31"
    assert (asked[1].query["event_date_where"], asked[1].query["page"]) == ("BETWEEN", "1")


async def test_event_becomes_a_record_without_acleds_words():
    found, _ = await asked_acled(lambda _: page(raw(notes="Forces shelled the camp.", source="Radio Dabanga")))
    got = found.records[0]
    assert (got.provider, got.id, got.date, got.days, got.country) == ("acled", "SUD12345", date(2026, 10, 3), 1, "SD")
    assert (got.latitude, got.longitude, got.where_precision) == (13.6289, 25.3493, 1)
    assert (got.low, got.best, got.high) == (7, 7, 7)
    assert (got.headline, got.source_url) == ("", "")


async def test_only_the_needed_columns_are_asked_for():
    _, asked = await asked_acled(lambda _: page())
    assert "notes" not in asked[1].query["fields"]
    assert "fatalities" in asked[1].query["fields"]


async def test_pages_are_read_until_one_is_not_full(monkeypatch):
    monkeypatch.setattr(acled, "PAGE_SIZE", 2)
    pages = {"1": [raw(event_id_cnty="A1"), raw(event_id_cnty="A2")], "2": [raw(event_id_cnty="A3")]}
    found, asked = await asked_acled(lambda request: page(*pages[request.query["page"]]))
    assert [record.id for record in found.records] == ["A1", "A2", "A3"]
    assert len(asked) == 3


@pytest.mark.parametrize(("precision", "days", "where"), [("1", 1, 1), ("2", 7, 3), ("3", 30, 4), ("9", 30, 4)])
def test_rough_days_and_places_are_said_to_be_rough(precision, days, where):
    got = parse_acled([raw(time_precision=precision, geo_precision=precision)]).records[0]
    assert (got.days, got.where_precision) == (days, where)


@pytest.mark.parametrize(
    "changes",
    [
        {"country": "Atlantis"},
        {"fatalities": "-1"},
        {"fatalities": ""},
        {"latitude": "95"},
        {"event_date": "yesterday"},
    ],
)
def test_bad_event_is_counted_and_costs_itself_alone(changes):
    found = parse_acled([raw(**changes), raw()])
    assert (len(found.records), found.bad) == (1, 1)


async def test_wrong_password_is_denied_and_told_to_nobody():
    failure = await failure_of(lambda _: page(), AcledAccount("operator@example.org", "guess"))
    assert failure.failure == "denied"
    assert "guess" not in failure.detail + repr(AcledAccount("operator@example.org", "guess"))


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (Reply(403), "denied"),
        (Reply(503), "status"),
        (Reply(302, headers={"Location": "/login"}), "status"),
        (reply({"status": 403, "success": False, "data": []}), "status"),
        (reply({"message": "Access denied"}), "malformed"),
        (Reply(body=b"<html>"), "malformed"),
    ],
)
async def test_failing_provider_is_a_typed_failure(answer, failure):
    assert (await failure_of(lambda _: answer)).failure == failure
