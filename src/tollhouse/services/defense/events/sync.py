"""What a reader holds of stored rows, brought up to date by what changed since it last looked."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from sys import intern
from typing import Generic, TypeVar

from msgspec import Struct

from tollhouse.services.defense import revisions
from tollhouse.services.defense.revisions import Rows, Source
from tollhouse.storage.database import Transaction

Item = TypeVar("Item")


class Difference(Struct, frozen=True):
    """Ids that came or changed, and ids that left, since the look before."""

    changed: set[str]
    gone: set[str]


class Followed(Generic[Item]):
    """One source's rows after a moment, as `read` makes them of their packed bodies; `items` by id.

    After a look that failed, or whose transaction did, `forget`: the next look then reads everything.
    """

    def __init__(self, source: Source, read: Callable[[bytes], Item]) -> None:
        self._source = source
        self._read = read
        self.forget()

    def forget(self) -> None:
        """Hold nothing."""
        self._at: tuple[str, str, int] | None = None
        self.items: dict[str, Item] = {}
        self._moments: dict[str, str] = {}

    def moment(self, identity: str) -> str:
        """The moment by which a held row belongs to a window or not."""
        return self._moments[identity]

    @property
    def revision(self) -> int:
        """The revision up to which everything is held."""
        return self._at[2] if self._at else 0

    def wrote(self, number: int) -> None:
        """Say that the holder itself made that revision, and needs not read it if it comes next."""
        if self._at and number == self._at[2] + 1:
            self._at = (*self._at[:2], number)

    async def look(self, connection: Transaction, pool: str, after: str) -> Difference:
        """Hold what the connection's snapshot has of a pool after that moment."""
        number = await revisions.revision(connection, self._source.feed)
        before, self._at = self._at, (pool, after, number)
        if before is None or pool != before[0] or after < before[1] or number < before[2]:
            held, self.items, self._moments = set(self.items), {}, {}
            found = await self._take(revisions.rows_after(connection, self._source, pool, after), after)
            return Difference(found.changed, held - found.changed)
        gone = self._leave([identity for identity, moment in self._moments.items() if moment <= after])
        if number == before[2]:
            return Difference(set(), gone)
        rows = revisions.rows_changed_since(connection, self._source, pool, before[2])
        found = await self._take(rows, after)
        gone |= found.gone
        if await revisions.removed_at(connection, self._source.feed) > before[2]:
            gone |= self._leave(self.items.keys() - await revisions.ids_after(connection, self._source, pool, after))
        return Difference(found.changed, gone - found.changed)

    async def again(self, connection: Transaction, pool: str, ids: Collection[str]) -> None:
        """Read these anew, as far as they are held: for items made of more than their row."""
        held = sorted(identity for identity in ids if identity in self.items)
        await self._take(revisions.rows_named(connection, self._source, pool, held), "")

    async def _take(self, found: AsyncIterator[Rows], after: str) -> Difference:
        taken = Difference(set(), set())
        async for rows in found:
            wanted = [row for row in rows if row[1] > after]
            items = await asyncio.to_thread(self._read_all, wanted)
            for (identity, moment, _), item in zip(wanted, items, strict=True):
                self.items[identity], self._moments[identity] = item, intern(moment)
            taken.changed.update(identity for identity, _, _ in wanted)
            # What changed may have moved out of the window, too.
            taken.gone.update(self._leave([row[0] for row in rows if row[1] <= after and row[0] in self.items]))
        return taken

    def _read_all(self, rows: Rows) -> list[Item]:
        return [self._read(body) for _, _, body in rows]

    def _leave(self, ids: Collection[str]) -> set[str]:
        for identity in ids:
            del self.items[identity], self._moments[identity]
        return set(ids)
