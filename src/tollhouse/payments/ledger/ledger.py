"""The ledger: move, reserve, post and void money; read accounts and transfers. Writes are committed in batches."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import msgspec

from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.payments.ledger.sqlite_store import SqliteStore
from tollhouse.payments.ledger.store import Store
from tollhouse.payments.ledger.types import (
    REVENUE,
    REVERSAL,
    REVERSALS,
    TREASURY,
    AccountState,
    Delivered,
    Done,
    Entry,
    Gone,
    IdTakenError,
    Insufficient,
    LedgerReport,
    Move,
    Moved,
    Operation,
    Overdrawn,
    OverdrawnError,
    Post,
    ReservationGoneError,
    Reserve,
    Reserved,
    Result,
    Sweep,
    Taken,
    Transfer,
    Used,
    Void,
)
from tollhouse.payments.stored_response import KEPT_SECONDS, Leaving, StoredResponse
from tollhouse.storage.database import Database, database_url, open_database
from tollhouse.storage.migrate import LEDGER, migrate

log = logger("ledger")

LARGEST_BATCH = 256

Apply = Callable[[Sequence[Operation]], Awaitable[list[Result]]]
_Waiting = tuple[Operation, asyncio.Future[Result] | None]


class Batcher:
    """Hands operations to `apply` in the order they came, one batch at a time; each result is durable when it comes."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self._queue: deque[_Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._is_closed = False

    def ask(self, operation: Operation) -> asyncio.Future[Result]:
        """The result to come. Cancelling it takes the operation back only from who waits, not from the ledger."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._put(operation, future)
        return future

    def tell(self, operation: Operation) -> None:
        """An operation whose result nobody waits for."""
        self._put(operation, None)

    async def close(self) -> None:
        """Write what is queued. Whoever asks later gets Problem `storage-unavailable`."""
        self._is_closed = True
        if self._writer:
            await self._writer

    def _put(self, operation: Operation, future: asyncio.Future[Result] | None) -> None:
        if self._is_closed:
            if future:
                future.set_exception(closed())
            return
        self._queue.append((operation, future))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())

    async def _write(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), LARGEST_BATCH))]
            await self._write_batch(batch)

    async def _write_batch(self, batch: list[_Waiting]) -> None:
        try:
            results = await self._apply([operation for operation, _ in batch])
        except Problem as problem:
            for _, future in batch:
                _fail(future, problem)
        except Exception as error:
            log.exception("a batch failed", endpoints=len(batch))
            await self._find_the_culprit(batch, error)
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if future and not future.done():
                    future.set_result(result)

    async def _find_the_culprit(self, batch: list[_Waiting], error: Exception) -> None:
        """A mistake in one operation must not fail its neighbours: nothing was written, so write them one by one."""
        if len(batch) == 1:
            _fail(batch[0][1], error)
            return
        for waiting in batch:
            await self._write_batch([waiting])


def closed() -> Problem:
    """The server is stopping."""
    return Problem("storage-unavailable", "The server is stopping. Try again shortly.", headers={"Retry-After": "5"})


def _fail(future: asyncio.Future[Result] | None, error: Exception) -> None:
    if future and not future.done():
        future.set_exception(error)


__all__ = [
    "KEPT_SECONDS",
    "REVENUE",
    "REVERSAL",
    "REVERSALS",
    "TREASURY",
    "AccountState",
    "IdTakenError",
    "Insufficient",
    "Ledger",
    "LedgerReport",
    "Moved",
    "OverdrawnError",
    "ReservationGoneError",
    "Reserved",
    "StoredResponse",
    "Transfer",
    "Used",
    "ledger_file",
    "open_ledger",
]


LONGEST_ID = 300
LARGEST_AMOUNT_MICROS = 10**15
LARGEST_MEMO_BYTES = 4_096


async def open_ledger(settings: Settings, database: Database) -> "Ledger":
    """The ledger of this database, migrated, with nothing left open by processes that are gone.

    On SQLite it is the file `ledger.db` beside the database's own; the money never waits for an ingest. Raises
    Problem `storage-unavailable`, NewerSchemaError.
    """
    ledger = Ledger(await (_sqlite(settings) if database.is_sqlite else _postgres(settings, database)))
    await ledger.recover()
    return ledger


def ledger_file(settings: Settings) -> Path:
    """Where the ledger is on SQLite."""
    return Path(database_url(settings).database or "").with_name("ledger.db")


async def _sqlite(settings: Settings) -> Store:
    path = ledger_file(settings)
    own = open_database(replace(settings, database_url=f"sqlite:///{path}"))
    try:
        await migrate(own, LEDGER)
    finally:
        await own.close()
    return await asyncio.to_thread(SqliteStore, path)


async def _postgres(settings: Settings, database: Database) -> Store:
    from tollhouse.payments.ledger.postgres_store import PostgresStore

    await migrate(database, LEDGER)
    store = PostgresStore(database_url(settings))
    await store.open()
    return store


class Ledger:
    """Every change is durable before its call returns.

    Any method raises Problem `storage-unavailable` when its change cannot be made durable, or nobody can tell.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._batcher = Batcher(store.apply)
        self._numbers = count(1)
        # The reservations of this process that somebody still answers for, by the operation that made them.
        self._asking: set[tuple[int, int]] = set()
        self._held: dict[str, tuple[int, int]] = {}
        self._leaving = Leaving[str](lambda transfer_id: self._batcher.tell(Delivered(transfer_id)))

    async def move(self, transfer: Transfer) -> Moved:
        """Settle a transfer at once. The same id with the same content changes nothing and is not new.

        Raises IdTakenError for another content (the memo aside), OverdrawnError for an agent that has too little,
        ValueError for what is no transfer.
        """
        _check(transfer)
        result = await self._batcher.ask(Move(transfer, self._store.owner, next(self._numbers)))
        if isinstance(result, Taken):
            raise IdTakenError(result.transfer)
        if isinstance(result, Overdrawn):
            raise OverdrawnError(result.account, result.balance_micros)
        assert isinstance(result, Moved)
        return result

    async def reserve(  # noqa: PLR0913, PLR0917 - a transfer not made yet, in the order of its fields
        self, transfer_id: str, debit: str, credit: str, amount_micros: int, kind: str, fingerprint: bytes
    ) -> Reserved | Insufficient | Used:
        """Take the id and set the price aside, in one step. `fingerprint` tells the same request from another one.

        An agent that has too little pays nothing, and the id is taken all the same. Raises ValueError for what is no
        transfer.
        """
        transfer = Transfer(transfer_id, debit, credit, amount_micros, kind)
        _check(transfer)
        origin = self._store.owner, next(self._numbers)
        self._asking.add(origin)
        try:
            result = await self._batcher.ask(Reserve(transfer, fingerprint, *origin))
            if isinstance(result, Reserved):
                self._held[transfer_id] = origin
        except asyncio.CancelledError:
            # Who asked is gone and will not give it back.
            self._batcher.tell(Void(transfer_id, origin))
            raise
        finally:
            self._asking.discard(origin)
        assert isinstance(result, Reserved | Insufficient | Used)
        if isinstance(result, Used) and transfer_id in self._leaving:
            return Used(result.state)
        return result

    async def post(self, transfer_id: str, kept: StoredResponse | None) -> None:
        """Charge a reservation and keep the answer it pays for. Raises ReservationGoneError: then send nothing."""
        try:
            result = await self._batcher.ask(Post(transfer_id, kept))
        finally:
            self._held.pop(transfer_id, None)
        _check_there(transfer_id, result)

    async def void(self, transfer_id: str) -> None:
        """Give a reservation's money back; its id stays taken. Raises ReservationGoneError when it was posted."""
        self._held.pop(transfer_id, None)
        _check_there(transfer_id, await self._batcher.ask(Void(transfer_id)))

    def delivered(self, transfer_id: str) -> None:
        """The answer was handed over whole: refused here from now on, forgotten when it has surely left."""
        self._leaving.add(transfer_id)

    async def recover(self) -> int:
        """Void the reservations nobody answers for any more; tells how many. Never one of a process that lives."""
        pending = await self._store.pending()
        dead = await self._store.dead({entry.owner for entry in pending} - {self._store.owner})
        orphans = [entry for entry in pending if entry.owner in dead or self._is_abandoned(entry)]
        voids = [self._batcher.ask(Void(entry.transfer.id, (entry.owner, entry.number))) for entry in orphans]
        return sum(isinstance(result, Done) for result in await asyncio.gather(*voids))

    async def sweep(self) -> None:
        """Forget the kept answers that are older than ten minutes."""
        await self._batcher.ask(Sweep(clock.seconds() - KEPT_SECONDS))

    async def account(self, name: str) -> AccountState:
        """How an account stands; all zeros for one nobody has touched."""
        return await self._store.account(name)

    async def find(self, transfer_id: str) -> Transfer | None:
        """The transfer with that id, with its state."""
        return await self._store.find(transfer_id)

    async def listed(self, kind: str, since: float) -> list[Transfer]:
        """The transfers of a kind made at or after `since` (seconds since 1970), oldest first."""
        return await self._store.listed(kind, since)

    async def recent(self, limit: int, account: str | None = None) -> list[Transfer]:
        """The newest transfers, of one account or of all, newest first."""
        return await self._store.recent(limit, account)

    async def verify(self) -> LedgerReport:
        """Derive every balance again from the transfers, in the database itself, and check the rules of the book."""
        return await self._store.audit()

    async def close(self) -> None:
        """Write what is queued, and let the store go."""
        self._leaving.close()
        await self._batcher.close()
        await self._store.close()

    def _is_abandoned(self, entry: Entry) -> bool:
        """Ours, and nobody here knows of it: its reserve failed with an outcome that nobody could tell."""
        origin = entry.owner, entry.number
        is_ours = entry.owner == self._store.owner
        return is_ours and origin not in self._asking and self._held.get(entry.transfer.id) != origin


def _check(transfer: Transfer) -> None:
    names = (transfer.id, transfer.debit, transfer.credit, transfer.kind)
    if not all(0 < len(name) <= LONGEST_ID and name.isprintable() for name in names):
        raise ValueError(f"a transfer's names are printable and of 1 to {LONGEST_ID} characters")
    if not 0 < transfer.amount_micros <= LARGEST_AMOUNT_MICROS:
        raise ValueError(f"a transfer moves 1 to {LARGEST_AMOUNT_MICROS} micro-USD")
    if transfer.debit == transfer.credit:
        raise ValueError("a transfer moves money between two accounts")
    if transfer.memo is not None and len(msgspec.json.encode(transfer.memo)) > LARGEST_MEMO_BYTES:
        raise ValueError(f"a memo has at most {LARGEST_MEMO_BYTES} bytes")


def _check_there(transfer_id: str, result: object) -> None:
    if isinstance(result, Gone):
        raise ReservationGoneError(f"{transfer_id} is {result.state or 'unknown'}")
