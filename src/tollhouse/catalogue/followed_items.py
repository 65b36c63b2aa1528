"""A value of each item of a catalogue, in memory: after a change set, only the items that changed are read again."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.index_snapshots import IndexState
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.errors import Problem

# If a larger part of the items changed, all are read: that is faster than one by one.
MOST_CHANGED = 0.25

T = TypeVar("T")


class FollowedItems(Generic[T]):
    """`value_of` makes an item's value from its visible members."""

    def __init__(self, catalogue: Catalogue, value_of: Callable[[Item], T]) -> None:
        self._catalogue = catalogue
        self._value_of = value_of
        self._state = IndexState()
        self._values: dict[str, T] = {}
        self._reading = asyncio.Lock()

    async def current(self) -> list[T]:
        """The values of the items that the catalogue shows, ordered by id."""
        async with self._reading:
            state = self._catalogue.state
            if state != self._state:
                changed = await self._changed()
                self._values = await asyncio.to_thread(self._read, changed)
                self._state = state
            return list(self._values.values())

    async def _changed(self) -> Iterable[str] | None:
        """The ids of the items to read again, None for all."""
        try:
            return await self._catalogue.changed_since(self._state, int(MOST_CHANGED * len(self._values)))
        except Problem:
            # The index has them, too.
            return None

    def _read(self, changed: Iterable[str] | None) -> dict[str, T]:
        if changed is None:
            return {item["id"]: self._value_of(item) for item in self._catalogue.items(CatalogueQuery())}
        values = dict(self._values)
        for identity in changed:
            item = self._catalogue.get(identity)
            if item is None:
                values.pop(identity, None)
            else:
                values[identity] = self._value_of(item)
        return dict(sorted(values.items())) if values.keys() - self._values.keys() else values
