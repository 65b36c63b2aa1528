"""A copy in memory of stored rows; each sync reads only the rows that changed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from sys import intern
from typing import Generic, TypeVar

from msgspec import Struct

from tollhouse.services.defense import store
from tollhouse.services.defense.store import Rows, Source
from tollhouse.storage.database import Transaction

Item = TypeVar("Item")


class RowChanges(Struct, frozen=True):
    """Ids of rows that were added or changed, and of rows that were removed, since the previous sync."""

    changed: set[str]
    removed: set[str]


class SyncedRows(Generic[Item]):
    """The rows of a source after a moment, decoded by `read`, in `items` by id.

    If a sync or its transaction fails, call `clear`: the next sync then reads everything.
    """

    def __init__(self, source: Source, read: Callable[[bytes], Item]) -> None:
        self._source = source
        self._read = read
        self.clear()

    def clear(self) -> None:
        self._position: tuple[str, str, int] | None = None
        self.items: dict[str, Item] = {}
        self._moments: dict[str, str] = {}

    def moment(self, row_id: str) -> str:
        """The moment that decides whether a row belongs to a window."""
        return self._moments[row_id]

    async def sync(self, connection: Transaction, pool: str, after: str) -> RowChanges:
        """Hold the rows of a pool after that moment, as the connection's snapshot has them."""
        number = await store.revision(connection, self._source.feed)
        before, self._position = self._position, (pool, after, number)
        if before is None or pool != before[0] or after < before[1] or number < before[2]:
            previous, self.items, self._moments = set(self.items), {}, {}
            read = await self._take(store.rows_after(connection, self._source, pool, after), after)
            return RowChanges(read.changed, previous - read.changed)
        removed = self._remove([row_id for row_id, moment in self._moments.items() if moment <= after])
        if number == before[2]:
            return RowChanges(set(), removed)
        read = await self._take(store.rows_changed_since(connection, self._source, pool, before[2]), after)
        removed |= read.removed
        gone = await store.removed_since(connection, self._source, pool, before[2])
        removed |= self._remove(self.items.keys() & gone)
        return RowChanges(read.changed, removed - read.changed)

    async def _take(self, batches: AsyncIterator[Rows], after: str) -> RowChanges:
        changes = RowChanges(set(), set())
        async for rows in batches:
            inside = [row for row in rows if row[1] > after]
            items = await asyncio.to_thread(lambda bodies: list(map(self._read, bodies)), [body for *_, body in inside])
            for (row_id, moment, _), item in zip(inside, items, strict=True):
                self.items[row_id], self._moments[row_id] = item, intern(moment)
            changes.changed.update(row_id for row_id, _, _ in inside)
            # A changed row may have moved out of the window.
            changes.removed.update(self._remove([row[0] for row in rows if row[1] <= after and row[0] in self.items]))
        return changes

    def _remove(self, ids: Collection[str]) -> set[str]:
        for row_id in ids:
            del self.items[row_id], self._moments[row_id]
        return set(ids)
