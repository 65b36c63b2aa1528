"""The answers that README.md shows are those of the recording."""

import json
import re

import pytest

from tests.guide.documents import ROOT

TEXT = (ROOT / "README.md").read_text("utf-8")
ASKED = "/feeds/events?country=et&category=Battles&limit=1"


@pytest.fixture(scope="module")
def answered(server, key):
    with server.client(key) as client:
        page = client.get(ASKED).json()
        (event,) = page["events"]
        return page, event, client.get(f"/feeds/events/{event['id']}").json()


def shown(after: str) -> str:
    """The answer that stands below a command, on one line."""
    return TEXT[TEXT.index(after) :].partition("```")[0].partition("\n")[2].replace("\n", "")


def test_first_request_is_answered_as_shown(answered):
    page, event, _ = answered
    answer = shown(ASKED.removeprefix("/feeds"))
    for name in ("id", "title", "event_date", "category", "subcategory", "geo", "fatalities", "metrics", "story_id"):
        assert f'"{name}":{_compact(event[name])}' in answer, name
    for name in ("count", "total", "as_of", "window_hours", "source", "stale", "next_cursor", "applied_filters"):
        assert f'"{name}":{_compact(page[name])}' in answer, name


def test_reasons_are_those_shown(answered):
    _, event, details = answered
    (significance,) = re.findall(r'"significance":"([^"]+)"', shown(f"events/{event['id']}"))
    assert details["provenance"]["reasons"]["significance"] == significance


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
