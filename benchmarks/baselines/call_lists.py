"""Usage counts as lists of calls, as they were before buckets: in memory, SQLite, PostgreSQL and Redis."""

import contextlib
import sqlite3
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import text

from tollhouse.storage.database import Database

SECONDS_PER_DAY = 86_400

CREATE = """CREATE TABLE IF NOT EXISTS {name}
    (subject TEXT PRIMARY KEY, day INTEGER NOT NULL, used INTEGER NOT NULL, recent {blob} NOT NULL)"""
_READ = "SELECT day, used, recent FROM tally WHERE subject = ?"
_WRITE = """INSERT INTO tally VALUES (?, ?, ?, ?)
    ON CONFLICT (subject) DO UPDATE SET day = excluded.day, used = excluded.used, recent = excluded.recent"""
_MAKE = text("INSERT INTO call_list VALUES (:subject, 0, 0, :nothing) ON CONFLICT (subject) DO NOTHING")
_LOCK = text("SELECT day, used, recent FROM call_list WHERE subject = :subject FOR UPDATE")
_CHANGE = text("UPDATE call_list SET day = :day, used = :used, recent = :recent WHERE subject = :subject")

# KEYS: the day's count, the recent calls. ARGV: now, sliding seconds, per sliding.
SCRIPT = """
local now, span = tonumber(ARGV[1]), tonumber(ARGV[2])
local oldest = redis.call('LINDEX', KEYS[2], 0)
while oldest and tonumber(oldest) <= now - span do
  redis.call('LPOP', KEYS[2])
  oldest = redis.call('LINDEX', KEYS[2], 0)
end
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
local recent = redis.call('LLEN', KEYS[2])
if recent < tonumber(ARGV[3]) then
  used = redis.call('INCRBY', KEYS[1], 1)
  recent = redis.call('RPUSH', KEYS[2], ARGV[1])
  redis.call('EXPIRE', KEYS[1], 172800)
  redis.call('EXPIRE', KEYS[2], math.ceil(span) + 1)
end
return {used, recent, redis.call('LINDEX', KEYS[2], 0) or ARGV[1]}
"""


class CallList:
    """The day's count and the moments of the recent calls."""

    __slots__ = ("day", "past", "recent", "used")

    def __init__(self, day: int = 0, used: int = 0, packed: bytes = b"") -> None:
        self.day, self.used, self.recent, self.past = day, used, array("d", packed), 0

    def packed(self) -> bytes:
        return self.recent[self.past :].tobytes()


def reserve(calls: CallList, per_day: int, per_minute: int, now: float) -> bool:
    """Count one call if it fits."""
    today = int(now // SECONDS_PER_DAY)
    if today > calls.day:
        calls.day, calls.used = today, 0
    recent, past = calls.recent, calls.past
    while past < len(recent) and recent[past] <= now - 60:
        past += 1
    if past * 2 > len(recent):
        del recent[:past]
        past = 0
    calls.past = past
    if calls.used >= per_day or len(recent) - past >= per_minute:
        return False
    calls.used += 1
    recent.append(now)
    return True


class InMemory:
    def __init__(self) -> None:
        self._lists: dict[str, CallList] = {}

    async def change(self, subject: str, rule: Callable[[CallList], Any]) -> Any:
        calls = self._lists.get(subject)
        if calls is None:
            calls = self._lists[subject] = CallList()
        return rule(calls)


class InSqlite:
    """One transaction for each call, as several workers on one machine had it."""

    def __init__(self, folder: Path) -> None:
        self._file = sqlite3.connect(folder / "lists.db", 10, isolation_level=None)
        # Of two processes at once one is refused, and the other sets it for both.
        with contextlib.suppress(sqlite3.OperationalError):
            self._file.execute("PRAGMA journal_mode=WAL")
        self._file.execute("PRAGMA synchronous=NORMAL")
        self._file.execute(CREATE.format(name="tally", blob="BLOB"))

    async def change(self, subject: str, rule: Callable[[CallList], Any]) -> Any:
        self._file.execute("BEGIN IMMEDIATE")
        row = self._file.execute(_READ, (subject,)).fetchone()
        calls = CallList(*row) if row else CallList()
        result = rule(calls)
        self._file.execute(_WRITE, (subject, calls.day, calls.used, calls.packed()))
        self._file.execute("COMMIT")
        return result


class InPostgres:
    """A row that is locked, read and rewritten for each call."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def make(self) -> None:
        async with self._database.writing() as connection:
            await connection.execute(text(CREATE.format(name="call_list", blob="BYTEA")))

    async def change(self, subject: str, rule: Callable[[CallList], Any]) -> Any:
        async with self._database.writing() as connection:
            await connection.execute(_MAKE, {"subject": subject, "nothing": b""})
            row = (await connection.execute(_LOCK, {"subject": subject})).one()
            calls = CallList(row.day, row.used, row.recent)
            result = rule(calls)
            values = {"subject": subject, "day": calls.day, "used": calls.used, "recent": calls.packed()}
            await connection.execute(_CHANGE, values)
        return result
