"""The live provider, from its first slot through outages and lies to a restart; a fake GDELT over real HTTP."""

import pytest

from tests.fakes.gdelt import fake_gdelt, recent_slots
from tests.journeys.server import Server, poll

POLL_SECONDS = 0.2


@pytest.fixture
def gdelt():
    with fake_gdelt() as provider:
        yield provider


@pytest.fixture
def live(start_server, gdelt, tmp_path):
    """A function that starts a server which follows the fake provider, always in the same folder."""
    started = []

    def start() -> Server:
        settings = {"recorded": "false", "gdelt_url": gdelt.url, "gdelt_poll_seconds": POLL_SECONDS}
        started.append(start_server(home=tmp_path / "live", is_recorded=False, **settings))
        return started[-1]

    yield start
    for server in started:
        server.kill()


def moment(slot):
    day, time = slot[:8], slot[8:]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}Z"


def fed_to(server, slot):
    """The feed's facts once it has reached a slot."""

    def reached() -> dict[str, object] | None:
        facts = server.health()["feeds"]["events"]
        return facts if facts["as_of"] == moment(slot) else None

    return poll(reached, 30)


def source(server):
    return server.health()["sources"][0]


def page(server):
    with server.client(server.new_key()["api_key"]) as client:
        return client.get("/feeds/events?limit=100").json()


def all_events(client):
    pages = [client.get("/feeds/events?limit=100").json()]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(client.get("/feeds/events", params={"limit": 100, "cursor": cursor}).json())
    return [event for page in pages for event in page["events"]]


def told_feeds(server):
    """What health says of the feeds once the story of each event is told."""

    def told() -> dict[str, dict[str, object]] | None:
        feeds, events = server.health()["feeds"], all_events(client)
        stories = {event["story_id"] for event in events}
        is_whole = len(events) == feeds["events"]["events"] and None not in stories
        return feeds if is_whole and len(stories) <= feeds["stories"]["stories"] else None

    with server.client(server.operators_key()) as client:
        return poll(told, 60)


@pytest.mark.parametrize("grants_ranges", [True, False])
def test_published_slots_reach_the_feed_as_live(live, gdelt, grants_ranges):
    gdelt.grants_ranges = grants_ranges
    slots = recent_slots(3)
    gdelt.publish(slots[0], 0)
    gdelt.publish(slots[1], 1)
    server = live()
    before = fed_to(server, slots[1])
    poll(lambda: sorted(gdelt.downloads()) == slots[:2])
    first = poll(lambda: [p for p in [page(server)] if p["total"] == server.health()["feeds"]["events"]["events"]])[0]
    assert first["source"] == "live"
    assert first["stale"] is False
    assert first["as_of"] == moment(slots[1])
    assert first["total"] > 0
    gdelt.publish(slots[2], 2)
    after = fed_to(server, slots[2])
    assert after["events"] > before["events"]
    assert source(server)["status"] == "ok"
    assert server.health()["status"] == "ok"
    assert {ranged[:7] for ranged in gdelt.asked("masterfilelist.txt")} == {"bytes=-"}


def test_slot_is_downloaded_once_however_often_it_is_offered(live, gdelt):
    slots = recent_slots(2)
    gdelt.publish(slots[0], 3)
    gdelt.publish(slots[1], 4)
    server = live()
    fed_to(server, slots[1])
    polled = len(gdelt.asked("lastupdate.txt"))
    poll(lambda: len(gdelt.asked("lastupdate.txt")) > polled + 4)
    facts = told_feeds(server)
    server.stop()
    again = live()
    fed_to(again, slots[1])
    polled = len(gdelt.asked("lastupdate.txt"))
    poll(lambda: len(gdelt.asked("lastupdate.txt")) > polled + 2)
    assert sorted(gdelt.downloads()) == slots
    poll(lambda: again.health()["feeds"] == facts)


def test_file_of_another_md5_is_never_taken_in(live, gdelt):
    slots = recent_slots(3)
    gdelt.publish(slots[0], 5)
    server = live()
    fed_to(server, slots[0])
    gdelt.publish(slots[1], 6, md5="0" * 32)
    failing = poll(lambda: source(server) if source(server)["failures"] >= 2 else None)
    assert "MD5" in failing["last_error"]
    assert failing["status"] == "failing"
    assert server.health()["feeds"]["events"]["as_of"] == moment(slots[0])
    gdelt.publish(slots[2], 7)
    facts = fed_to(server, slots[2])
    gdelt.publish(slots[1], 6)
    poll(lambda: server.health()["feeds"]["events"]["events"] > facts["events"], 30)
    poll(lambda: source(server)["status"] == "ok")


def test_gap_of_an_outage_is_filled(live, gdelt):
    slots = recent_slots(5)
    gdelt.publish(slots[0], 8)
    server = live()
    fed_to(server, slots[0])
    gdelt.status = 500
    for number, slot in enumerate(slots[1:]):
        gdelt.publish(slot, 9 + number)
    failing = poll(lambda: source(server) if source(server)["failures"] >= 2 else None)
    assert "500" in failing["last_error"]
    assert failing["last_success_at"]
    assert server.health()["status"] == "degraded"
    assert page(server)["source"] == "live"
    gdelt.status = None
    fed_to(server, slots[-1])
    poll(lambda: sorted(set(gdelt.downloads())) == slots)
    poll(lambda: source(server)["status"] == "ok")
    assert source(server)["failures"] == 0


def test_provider_that_hangs_up_shows_in_health_and_stops_nothing(live, gdelt):
    slots = recent_slots(1)
    gdelt.hangs_up = True
    gdelt.publish(slots[0], 13)
    server = live()
    assert poll(lambda: source(server)["status"] == "failing")
    gdelt.hangs_up = False
    fed_to(server, slots[0])


def test_pause_the_provider_asks_for_is_kept(live, gdelt):
    gdelt.status, gdelt.retry_after = 503, 600
    server = live()
    poll(lambda: source(server)["failures"] == 1)
    asked = len(gdelt.requests)
    gdelt.status = None
    key = server.new_key()["api_key"]
    with server.client(key) as client:
        for _ in range(10):
            assert client.get("/feeds/events").status_code == 502
    assert len(gdelt.requests) == asked
