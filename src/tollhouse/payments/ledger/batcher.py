"""Group commit: what is asked while one batch becomes durable is the next batch."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.payments.ledger.commands import Operation, Result

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
