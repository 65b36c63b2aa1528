"""What a conversation is about, carried by its own id: signed for one caller, small, and good for an hour."""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import msgspec
import zstandard
from msgspec import Struct

from tollhouse import clock
from tollhouse.accounts import store
from tollhouse.storage.database import Database

LIVES_SECONDS = 3_600
LONGEST_ID = 6_000
LONGEST_MEMORY_BYTES = 32_768
SECRET_BYTES = 32
_PREFIX = "conv_"
_SIGNATURE_BYTES = 16

Memory = TypeVar("Memory", bound=Struct)


class _Kept(Struct, Generic[Memory], frozen=True, array_like=True):
    """What an id holds. `nonce` makes no two ids alike."""

    nonce: bytes
    expires_at: int
    memory: Memory


class Conversations(Generic[Memory]):
    """Makes and reads conversation ids. Nothing is stored: any worker that shares the secret can go on."""

    def __init__(self, secret: bytes, shape: type[Memory]) -> None:
        self._secret = secret
        # mypy cannot see through a class that is subscripted with a value.
        self._kept: Any = _Kept[shape]  # type: ignore[valid-type]

    def id_of(self, memory: Memory, subject: str) -> str:
        """An id that leads this caller back to the memory for an hour; only the caller of that subject can use it."""
        kept = _Kept(secrets.token_bytes(8), int(clock.seconds()) + LIVES_SECONDS, memory)
        packed = zstandard.compress(msgspec.msgpack.encode(kept))
        return _PREFIX + urlsafe_b64encode(self._signature(packed, subject) + packed).rstrip(b"=").decode()

    def memory_of(self, conversation_id: str, subject: str) -> Memory | None:
        """What it was about; None when that is too long ago, or when the id was not made here for this caller."""
        packed = self._opened(conversation_id, subject)
        if packed is None:
            return None
        try:
            raw = zstandard.decompress(packed, max_output_size=LONGEST_MEMORY_BYTES)
            kept: _Kept[Memory] = msgspec.msgpack.decode(raw, type=self._kept)
        except (msgspec.DecodeError, zstandard.ZstdError):
            return None  # Signed by an older version of this server.
        return kept.memory if kept.expires_at > clock.seconds() else None

    def _opened(self, conversation_id: str, subject: str) -> bytes | None:
        text = conversation_id.removeprefix(_PREFIX)
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            return None
        signature, packed = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        return packed if hmac.compare_digest(signature, self._signature(packed, subject)) else None

    def _signature(self, packed: bytes, subject: str) -> bytes:
        signed = b"%d:%b%b" % (len(subject.encode()), subject.encode(), packed)
        return blake2b(signed, key=self._secret, digest_size=_SIGNATURE_BYTES).digest()


async def open_conversations(database: Database, name: str, shape: type[Memory]) -> Conversations[Memory]:
    """Conversations under the secret of that name, which all servers on this database share; made once, kept there."""
    async with database.writing(lock=name) as connection:
        secret = await store.secret_named(connection, name)
        if secret is None:
            secret = secrets.token_bytes(SECRET_BYTES)
            await store.insert_secret(connection, name, secret)
    return Conversations(secret, shape)
