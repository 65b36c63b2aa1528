"""The ledger: move, reserve, post and void money; read accounts and transfers. Writes are committed in batches."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.payments.ledger.sqlite_store import SqliteStore
from tollhouse.payments.ledger.store import Store
from tollhouse.payments.ledger.types import (
    Delivered,
    Done,
    Gone,
    IdTaken,
    IdTakenError,
    Insufficient,
    LedgerCommand,
    LedgerEntry,
    Move,
    Moved,
    Overdrawn,
    OverdrawnError,
    Post,
    Release,
    ReservationGoneError,
    Reserve,
    Reserved,
    Result,
    Sweep,
    Transfer,
    Used,
    Void,
)
from tollhouse.payments.stored_response import RESPONSE_TTL_SECONDS, DeliveryGrace, StoredResponse
from tollhouse.storage.database import Database, database_url, open_database
from tollhouse.storage.migrate import LEDGER, migrate

log = logger("ledger")

MAX_BATCH = 256

Apply = Callable[[Sequence[LedgerCommand]], Awaitable[list[Result]]]
_Waiting = tuple[LedgerCommand, asyncio.Future[Result] | None]


class Batcher:
    """Group commit: commands that arrive while a batch is committed form the next batch, in order."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self._queue: deque[_Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._is_closed = False

    def submit(self, command: LedgerCommand) -> asyncio.Future[Result]:
        """The future result, durable once it is set. Cancelling it does not cancel the command."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._put(command, future)
        return future

    def submit_nowait(self, command: LedgerCommand) -> None:
        """Submit a command without waiting for its result."""
        self._put(command, None)

    async def close(self) -> None:
        """Write what is queued. Later commands raise Problem `storage-unavailable`."""
        self._is_closed = True
        if self._writer:
            await self._writer

    def _put(self, command: LedgerCommand, future: asyncio.Future[Result] | None) -> None:
        if self._is_closed:
            if future:
                future.set_exception(
                    Problem("storage-unavailable", "The server is stopping. Try again shortly.", retry_after_seconds=5)
                )
            return
        self._queue.append((command, future))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())

    async def _write(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), MAX_BATCH))]
            await self._write_batch(batch)

    async def _write_batch(self, batch: list[_Waiting]) -> None:
        try:
            results = await self._apply([command for command, _ in batch])
        except Problem as problem:
            for _, future in batch:
                _fail(future, problem)
        except Exception as error:
            log.exception("ledger batch failed", commands=len(batch))
            await self._apply_one_by_one(batch, error)
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if future and not future.done():
                    future.set_result(result)

    async def _apply_one_by_one(self, batch: list[_Waiting], error: Exception) -> None:
        """An error in one command must not fail the others: nothing was written, so write them one by one."""
        if len(batch) == 1:
            _fail(batch[0][1], error)
            return
        for waiting in batch:
            await self._write_batch([waiting])


def _fail(future: asyncio.Future[Result] | None, error: Exception) -> None:
    if future and not future.done():
        future.set_exception(error)


MAX_NAME_LENGTH = 300
MAX_AMOUNT_MICROS = 10**15
MAX_MEMO_BYTES = 4_096


async def open_ledger(settings: Settings, database: Database) -> "Ledger":
    """The ledger of this database, migrated, without reservations of processes that are gone.

    On SQLite it is the file `ledger.db` beside the database's, so that the ledger never waits for an ingest. Raises
    Problem `storage-unavailable`, NewerSchemaError.
    """
    ledger = Ledger(await (_sqlite(settings) if database.is_sqlite else _postgres(settings, database)))
    await ledger.recover()
    return ledger


def ledger_file(settings: Settings) -> Path:
    """The path of the ledger's SQLite file."""
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
    """Moves and reserves money. Every change is durable before its call returns. See Store for what reads.

    Any method raises Problem `storage-unavailable` when its change cannot be made durable, or its outcome is unknown.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # What only reads, or does not move money, is the store's own.
        self.account, self.reversed_micros, self.find = store.account, store.reversed_micros, store.find
        self.transfers, self.recent, self.between = store.transfers, store.recent, store.between
        self.kinds, self.spending, self.sums, self.sum_up = store.kinds, store.spending, store.sums, store.sum_up
        self.check_writable, self.verify = store.check_writable, store.audit
        self._batcher = Batcher(store.apply)
        self._numbers = count(1)
        # The reservations of this process that are still in use, by the command that made them.
        self._reserving: set[tuple[int, int]] = set()
        self._reservations: dict[str, tuple[int, int]] = {}
        self._grace = DeliveryGrace[str](lambda transfer_id: self._batcher.submit_nowait(Delivered(transfer_id)))

    async def move(self, transfer: Transfer) -> Moved:
        """Settle a transfer at once. The same id with the same content changes nothing and is not new.

        Raises IdTakenError for another content (apart from the memo), OverdrawnError for an agent with too little,
        ValueError for an invalid transfer.
        """
        _check(transfer)
        result = await self._batcher.submit(Move(transfer, self._store.owner, next(self._numbers)))
        if isinstance(result, IdTaken):
            raise IdTakenError(result.transfer)
        if isinstance(result, Overdrawn):
            raise OverdrawnError(result.account, result.balance_micros)
        assert isinstance(result, Moved)
        return result

    async def reserve(  # noqa: PLR0913, PLR0917 - the fields of a transfer
        self,
        transfer_id: str,
        debit: str,
        credit: str,
        amount_micros: int,
        kind: str,
        fingerprint: bytes,
        memo: dict[str, Any] | None = None,
    ) -> Reserved | Insufficient | Used:
        """Take the id and reserve the price in one step. `fingerprint` identifies the request.

        An agent with too little pays nothing, and nothing is stored. Raises ValueError for an invalid transfer.
        """
        transfer = Transfer(transfer_id, debit, credit, amount_micros, kind, memo)
        _check(transfer)
        origin = self._store.owner, next(self._numbers)
        self._reserving.add(origin)
        try:
            result = await self._batcher.submit(Reserve(transfer, fingerprint, *origin))
            if isinstance(result, Reserved):
                self._reservations[transfer_id] = origin
        except asyncio.CancelledError:
            # The caller is gone and will not release it.
            self._batcher.submit_nowait(Release(transfer_id, origin))
            raise
        finally:
            self._reserving.discard(origin)
        assert isinstance(result, Reserved | Insufficient | Used)
        if isinstance(result, Used) and transfer_id in self._grace:
            return Used(result.state)
        return result

    async def post(self, transfer_id: str, response: StoredResponse | None, amount_micros: int | None = None) -> None:
        """Charge a reservation and store its response. Raises ReservationGoneError: then send nothing.

        With an amount, at most what was reserved, only that is charged. Raises ValueError unless it is above 0.
        """
        if amount_micros is not None and amount_micros <= 0:
            raise ValueError("what is charged must be above 0; void the reservation instead")
        origin = self._reservations.get(transfer_id)
        try:
            result = await self._batcher.submit(Post(transfer_id, response, origin, amount_micros))
        finally:
            self._reservations.pop(transfer_id, None)
        _require_reservation(transfer_id, result)

    async def void(self, transfer_id: str) -> None:
        """Give the money of a reservation back; its id stays taken. Raises ReservationGoneError if it was posted."""
        self._reservations.pop(transfer_id, None)
        _require_reservation(transfer_id, await self._batcher.submit(Void(transfer_id)))

    async def release(self, transfer_id: str) -> None:
        """Delete a reservation: its id is free again. Does nothing if it was posted, voided or released before."""
        await self._batcher.submit(Release(transfer_id, self._reservations.pop(transfer_id, None)))

    def delivered(self, transfer_id: str) -> None:
        """The response was completely sent: refuse the id from now on, and delete the response after a grace period."""
        self._grace.add(transfer_id)

    async def recover(self) -> int:
        """Release the reservations of processes that are gone; their number. Never one of a live process."""
        pending = await self._store.pending()
        others = {entry.owner for entry in pending} - {self._store.owner}
        dead = others - await self._store.alive(others)
        orphans = [entry for entry in pending if entry.owner in dead or self._is_abandoned(entry)]
        releases = [self._batcher.submit(Release(entry.transfer.id, (entry.owner, entry.number))) for entry in orphans]
        return sum(isinstance(result, Done) for result in await asyncio.gather(*releases))

    async def sweep(self) -> None:
        """Delete the stored responses that are older than ten minutes."""
        await self._batcher.submit(Sweep(clock.seconds() - RESPONSE_TTL_SECONDS))

    async def close(self) -> None:
        """Write what is queued, and close the store."""
        self._grace.close()
        await self._batcher.close()
        await self._store.close()

    def _is_abandoned(self, entry: LedgerEntry) -> bool:
        """Ours but unknown here: the outcome of its reserve command was unknown."""
        origin = entry.owner, entry.number
        is_ours = entry.owner == self._store.owner
        return is_ours and origin not in self._reserving and self._reservations.get(entry.transfer.id) != origin


def _check(transfer: Transfer) -> None:
    names = (transfer.id, transfer.debit, transfer.credit, transfer.kind)
    if not all(0 < len(name) <= MAX_NAME_LENGTH and name.isprintable() for name in names):
        raise ValueError(f"a transfer's names must be printable, with 1 to {MAX_NAME_LENGTH} characters")
    if not 0 < transfer.amount_micros <= MAX_AMOUNT_MICROS:
        raise ValueError(f"a transfer must move 1 to {MAX_AMOUNT_MICROS} micro-USD")
    if transfer.debit == transfer.credit:
        raise ValueError("a transfer must be between two different accounts")
    if transfer.memo is not None and len(msgspec.json.encode(transfer.memo)) > MAX_MEMO_BYTES:
        raise ValueError(f"a memo must have at most {MAX_MEMO_BYTES} bytes")


def _require_reservation(transfer_id: str, result: object) -> None:
    if isinstance(result, Gone):
        raise ReservationGoneError(f"{transfer_id} is {result.state or 'unknown'}")
