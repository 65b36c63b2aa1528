"""The holders of keys that were looked up lately, and how a change of a key reaches every process that remembers it.

A message drops a changed key at once. Since it may be lost, each process also reads the changes twice a second. The
holders count as known for TRUST_SECONDS after that: while the database is out of reach, every call asks it.
"""

import asyncio
from collections.abc import Collection
from time import monotonic

from tollhouse.accounts import store
from tollhouse.caller import KeyCaller
from tollhouse.errors import Problem
from tollhouse.storage.database import Database
from tollhouse.storage.messages import Messages

CACHE_SECONDS = 300.0
MOST_CACHED_KEYS = 50_000
POLL_SECONDS = 0.4
RETRY_SECONDS = 1.0
TRUST_SECONDS = 1.0
LONGEST_LOOKUP_SECONDS = 30.0
TOPIC = "keys"


class KeyCache:
    """The holders of keys by their text. `run` must run: without it, nothing is remembered."""

    def __init__(self, database: Database, messages: Messages) -> None:
        self._database = database
        self._messages = messages
        messages.subscribe(TOPIC, lambda ids: self._drop(ids.split(",")))
        # Oldest first, each with the moment at which it ends.
        self._cached: dict[str, tuple[float, KeyCaller]] = {}
        self._texts: dict[str, str] = {}
        self._trusted_until = 0.0
        self._mark: int | None = None
        self._changes: dict[str, int] = {}
        # When keys were dropped, and when all of them were: what was read before that is not put back.
        self._dropped_at: dict[str, float] = {}
        self._cleared_at = 0.0

    def get(self, text: str) -> KeyCaller | None:
        """The holder of a key, if it is remembered."""
        known = self._cached.get(text)
        return known[1] if known and monotonic() < min(known[0], self._trusted_until) else None

    def put(self, text: str, holder: KeyCaller, begun_at: float) -> None:
        """Remember the holder, who was looked up with a query that began at this moment (monotonic)."""
        now = monotonic()
        if max(self._dropped_at.get(holder.key_id, 0.0), self._cleared_at, now - LONGEST_LOOKUP_SECONDS) >= begun_at:
            return
        self._forget(holder.key_id)
        if len(self._cached) >= MOST_CACHED_KEYS:
            self._forget(next(iter(self._cached.values()))[1].key_id)
        self._cached[text] = (now + CACHE_SECONDS, holder)
        self._texts[holder.key_id] = text

    async def changed(self, key_id: str) -> None:
        """Drop a key whose change is committed, here and in the other processes."""
        await self._messages.publish(TOPIC, key_id)

    async def run(self) -> None:
        """Read the changes twice a second, until cancelled."""
        while True:
            try:
                await self.poll()
            except Problem:
                # The database is out of reach, which is in the log.
                await asyncio.sleep(RETRY_SECONDS)
            else:
                await asyncio.sleep(POLL_SECONDS)

    async def poll(self) -> None:
        """Drop what changed since the last time. Raises Problem `storage-unavailable`."""
        begun_at = monotonic()
        async with self._database.reading() as connection:
            mark, changes = await store.changed_keys(connection, self._mark)
        if self._mark is None or mark < self._mark:
            self._clear()
        else:
            self._drop([key_id for key_id, number in changes.items() if self._changes.get(key_id) != number])
        self._mark, self._changes = mark, changes
        self._trusted_until = begun_at + TRUST_SECONDS
        oldest = monotonic() - LONGEST_LOOKUP_SECONDS
        self._dropped_at = {key_id: at for key_id, at in self._dropped_at.items() if at > oldest}

    def _drop(self, key_ids: Collection[str]) -> None:
        now = monotonic()
        for key_id in key_ids:
            self._dropped_at[key_id] = now
            self._forget(key_id)

    def _forget(self, key_id: str) -> None:
        text = self._texts.pop(key_id, None)
        if text is not None:
            del self._cached[text]

    def _clear(self) -> None:
        self._cached, self._texts = {}, {}
        self._cleared_at = monotonic()
