"""The ledger in SQLite: one connection and thread that write, one of each that read."""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from tollhouse import clock
from tollhouse.payments.ledger import rules
from tollhouse.payments.ledger.process_lease import ProcessLease, is_alive, lease_directory
from tollhouse.payments.ledger.store import (
    ACCOUNT,
    AUDIT,
    ENTRY,
    KEPT,
    NEXT_SEQ,
    PENDING,
    account_row,
    after_commit,
    before_commit,
    entry_from_row,
    entry_row,
    report,
    response_from_row,
    response_rows,
    unavailable,
)
from tollhouse.payments.ledger.types import (
    AccountState,
    BatchChanges,
    BatchState,
    LedgerCommand,
    LedgerEntry,
    LedgerReport,
    PostedResponse,
    Result,
    Transfer,
)
from tollhouse.storage.database import begin_immediate

T = TypeVar("T")

BUSY_TIMEOUT_SECONDS = 10.0
"""How long a batch waits for other processes before it fails."""

_LISTED = "SELECT value FROM json_each(?)"
_PUT_ACCOUNT = """INSERT INTO account (name, balance, reserved, total_in, total_out, posted_count, last_at)
    VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET balance = excluded.balance,
    reserved = excluded.reserved, total_in = excluded.total_in, total_out = excluded.total_out,
    posted_count = excluded.posted_count, last_at = excluded.last_at"""


class SqliteStore:
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

    async def account(self, name: str) -> AccountState:
        """See Store."""
        rows = await self._read(lambda: _accounts(self._reader, [name]))
        return rows.get(name, AccountState(name))

    async def find(self, transfer_id: str) -> Transfer | None:
        """See Store."""
        rows = await self._entries(" WHERE t.id = ?", transfer_id)
        return rows[0].transfer if rows else None

    async def transfers(self, kind: str, since: float) -> list[Transfer]:
        """See Store."""
        rows = await self._entries(" WHERE t.kind = ? AND t.at >= ? ORDER BY t.seq", kind, since)
        return [entry.transfer for entry in rows]

    async def recent(self, limit: int, account: str | None) -> list[Transfer]:
        """See Store."""
        if account is None:
            rows = await self._entries(" ORDER BY t.seq DESC LIMIT ?", limit)
        else:
            rows = await self._entries(_NEWEST_OF_ACCOUNT, account, limit, account, limit, limit)
        return [entry.transfer for entry in rows]

    async def pending(self) -> list[LedgerEntry]:
        """See Store."""
        return await self._read(lambda: [entry_from_row(row) for row in self._reader.execute(PENDING)])

    async def alive(self, owners: Iterable[int]) -> set[int]:
        """See Store."""
        return {owner for owner in owners if is_alive(self._leases, owner)}

    async def audit(self) -> LedgerReport:
        """See Store. It uses a connection of its own, because it takes long on a long ledger."""
        return await asyncio.to_thread(_with_problems, lambda: _audit(self._path))

    async def close(self) -> None:
        """See Store."""
        await _in(self._write_thread, self._writer.close)
        await _in(self._read_thread, self._reader.close)
        self._write_thread.shutdown()
        self._read_thread.shutdown()
        self._lease.unregister()

    async def _entries(self, where: str, *values: object) -> list[LedgerEntry]:
        return await self._read(lambda: [entry_from_row(row) for row in self._reader.execute(ENTRY + where, values)])

    async def _read(self, query: Callable[[], T]) -> T:
        return await _in(self._read_thread, query)


_NEWEST_OF_ACCOUNT = """ WHERE t.seq IN (
    SELECT seq FROM (SELECT seq FROM transfer WHERE debit = ? ORDER BY seq DESC LIMIT ?) AS paid
    UNION SELECT seq FROM (SELECT seq FROM transfer WHERE credit = ? ORDER BY seq DESC LIMIT ?) AS got)
    ORDER BY t.seq DESC LIMIT ?"""


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
    except sqlite3.OperationalError as error:
        raise unavailable(error) from error
    except sqlite3.DatabaseError as error:
        # SQLite raises a plain DatabaseError for a file that is damaged or is no database.
        if type(error) is sqlite3.DatabaseError:
            raise unavailable(error) from error
        raise


def _apply(connection: sqlite3.Connection, commands: Sequence[LedgerCommand]) -> list[Result]:
    with _transaction(connection, commands):
        changes = rules.apply(commands, _known(connection, commands), clock.seconds())
        _write(connection, changes)
    after_commit(commands)
    return changes.results


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, commands: Sequence[LedgerCommand]) -> Iterator[None]:
    begin_immediate(connection, BUSY_TIMEOUT_SECONDS)
    try:
        yield
        before_commit(commands)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _known(connection: sqlite3.Connection, commands: Sequence[LedgerCommand]) -> BatchState:
    ids = json.dumps(rules.transfer_ids(commands))
    rows = connection.execute(f"{ENTRY} WHERE t.id IN ({_LISTED})", (ids,))
    entries = {entry.transfer.id: entry for entry in map(entry_from_row, rows)}
    accounts = _accounts(connection, rules.account_names(commands, entries))
    ((next_seq,),) = connection.execute(NEXT_SEQ)
    return BatchState(entries, accounts, _kept(connection, rules.reclaimed_seqs(commands, entries)), next_seq)


def _accounts(connection: sqlite3.Connection, names: list[str]) -> dict[str, AccountState]:
    rows = connection.execute(f"{ACCOUNT} WHERE name IN ({_LISTED})", (json.dumps(names),))
    return {row[0]: AccountState(*row) for row in rows}


def _kept(connection: sqlite3.Connection, seqs: list[int]) -> dict[int, PostedResponse]:
    if not seqs:
        return {}
    rows = connection.execute(f"{KEPT} WHERE k.seq IN ({_LISTED})", (json.dumps(seqs),))
    return dict(map(response_from_row, rows))


def _write(connection: sqlite3.Connection, changes: BatchChanges) -> None:
    def put(statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        connection.executemany(statement, rows)

    put("INSERT INTO transfer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", map(entry_row, changes.added))
    put("INSERT INTO resolution VALUES (?, ?, ?)", changes.resolved)
    put("INSERT INTO open_reservation VALUES (?, ?)", ((entry.seq, entry.fingerprint) for entry in changes.opened))
    put("DELETE FROM open_reservation WHERE seq = ?", ((seq,) for seq in changes.closed))
    put(_PUT_ACCOUNT, (account_row(account) for account in changes.accounts))
    if changes.responses:
        _keep(connection, changes.responses)
    put("DELETE FROM kept WHERE seq = ?", ((seq,) for seq in changes.forgotten))
    if changes.forget_before is not None:
        connection.execute("DELETE FROM kept WHERE at < ?", (changes.forget_before,))
        connection.execute("DELETE FROM kept_body WHERE hash NOT IN (SELECT hash FROM kept)")


def _keep(connection: sqlite3.Connection, kept: dict[int, PostedResponse]) -> None:
    rows, bodies = response_rows(kept)
    connection.executemany("INSERT INTO kept_body VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", bodies.items())
    connection.executemany("INSERT INTO kept VALUES (?, ?, ?, ?, ?)", rows)


def _audit(path: Path) -> LedgerReport:
    with contextlib.closing(_connect(path)) as connection:
        connection.execute("BEGIN")
        return report({name: connection.execute(query).fetchall() for name, query in AUDIT.items()})
