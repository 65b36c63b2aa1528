"""API keys: their format, creating, verifying, rotating and revoking them, and the cache of verified ones."""

import asyncio
import hmac
import secrets
import zlib
from collections.abc import Collection, Sequence
from hashlib import sha256
from sys import intern
from time import monotonic
from typing import Any

from msgspec import Struct

from tollhouse import clock
from tollhouse.accounts import store
from tollhouse.errors import Problem
from tollhouse.http.terms import KeyCaller
from tollhouse.storage.batched_lookup import BatchedLookup
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


PREFIX = "th_live_"
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_BYTES = 20
_RANDOM_CHARACTERS = 27  # 62 ** 27 > 2 ** 160
_CHECKSUM_CHARACTERS = 6  # 62 ** 6 > 2 ** 32
_LENGTH = len(PREFIX) + _RANDOM_CHARACTERS + _CHECKSUM_CHARACTERS


def new_key() -> str:
    """A new random key."""
    random = _base62(int.from_bytes(secrets.token_bytes(_RANDOM_BYTES), "big"), _RANDOM_CHARACTERS)
    return PREFIX + random + _checksum(random)


def is_well_formed(key: str) -> bool:
    """Whether prefix, length and checksum are right. Says nothing about whether the key was issued."""
    if len(key) != _LENGTH or not key.startswith(PREFIX) or not key.isascii():
        return False
    random, checksum = key[len(PREFIX) : -_CHECKSUM_CHARACTERS], key[-_CHECKSUM_CHARACTERS:]
    return _checksum(random) == checksum


def key_hash(key: str, secret: bytes) -> bytes:
    """What is stored instead of the key: HMAC-SHA256 under the server's secret."""
    return hmac.digest(secret, key.encode(), sha256)


def _checksum(random: str) -> str:
    return _base62(zlib.crc32(random.encode()), _CHECKSUM_CHARACTERS)


def _base62(number: int, width: int) -> str:
    digits = []
    while number:
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits)).rjust(width, _ALPHABET[0])


ACTIVE_KEYS_PER_EMAIL = 20
"""Of one client address: no client uses up the keys that others may create for an email address."""
SECRET_BYTES = 32


class NewKey(Struct, frozen=True):
    """A new key. Its text is known only now."""

    text: str
    holder: KeyCaller


class KeyRing:
    """The keys of one server."""

    def __init__(self, database: Database, secret: bytes, messages: Messages | None = None) -> None:
        self._database = database
        self._secret = secret
        self._cache = KeyCache(database, messages or Messages())
        self._lookup = BatchedLookup(self._holders)
        self.cached = self._cache.get
        """The holder of a key that was verified lately and has not changed since."""
        self.run = self._cache.run

    def derive_secret(self, purpose: str) -> bytes:
        """A secret for another purpose, which every process of the server knows."""
        return hmac.digest(self._secret, f"purpose: {purpose}".encode(), sha256)

    async def holder(self, key: str) -> KeyCaller:
        """The holder of a key. Raises Problem `invalid-key` when it is malformed, unknown or revoked."""
        known = self.cached(key)
        if known is None and is_well_formed(key):
            known = await self._lookup.get(key)
        if known is None:
            raise Problem("invalid-key", "This API key is unknown, revoked or malformed.")
        return known

    async def create(  # noqa: PLR0913 - the fields of a key
        self,
        email: str,
        tier: str,
        label: str | None = None,
        *,
        per_day: int | None = None,
        per_minute: int | None = None,
        client_address: str | None = None,
    ) -> NewKey:
        """Create a key, with limits of its own where given. The operator creates it where no client address is given.

        Raises Problem `too-many-keys` where that address has created 20 active keys for this email address.
        """
        address = email.strip().casefold()
        creator = None if client_address is None else self.address_hash(client_address)
        async with self._database.writing(lock=f"email:{address}") as connection:
            if creator and await store.active_keys_of(connection, address, creator) >= ACTIVE_KEYS_PER_EMAIL:
                raise Problem(
                    "too-many-keys",
                    f"Your client address has created {ACTIVE_KEYS_PER_EMAIL} active keys for this email address. "
                    "Revoke one first.",
                    limit=ACTIVE_KEYS_PER_EMAIL,
                )
            text, created_at = new_key(), clock.iso(clock.now())
            holder = KeyCaller(f"key_{secrets.token_hex(8)}", tier, label, created_at, per_day, per_minute)
            await store.insert_key(
                connection,
                id=holder.key_id,
                hash=key_hash(text, self._secret),
                email=address,
                tier=tier,
                label=label,
                per_day=per_day,
                per_minute=per_minute,
                created_at=created_at,
                created_by=creator,
            )
            return NewKey(text, holder)

    async def rotate(self, key_id: str, key: str) -> NewKey:
        """Replace `key`, the text of the key with that id, which stops working. Id, plan and usage stay.

        Of several rotations at once one succeeds. Raises Problem `key-rotated` for the others, `invalid-key`.
        """
        text = new_key()
        async with self._database.writing() as connection:
            old, new = key_hash(key, self._secret), key_hash(text, self._secret)
            is_replaced = await store.replace_hash(connection, key_id, old, new)
            row = await store.key_by_id(connection, key_id)
        await self._cache.changed(key_id)
        if row is None or row.revoked_at is not None:
            raise Problem("invalid-key", "This API key was revoked.")
        if not is_replaced:
            raise Problem("key-rotated", "Another request has rotated this key. Use the key of its response.")
        return NewKey(text, _caller(row))

    async def revoke(self, key_id: str) -> bool:
        """Revoke a key; False when it was not active."""
        return await self._change(key_id, revoked_at=clock.iso(clock.now()))

    async def set_tier(self, key_id: str, tier: str) -> bool:
        """Move a key to another plan; False when it is not active."""
        return await self._change(key_id, tier=tier)

    def address_hash(self, address: str) -> bytes:
        """What is stored instead of a client address."""
        return key_hash(f"address:{address}", self._secret)

    async def listed(self) -> list[dict[str, Any]]:
        """Every key without its text, for the operator."""
        async with self._database.reading() as connection:
            rows = await store.all_keys(connection)
        names = ("email", "tier", "label", "created_at", "revoked_at")
        return [{"key_id": row.id, **{name: getattr(row, name) for name in names}} for row in rows]

    async def _holders(self, keys: Sequence[str]) -> dict[str, KeyCaller]:
        begun_at = monotonic()
        hashes = {key_hash(key, self._secret): key for key in keys}
        rows = await store.keys_by_hash(self._database, hashes)
        holders = {hashes[digest]: _caller(row) for digest, row in rows.items()}
        for key, holder in holders.items():
            self._cache.put(key, holder, begun_at)
        return holders

    async def _change(self, key_id: str, **values: object) -> bool:
        async with self._database.writing() as connection:
            changed = await store.change_key(connection, key_id, **values)
        await self._cache.changed(key_id)
        return changed


async def open_key_ring(database: Database, configured_secret: str, messages: Messages | None = None) -> KeyRing:
    """The keys, hashed under the configured secret or one that the server generates once and stores."""
    if configured_secret:
        return KeyRing(database, configured_secret.encode(), messages)
    async with database.writing(lock="key-hash-secret") as connection:
        secret = await store.secret_named(connection, "key-hash")
        if secret is None:
            secret = secrets.token_bytes(SECRET_BYTES)
            await store.insert_secret(connection, "key-hash", secret)
    return KeyRing(database, secret, messages)


def _caller(row: Any) -> KeyCaller:
    return KeyCaller(row.id, intern(row.tier), row.label, row.created_at, row.per_day, row.per_minute)
