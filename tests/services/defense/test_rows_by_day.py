"""The provider's rows of pages: kept by day on PostgreSQL, dropped with their day, and never refused."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, select, text

from tests.storage.test_migrate import chain_of
from tollhouse.config.settings import Settings
from tollhouse.services.defense import store
from tollhouse.services.defense.ingest.export_parser import compact
from tollhouse.services.defense.ingest.gdelt_sync import _delete_old
from tollhouse.storage import partitions
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate
from tollhouse.storage.partitions import DAYS_AHEAD, list_partitions

# The day of the migration and those before it are in one partition.
FIRST = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=9)
DAYS = 12
NOON = timedelta(hours=12)


@pytest.fixture
async def on_postgres(postgres_url):
    opened = open_database(Settings(database_url=postgres_url))
    yield opened
    await opened.close()


def row(page, moment, pool="provider"):
    return {"event_id": page, "slot": compact(moment), "pool": pool, "rows": b"[]"}


async def write(database, *rows: object) -> None:
    async with database.writing(lock="ingest") as connection:
        await store.write_rows(connection, rows)
        for each in rows:
            values = {"origin": "file", "md5": "", "rows": 1, "bad_rows": 0, "ingested_at": ""}
            await store.write_slot(connection, slot=each["slot"], pool=each["pool"], **values)


async def stored(database):
    async with database.reading() as connection:
        found = await connection.execute(select(store.event_rows.c.event_id).order_by(store.event_rows.c.slot))
        return list(found.scalars())


async def days_of(database):
    async with database.reading() as connection:
        return [one.first for one in await list_partitions(connection, "event_rows") if one.is_day]


async def rows_in(database, name):
    async with database.reading() as connection:
        return list((await connection.execute(text(f"SELECT event_id FROM {name}"))).scalars())  # noqa: S608 - ours


def day(number):
    return f"{FIRST + timedelta(days=number):%Y%m%d}"


@pytest.mark.both_databases
async def test_rows_of_ended_days_are_gone_and_those_of_recordings_stay(database):
    for number in range(DAYS):
        moment = FIRST + timedelta(days=number)
        await store.make_days_of_rows(database, moment.date())
        await write(database, row(f"page_{number}", moment + NOON))
    await write(database, row("recorded", FIRST + NOON + timedelta(minutes=15), "local"))
    await write(database, row("long_ago", datetime(2019, 10, 24, tzinfo=UTC)))
    await _delete_old(database, compact(FIRST + timedelta(days=11, hours=13)), 8)
    # A day that ends within a partition is dropped with it.
    in_day_3 = [] if database.is_sqlite else ["page_3"]
    assert await stored(database) == ["recorded", *in_day_3, *(f"page_{number}" for number in range(4, DAYS))]
    if not database.is_sqlite:
        assert await days_of(database) == [day(0), *(day(number) for number in range(3, DAYS + DAYS_AHEAD))]


async def test_rows_without_a_partition_of_their_day_are_stored_and_move_into_it(on_postgres):
    await write(on_postgres, row("a", FIRST + NOON), row("b", FIRST - timedelta(days=400)))
    assert await rows_in(on_postgres, "event_rows_default") == ["a"]
    assert await rows_in(on_postgres, "event_rows_before") == ["b"]
    await store.make_days_of_rows(on_postgres, FIRST.date())
    assert await rows_in(on_postgres, "event_rows_default") == []
    assert await rows_in(on_postgres, f"event_rows_{day(0)}") == ["a"]
    # The same page and slot again, as after a file that was corrected.
    await write(on_postgres, row("a", FIRST + NOON))
    assert await stored(on_postgres) == ["b", "a"]


async def test_days_are_made_ahead_once(on_postgres):
    for _ in range(2):
        await store.make_days_of_rows(on_postgres, FIRST.date())
    made = await days_of(on_postgres)
    assert len(made) == len(set(made))
    assert {day(number) for number in range(DAYS_AHEAD + 1)} <= set(made)


async def test_reader_of_the_table_delays_the_end_of_a_day_and_no_row(on_postgres, monkeypatch):
    monkeypatch.setattr(partitions, "LOCK_SECONDS", 0.1)
    await store.make_days_of_rows(on_postgres, FIRST.date())
    await write(on_postgres, row("a", FIRST + NOON))
    end = compact(FIRST + timedelta(days=1))
    async with on_postgres.reading() as connection:
        await store.rows_of_pages(connection, "provider", ["a"])
        await store.drop_days_before(on_postgres, "provider", end)
        await store.make_days_of_rows(on_postgres, (FIRST + timedelta(days=1)).date())
        await write(on_postgres, row("b", FIRST + timedelta(days=1)))
    assert await stored(on_postgres) == ["a", "b"]
    await store.drop_days_before(on_postgres, "provider", end)
    assert await stored(on_postgres) == ["b"]


async def test_writers_and_readers_go_on_while_days_come_and_go(on_postgres):
    """Statements that the driver prepared find the partitions there are."""

    async def turn(number) -> None:
        await write(on_postgres, row(f"page_{number}", FIRST + timedelta(days=number)))
        async with on_postgres.reading() as connection:
            assert f"page_{number}" in await store.rows_of_pages(connection, "provider", [f"page_{number}"])

    for number in range(DAYS):
        await asyncio.gather(
            turn(number), store.make_days_of_rows(on_postgres, (FIRST + timedelta(days=number)).date()),
            store.drop_days_before(on_postgres, "provider", compact(FIRST + timedelta(days=number - 2))),
        )  # fmt: skip
    await store.drop_days_before(on_postgres, "provider", compact(FIRST + timedelta(days=DAYS - 2)))
    assert await stored(on_postgres) == [f"page_{DAYS - 2}", f"page_{DAYS - 1}"]


async def test_rows_from_before_the_partitions_are_kept_where_they_are(new_postgres_database, tmp_path):
    database = open_database(Settings(database_url=new_postgres_database()))
    await migrate(database, chain_of(tmp_path / "former", until="0028"))
    now = datetime.now(UTC)
    moments = {"recorded": datetime(2020, 11, 15, tzinfo=UTC), "now": now, "later": now + timedelta(days=3)}
    async with database.writing() as connection:
        await connection.execute(insert(store.event_rows), [row(name, at) for name, at in moments.items()])
        file = await connection.scalar(text("SELECT pg_relation_filenode('event_rows')"))
    await migrate(database)
    assert await rows_in(database, "event_rows_before") == ["recorded", "now"]
    assert await stored(database) == ["recorded", "now", "later"]
    async with database.reading() as connection:
        assert await connection.scalar(text("SELECT pg_relation_filenode('event_rows_before')")) == file
    await store.make_days_of_rows(database, now.date())
    assert await rows_in(database, "event_rows_default") == []
    await _delete_old(database, compact(now + timedelta(days=4)), 2)
    assert await stored(database) == ["later"]
    await database.close()
