"""Keys are remembered for minutes, and a change of one is seen by every process within a second."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import event, text

from tests.servers.postgres import OwnPostgres
from tests.waiting import until
from tollhouse.accounts import keys as key_store
from tollhouse.accounts.keys import TRUST_SECONDS, KeyCache, KeyRing, new_key
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.service import Work
from tollhouse.storage.database import open_database
from tollhouse.storage.messages import open_messages
from tollhouse.storage.migrate import migrate

SECRET = b"the same in every process"


class Process:
    """The keys as one process knows them; they are polled where a test says so."""

    def __init__(self, database, messages=None) -> None:
        self.ring = KeyRing(database, SECRET, messages)
        self.cache: KeyCache = self.ring._cache

    async def made(self, count=1):
        keys = [await self.ring.create(f"ada{number}@example.org", "free") for number in range(count)]
        await self.cache.poll()
        return keys

    async def remembers(self, key):
        await self.ring.holder(key.text)
        assert self.ring.cached(key.text) == key.holder


@pytest.fixture
def one(database):
    return Process(database)


@pytest.fixture
def other(database):
    """Another process, to which every message is lost."""
    return Process(database)


async def is_invalid(ring, text_):
    with pytest.raises(Problem) as raised:
        await ring.holder(text_)
    return raised.value.code == "invalid-key"


@pytest.mark.both_databases
async def test_revoked_rotated_and_moved_keys_change_with_the_next_poll_though_the_message_is_lost(one, other):
    revoked, rotated, moved, untouched = await one.made(4)
    await other.cache.poll()
    for key in (revoked, rotated, moved, untouched):
        await other.remembers(key)
    await one.ring.revoke(revoked.holder.key_id)
    await one.ring.rotate(rotated.holder.key_id, rotated.text)
    await one.ring.set_tier(moved.holder.key_id, "pro")
    await other.cache.poll()
    assert await is_invalid(other.ring, revoked.text)
    assert await is_invalid(other.ring, rotated.text)
    assert (await other.ring.holder(moved.text)).tier == "pro"
    assert other.ring.cached(untouched.text) == untouched.holder


@pytest.mark.both_databases
async def test_change_by_hand_or_by_an_earlier_version_is_seen_too(one, database):
    (key,) = await one.made()
    await one.remembers(key)
    async with database.writing() as connection:
        await connection.execute(text("UPDATE api_key SET per_day = 7"))
    await one.cache.poll()
    assert (await one.ring.holder(key.text)).per_day == 7


@pytest.mark.both_databases
async def test_nothing_is_remembered_a_second_after_the_last_poll(one, monkeypatch):
    (key,) = await one.made()
    await one.remembers(key)
    now = key_store.monotonic()
    monkeypatch.setattr(key_store, "monotonic", lambda: now + TRUST_SECONDS + 0.01)
    assert one.ring.cached(key.text) is None
    await one.cache.poll()
    assert one.ring.cached(key.text) == key.holder


@pytest.mark.both_databases
async def test_key_that_was_just_made_works_everywhere_at_once(one, other):
    await other.cache.poll()
    unknown = new_key()
    assert await is_invalid(other.ring, unknown)
    (key,) = await one.made()
    await other.remembers(key)


@pytest.mark.both_databases
async def test_lookup_that_began_before_a_change_is_not_remembered(one):
    (key,) = await one.made()
    before = key_store.monotonic()
    await one.ring.set_tier(key.holder.key_id, "pro")
    one.cache.put(key.text, key.holder, before)
    assert one.ring.cached(key.text) is None


@pytest.mark.both_databases
async def test_key_that_changed_once_is_dropped_once(one, database):
    (key,) = await one.made()
    await one.ring.set_tier(key.holder.key_id, "pro")
    await one.cache.poll()
    await one.ring.holder(key.text)
    await one.cache.poll()
    assert one.ring.cached(key.text) is not None


async def test_change_that_commits_after_a_later_one_was_read_is_seen(postgres_url):
    database = open_database(Settings(database_url=postgres_url))
    one = Process(database)
    late, early = await one.made(2)
    await one.remembers(late)
    await one.remembers(early)
    change = text("UPDATE api_key SET tier = 'pro' WHERE id = :id")
    async with database.writing() as first:
        await first.execute(change, {"id": late.holder.key_id})
        async with database.writing() as second:
            await second.execute(change, {"id": early.holder.key_id})
        await one.cache.poll()
        assert one.ring.cached(early.text) is None
        await one.remembers(late)
    await one.cache.poll()
    assert (await one.ring.holder(late.text)).tier == "pro"
    await database.close()


async def test_everything_is_forgotten_where_the_database_was_replaced_by_an_earlier_copy(one, database):
    (key,) = await one.made()
    await one.ring.set_tier(key.holder.key_id, "pro")
    await one.cache.poll()
    await one.ring.holder(key.text)
    async with database.writing() as connection:
        await connection.execute(text("UPDATE api_key SET changed_in = NULL"))
    await one.cache.poll()
    assert one.ring.cached(key.text) is None


async def test_number_of_remembered_keys_is_bounded(one, monkeypatch):
    monkeypatch.setattr(key_store, "MOST_CACHED_KEYS", 3)
    keys = await one.made(5)
    for key in keys:
        await one.remembers(key)
    assert [one.ring.cached(key.text) is not None for key in keys] == [False, False, True, True, True]


@pytest.mark.both_databases
async def test_keys_that_arrive_at_once_are_looked_up_together(one, database):
    keys = await one.made(60)
    queries = []
    event.listen(database._engine.sync_engine, "before_cursor_execute", lambda *told: queries.append(told[2]))
    holders = await asyncio.gather(*(one.ring.holder(key.text) for key in keys))
    assert holders == [key.holder for key in keys]
    assert sum("FROM api_key" in query for query in queries) <= 2


@asynccontextmanager
async def running(*tasks: Work):
    """The tasks of a server that run beside its calls."""
    started = [asyncio.create_task(task()) for task in tasks]
    yield
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)


@asynccontextmanager
async def two_processes(settings):
    """Two processes with the messages of their settings, and their databases."""
    databases = [open_database(settings) for _ in range(2)]
    messages = [open_messages(settings, database) for database in databases]
    processes = [Process(database, message) for database, message in zip(databases, messages, strict=True)]
    arrived = []
    messages[1].subscribe("ready", arrived.append)

    async def is_ready() -> bool:
        await messages[0].publish("ready", "")
        return bool(arrived)

    async with running(*(message.run for message in messages)):
        await until(is_ready)
        yield processes
    for database, message in zip(databases, messages, strict=True):
        await message.close()
        await database.close()


@pytest.mark.parametrize("has_redis", [False, True], ids=["notify", "redis"])
async def test_message_drops_a_changed_key_in_another_process_before_the_next_poll(has_redis, postgres_url, request):
    redis_url = request.getfixturevalue("redis_url") if has_redis else ""
    async with two_processes(Settings(database_url=postgres_url, redis_url=redis_url)) as (one, other):
        (key,) = await one.made()
        await other.cache.poll()
        await other.remembers(key)
        await one.ring.revoke(key.holder.key_id)
        # Not trusted a second later; what counts is that it is gone.
        await until(lambda: key.text not in other.cache._cached)


async def test_polling_alone_tells_another_process(data_dir):
    settings = Settings(data_dir=str(data_dir))
    databases = [open_database(settings) for _ in range(2)]
    one, other = (Process(database) for database in databases)
    (key,) = await one.made()
    async with running(other.ring.run):

        async def is_cached() -> bool:
            await other.ring.holder(key.text)
            return other.ring.cached(key.text) is not None

        await until(is_cached)
        await one.ring.revoke(key.holder.key_id)
        await until(lambda: key.text not in other.cache._cached)
        assert await is_invalid(other.ring, key.text)
    for database in databases:
        await database.close()


async def test_calls_are_refused_while_the_database_is_away_and_changes_are_read_before_keys_count_again():
    postgres = OwnPostgres()
    database = open_database(Settings(database_url=postgres.url))
    await migrate(database)
    one = Process(database)
    (key,) = await one.made()
    async with running(one.ring.run):
        await one.ring.holder(key.text)
        postgres.crash()
        await until(lambda: one.ring.cached(key.text) is None)
        with pytest.raises(Problem) as raised:
            await one.ring.holder(key.text)
        assert (raised.value.code, raised.value.status) == ("storage-unavailable", 503)
        postgres.start()
        postgres.wait_until_ready()
        await until(lambda: one.ring.cached(key.text) == key.holder)
    await database.close()
    postgres.crash()
