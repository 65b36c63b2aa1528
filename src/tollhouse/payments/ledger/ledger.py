"""The ledger: move, reserve, post and void money; read accounts and transfers. Writes are committed in batches."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.payments.ledger.sqlite_store import SqliteStore
from tollhouse.payments.ledger.store import Store
from tollhouse.payments.ledger.types import (
    RESPONSE_TTL_SECONDS,
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
    StoredResponse,
    Sweep,
    Transfer,
    Used,
    Void,
)
from tollhouse.storage.database import Database, database_url, open_database
from tollhouse.storage.migrate import LEDGER, migrate

log = logger("ledger")

MAX_BATCH = 256

Apply = Callable[[Sequence[LedgerCommand]], Awaitable[list[Result]]]
_Waiting = tuple[LedgerCommand, asyncio.Future[Result]]


class Batcher:
    """Group commit: commands that arrive while a batch is committed form the next batch, in order."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self._queue: deque[_Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._is_closed = False

    def submit(self, command: LedgerCommand) -> asyncio.Future[Result]:
        """The future result, durable once it is set. Neither cancelling nor dropping it cancels the command."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        # One that is not awaited fails in silence.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self._is_closed:
            stopping = "The server is stopping. Try again shortly."
            future.set_exception(Problem("storage-unavailable", stopping, retry_after_seconds=5))
            return future
        self._queue.append((command, future))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        return future

    async def close(self) -> None:
        """Write what is queued. Later commands raise Problem `storage-unavailable`."""
        self._is_closed = True
        if self._writer:
            await self._writer

    async def _write(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), MAX_BATCH))]
            await self._write_batch(batch)

    async def _write_batch(self, batch: list[_Waiting]) -> None:
        try:
            results: Sequence[Result | Exception] = await self._apply([command for command, _ in batch])
        except Problem as problem:
            results = [problem] * len(batch)
        except Exception as error:
            log.exception("ledger batch failed", commands=len(batch))
            if len(batch) > 1:
                # An error in one command must not fail the others: nothing was written, so write them one by one.
                for waiting in batch:
                    await self._write_batch([waiting])
                return
            results = [error]
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


GRACE_SECONDS = 2.0
_CHECK_SECONDS = 0.05

K = TypeVar("K", bound=Hashable)


class DeliveryGrace(Generic[K]):
    """Keys of responses that were sent just now: refused at once, and forgotten only after a grace period.

    The HTTP server writes to the connection after it has taken a response. A response that a crash loses in that moment
    was paid for, and must still be stored when its payer asks again.
    """

    def __init__(self, forget: Callable[[K], object]) -> None:
        self._forget = forget
        self._queue: deque[tuple[float, K]] = deque()
        self._keys: set[K] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __contains__(self, key: K) -> bool:
        return key in self._keys

    def add(self, key: K) -> None:
        """The response was sent just now: `forget` is called with its key after the grace period."""
        if key in self._keys:
            return
        loop = asyncio.get_running_loop()
        self._keys.add(key)
        self._queue.append((loop.time() + GRACE_SECONDS, key))
        self._timer = self._timer or loop.call_later(_CHECK_SECONDS, self._check)

    def close(self) -> None:
        """Forget everything now: the server stopped in good order."""
        if self._timer is not None:
            self._timer.cancel()
        self._forget_until(float("inf"))

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        self._forget_until(loop.time())
        self._timer = loop.call_later(_CHECK_SECONDS, self._check) if self._queue else None

    def _forget_until(self, now: float) -> None:
        while self._queue and self._queue[0][0] <= now:
            _, key = self._queue.popleft()
            self._keys.discard(key)
            self._forget(key)


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
        self._grace = DeliveryGrace[str](lambda transfer_id: self._batcher.submit(Delivered(transfer_id)))

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
            self._batcher.submit(Release(transfer_id, origin))
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
