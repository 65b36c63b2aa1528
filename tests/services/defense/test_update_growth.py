"""A start with an existing index, and changes, do not read the stored events again: counted at three sizes."""

from datetime import timedelta
from math import log

import msgspec

from tests.services.defense.alerts.conftest import NOON, record
from tests.storage.sqlite_work import SqliteWork
from tollhouse.config.settings import Settings
from tollhouse.services.defense import store
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.ingest.export_parser import compact
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

SIZES = (500, 2_000, 8_000)
MOST_EXPONENT = 0.3


def row(number, slots_ago):
    one = record(number, NOON - timedelta(minutes=15 * slots_ago))
    body = msgspec.json.encode(one)
    return {"pool": "provider", "id": one.id, "last_slot": compact(one.last_reported_at), "record": body}


async def write(database, rows=(), removed=()):
    async with database.writing(lock="ingest") as connection:
        number = await store.bump_revision(connection, store.EVENTS_FEED)
        await store.write_at(connection, store.event, rows, number)
        await store.remove_at(connection, store.EVENTS, "provider", [each["id"] for each in removed], number)
        await store.set_published_until(connection, "provider", NOON)


async def steps_by_task(folder, size):
    database = open_database(Settings(data_dir=str(folder)))
    work = SqliteWork(database._engine.sync_engine)
    await migrate(database)
    rows = [row(number, number % 190) for number in range(size)]
    await write(database, rows)
    feed = EventsFeed(database, recorded=None, folder=folder)
    steps = {}

    async def measure(task) -> None:
        before = work.steps
        await feed.refresh()
        steps[task] = work.steps - before

    await measure("build")
    feed._index.close()
    # Another process starts, and writes the index from now on.
    feed = EventsFeed(database, recorded=None, folder=folder)
    await measure("start")
    await write(database, [row(size + number, number) for number in range(20)])
    await measure("change")
    shown = len(feed.window)
    await write(database, removed=[each for each in rows if each["last_slot"] == compact(NOON)][:2])
    await measure("removal")
    assert len(feed.window) == shown - 2
    await measure("no change")
    feed._index.close()
    await database.close()
    return steps


async def test_a_start_and_a_change_read_hardly_more_of_a_larger_window(tmp_path):
    steps = []
    for size in SIZES:
        folder = tmp_path / str(size)
        folder.mkdir()
        steps.append(await steps_by_task(folder, size))
    growth = {task: log(steps[-1][task] / steps[0][task]) / log(SIZES[-1] / SIZES[0]) for task in steps[0]}
    assert growth.pop("build") > 0.8, "counting shows a task that reads every row"
    assert max(growth.values()) <= MOST_EXPONENT, (growth, steps)
