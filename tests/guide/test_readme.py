"""The answers that README.md shows are those of the recording."""

import json
import re

import pytest

from tests.guide.documents import ROOT, blocks
from tests.guide.quick_starts import gone_through

TEXT = (ROOT / "README.md").read_text("utf-8")
COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*$", re.MULTILINE)
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


def test_every_command_runs_as_printed(start_server, tmp_path):
    """The lines with a prompt, in one shell, against a server at another port."""
    server = start_server()
    shells = [block.text for block in blocks(ROOT / "README.md") if block.text.startswith("$ ")]
    given = [line.removeprefix("$ ") for text in shells for line in COMMAND.findall(text)]
    assert len(given) == len([line for text in shells for line in text.splitlines() if line.startswith("$ ")]) == 7
    assert "…" not in "".join(given)
    text = "\n".join(["set -e", *(f"echo '----'\n{line}" for line in given)])
    made, kept, events, features, table, event, products = gone_through(
        text.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}"), tmp_path
    )
    assert (json.loads(made)["tier"], kept) == ("free", "")
    assert json.loads(events)["count"] == 1
    assert len(json.loads(features)["features"]) == len(table.splitlines()) - 1 == json.loads(events)["total"]
    assert json.loads(event)["provenance"]["reasons"]
    assert json.loads(products)["count"] == 2


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
