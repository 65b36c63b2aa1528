"""The newsdesk keeps the told news in step with what is stored, across updates, restarts and failures."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.services.defense.test_cluster import MINISTER, SUBMARINE, TANKER, _stream, article
from tests.services.defense.test_exports import EXCERPT
from tests.services.defense.test_story_builder import APART, BRIDGING
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Request
from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.events.event import StoredEvent
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.ingest.batches import ingest_export
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.feeds import NewsFeeds
from tollhouse.services.defense.news.publisher import Publisher
from tollhouse.services.defense.news.reported_article import import_items
from tollhouse.services.defense.store import NEWS_FEED, bodies_by_id
from tollhouse.services.defense.stories.story import Story

SLOT = "20191024143000"
AS_OF = datetime(2019, 10, 24, 14, 30, tzinfo=UTC)
NEXT_WEEK = AS_OF + timedelta(days=10)
RETENTION_DAYS = 8


@pytest.fixture
async def slot(database):
    await ingest_export(database, f"{SLOT}.export.CSV", EXCERPT, "provider")


@pytest.fixture
def publisher(database):
    return Publisher(database, RETENTION_DAYS)


def items(titles, name, since_minute=0, begin=AS_OF - timedelta(hours=2)):
    return [
        replace(article(title, f"{name}{n}"), published=begin + timedelta(minutes=since_minute + n))
        for n, title in enumerate(titles)
    ]


async def tell(database, publisher, articles=()):
    """Take articles in, and have the news told and remembered."""
    await import_items(database, "provider", articles)
    await publisher.update("provider")
    await publisher.save_state()


async def told(connection, kind, pool="provider", after=""):
    rows = events_store.rows_after(connection, store.PUBLISHED[kind], pool, after)
    return [body async for some in rows for _, _, body in some]


async def stories(database):
    async with database.reading() as connection:
        packed = await told(connection, "story")
    return {story.id: story for story in (msgspec.json.decode(body, type=Story) for body in packed)}


async def revision(database):
    async with database.reading() as connection:
        return await events_store.revision(connection, NEWS_FEED)


async def story_of(database, number):
    (found,) = [
        it
        for it in (await stories(database)).values()
        if f"https://news.example/{number}" in {a.url for a in it.articles}
    ]
    return found


async def feeds(database):
    events = EventsFeed(database, recorded=None)
    await events.refresh()
    news = NewsFeeds(database, events)
    await news.refresh()
    return news


def asked(identity):
    return Request(None, None, {"id": identity}, None, "127.0.0.1", "application/json")


async def test_nothing_stored_tells_nothing(database, publisher):
    await tell(database, publisher)
    assert await stories(database) == {}
    assert publisher.builder("provider") is None
    assert await revision(database) == 0


async def test_articles_wait_for_the_first_slot(database, publisher):
    await tell(database, publisher, items(TANKER, "n"))
    assert await stories(database) == {}
    await ingest_export(database, f"{SLOT}.export.CSV", EXCERPT, "provider")
    await tell(database, publisher)
    assert (await story_of(database, "n0")).article_count == len(TANKER)


async def test_every_event_is_told_by_a_story(database, slot, publisher):
    await tell(database, publisher)
    stored = await stories(database)
    async with database.reading() as connection:
        rows = events_store.rows_after(connection, events_store.EVENTS, "provider", "")
        packed = [body async for some in rows for *_, body in some]
        events = [msgspec.json.decode(body, type=StoredEvent) for body in packed]
        assert events
        for event in events:
            assert event.id in stored[event.story_id].event_ids


async def events_of(database, pool="provider"):
    async with database.reading() as connection:
        rows = events_store.rows_after(connection, events_store.EVENTS, pool, "")
        packed = [body async for some in rows for *_, body in some]
    return {event.id: event for event in (msgspec.json.decode(body, type=StoredEvent) for body in packed)}


async def test_event_has_what_was_reported_when_and_by_whom(database, slot, publisher):
    await tell(database, publisher)
    feed = EventsFeed(database, recorded=None)
    await feed.refresh()
    for event in (await events_of(database)).values():
        detail = await feed.one(asked(event.id))
        assert [one.url for one in detail.timeline] == detail.source_urls
        assert detail.provenance.row_ids
        assert detail.succeeds is None


@pytest.mark.both_databases
async def test_event_merged_away_answers_with_its_successor(database, slot, publisher):
    await tell(database, publisher)
    (current, *_) = await events_of(database)
    ended = f"conflict_{1:016x}"
    async with database.writing() as connection:
        await store.write_successors(connection, "provider", "merged", {ended: current}, SLOT)
    feed = EventsFeed(database, recorded=None)
    await feed.refresh()
    answer = await feed.one(asked(ended))
    assert (answer.id, answer.succeeds) == (current, ended)
    with pytest.raises(Problem):
        await feed.one(asked(f"conflict_{2:016x}"))


async def test_article_of_a_feed_joins_the_event_that_it_reports(database, slot, publisher):
    await tell(database, publisher)
    event = max((await events_of(database)).values(), key=lambda one: len(one.title))
    (before,) = [it for it in event.reports if it.id == event.id]
    copy = article(before.title, "copy", family="herald")
    await tell(database, publisher, [replace(copy, published=AS_OF - timedelta(minutes=20))])
    grown = (await events_of(database))[event.id]
    assert len(grown.source_urls) == len(event.source_urls) + 1
    assert grown.story_id
    restarted = Publisher(database, RETENTION_DAYS)
    await tell(database, restarted, items(TANKER, "n"))
    assert (await events_of(database))[event.id] == grown


@pytest.mark.both_databases
async def test_store_from_before_reads_its_kept_rows_again(database, slot, publisher, tmp_path):
    await tell(database, publisher)
    before = await events_of(database)
    async with database.writing() as connection:
        await connection.execute(text("DELETE FROM event_report"))
        await connection.execute(text("DELETE FROM event"))
        await connection.execute(text("DELETE FROM newsroom"))
        await connection.execute(text("DELETE FROM feed_revision WHERE feed NOT IN ('news', 'articles', 'events')"))
    await Publisher(database, RETENTION_DAYS).publish_stored(tmp_path)
    assert await events_of(database) == before


async def test_reports_of_another_week_become_events_too(database, slot, publisher):
    await tell(database, publisher)
    before = await events_of(database)
    past = AS_OF - timedelta(days=6)
    old = EXCERPT.replace(b"20191024", past.strftime("%Y%m%d").encode()).replace(b"https://www.", b"https://past.")
    await ingest_export(database, f"{past:%Y%m%d%H%M%S}.export.CSV", old, "provider")
    await tell(database, publisher)
    after = await events_of(database)
    assert before.keys() < after.keys()
    assert {event.event_date for event_id, event in after.items() if event_id not in before} <= {past.date()}


@pytest.mark.both_databases
async def test_update_without_news_writes_nothing(database, slot, publisher):
    await tell(database, publisher, items(TANKER, "n"))
    before, stored = await revision(database), await stories(database)
    await tell(database, publisher, items(TANKER, "n"))
    assert (await revision(database), await stories(database)) == (before, stored)
    await tell(database, publisher, items(MINISTER, "m"))
    assert await revision(database) == before + 1


@pytest.mark.both_databases
async def test_pools_do_not_mix(database, slot, publisher):
    await tell(database, publisher, items(TANKER, "n"))
    await publisher.update("local")
    async with database.reading() as connection:
        assert await told(connection, "story", "local") == []


@pytest.mark.both_databases
async def test_restarted_publisher_tells_the_same_stories_and_lets_them_grow(database, slot, publisher):
    await tell(database, publisher, items([*TANKER, *MINISTER], "n"))
    before = await stories(database)
    late = items(["Burning tanker off Hodeidah sinks after drone attack"], "late", 60)
    await tell(database, Publisher(database, RETENTION_DAYS), late)
    after = await stories(database)
    assert set(after) == set(before)
    grown = await story_of(database, "late0")
    assert grown.article_count == before[grown.id].article_count + 1
    assert {identity: story for identity, story in after.items() if identity != grown.id} == {
        identity: story for identity, story in before.items() if identity != grown.id
    }


@pytest.mark.both_databases
async def test_story_merged_away_answers_with_its_successor(database, slot, publisher):
    await tell(database, publisher, [*items(SUBMARINE, "background"), *items(APART, "apart", 10)])
    first = {(await story_of(database, f"apart{number}")).id for number in (0, 1)}
    assert len(first) == 2
    await tell(database, publisher, items([*BRIDGING, *TANKER, *MINISTER, *_stream(100)], "later", 15))
    whole = await story_of(database, "apart0")
    (ended,) = first - {whole.id}
    assert ended not in await stories(database)
    news = await feeds(database)
    answer = await news.story(asked(ended))
    assert (answer.id, answer.succeeds) == (whole.id, ended)
    assert (await news.story(asked(whole.id))).succeeds is None
    with pytest.raises(Problem):
        await news.story(asked(f"story_{0:016x}"))


async def test_successor_that_was_merged_too_answers_for_both(database, slot, publisher):
    await tell(database, publisher, items(TANKER, "n"))
    whole = await story_of(database, "n0")
    oldest, old = f"story_{1:016x}", f"story_{2:016x}"
    async with database.writing() as connection:
        await store.write_successors(connection, "provider", "merged", {oldest: old, old: whole.id}, SLOT)
    answer = await (await feeds(database)).story(asked(oldest))
    assert (answer.id, answer.succeeds) == (whole.id, oldest)


async def test_ids_that_lead_in_a_circle_are_not_found(database, slot, publisher):
    one, other = f"story_{1:016x}", f"story_{2:016x}"
    async with database.writing() as connection:
        await store.write_successors(connection, "provider", "merged", {one: other, other: one}, SLOT)
    with pytest.raises(Problem) as raised:
        await (await feeds(database)).story(asked(one))
    assert raised.value.code == "not-found"


@pytest.mark.both_databases
async def test_failed_update_is_made_up_for_by_the_next(database, slot, publisher):
    await tell(database, publisher, items(MINISTER, "m"))
    before = await stories(database)
    async with database.writing() as connection:
        await connection.execute(text("ALTER TABLE successor RENAME TO hidden"))
    with pytest.raises((Problem, DBAPIError)):
        await tell(database, publisher, items(TANKER, "n"))
    assert await stories(database) == before
    async with database.writing() as connection:
        await connection.execute(text("ALTER TABLE hidden RENAME TO successor"))
    await tell(database, publisher)
    assert (await story_of(database, "n0")).article_count == len(TANKER)


@pytest.mark.both_databases
async def test_retention_forgets_articles_stories_and_successors(database, slot, publisher):
    await tell(database, publisher, items(TANKER, "n"))
    old = await story_of(database, "n0")
    async with database.writing() as connection:
        await store.write_successors(connection, "provider", "merged", {f"story_{1:016x}": old.id}, SLOT)
    day = NEXT_WEEK.strftime("%Y%m%d").encode()
    later = EXCERPT.replace(b"20191024", day).replace(b"https://www.", b"https://later.")
    await ingest_export(database, f"{NEXT_WEEK:%Y%m%d%H%M%S}.export.CSV", later, "provider")
    await tell(database, publisher, items(MINISTER, "m", begin=NEXT_WEEK - timedelta(hours=2)))
    assert (await story_of(database, "m0")).article_count == len(MINISTER)
    async with database.reading() as connection:
        assert await bodies_by_id(connection, store.PUBLISHED["story"], "provider", [old.id]) == {}
        assert await bodies_by_id(connection, store.ARTICLES, "provider", ["article_n0"]) == {}
        assert await store.successors_of(connection, "provider", [f"story_{1:016x}"]) == {}
        assert await bodies_by_id(connection, store.ARTICLES, "provider", ["article_m0"])
        oldest = (NEXT_WEEK - timedelta(days=RETENTION_DAYS)).strftime("%Y%m%d%H%M%S")
        assert len(await told(connection, "entity")) == len(await told(connection, "entity", after=oldest))
