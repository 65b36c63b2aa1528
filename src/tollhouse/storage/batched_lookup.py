"""Concurrent lookups of single rows as one query."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar

from tollhouse.errors import Problem

MOST_AT_ONCE = 100

Key = TypeVar("Key")
Row = TypeVar("Row")


class BatchedLookup(Generic[Key, Row]):
    """Looks up keys with `query`, which returns the rows there are. What arrives during one query shares the next."""

    def __init__(self, query: Callable[[Sequence[Key]], Awaitable[Mapping[Key, Row]]]) -> None:
        self._query = query
        self._waiting: dict[Key, asyncio.Future[Row | None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def get(self, key: Key) -> Row | None:
        """The row as it is now or later, or None. Raises the Problem of the query."""
        future = self._waiting.get(key)
        if future is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
            if self._task is None:
                self._task = asyncio.create_task(self._run())
        try:
            return await asyncio.shield(future)
        except Problem as problem:
            # Each call adds headers to its own.
            raise Problem(problem.code, problem.detail, headers=dict(problem.headers), **problem.facts) from problem

    async def _run(self) -> None:
        try:
            while self._waiting:
                keys = list(islice(self._waiting, MOST_AT_ONCE))
                futures = [self._waiting.pop(key) for key in keys]
                try:
                    rows = await self._query(keys)
                except Exception as error:  # noqa: BLE001 - for the callers to handle
                    for future in futures:
                        future.set_exception(error)
                        # Its callers may all be gone.
                        future.exception()
                else:
                    for key, future in zip(keys, futures, strict=True):
                        future.set_result(rows.get(key))
        finally:
            self._task = None
