"""The ledger's rows in SQLite: one connection and thread that write, one of each that read."""

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
from tollhouse.payments.ledger.process_lease import OwnerLock, is_dead, owners_of
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
    entry_of,
    kept_of,
    kept_rows,
    report,
    row_of,
    unavailable,
)
from tollhouse.payments.ledger.types import (
    AccountState,
    Changes,
    Entry,
    Kept,
    Known,
    LedgerReport,
    Operation,
    Result,
    Transfer,
)
from tollhouse.storage.write_lock import take_turn

Answer = TypeVar("Answer")

BUSY_TIMEOUT_SECONDS = 10.0
"""How long a batch waits for other processes' batches before it is refused."""

_LISTED = "SELECT value FROM json_each(?)"
_PUT_ACCOUNT = """INSERT INTO account (name, balance, reserved, total_in, total_out, posted_count, last_at)
    VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET balance = excluded.balance,
    reserved = excluded.reserved, total_in = excluded.total_in, total_out = excluded.total_out,
    posted_count = excluded.posted_count, last_at = excluded.last_at"""


class SqliteStore:
    """See Store. The event loop only ever hands work to the threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owners = owners_of(path)
        self._lock = OwnerLock(self._owners)
        self.owner = self._lock.owner
        self._write_thread = ThreadPoolExecutor(1, "ledger-writer")
        self._read_thread = ThreadPoolExecutor(1, "ledger-reader")
        self._writer = _connect(path)
        self._writer.execute("PRAGMA busy_timeout=0")
        self._reader = _connect(path)

    async def apply(self, operations: Sequence[Operation]) -> list[Result]:
        """See Store."""
        return await _in(self._write_thread, lambda: _apply(self._writer, operations))

    async def account(self, name: str) -> AccountState:
        """See Store."""
        found = await self._read(lambda: _accounts(self._reader, [name]))
        return found.get(name, AccountState(name))

    async def find(self, transfer_id: str) -> Transfer | None:
        """See Store."""
        found = await self._entries(" WHERE t.id = ?", transfer_id)
        return found[0].transfer if found else None

    async def listed(self, kind: str, since: float) -> list[Transfer]:
        """See Store."""
        found = await self._entries(" WHERE t.kind = ? AND t.at >= ? ORDER BY t.seq", kind, since)
        return [entry.transfer for entry in found]

    async def recent(self, limit: int, account: str | None) -> list[Transfer]:
        """See Store."""
        if account is None:
            found = await self._entries(" ORDER BY t.seq DESC LIMIT ?", limit)
        else:
            found = await self._entries(_NEWEST_OF_ACCOUNT, account, limit, account, limit, limit)
        return [entry.transfer for entry in found]

    async def pending(self) -> list[Entry]:
        """See Store."""
        return await self._read(lambda: [entry_of(row) for row in self._reader.execute(PENDING)])

    async def dead(self, owners: Iterable[int]) -> set[int]:
        """See Store."""
        return {owner for owner in owners if is_dead(self._owners, owner)}

    async def audit(self) -> LedgerReport:
        """See Store. On a connection of its own: on a long ledger it takes its time."""
        return await asyncio.to_thread(_translated, lambda: _audit(self._path))

    async def close(self) -> None:
        """See Store."""
        await _in(self._write_thread, self._writer.close)
        await _in(self._read_thread, self._reader.close)
        self._write_thread.shutdown()
        self._read_thread.shutdown()
        self._lock.release()

    async def _entries(self, where: str, *values: object) -> list[Entry]:
        return await self._read(lambda: [entry_of(row) for row in self._reader.execute(ENTRY + where, values)])

    async def _read(self, question: Callable[[], Answer]) -> Answer:
        return await _in(self._read_thread, question)


_NEWEST_OF_ACCOUNT = """ WHERE t.seq IN (
    SELECT seq FROM (SELECT seq FROM transfer WHERE debit = ? ORDER BY seq DESC LIMIT ?) AS paid
    UNION SELECT seq FROM (SELECT seq FROM transfer WHERE credit = ? ORDER BY seq DESC LIMIT ?) AS got)
    ORDER BY t.seq DESC LIMIT ?"""


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
    # FULL: a charge that was acknowledged survives a power cut, which NORMAL does not promise.
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-16000", "wal_autocheckpoint=4000"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


async def _in(thread: ThreadPoolExecutor, work: Callable[[], Answer]) -> Answer:
    return await asyncio.get_running_loop().run_in_executor(thread, _translated, work)


def _translated(work: Callable[[], Answer]) -> Answer:
    try:
        return work()
    except sqlite3.OperationalError as error:
        raise unavailable(error) from error
    except sqlite3.DatabaseError as error:
        # SQLite says of a file that is damaged or no database that there is a DatabaseError, of no narrower kind.
        if type(error) is sqlite3.DatabaseError:
            raise unavailable(error) from error
        raise


def _apply(connection: sqlite3.Connection, operations: Sequence[Operation]) -> list[Result]:
    with _transaction(connection, operations):
        changes = rules.apply(operations, _known(connection, operations), clock.seconds())
        _write(connection, changes)
    after_commit(operations)
    return changes.results


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, operations: Sequence[Operation]) -> Iterator[None]:
    take_turn(connection, BUSY_TIMEOUT_SECONDS)
    try:
        yield
        before_commit(operations)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _known(connection: sqlite3.Connection, operations: Sequence[Operation]) -> Known:
    ids = json.dumps(rules.ids_of(operations))
    rows = connection.execute(f"{ENTRY} WHERE t.id IN ({_LISTED})", (ids,))
    entries = {entry.transfer.id: entry for entry in map(entry_of, rows)}
    accounts = _accounts(connection, rules.accounts_of(operations, entries))
    ((next_seq,),) = connection.execute(NEXT_SEQ)
    return Known(entries, accounts, _kept(connection, rules.asked_again(operations, entries)), next_seq)


def _accounts(connection: sqlite3.Connection, names: list[str]) -> dict[str, AccountState]:
    rows = connection.execute(f"{ACCOUNT} WHERE name IN ({_LISTED})", (json.dumps(names),))
    return {row[0]: AccountState(*row) for row in rows}


def _kept(connection: sqlite3.Connection, seqs: list[int]) -> dict[int, Kept]:
    if not seqs:
        return {}
    rows = connection.execute(f"{KEPT} WHERE k.seq IN ({_LISTED})", (json.dumps(seqs),))
    return dict(map(kept_of, rows))


def _write(connection: sqlite3.Connection, changes: Changes) -> None:
    def put(statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        connection.executemany(statement, rows)

    put("INSERT INTO transfer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", map(row_of, changes.added))
    put("INSERT INTO resolution VALUES (?, ?, ?)", changes.resolved)
    put("INSERT INTO open_reservation VALUES (?, ?)", ((entry.seq, entry.fingerprint) for entry in changes.opened))
    put("DELETE FROM open_reservation WHERE seq = ?", ((seq,) for seq in changes.closed))
    put(_PUT_ACCOUNT, (account_row(account) for account in changes.accounts))
    if changes.kept:
        _keep(connection, changes.kept)
    put("DELETE FROM kept WHERE seq = ?", ((seq,) for seq in changes.forgotten))
    if changes.forget_before is not None:
        connection.execute("DELETE FROM kept WHERE at < ?", (changes.forget_before,))
        connection.execute("DELETE FROM kept_body WHERE hash NOT IN (SELECT hash FROM kept)")


def _keep(connection: sqlite3.Connection, kept: dict[int, Kept]) -> None:
    rows, bodies = kept_rows(kept)
    connection.executemany("INSERT INTO kept_body VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", bodies.items())
    connection.executemany("INSERT INTO kept VALUES (?, ?, ?, ?, ?)", rows)


def _audit(path: Path) -> LedgerReport:
    with contextlib.closing(_connect(path)) as connection:
        connection.execute("BEGIN")
        return report({name: connection.execute(question).fetchall() for name, question in AUDIT.items()})
