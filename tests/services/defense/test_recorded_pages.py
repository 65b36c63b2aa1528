"""The recording of 2 July 2023: pages without provider rows, served apart from other data and labelled."""

import asyncio
from typing import Any

import pytest

from tests.http.conftest import asgi_client
from tests.services.defense.test_exports import EXCERPT
from tollhouse import app
from tollhouse.config.settings import Settings
from tollhouse.services.defense.ingest.batches import ingest_export
from tollhouse.services.defense.recordings import served_pools
from tollhouse.storage.database import open_database

DAY = "2023-07-02"


async def served(folder, recorded, *paths: str) -> dict[str, Any]:
    """What a server of this folder answers, by path."""
    settings = Settings(data_dir=str(folder), recorded=recorded, service="defense", background_work=False)
    async with app.serving(settings) as server, asgi_client(server.handle) as client:
        created = (await client.post("/api/keys/create", json={"email": "ada@example.org"})).json()
        headers = {"Authorization": f"Bearer {created['api_key']}"}
        return {path: (await client.get(path, headers=headers)).json() for path in paths}


FEEDS = ("/feeds/events?limit=100&relevance=all", "/feeds/stories?limit=100", "/feeds/entities?limit=100")
PATHS = (*FEEDS, "/feeds/defense-brief", "/health")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What a server answers from the first recording, and then from the same store with this one beside it."""
    folder = tmp_path_factory.mktemp("recorded")
    first = asyncio.run(served(folder, True, *FEEDS))
    return first, asyncio.run(served(folder, DAY, *PATHS))


@pytest.fixture(scope="module")
def answers(both):
    return both[1]


def test_every_feed_is_labelled_with_the_recording_and_its_coverage(answers):
    for path in FEEDS:
        page = answers[path]
        assert (page["source"], page["recording"], page["as_of"]) == ("recorded", DAY, "2023-07-02T15:30:00Z"), path
        assert page["coverage"] == round(1 / 96, 4)
        assert page["stale"] is False
    assert answers["/feeds/defense-brief"]["events_live"]["coverage"]["window"] == pytest.approx(1 / 96)
    live = answers["/feeds/defense-brief"]["events_live"]
    assert live["recording"] == DAY
    assert live["change"]["events"]["absolute"] is None, "nothing of the day before was read"
    health = answers["/health"]["feeds"]["events"]
    assert (health["source"], health["recording"], health["coverage"]) == ("recorded", DAY, round(1 / 96, 4))


def test_pages_become_stories_with_page_titles_and_entities(answers):
    stories = answers[FEEDS[1]]["stories"]
    assert len(stories) > 50
    titles = [article["title"] for story in stories for article in story["articles"]]
    assert any(story["source_count"] >= 3 for story in stories)
    assert not [title for title in titles if title.endswith(("The Hindu", "Repeating Islands", "Daily Freeman"))]
    assert len(answers[FEEDS[2]]["entities"]) > 50


def test_two_recordings_are_not_mixed(both):
    first, second = both
    assert {page["recording"] for page in first.values()} == {"2020-11-15"}
    for path, member, moment in zip(FEEDS, ("events", "stories"), ("event_date", "last_seen"), strict=False):
        assert {item[moment][:4] for item in first[path][member]} == {"2020"}
        assert {item[moment][:4] for item in second[path][member]} == {"2023"}


def test_files_of_the_operator_carry_no_recordings_name(tmp_path):
    async def ingest() -> None:
        database = open_database(Settings(data_dir=str(tmp_path)))
        await ingest_export(database, "20230702153000.export.CSV", EXCERPT, "file")
        await database.close()

    asyncio.run(served(tmp_path, DAY, "/health"))
    asyncio.run(ingest())
    page = asyncio.run(served(tmp_path, None, FEEDS[0]))[FEEDS[0]]
    assert (page["source"], page["recording"], page["as_of"]) == ("recorded", None, "2023-07-02T15:30:00Z")
    assert asyncio.run(served(tmp_path, DAY, FEEDS[0]))[FEEDS[0]]["recording"] == DAY


def test_setting_names_the_data_that_is_served():
    assert served_pools(None) == served_pools(False) == ("provider", "local")
    assert served_pools(True) == served_pools("2020-11-15") == ("local",)
    assert served_pools(DAY) == (DAY,)
