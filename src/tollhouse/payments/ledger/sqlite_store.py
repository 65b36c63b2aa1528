"""The ledger in SQLite: one connection and thread that write, one of each that read.

Each process that shares a ledger holds a locked file, its lease, and the lock ends with the process.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, TypeVar

from tollhouse import clock
from tollhouse.payments.ledger import rules
from tollhouse.payments.ledger.store import (
    ACCOUNT,
    ENTRY,
    NEXT_END,
    NEXT_SEQ,
    RESPONSE,
    SET_SUMS_END,
    SUMS_END,
    Store,
    account_row,
    add_sums,
    audit_queries,
    entry_from_row,
    entry_row,
    reach_failpoints,
    report,
    response_from_row,
    response_rows,
    unavailable,
)
from tollhouse.payments.ledger.types import AccountState, BatchChanges, BatchState, LedgerCommand, LedgerReport, Result
from tollhouse.storage.database import begin_immediate
from tollhouse.storage.outages import is_outage

T = TypeVar("T")

BUSY_TIMEOUT_SECONDS = 10.0
"""How long a batch waits for other processes before it fails."""

CHECK_BYTES = 65_536

_PUT_ACCOUNT = """INSERT INTO account (name, balance, reserved, total_in, total_out, posted_count, last_at)
    VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET balance = excluded.balance,
    reserved = excluded.reserved, total_in = excluded.total_in, total_out = excluded.total_out,
    posted_count = excluded.posted_count, last_at = excluded.last_at"""


_FINAL_SEQ = """SELECT max(seq) FROM transfer
    WHERE seq < coalesce((SELECT min(seq) FROM open_reservation), 9223372036854775807)"""


class SqliteStore(Store):
    """See Store. All database work runs in two threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._leases = lease_directory(path)
        self._lease = ProcessLease(self._leases)
        self.owner = self._lease.owner
        self._write_thread = ThreadPoolExecutor(1, "ledger-writer")
        self._read_thread = ThreadPoolExecutor(1, "ledger-reader")
        self._writer = _connect(path)
        self._writer.execute("PRAGMA busy_timeout=0")
        self._reader = _connect(path)

    async def apply(self, commands: Sequence[LedgerCommand]) -> list[Result]:
        """See Store."""
        return await _in(self._write_thread, lambda: _apply(self._writer, commands))

    async def alive(self, owners: Iterable[int]) -> set[int]:
        """See Store."""
        return {owner for owner in owners if is_alive(self._leases, owner)}

    async def check_writable(self) -> None:
        """See Store. The file grows by what it writes, so there is room for some entries afterwards."""
        await _in(self._write_thread, lambda: _write_and_delete(self._writer))

    async def sum_up(self) -> bool:
        """See Store."""
        return await _in(self._write_thread, lambda: _sum_up(self._writer, self.period, self.summed_at_once))

    async def audit(self) -> LedgerReport:
        """See Store. It uses a connection of its own, because it takes long on a long ledger."""
        return await asyncio.to_thread(_with_problems, lambda: _audit(self._path, self.period))

    async def close(self) -> None:
        """See Store."""
        await _in(self._write_thread, self._writer.close)
        await _in(self._read_thread, self._reader.close)
        self._write_thread.shutdown()
        self._read_thread.shutdown()
        self._lease.unregister()

    async def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return await _in(self._read_thread, lambda: self._reader.execute(_numbered(query), values).fetchall())


def _numbered(query: str) -> str:
    """The query with SQLite's placeholders."""
    return query.replace("$", "?")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
    # FULL: an acknowledged charge survives a power cut, which NORMAL does not guarantee.
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-16000", "wal_autocheckpoint=4000"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


async def _in(thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, _with_problems, work)


def _with_problems(work: Callable[[], T]) -> T:
    try:
        return work()
    except sqlite3.Error as error:
        if is_outage(error):
            raise unavailable(error) from error
        raise


@contextlib.contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction, which writes from its beginning."""
    begin_immediate(connection, BUSY_TIMEOUT_SECONDS)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _apply(connection: sqlite3.Connection, commands: Sequence[LedgerCommand]) -> list[Result]:
    with _writing(connection):
        changes = rules.apply(commands, _fetch_state(connection, commands), clock.seconds())
        _write(connection, changes)
        reach_failpoints(commands, "before-commit")
    reach_failpoints(commands, "after-commit")
    return changes.results


def _write_and_delete(connection: sqlite3.Connection) -> None:
    with _writing(connection):
        connection.execute("INSERT INTO kept_body VALUES (x'', zeroblob(?))", (CHECK_BYTES,))
        connection.execute("DELETE FROM kept_body WHERE hash = x''")


def _fetch_state(connection: sqlite3.Connection, commands: Sequence[LedgerCommand]) -> BatchState:
    def listed(query: str, values: list[Any]) -> list[tuple[Any, ...]]:
        in_list = f"{query} IN (SELECT value FROM json_each(?))"  # noqa: S608 - both parts are constants
        return connection.execute(in_list, (json.dumps(values),)).fetchall()

    rows = listed(f"{ENTRY} WHERE t.id", rules.transfer_ids(commands))
    entries = {entry.transfer.id: entry for entry in map(entry_from_row, rows)}
    accounts = listed(f"{ACCOUNT} WHERE name", rules.account_names(commands, entries))
    seqs = rules.reclaimed_seqs(commands, entries)
    responses = dict(map(response_from_row, listed(f"{RESPONSE} WHERE k.seq", seqs))) if seqs else {}
    ((next_seq,),) = connection.execute(NEXT_SEQ)
    return BatchState(entries, {row[0]: AccountState(*row) for row in accounts}, responses, next_seq)


def _write(connection: sqlite3.Connection, changes: BatchChanges) -> None:
    put = connection.executemany
    if changes.deleted:
        # First: an id that was released may be taken again in the same batch.
        put("DELETE FROM transfer WHERE seq = ?", ((seq,) for seq in changes.deleted))
    put("INSERT INTO transfer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", map(entry_row, changes.added))
    put("INSERT INTO resolution VALUES (?, ?, ?, ?)", changes.resolved)
    put("INSERT INTO open_reservation VALUES (?, ?)", ((entry.seq, entry.fingerprint) for entry in changes.opened))
    put("DELETE FROM open_reservation WHERE seq = ?", ((seq,) for seq in changes.closed))
    put(_PUT_ACCOUNT, map(account_row, changes.accounts))
    if changes.responses:
        rows, bodies = response_rows(changes.responses)
        put("INSERT INTO kept_body VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", bodies.items())
        put("INSERT INTO kept VALUES (?, ?, ?, ?, ?)", rows)
    put("DELETE FROM kept WHERE seq = ?", ((seq,) for seq in changes.forgotten))
    if changes.forget_before is not None:
        connection.execute("DELETE FROM kept WHERE at < ?", (changes.forget_before,))
        connection.execute("DELETE FROM kept_body WHERE hash NOT IN (SELECT hash FROM kept)")


def _sum_up(connection: sqlite3.Connection, period: str, count: int) -> bool:
    def value(query: str, *values: object) -> Any:
        return connection.execute(_numbered(query), values).fetchone()[0]

    with _writing(connection):
        since = value(SUMS_END)
        until = value(NEXT_END, since, value(_FINAL_SEQ), count)
        if until is not None:
            connection.execute(_numbered(add_sums(period)), (since, until))
            connection.execute(_numbered(SET_SUMS_END), (until,))
    return until is not None


def _audit(path: Path, period: str) -> LedgerReport:
    with contextlib.closing(_connect(path)) as connection:
        connection.execute("BEGIN")
        return report({name: connection.execute(query).fetchall() for name, query in audit_queries(period).items()})


def lease_directory(ledger: Path) -> Path:
    """The directory of lease files beside a ledger's file."""
    return ledger.with_name(f"{ledger.stem}-owners")


class ProcessLease:
    """This process's number among those that share a ledger, held until `unregister`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            self.owner = secrets.randbits(31)
            self._path = _path(folder, self.owner)
            with contextlib.suppress(FileExistsError):
                self._file = self._path.open("x")
                if _lock(self._file, self._path):
                    return
                self._file.close()

    def unregister(self) -> None:
        """Release the process lease."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def is_alive(folder: Path, owner: int) -> bool:
    """Whether a process holds that number. Numbers are never reused."""
    path = _path(folder, owner)
    try:
        file = path.open("r+")
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        path.unlink(missing_ok=True)
        return False


def is_ledger_open(ledger: Path) -> bool:
    """Whether any process, such as a server or a command, has this ledger open."""
    folder = lease_directory(ledger)
    return any(is_alive(folder, int(path.stem)) for path in folder.glob("*.lock"))


def _lock(file: IO[str], path: Path) -> bool:
    """Whether the lock is ours, on a file that still exists: another process may have deleted it as stale."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except OSError:
        return False


def _path(folder: Path, owner: int) -> Path:
    return folder / f"{owner}.lock"
