"""Usage counters in PostgreSQL, and copies in any database of counts that are kept in Redis.

The calls that arrive while a statement is under way are counted by the next one, each subject's at once. No lock is
held while a statement's answer travels: a row is changed only if it is still what the rule was applied to.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse import clock
from tollhouse.storage.counters import Result, Tally, uncountable
from tollhouse.storage.database import Database

MOST_SUBJECTS = 500
"""The most subjects that one statement changes."""
MOST_KNOWN = 20_000
CHANGE_SECONDS = 2.0
"""How long a change is tried again while other processes change the same subject."""
FORGOTTEN_AT_ONCE = 1_000
SECONDS_PER_DAY = 86_400

_READ = text("SELECT subject, day, used, buckets FROM tally WHERE subject = ANY(CAST(:subjects AS text[]))")

# Rows are locked in the order of their subjects, before any is inserted, so that no two statements wait for each other.
_CHANGE = text("""WITH asked AS (
        SELECT * FROM unnest(CAST(:subjects AS text[]), CAST(:days AS int[]), CAST(:used AS int[]),
            CAST(:buckets AS bytea[]),
            CAST(:old_days AS int[]), CAST(:old_used AS int[]), CAST(:old_buckets AS bytea[]))
            AS asked (subject, day, used, buckets, old_day, old_used, old_buckets)),
    same AS MATERIALIZED (
        SELECT tally.subject FROM tally JOIN asked ON tally.subject = asked.subject AND tally.day = asked.old_day
            AND tally.used = asked.old_used AND tally.buckets = asked.old_buckets
        ORDER BY tally.subject FOR NO KEY UPDATE OF tally),
    changed AS (
        UPDATE tally SET day = asked.day, used = asked.used, buckets = asked.buckets
        FROM asked JOIN same ON same.subject = asked.subject WHERE tally.subject = asked.subject
        RETURNING tally.subject),
    made AS (
        INSERT INTO tally (subject, day, used, recent, buckets)
        SELECT subject, day, used, '', buckets FROM asked
        WHERE old_day IS NULL AND (SELECT count(*) FROM same) >= 0 ORDER BY subject
        ON CONFLICT (subject) DO NOTHING RETURNING subject)
    SELECT subject FROM changed UNION ALL SELECT subject FROM made""")

_SAVE = text("""INSERT INTO tally (subject, day, used, recent) VALUES (:subject, :day, :used, :nothing)
    ON CONFLICT (subject) DO UPDATE SET
    used = CASE WHEN tally.day = excluded.day AND tally.used > excluded.used THEN tally.used ELSE excluded.used END,
    day = excluded.day""")
_SAVED = text("SELECT subject, day, used FROM tally WHERE day >= :day")
_FORGET = text("DELETE FROM tally WHERE subject IN (SELECT subject FROM tally WHERE day < :day LIMIT :count)")


class _Row(NamedTuple):
    """The columns of a subject's row. Without a row there is no day."""

    day: int | None = None
    used: int = 0
    buckets: bytes = b""

    def tally(self) -> Tally:
        return Tally.from_packed(self.day or 0, self.used, self.buckets)


_NO_ROW = _Row()


class _Change(NamedTuple):
    rule: Callable[[Tally], Any]
    result: asyncio.Future[Any]


class PostgresCounters:
    """The counters of all processes that share a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, list[_Change]] = {}
        self._known: dict[str, _Row] = {}
        self._working: asyncio.Task[None] | None = None
        self._forgotten_before = 0

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        change = _Change(rule, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(subject, []).append(change)
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        result: Result = await change.result
        return result

    async def close(self) -> None:
        """Wait for the changes under way."""
        if self._working:
            await self._working

    async def _work(self) -> None:
        batch: dict[str, list[_Change]] = {}
        try:
            while self._waiting:
                async with self._database.at_once() as connection:
                    while self._waiting:
                        batch = {name: self._waiting.pop(name) for name in [*islice(self._waiting, MOST_SUBJECTS)]}
                        await self._apply(connection, batch)
                        await self._forget_some(connection)
        except BaseException as error:
            self._known.clear()
            for change in [one for waiting in (batch, self._waiting) for many in waiting.values() for one in many]:
                if not change.result.done():
                    change.result.set_exception(error if isinstance(error, Exception) else uncountable())
            self._waiting.clear()
            if not isinstance(error, Exception):
                raise
        finally:
            self._working = None

    async def _apply(self, connection: AsyncConnection, batch: dict[str, list[_Change]]) -> None:
        """Apply the changes of the batch, and remove them from it. Raises Problem."""
        deadline = asyncio.get_running_loop().time() + CHANGE_SECONDS
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        while batch:
            read = await self._read(connection, [subject for subject in batch if subject not in self._known])
            rows, results = {}, {}
            for subject, changes in batch.items():
                tally = self._known[subject].tally()
                results[subject] = [change.rule(tally) for change in changes]
                is_empty = self._known[subject] is _NO_ROW and not tally.used and not tally.buckets
                packed = tally.packed_sliding() if tally.buckets else b""
                rows[subject] = _NO_ROW if is_empty else _Row(tally.day, tally.used, packed)
            changed = {subject: row for subject, row in rows.items() if row != self._known[subject]}
            done = await self._write(connection, changed)
            # A row that is read and stays as it is needs no write; one of an earlier statement may be out of date.
            done |= read - changed.keys()
            for subject, row in rows.items():
                if subject not in done:
                    del self._known[subject]
                    continue
                self._known[subject] = row
                for change, result in zip(batch.pop(subject), results[subject], strict=True):
                    if not change.result.done():
                        change.result.set_result(result)
            if batch and asyncio.get_running_loop().time() > deadline:
                raise uncountable()

    async def _read(self, connection: AsyncConnection, subjects: Collection[str]) -> set[str]:
        """Read these subjects' rows; the subjects."""
        if not subjects:
            return set()
        self._known.update(dict.fromkeys(subjects, _NO_ROW))
        for row in await connection.execute(_READ, {"subjects": list(subjects)}):
            self._known[row.subject] = _Row(row.day, row.used, row.buckets)
        return set(subjects)

    async def _write(self, connection: AsyncConnection, changed: Mapping[str, _Row]) -> set[str]:
        """Write these rows; the subjects whose row no other process had changed."""
        if not changed:
            return set()
        old, new = [self._known[subject] for subject in changed], list(changed.values())
        columns = {
            "subjects": list(changed),
            "days": [row.day for row in new],
            "used": [row.used for row in new],
            "buckets": [row.buckets for row in new],
            "old_days": [row.day for row in old],
            "old_used": [row.used for row in old],
            "old_buckets": [row.buckets for row in old],
        }
        return {row.subject for row in await connection.execute(_CHANGE, columns)}

    async def _forget_some(self, connection: AsyncConnection) -> None:
        """Delete a few rows of the days before yesterday."""
        yesterday = int(clock.seconds() // SECONDS_PER_DAY) - 1
        if self._forgotten_before != yesterday:
            deleted = await connection.execute(_FORGET, {"day": yesterday, "count": FORGOTTEN_AT_ONCE})
            if deleted.rowcount < FORGOTTEN_AT_ONCE:
                self._forgotten_before = yesterday


class StoredCounts:
    """Copies of the day's counts that are kept elsewhere, such as in Redis, in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, counts: Mapping[str, tuple[int, int]]) -> None:
        """Store (day, used) by subject; of the same day the larger count stays. Raises Problem."""
        rows = [
            {"subject": subject, "day": day, "used": used, "nothing": b""}
            # In one order: two processes that save the same subjects must not wait for each other.
            for subject, (day, used) in sorted(counts.items())
        ]
        async with self._database.writing() as connection:
            await connection.execute(_SAVE, rows)

    async def since(self, day: int) -> list[tuple[str, int, int]]:
        """The subject, day and count of every copy of that day (days since 1970) or later. Raises Problem."""
        async with self._database.reading() as connection:
            return [(row.subject, row.day, row.used) for row in await connection.execute(_SAVED, {"day": day})]

    async def forget_before(self, day: int) -> None:
        """Delete the copies of earlier days. Raises Problem."""
        deleted = FORGOTTEN_AT_ONCE
        while deleted == FORGOTTEN_AT_ONCE:
            async with self._database.writing() as connection:
                deleted = (await connection.execute(_FORGET, {"day": day, "count": FORGOTTEN_AT_ONCE})).rowcount
