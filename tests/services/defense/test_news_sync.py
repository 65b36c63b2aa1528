"""What a reader keeps by reading changes is what it would read from scratch, whatever was written in between."""

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from importlib import import_module

import msgspec
import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from msgspec.structs import replace
from sqlalchemy import text

from tests.services.defense.test_cluster import MINISTER, QUAKE, SUBMARINE, TANKER, article
from tests.services.defense.test_exports import EXCERPT
from tollhouse.config.settings import Settings
from tollhouse.services.defense import store
from tollhouse.services.defense.article import mark_copies
from tollhouse.services.defense.entities.merge import NamedEntity
from tollhouse.services.defense.events.event import EventRecord, FatalityRecord, StoredEvent
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.events.history import SyncedRows, entries_after
from tollhouse.services.defense.events.index_search import entry_position
from tollhouse.services.defense.ingest.batches import ingest_export
from tollhouse.services.defense.ingest.export_parser import compact
from tollhouse.services.defense.ingest.gdelt_sync import _delete_old
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.news.entity import EntityIndex
from tollhouse.services.defense.news.feeds import NewsFeeds
from tollhouse.services.defense.news.publisher import Publisher
from tollhouse.services.defense.news.reported_article import (
    ReportedArticle,
    import_items,
    report_article,
    store_pages,
)
from tollhouse.services.defense.news.story_builder import CopyMarker
from tollhouse.services.defense.store import EVENTS, EVENTS_FEED, FATALITIES_FEED, bodies_by_id
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate

pytestmark = pytest.mark.both_databases

BEGIN = datetime(2019, 10, 24, 14, 30, tzinfo=UTC)
POOLS = ("provider", "local")
TITLES = [*TANKER, *MINISTER, *QUAKE, *SUBMARINE]


@pytest.fixture
async def open_another(database_url):
    opened = []

    async def another() -> Database:
        opened.append(open_database(Settings(database_url=database_url)))
        await migrate(opened[-1])
        return opened[-1]

    yield another
    for database in opened:
        await database.close()


@pytest.fixture
async def database(open_another):
    return await open_another()


def following():
    return SyncedRows(EVENTS, bytes.decode)


async def held_after_a_look(database, followed, pool, after):
    """What it holds, and what one holds that never looked before, in the same snapshot."""
    async with database.reading() as connection:
        difference = await followed.sync(connection, pool, after)
        fresh = following()
        await fresh.sync(connection, pool, after)
    moments = [{identity: it.moment(identity) for identity in it.items} for it in (followed, fresh)]
    return difference, (followed.items, moments[0]), (fresh.items, moments[1])


async def write_some(database, chance, slot):
    """A transaction of a writer of events: some made or changed, some removed, of either pool."""
    pool = chance.choice(POOLS)
    numbers = chance.sample(range(40), chance.randint(0, 6))
    rows = [
        {
            "pool": pool,
            "id": f"event_{number}",
            "last_slot": compact(slot - timedelta(hours=chance.randint(-2, 60))),
            "record": f"{chance.random()}".encode(),
        }
        for number in numbers
    ]
    async with database.writing() as connection:
        now = await store.bump_revision(connection, EVENTS_FEED)
        await store.write_at(connection, store.event, rows, now)
        gone = [f"event_{number}" for number in chance.sample(range(40), chance.choice([0, 0, 3]))]
        await store.remove_at(connection, store.EVENTS, pool, gone, now)


def upgrade(connection, versions):
    with Operations.context(MigrationContext.configure(connection)):
        for version in versions:
            version.upgrade()


@pytest.mark.parametrize("seed", range(4))
async def test_followed_rows_are_those_read_from_scratch(database, seed):
    chance, followed, slot = random.Random(seed), following(), BEGIN
    before: dict[str, str] = {}
    for _ in range(40):
        for _ in range(chance.randint(0, 3)):
            await write_some(database, chance, slot)
        if chance.random() < 0.2:
            async with database.writing() as connection:
                old = compact(slot - timedelta(hours=30))
                await store.delete_before(connection, "provider", old, is_seen=True)
        slot += timedelta(hours=chance.choice([0, 0, 1, 5]))
        after = compact(slot - timedelta(hours=48))
        difference, held, fresh = await held_after_a_look(database, followed, "provider", after)
        assert held == fresh
        now = dict(followed.items)
        assert difference.removed == before.keys() - now.keys()
        assert {identity for identity in now if now[identity] != before.get(identity)} <= difference.changed
        before = now
    assert before


async def test_look_without_changes_finds_none(database):
    await write_some(database, random.Random(5), BEGIN)
    followed = following()
    await held_after_a_look(database, followed, "provider", "")
    difference, _, _ = await held_after_a_look(database, followed, "provider", "")
    assert not difference.changed
    assert not difference.removed


async def test_reader_beside_many_writers_skips_nothing(open_another):
    databases = [await open_another() for _ in range(3)]
    reader, followed = await open_another(), following()
    writing = [
        asyncio.create_task(write_often(database, random.Random(number))) for number, database in enumerate(databases)
    ]
    looks = 0
    while not all(task.done() for task in writing):
        _, held, fresh = await held_after_a_look(reader, followed, "provider", "")
        assert held == fresh
        looks += 1
    await asyncio.gather(*writing)
    _, held, fresh = await held_after_a_look(reader, followed, "provider", "")
    assert held == fresh
    assert looks > 1
    async with reader.reading() as connection:
        assert await store.revision(connection, EVENTS_FEED) == 3 * 25


async def write_often(database, chance):
    for _ in range(25):
        await write_some(database, chance, BEGIN)


async def test_pool_that_changes_is_read_from_scratch(database):
    chance, followed = random.Random(7), following()
    for _ in range(8):
        await write_some(database, chance, BEGIN)
    for pool in ("provider", "local", "provider"):
        _, held, fresh = await held_after_a_look(database, followed, pool, "")
        assert held == fresh


async def test_what_was_stored_before_revisions_is_kept_and_read(empty_database_url):
    database = open_database(Settings(database_url=empty_database_url))
    versions = "tollhouse.storage.migrations.versions"
    first, second, *later = (
        import_module(f"{versions}.{name}")
        for name in (
            "0001_keys_usage_events", "0002_articles_stories_entities", "0003_news_revisions", "0028_removed_rows",
        )
    )  # fmt: skip

    async with database.writing() as connection:
        await connection.run_sync(upgrade, [first, second])
        row = "INSERT INTO event (pool, id, last_slot, record) VALUES ('provider', 'event_1', '20191024143000', :body)"
        await connection.execute(text(row), {"body": b"old"})
        await connection.execute(text("INSERT INTO feed_revision VALUES ('events', 7)"))
        await connection.run_sync(upgrade, later)
    followed = following()
    _, held, _ = await held_after_a_look(database, followed, "provider", "")
    assert held[0] == {"event_1": "old"}
    async with database.writing() as connection:
        assert await store.bump_revision(connection, EVENTS_FEED) == 8
        changed = {"pool": "provider", "id": "event_1", "last_slot": "20191024143000", "record": b"new"}
        await store.write_at(connection, store.event, [changed], 8)
    _, held, _ = await held_after_a_look(database, followed, "provider", "")
    assert held[0] == {"event_1": "new"}
    await database.close()


def export(chance, slot):
    """Some of the excerpt's rows at another time, of pages that come back now and then."""
    lines = []
    for line in chance.choices(EXCERPT.strip().split(b"\n"), k=chance.randint(1, 7)):
        fields = line.split(b"\t")
        fields[0] = str(chance.randint(1, 10**9)).encode()
        fields[1] = f"{slot - timedelta(days=chance.choice([0, 0, 0, 30])):%Y%m%d}".encode()
        fields[59] = compact(slot).encode()
        fields[60] = fields[60].replace(b"https://www.", f"https://www.{chance.randint(1, 5)}.".encode())
        lines.append(b"\t".join(fields))
    return b"\n".join(lines) + b"\n"


async def write_anything(database, chance, slot):
    kind = chance.choice(["export", "export", "items", "items", "items", "deaths", "forget"])
    if kind == "export":
        await ingest_export(database, f"{compact(slot)}.export.CSV", export(chance, slot), "provider")
    elif kind == "items":
        told = [event.title for event in await stored_events(database, slot)]
        titles = chance.sample([*TITLES, *told], 4)
        items = [article(title, f"{chance.randint(0, 30)}", family=chance.choice(["", "reuters"])) for title in titles]
        published = slot - timedelta(hours=chance.randint(0, 40))
        await import_items(database, "provider", [replace(item, published=published) for item in items])
    elif kind == "deaths":
        await write_deaths(database, chance, slot)
    else:
        await _delete_old(database, compact(slot), 1)


async def stored_events(database, slot):
    async with database.reading() as connection:
        rows = store.rows_after(connection, EVENTS, "provider", "")
        packed = [body async for some in rows for *_, body in some]
    return [msgspec.json.decode(body, type=EventRecord) for body in sorted(packed)]


async def write_deaths(database, chance, slot):
    if stored := await stored_events(database, slot):
        event = chance.choice(stored)
        record = FatalityRecord(
            provider="ucdp", id=f"{chance.randint(0, 5)}", date=event.event_date, days=1, country=event.country_code,
            latitude=event.geo.latitude, longitude=event.geo.longitude, best=chance.randint(1, 9), high=9, low=1,
            headline="", where_precision=1, source_url="",
        )  # fmt: skip
        row = {"provider": "ucdp", "id": record.id, "date": str(record.date), "body": msgspec.json.encode(record)}
        async with database.writing(lock="ingest") as connection:
            await store.write_fatalities(connection, [row])
            await store.bump_revision(connection, FATALITIES_FEED)


async def served(database, events, news_feeds):
    await events.refresh()
    await news_feeds.refresh()
    listed = events.window.view.page([], "significance", 10_000).entries
    window = events.window
    facts = (events.previous, events.coverage, window.counts, window.battles(), len(window))
    return listed, *facts, news_feeds.window.stories, news_feeds.window.entities


async def stored_window(database, events):
    """The events of the window as they are stored, and the number of relevant ones of the day before by category."""
    async with database.reading() as connection:
        as_of = events.window.as_of
        entries = [
            one async for some in entries_after(connection, "provider", as_of - timedelta(days=2)) for one in some
        ]
        slots = {
            one: slot
            async for rows in store.rows_after(connection, EVENTS, "provider", "")
            for one, slot, _ in rows
            if slot <= compact(as_of)
        }
    begin = compact(as_of - timedelta(days=1))
    window = [entry for one, entry in entries if slots.get(one, "") > begin]
    previous = Counter(
        entry.event.category for one, entry in entries if slots.get(one, "9") <= begin and entry.is_relevant
    )
    return sorted(window, key=lambda entry: entry_position(entry, "significance")), previous


@pytest.mark.parametrize("seed", range(2))
async def test_served_windows_are_those_of_a_process_that_just_started(database, seed, tmp_path):
    chance, slot = random.Random(seed), BEGIN
    publisher = Publisher(database, retention_days=1)
    events = EventsFeed(database, recorded=None, folder=tmp_path)
    feeds = NewsFeeds(database, events)
    for _ in range(14):
        slot += timedelta(minutes=15 * chance.choice([1, 1, 4, 40]))
        for _ in range(chance.randint(1, 3)):
            await write_anything(database, chance, slot)
        if chance.random() < 0.7:
            await publisher.update("provider")
        now = await served(database, events, feeds)
        started = EventsFeed(database, recorded=None)
        assert now == await served(database, started, NewsFeeds(database, started))
        other = EventsFeed(database, recorded=None, folder=tmp_path)
        assert now == await served(database, other, NewsFeeds(database, other))
        if events.window.as_of:
            assert await stored_window(database, events) == (now[0], now[1])
        await assert_publisher_knows_what_is_stored(database, publisher)
    assert any(now)


def digest(event):
    bare = replace(event, story_id=None, entities=())
    return blake2b(msgspec.json.encode(bare), digest_size=16).digest()


async def assert_publisher_knows_what_is_stored(database, publisher):
    if publisher.builder("provider"):
        await publisher.update("provider")
        held = publisher._states["provider"].published_events
        async with database.reading() as connection:
            packed = await bodies_by_id(connection, EVENTS, "provider", sorted(held))
        stored = {event_id: msgspec.json.decode(body, type=StoredEvent) for event_id, body in packed.items()}
        assert {event_id: (held[event_id].story_id, held[event_id].entities) for event_id in stored} == {
            event_id: (event.story_id, event.entities) for event_id, event in stored.items()
        }
        assert {held[event_id].digest for event_id in stored} == set(map(digest, stored.values()))


async def test_story_that_grew_old_is_still_known_by_its_id(database):
    publisher = Publisher(database, retention_days=8)
    await ingest_export(database, f"{compact(BEGIN)}.export.CSV", EXCERPT, "provider")
    await publisher.update("provider")
    async with database.reading() as connection:
        told = await store.ids_after(connection, news.PUBLISHED["story"], "provider", "")
    assert told
    later = BEGIN + timedelta(hours=24)
    await ingest_export(database, f"{compact(later)}.export.CSV", export(random.Random(1), later), "provider")
    await publisher.update("provider")
    async with database.reading() as connection:
        assert told <= await store.ids_after(connection, news.PUBLISHED["story"], "provider", "")


async def test_page_of_an_event_takes_nothing_from_what_others_say_of_it(database):
    said = article(TANKER[0], 1)
    await import_items(database, "provider", [said])
    page = report_article(replace(said, title="Tanker", source="gdelt"))
    assert await store_pages(database, "provider", [page]) == 0
    async with database.reading() as connection:
        stored = await bodies_by_id(connection, news.ARTICLES, "provider", [said.id])
    kept = msgspec.json.decode(stored[said.id], type=ReportedArticle)
    assert kept.article == said


NAMES = [NamedEntity(f"entity_{n:016x}", f"Name {n}", "person", f"Name {n}") for n in range(8)]


def pages(chance, before):
    """Some pages as before, some that changed, some that came; by id."""
    kept = {identity: page for identity, page in before.items() if chance.random() < 0.8}
    for number in chance.sample(range(40), 6):
        page = report_article(article(chance.choice(TITLES), number, chance.randint(0, 300)))
        family = chance.choice(["reuters", "gazette", "aggregator", "post"])
        page = replace(page, article=replace(page.article, family=family))
        kept[page.article.id] = replace(page, names=tuple(chance.sample(NAMES, chance.randint(0, 4))))
    return kept


@pytest.mark.parametrize("seed", range(5))
def test_entities_counted_on_are_those_counted_anew(seed):
    chance, count, shown, story_of = random.Random(seed), EntityIndex(), {}, {}
    for _ in range(25):
        shown = pages(chance, shown)
        story_of = {identity: story_of.get(identity, f"story_{chance.randint(0, 5)}") for identity in shown}
        for identity in chance.sample(sorted(shown), 2):
            story_of[identity] = f"story_{chance.randint(0, 5)}"
        now = count.update(shown.values(), story_of)
        anew = EntityIndex().update(shown.values(), story_of)
        assert sorted(now, key=lambda entity: entity.id) == sorted(anew, key=lambda entity: entity.id)
    assert now


@pytest.mark.parametrize("seed", range(5))
def test_copies_marked_on_are_those_marked_anew(seed):
    chance, copies, shown = random.Random(seed), CopyMarker(), {}
    for _ in range(25):
        shown = pages(chance, shown)
        marked = [report.article for report in copies.mark(shown)]
        assert marked == mark_copies(report.article for report in shown.values())
    assert {page.family for page in marked} <= {"reuters", "gazette", "aggregator", "post"}
