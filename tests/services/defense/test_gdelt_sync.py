"""An update's export and pages may arrive in any order: reports get their page titles when the pages do."""

import httpx2
import msgspec
import pytest

from tests.fakes.gdelt import fake_gdelt, recent_slots
from tollhouse.services.defense import store
from tollhouse.services.defense.events.event import StoredEvent
from tollhouse.services.defense.events.report import event_id
from tollhouse.services.defense.ingest.gdelt_sync import GdeltClient, Progress, catch_up
from tollhouse.services.defense.news.publisher import Publisher

NUMBER = 0
TITLE = "Libyan rivals agree on elections"


@pytest.fixture
def gdelt():
    with fake_gdelt() as provider:
        yield provider


@pytest.fixture
def polled(database, gdelt):
    """A function that polls the provider once and returns how far that got."""

    async def poll(progress: Progress) -> Progress:
        async with httpx2.AsyncClient() as client:
            return await catch_up(database, GdeltClient(client, gdelt.url), progress, 8)

    return poll


async def title_of(database, url):
    await Publisher(database, 8).update("provider")
    async with database.reading() as connection:
        packed = await store.bodies_by_id(connection, store.EVENTS, "provider", [event_id(url)])
    event = msgspec.json.decode(packed[event_id(url)], type=StoredEvent)
    return event.title, event.title_basis


async def a_page(database):
    """The page of an event that it alone reports, by its address."""
    await Publisher(database, 8).update("provider")
    async with database.reading() as connection:
        rows = store.rows_after(connection, store.EVENTS, "provider", "")
        events = [msgspec.json.decode(body, type=StoredEvent) async for some in rows for *_, body in some]
    return next(event.source_urls[0] for event in events if len(event.source_urls) == 1 and event.has_headline)


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_pages_that_come_later_title_the_events_of_their_export(database, gdelt, polled, is_restarted):
    (slot,) = recent_slots(1)
    gdelt.publish(slot, NUMBER)
    progress = await polled(Progress())
    url = await a_page(database)
    assert (await title_of(database, url))[1] == "url"
    gdelt.publish_pages(slot, {url: TITLE})
    progress = await polled(Progress() if is_restarted else progress)
    assert await title_of(database, url) == (TITLE, "page")
    requests = len(gdelt.asked(f"{slot}.gkg.csv.zip"))
    assert await polled(progress) == Progress(slot)
    assert len(gdelt.asked(f"{slot}.gkg.csv.zip")) == requests
    assert gdelt.downloads() == [slot]


async def test_pages_that_never_come_are_not_requested_after_an_hour(gdelt, polled):
    *slots, last = recent_slots(6)
    gdelt.publish(slots[0], NUMBER)
    progress = await polled(Progress())
    for number, slot in enumerate([*slots[1:], last], 1):
        gdelt.publish_pages(slot, {"https://example.org/a": TITLE})
        gdelt.publish(slot, number)
        progress = await polled(progress)
    assert progress == Progress(last)
    requests = len(gdelt.asked(f"{slots[0]}.gkg.csv.zip"))
    await polled(progress)
    assert len(gdelt.asked(f"{slots[0]}.gkg.csv.zip")) == requests


async def test_titles_stay_when_an_export_is_ingested_again(database, gdelt, polled):
    (slot,) = recent_slots(1)
    gdelt.publish(slot, NUMBER)
    await polled(Progress())
    url = await a_page(database)
    gdelt.publish_pages(slot, {url: TITLE})
    await polled(Progress())
    async with database.writing() as connection:
        await connection.execute(store.gdelt_slot.delete())
    await polled(Progress())
    assert gdelt.downloads() == [slot, slot]
    assert await title_of(database, url) == (TITLE, "page")
