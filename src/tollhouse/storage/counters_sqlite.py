"""Usage counters in an SQLite file: cached in memory for one process, shared by several."""

import asyncio
import contextlib
import fcntl
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import IO

from tollhouse import clock
from tollhouse.errors import OperatorError, Problem
from tollhouse.logs import logger
from tollhouse.storage.counters import Result, Tally

log = logger("storage")

USAGE_FILE = "usage.db"
FLUSH_EVERY_SECONDS = 0.5
FORGET_AFTER_SECONDS = 3_600
SECONDS_PER_DAY = 86_400

_CREATE = """CREATE TABLE IF NOT EXISTS tally
    (subject TEXT PRIMARY KEY, day INTEGER NOT NULL, used INTEGER NOT NULL, recent BLOB NOT NULL) WITHOUT ROWID"""
_READ = "SELECT day, used, recent FROM tally WHERE subject = ?"
_WRITE = """INSERT INTO tally VALUES (?, ?, ?, ?)
    ON CONFLICT (subject) DO UPDATE SET day = excluded.day, used = excluded.used, recent = excluded.recent"""


class FolderInUseError(OperatorError):
    """Another server holds the counters of this folder in memory."""


class MemoryCounters:
    """The counters of one process: exact in memory, on disk within a second. Locks the folder exclusively."""

    def __init__(self, folder: Path) -> None:
        self._lock = _hold(folder, fcntl.LOCK_EX)
        self._file = _open(folder)
        self._tallies: dict[str, Tally] = {}
        self._dirty: set[str] = set()
        self._flusher: asyncio.Task[None] | None = None
        self._is_closing = asyncio.Event()
        today = int(clock.seconds() // SECONDS_PER_DAY)
        for subject, day, used, recent in self._file.execute("SELECT * FROM tally WHERE day >= ?", (today - 1,)):
            self._tallies[subject] = Tally.from_row(day, used, recent)

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        """See Counters."""
        tally = self._tallies.get(subject)
        if tally is None:
            tally = self._tallies[subject] = Tally()
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush_until_closing())
        self._dirty.add(subject)
        return rule(tally)

    async def close(self) -> None:
        """Write pending changes and unlock the folder."""
        self._is_closing.set()
        if self._flusher:
            await self._flusher
        await self._flush_if_possible()
        self._file.close()
        self._lock.close()

    async def _flush_until_closing(self) -> None:
        while not self._is_closing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_closing.wait(), FLUSH_EVERY_SECONDS)
            await self._flush_if_possible()

    async def _flush_if_possible(self) -> None:
        try:
            await self._flush()
        except sqlite3.Error as error:
            # The counts stay exact in memory; only a crash before the next flush loses them.
            log.warning("usage counts not written", error=str(error), subjects=len(self._dirty))

    async def _flush(self) -> None:
        dirty, self._dirty = self._dirty, set()
        named = [(name, self._tallies[name]) for name in dirty if name in self._tallies]
        rows = [(name, tally.day, tally.used, tally.packed()) for name, tally in named]
        try:
            await asyncio.to_thread(_write_all, self._file, rows)
        except sqlite3.Error:
            self._dirty |= dirty
            raise
        self._forget_idle()

    def _forget_idle(self) -> None:
        moment = clock.seconds()
        today = int(moment // SECONDS_PER_DAY)
        idle = [
            name
            for name, tally in self._tallies.items()
            if tally.day < today and (not tally.recent or tally.recent[-1] < moment - FORGET_AFTER_SECONDS)
        ]
        for name in idle:
            if name not in self._dirty:
                del self._tallies[name]


class SharedFileCounters:
    """The counters of several processes in one file: each change is a transaction."""

    def __init__(self, folder: Path) -> None:
        self._lock = _hold(folder, fcntl.LOCK_SH)
        self._file = _open(folder)

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        """See Counters."""
        try:
            self._file.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise _unavailable(error) from error
        try:
            row = self._file.execute(_READ, (subject,)).fetchone()
            tally = Tally.from_row(*row) if row else Tally()
            result = rule(tally)
            self._file.execute(_WRITE, (subject, tally.day, tally.used, tally.packed()))
            self._file.execute("COMMIT")
        except BaseException as error:
            self._file.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise _unavailable(error) from error
            raise
        return result

    async def close(self) -> None:
        """Unlock the folder."""
        self._file.close()
        self._lock.close()


def _open(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / USAGE_FILE, timeout=5, isolation_level=None, check_same_thread=False)
    # NORMAL survives kill -9; a power failure may lose the last counts, which is acceptable for free calls.
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", _CREATE):
        connection.execute(statement)
    yesterday = int(clock.seconds() // SECONDS_PER_DAY) - 1
    connection.execute("DELETE FROM tally WHERE day < ?", (yesterday,))
    return connection


def _write_all(connection: sqlite3.Connection, rows: list[tuple[str, int, int, bytes]]) -> None:
    if not rows:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.executemany(_WRITE, rows)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _hold(folder: Path, how: int) -> IO[str]:
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "usage.lock").open("w")
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise FolderInUseError(
            f"another server is using {folder}: stop it, give this server its own --data-dir, "
            "or share the counters of both through `redis_url`"
        ) from None
    return file


def _unavailable(error: Exception) -> Problem:
    log.error("usage counts unavailable", error=str(error))
    return Problem(
        "storage-unavailable",
        "Usage counters are unavailable. Try again shortly.",
        headers={"Retry-After": "1"},
        retry_after_seconds=1,
    )
