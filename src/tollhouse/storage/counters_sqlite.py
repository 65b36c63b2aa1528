"""Usage counters in an SQLite file: cached in memory for one process, shared by several."""

import asyncio
import contextlib
import fcntl
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from tollhouse import clock
from tollhouse.errors import OperatorError, Problem
from tollhouse.logs import logger
from tollhouse.storage.counters import Result, Tally

log = logger("storage")

USAGE_FILE = "usage.db"
FLUSH_EVERY_SECONDS = 0.5
GENERATION_SECONDS = 1_800.0
OPEN_SECONDS = 1.0
"""How long an open waits for a lock of another process."""
LOCK_SECONDS = 2.0
"""How long a call waits for a lock of another process; those that come after it do not wait while the lock lasts."""
RETRY_SECONDS = 0.005
BUSY_MILLISECONDS = 3
"""How long SQLite itself waits, which stops this process: longer than another process's change takes."""
SECONDS_PER_DAY = 86_400

_CREATE = """CREATE TABLE IF NOT EXISTS tally
    (subject TEXT PRIMARY KEY, day INTEGER NOT NULL, used INTEGER NOT NULL, recent BLOB NOT NULL) WITHOUT ROWID"""
_READ = "SELECT day, used, recent FROM tally WHERE subject = ?"
_WRITE = """INSERT INTO tally VALUES (?, ?, ?, ?)
    ON CONFLICT (subject) DO UPDATE SET day = excluded.day, used = excluded.used, recent = excluded.recent"""
_FORGET = "DELETE FROM tally WHERE day < ?"


class FolderInUseError(OperatorError):
    """Another server holds the counters of this folder in memory."""


class MemoryCounters:
    """The counters of one process: exact in memory, on disk within a second. Locks the folder exclusively.

    Subjects that were not used for half an hour to an hour are only on disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = _hold(folder, fcntl.LOCK_EX)
        self._connect()
        # Two generations: a subject that is used moves to the young one.
        self._young: dict[str, Tally] = {}
        self._old: dict[str, Tally] = {}
        self._dirty: dict[str, Tally] = {}
        self._writing: dict[str, Tally] = {}
        self._flusher: asyncio.Task[None] | None = None
        self._is_closing = asyncio.Event()

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        """See Counters."""
        tally = self._young.get(subject)
        if tally is None:
            tally = self._old.pop(subject) if subject in self._old else self._find(subject)
            self._young[subject] = tally
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush_until_closing())
        self._dirty[subject] = tally
        return rule(tally)

    async def close(self) -> None:
        """Write pending changes and unlock the folder."""
        self._is_closing.set()
        if self._flusher:
            # It may be cancelled already, with every task of an event loop that ends.
            await asyncio.gather(self._flusher, return_exceptions=True)
        await self._flush_if_possible()
        self._reader.close()
        self._file.close()
        self._lock.close()

    def _connect(self) -> None:
        self._file = _open(self._folder, must_write=False)
        self._reader = _connect(self._folder, must_write=False)
        self._reader.execute(f"PRAGMA busy_timeout={BUSY_MILLISECONDS}")

    def _find(self, subject: str) -> Tally:
        """A tally that is not in memory, or is only there because it is not written yet."""
        unwritten = self._dirty.get(subject) or self._writing.get(subject)
        if unwritten is not None:
            return unwritten
        try:
            row = self._reader.execute(_READ, (subject,)).fetchone()
        except sqlite3.Error as error:
            log.warning("usage count not read", error=str(error))
            row = None
        return Tally.from_row(*row) if row else Tally()

    async def _flush_until_closing(self) -> None:
        loop = asyncio.get_running_loop()
        next_generation = loop.time() + GENERATION_SECONDS
        while not self._is_closing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_closing.wait(), FLUSH_EVERY_SECONDS)
            await self._flush_if_possible()
            if loop.time() >= next_generation:
                self._old, self._young = self._young, {}
                next_generation = loop.time() + GENERATION_SECONDS

    async def _flush_if_possible(self) -> None:
        try:
            await self._flush()
        except sqlite3.Error as error:
            # The counts stay exact in memory; only a crash before the next flush loses them.
            log.warning("usage counts not written", error=str(error), subjects=len(self._dirty))
            if _is_damage(error):
                self._replace_file()

    async def _flush(self) -> None:
        self._writing, self._dirty = self._dirty, {}
        rows = [(name, tally.day, tally.used, tally.packed()) for name, tally in self._writing.items()]
        try:
            await asyncio.to_thread(_write_all, self._file, rows)
        except sqlite3.Error:
            self._dirty = self._writing | self._dirty
            raise
        finally:
            self._writing = {}

    def _replace_file(self) -> None:
        """Write everything that is in memory to a new file; the damaged one is set aside."""
        for connection in (self._reader, self._file):
            connection.close()
        self._dirty = {**self._old, **self._young, **self._dirty}
        with contextlib.suppress(sqlite3.Error):
            self._connect()


class SharedFileCounters:
    """The counters of several processes in one file: each change is a transaction."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = _hold(folder, fcntl.LOCK_SH)
        self._turn = asyncio.Lock()
        self._is_locked = False
        self._connect()

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        """See Counters."""
        async with self._turn:
            try:
                await self._begin()
                return self._change(subject, rule)
            except sqlite3.DatabaseError as error:
                if _is_damage(error) or _inode(self._folder) != self._inode:
                    self._file.close()
                    self._connect()
                raise _unavailable(error) from error

    async def close(self) -> None:
        """Unlock the folder."""
        self._file.close()
        self._lock.close()

    def _connect(self) -> None:
        self._file = _open(self._folder, must_write=True)
        self._file.execute(f"PRAGMA busy_timeout={BUSY_MILLISECONDS}")
        self._inode = _inode(self._folder)

    async def _begin(self) -> None:
        """Begin a transaction. Waits for other processes without stopping this one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (0.0 if self._is_locked else LOCK_SECONDS)
        while True:
            try:
                self._file.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                if loop.time() >= deadline:
                    self._is_locked = True
                    raise
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._is_locked = False
                return

    def _change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        try:
            row = self._file.execute(_READ, (subject,)).fetchone()
            tally = Tally.from_row(*row) if row else Tally()
            result = rule(tally)
            self._file.execute(_WRITE, (subject, tally.day, tally.used, tally.packed()))
            self._file.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._file.execute("ROLLBACK")
            raise
        return result


def _open(folder: Path, *, must_write: bool) -> sqlite3.Connection:
    """A connection to the file. A file that is damaged or stays locked is set aside, and a new one is begun."""
    with _one_process_at_a_time(folder):
        try:
            return _connect(folder, must_write=must_write)
        except sqlite3.DatabaseError as error:
            moment = int(clock.seconds())
            aside = folder / f"{USAGE_FILE}.aside-{moment}"
            for suffix in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    (folder / f"{USAGE_FILE}{suffix}").rename(f"{aside}{suffix}")
            log.warning("usage counts begin anew: the file is set aside", error=str(error), file=str(aside))
            return _connect(folder, must_write=must_write)


def _connect(folder: Path, *, must_write: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / USAGE_FILE, OPEN_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        # NORMAL survives kill -9; a power failure may lose the last counts, which is acceptable for free calls.
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", _CREATE, f"{_READ} LIMIT 1"):
            connection.execute(statement, ("",) if "?" in statement else ()).fetchall()
        with contextlib.nullcontext() if must_write else contextlib.suppress(sqlite3.OperationalError):
            connection.execute(_FORGET, (int(clock.seconds() // SECONDS_PER_DAY) - 1,))
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _write_all(connection: sqlite3.Connection, rows: list[tuple[str, int, int, bytes]]) -> None:
    if not rows:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.executemany(_WRITE, rows)
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is damaged, no database, or could not be opened again; a full disk is an OperationalError."""
    return type(error) in {sqlite3.DatabaseError, sqlite3.ProgrammingError}


def _inode(folder: Path) -> int:
    try:
        return (folder / USAGE_FILE).stat().st_ino
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def _one_process_at_a_time(folder: Path) -> Iterator[None]:
    with (folder / "usage-open.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
