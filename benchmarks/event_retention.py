"""Retention of the provider's rows of pages by dropping a day's partition, against deleting the rows of each file.

`python benchmarks/event_retention.py --database-url URL [ROWS...]` prints one JSON object for each number of rows
(pages) of a file, 100 and 500 unless given. URL is a database of PostgreSQL, beside which one is made and dropped. Ten
days of 96 files are stored, and one ends. The baseline is the former table with the same rows in the same run.
`event_by_day` is a copy of the events in partitions by day, which the server does not use (docs/decisions/0026).
"""

import argparse
import asyncio
import json
import random
import statistics
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any

from sqlalchemy import text
from sqlalchemy.engine import make_url

from tollhouse import logs
from tollhouse.config.settings import Settings
from tollhouse.services.defense import store
from tollhouse.services.defense.ingest.export_parser import compact
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate

ROWS = (100, 500)
DAYS, FILES = 10, 96
SLOT = timedelta(minutes=15)
# About as the recording has them on average (1,344 and 1,993), and below what PostgreSQL compresses.
BYTES = {"event_rows": 1_344, "event": 1_792}
READ, READS, WRITES = 500, 40, 20
FLAT_ROWS = """CREATE TABLE flat_rows (event_id varchar(32), slot varchar(14), pool varchar(10) NOT NULL,
    rows bytea NOT NULL, PRIMARY KEY (event_id, slot)); CREATE INDEX ON flat_rows (slot)"""
DAILY_EVENTS = """CREATE TABLE daily_event (pool varchar(10), id varchar(32), last_slot varchar(14),
    record bytea NOT NULL, revision integer NOT NULL DEFAULT 0, PRIMARY KEY (pool, id, last_slot))
    PARTITION BY RANGE (last_slot);
    CREATE INDEX ON daily_event (pool, last_slot); CREATE INDEX ON daily_event (pool, revision)"""
DAILY_EVENT = "CREATE TABLE daily_event_{day} PARTITION OF daily_event FOR VALUES FROM ('{day}') TO ('{end}')"
NUMBERED = """SELECT md5(n::text) AS id, '{slot}' AS slot, 'provider' AS pool,
    convert_to(repeat(md5(random()::text), {repeats}), 'UTF8') AS body FROM generate_series({first}, {last}) n"""
WRITE = """INSERT INTO flat_rows SELECT event_id, :slot, pool, rows FROM event_rows WHERE slot = :old
    ON CONFLICT (event_id, slot) DO UPDATE SET pool = excluded.pool, rows = excluded.rows"""


async def timed(database: Database, *statements: tuple[str, dict[str, Any]]) -> tuple[float, float]:
    """Milliseconds, and megabytes of log, of transactions of one statement each."""
    async with database.at_once() as connection:
        before = await connection.scalar(text("SELECT pg_current_wal_insert_lsn()"))
        begun = perf_counter()
        for statement, values in statements:
            await connection.execute(text(statement), values)
        took = (perf_counter() - begun) * 1_000
        log = await connection.scalar(text("SELECT pg_current_wal_insert_lsn() - :lsn ::pg_lsn"), {"lsn": before})
    return round(took, 1), round(float(log) / 1e6, 2)


async def fill(database: Database, first: datetime, rows: int) -> list[str]:
    """Ten days; returns the slots."""
    slots = [compact(first + number * SLOT) for number in range(DAYS * FILES)]
    for day in range(DAYS):
        await store.make_days_of_rows(database, (first + timedelta(days=day)).date())
    async with database.writing() as connection:
        for part in (FLAT_ROWS, DAILY_EVENTS):
            for statement in part.split(";"):
                await connection.execute(text(statement))
        for day in range(DAYS):
            begin, end = (f"{first + timedelta(days=number):%Y%m%d}" for number in (day, day + 1))
            await connection.execute(text(DAILY_EVENT.format(day=begin, end=end)))
        for number, slot in enumerate(slots):
            numbers = {"slot": slot, "first": number * rows, "last": (number + 1) * rows - 1}
            made = {name: NUMBERED.format(repeats=size // 32, **numbers) for name, size in BYTES.items()}
            await connection.execute(text(f"INSERT INTO event_rows SELECT * FROM ({made['event_rows']}) made"))  # noqa: S608 - ours
            statement = f"INSERT INTO event SELECT pool, id, slot, body, {number} FROM ({made['event']}) made"  # noqa: S608 - ours
            await connection.execute(text(statement))
        await connection.execute(text("INSERT INTO flat_rows SELECT * FROM event_rows ORDER BY slot"))
        await connection.execute(text("INSERT INTO daily_event SELECT * FROM event ORDER BY last_slot"))
    async with database.at_once() as connection:
        await connection.execute(text("VACUUM ANALYZE"))
    return slots


async def read_ms(database: Database, table: str, key: str, pages: int) -> dict[str, float]:
    """The median of reading rows of pages by their ids, and the pages of the database that one reads."""
    chance, times, buffers = random.Random(7), [], []
    query = f"SELECT * FROM {table} WHERE pool = 'provider' AND {key} = ANY(:ids)"  # noqa: S608 - our names
    async with database.reading() as connection:
        for number in range(READS):
            drawn = chance.sample(range(pages), READ)
            hashed = await connection.scalars(
                text("SELECT md5(n::text) FROM unnest(CAST(:n AS int[])) n"), {"n": drawn}
            )
            ids = {"ids": list(hashed)}
            begun = perf_counter()
            assert len((await connection.execute(text(query), ids)).all()) == READ
            times.append((perf_counter() - begun) * 1_000)
            if number % 10 == 0:
                plan = await connection.scalar(text(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}"), ids)
                buffers.append(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])
    return {"ms": round(statistics.median(times), 2), "buffers": statistics.median(buffers)}


async def size_mb(database: Database, table: str) -> float:
    query = """SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relname = :name OR oid IN
        (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass(:name))"""
    async with database.reading() as connection:
        return round(float(await connection.scalar(text(query), {"name": table})) / 1e6, 1)


async def measured(url: str, rows: int) -> dict[str, Any]:
    """In a database of its own, which is dropped."""
    name = f"event_retention_{rows}"
    server = open_database(Settings(database_url=url))
    database = open_database(
        Settings(database_url=make_url(url).set(database=name).render_as_string(hide_password=False))
    )
    try:
        async with server.at_once() as connection:
            await connection.execute(text(f"CREATE DATABASE {name}"))
        await migrate(database)
        # After the day of the migration, whose rows are in the partition of the earlier ones.
        first = (datetime.now(UTC) + timedelta(days=2)).replace(hour=0, minute=0, second=0, microsecond=0)
        slots = await fill(database, first, rows)
        pages = rows * len(slots)
        result: dict[str, Any] = {"rows_per_file": rows, "rows": pages}
        for name, table, key in (
            ("rows", "event_rows", "event_id"), ("former_rows", "flat_rows", "event_id"),
            ("event", "event", "id"), ("event_by_day", "daily_event", "id"),
        ):  # fmt: skip
            result[f"read_500_{name}"] = await read_ms(database, table, key, pages)
        for name, table in (("rows", "event_rows"), ("former_rows", "flat_rows")):
            times = []
            for number in range(WRITES):
                statement = WRITE.replace("INTO flat_rows", f"INTO {table}")
                values = {"slot": compact(first + timedelta(days=9, minutes=number + 1)), "old": slots[-1 - number]}
                times.append((await timed(database, (statement, values)))[0])
            result[f"write_a_file_{name}_ms"] = statistics.median(times)
        end = slots[FILES]
        for name, table, moment in (("former_rows", "flat_rows", "slot"), ("event", "event", "last_slot")):
            delete = f"DELETE FROM {table} WHERE pool = 'provider' AND {moment} < :slot"  # noqa: S608 - our names
            deleted = await timed(database, *((delete, {"slot": slot}) for slot in slots[1 : FILES + 1]))
            vacuumed = await timed(database, (f"VACUUM {table}", {}))
            result[f"delete_a_day_{name}"] = {
                "ms": deleted[0], "log_mb": deleted[1], "vacuum_ms": vacuumed[0], "vacuum_log_mb": vacuumed[1],
                "size_mb": await size_mb(database, table),
            }  # fmt: skip
        dropped = await timed(database, (f"DROP TABLE daily_event_{first:%Y%m%d}", {}))
        result["drop_a_day_event_by_day"] = {"ms": dropped[0], "log_mb": dropped[1]}
        async with database.reading() as connection:
            before = await connection.scalar(text("SELECT pg_current_wal_insert_lsn()"))
        begun = perf_counter()
        await store.drop_days_before(database, "provider", end)
        took = (perf_counter() - begun) * 1_000
        async with database.reading() as connection:
            log = await connection.scalar(text("SELECT pg_current_wal_insert_lsn() - :lsn ::pg_lsn"), {"lsn": before})
            assert not await connection.scalar(text("SELECT count(*) FROM event_rows WHERE slot < :end"), {"end": end})
        result["drop_a_day_rows"] = {
            "ms": round(took, 1), "log_mb": round(float(log) / 1e6, 2),
            "size_mb": await size_mb(database, "event_rows"),
        }  # fmt: skip
        return result
    finally:
        await database.close()
        async with server.at_once() as connection:
            await connection.execute(text(f"DROP DATABASE IF EXISTS {name}"))
        await server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--database-url", required=True)
    options = parser.parse_args()
    logs.configure("error")
    for each in options.rows:
        print(json.dumps(asyncio.run(measured(options.database_url, each))))
