"""News of a live server: pages' own titles, publishers' feeds and counted deaths, each from a fake over real HTTP."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tests.fakes.gdelt import fake_gdelt, recent_slots
from tests.fakes.website import Reply, background_website
from tests.journeys.server import Server, poll
from tollhouse.services.defense.events.report import event_id

POLL_SECONDS = 0.2
# Of the recording's 21st file: a page whose address has no words, and a battle with a place below the country.
NUMBER = 20
WORDLESS = "http://www.chinadaily.com.cn/a/202011/15/WS5fb0a376a31024ad0ba941f4.html"
BATTLE = "https://www.aljazeera.com/news/rockets-fired-from-ethiopias-tigray-region-hit-eritrean-capital"
TITLE = "Afghan army and Taliban to talk about a ceasefire"
UNTOLD = "https://www.dispatch.example/4711"


@pytest.fixture
def gdelt():
    with fake_gdelt() as provider:
        yield provider


@pytest.fixture
def live(start_server, gdelt, tmp_path):
    """A function that starts a server which follows the fake provider and what else the settings name."""
    started = []

    def start(**settings: object) -> Server:
        following = {"recorded": "false", "gdelt_url": gdelt.url, "gdelt_poll_seconds": POLL_SECONDS, **settings}
        started.append(start_server(home=tmp_path / "live", is_recorded=False, **following))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def slot():
    return recent_slots(1)[0]


def reader(server):
    return server.client(server.operators_key("--tier", "enterprise", "--per-minute", 100_000))


def event_of(client, url):
    """The event of a page once it is told by a story."""
    event = client.get(f"/feeds/events/{event_id(url)}").json()
    return event if event.get("story_id") else None


def story_with(client, url, **query: object):
    """The story that holds a page."""
    for story in client.get("/feeds/stories", params={"limit": 100, **query}).json()["stories"]:
        if url in [article["url"] for article in story["articles"]]:
            return story
    return None


def source(server, name):
    return next((found for found in server.health()["sources"] if found["name"].startswith(name)), None)


def rss(*items: tuple[str, str]) -> Reply:
    now = format_datetime(datetime.now(UTC) - timedelta(minutes=1))
    entries = "".join(
        f"<item><title>{title}</title><link>{link}</link><pubDate>{now}</pubDate></item>" for title, link in items
    )
    body = f"<rss version='2.0'><channel><title>Dispatch</title>{entries}</channel></rss>"
    return Reply(body=body.encode(), headers={"Content-Type": "application/rss+xml"})


def test_pages_own_titles_become_those_of_events_and_stories(live, gdelt, slot):
    gdelt.publish_pages(slot, {WORDLESS: TITLE.replace(" to ", " &amp; "), UNTOLD: "Navy missile frigate sails",
                               "https://www.dispatch.example/hair": "Singer shows off her hair"})  # fmt: skip
    gdelt.publish(slot, NUMBER)
    with reader(live()) as client:
        event = poll(lambda: event_of(client, WORDLESS), 30)
        assert (event["title"], event["title_basis"]) == (TITLE.replace(" to ", " & "), "page")
        assert event["provenance"]["reasons"]["title"] == "the page's own title"
        assert client.get(f"/feeds/stories/{event['story_id']}").json()["title"] == event["title"]
        # The page itself is taken in after the events, so its tone may come a second later.
        poll(lambda: client.get(f"/feeds/stories/{event['story_id']}").json()["tone"] == -3.5)
        other = poll(lambda: event_of(client, BATTLE), 30)
        assert other["title_basis"] == "url"
        alone = poll(lambda: story_with(client, UNTOLD, q="frigate"))
        assert (alone["event_ids"], alone["category"]) == ([], None)
        assert client.get("/feeds/stories", params={"q": "singer"}).json()["total"] == 0


def test_pages_of_another_md5_are_left_out_and_stop_no_event(live, gdelt, slot):
    gdelt.publish_pages(slot, {WORDLESS: TITLE}, md5="0" * 32)
    gdelt.publish(slot, NUMBER)
    server = live()
    with reader(server) as client:
        event = poll(lambda: event_of(client, WORDLESS), 30)
        assert event["title"] != TITLE
        assert event["title_basis"] == "url"
        assert client.get("/feeds/stories", params={"q": "Taliban ceasefire"}).json()["total"] == 0
    assert gdelt.asked(f"{slot}.gkg.csv.zip")
    assert source(server, "gdelt")["status"] == "ok"


def test_feeds_become_stories_and_a_broken_one_stops_nobody(live, gdelt, slot):
    same = "https://www.dispatch.example/tigray"
    answers = {
        "/news.xml": rss(("Rockets fired from Ethiopia's Tigray region hit the Eritrean capital", same),
                         ("Submarine Idaho christened at Groton shipyard", UNTOLD)),
        "/broken.xml": Reply(body=b"We are moving house."),
        "/gone.xml": Reply(status=410),
    }  # fmt: skip
    with background_website(lambda asked: answers[asked.path]) as site:
        feeds = [f"{site.url}{path}" for path in ("/broken.xml", "/gone.xml", "/news.xml")]
        server = live(feeds=",".join(feeds), feed_interval_seconds=1)
        with reader(server) as client:
            assert poll(lambda: source(server, "feed 127.0.0.1/news.xml"))["status"] == "ok"
            assert client.get("/feeds/stories").status_code == 502
            gdelt.publish(slot, NUMBER)
            alone = poll(lambda: story_with(client, UNTOLD, q="Idaho"), 30)
            assert alone["title"] == "Submarine Idaho christened at Groton shipyard"
            assert alone["sources"] == ["dispatch.example"]
            event = poll(lambda: event_of(client, BATTLE), 30)
            told = client.get(f"/feeds/stories/{event['story_id']}").json()
            assert {same, BATTLE} <= {article["url"] for article in told["articles"]}
            assert "dispatch.example" in told["sources"]
            assert told["source_count"] >= 2
        for path, error in (("broken", "feed"), ("gone", "410")):
            failing = poll(lambda path=path: source(server, f"feed 127.0.0.1/{path}.xml"))
            assert failing["status"] == "failing"
            assert error in failing["last_error"]
        assert server.health()["status"] == "degraded"
        assert source(server, "feed 127.0.0.1/news.xml")["status"] == "ok"
        assert len([asked for asked in site.asked if asked.path == "/gone.xml"]) == 1


def counted(slot, **changes: object):
    """UCDP's record of deaths at the battle's place."""
    day = f"{slot[:4]}-{slot[4:6]}-{slot[6:8]}T00:00:00"
    return {"id": 500001, "country": "Ethiopia", "where_prec": 1, "latitude": 13.5, "longitude": 39.5,
            "date_start": day, "date_end": day, "best": 7, "high": 9, "low": 5, **changes}  # fmt: skip


def test_counted_deaths_reach_the_event_they_speak_of(live, gdelt, slot):
    events = [counted(slot), counted(slot, id=500002, country="Nigeria", latitude=11.8, longitude=13.2)]
    page = {"TotalCount": 2, "TotalPages": 1, "PreviousPageUrl": "", "NextPageUrl": "", "Result": events}
    with background_website(lambda _: Reply(body=json.dumps(page).encode())) as site:
        gdelt.publish(slot, NUMBER)
        server = live(ucdp_token="a-token", ucdp_url=f"{site.url}/api/")
        with reader(server) as client:

            def with_deaths() -> dict[str, Any] | None:
                event = event_of(client, BATTLE)
                return event if event and event["fatalities"] else None

            event = poll(with_deaths, 30)
            assert (event["fatalities"], event["fatalities_basis"]) == (7, "ucdp")
            assert event["provenance"]["reasons"]["fatalities"] == "ucdp record 500001 counts 7 (between 5 and 9)"
            assert "deaths 7" in event["provenance"]["reasons"]["significance"]

            def listed() -> list[dict[str, Any]]:
                page = client.get("/feeds/events", params={"sort": "fatalities", "limit": 100}).json()
                return [it for it in page["events"] if it["fatalities_basis"] == "ucdp" and it["story_id"]]

            (only,) = poll(listed)
            assert only == {name: event[name] for name in only}
            assert only["metrics"]["severity_tier"] in {"critical", "high", "medium"}
        assert source(server, "ucdp")["status"] == "ok"
        assert site.asked[0].headers["x-ucdp-access-token"] == "a-token"
    assert "a-token" not in server.told()


def test_refusing_counter_of_deaths_shows_in_health_and_stops_nobody(live, gdelt, slot):
    with background_website(lambda _: Reply(status=401)) as site:
        gdelt.publish(slot, NUMBER)
        server = live(ucdp_token="a-token", ucdp_url=f"{site.url}/api/")
        failing = poll(lambda: source(server, "ucdp"), 30)
        assert failing["status"] == "failing"
        assert "credentials" in failing["last_error"]
        with reader(server) as client:
            assert poll(lambda: event_of(client, BATTLE), 30)["fatalities_basis"] == "not_reported"
