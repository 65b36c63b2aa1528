"""Conversation ids that carry the conversation's memory: signed, bound to one caller and valid for an hour."""

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

TTL_SECONDS = 3_600
LONGEST_ID = 6_000
LONGEST_MEMORY_BYTES = 32_768
SECRET_BYTES = 32
_PREFIX = "conv_"
_SIGNATURE_BYTES = 16

Memory = TypeVar("Memory", bound=Struct)


class _Payload(Struct, Generic[Memory], frozen=True, array_like=True):
    """The content of an id. The nonce makes every id unique."""

    nonce: bytes
    expires_at: int
    memory: Memory


class Conversations(Generic[Memory]):
    """Encodes and decodes conversation ids. Nothing is stored: every process with the secret can decode them."""

    def __init__(self, secret: bytes, memory_type: type[Memory]) -> None:
        self._secret = secret
        # mypy does not support subscripting a class with a value.
        self._payload_type: Any = _Payload[memory_type]  # type: ignore[valid-type]

    def encode(self, memory: Memory, subject: str = "") -> str:
        """A conversation id for this memory. Only the caller with this subject can use it."""
        payload = _Payload(secrets.token_bytes(8), int(clock.seconds()) + TTL_SECONDS, memory)
        packed = zstandard.compress(msgspec.msgpack.encode(payload))
        return _PREFIX + urlsafe_b64encode(self._signature(packed, subject) + packed).rstrip(b"=").decode()

    def decode(self, conversation_id: str, subject: str = "") -> Memory | None:
        """The memory of an id; None if it has expired or was not issued here to this caller."""
        text = conversation_id.removeprefix(_PREFIX)
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            return None
        signature, packed = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(packed, subject)):
            return None
        try:
            unpacked = zstandard.decompress(packed, max_output_size=LONGEST_MEMORY_BYTES)
            payload: _Payload[Memory] = msgspec.msgpack.decode(unpacked, type=self._payload_type)
        except (msgspec.DecodeError, zstandard.ZstdError):
            return None  # Issued by an older version of this server.
        return payload.memory if payload.expires_at > clock.seconds() else None

    def _signature(self, packed: bytes, subject: str) -> bytes:
        signed = b"%d:%b%b" % (len(subject.encode()), subject.encode(), packed)
        return blake2b(signed, key=self._secret, digest_size=_SIGNATURE_BYTES).digest()


async def open_conversations(database: Database, name: str, memory_type: type[Memory]) -> Conversations[Memory]:
    """Conversations with the secret of that name in the database, which is created on first use."""
    async with database.writing(lock=name) as connection:
        secret = await store.secret_named(connection, name)
        if secret is None:
            secret = secrets.token_bytes(SECRET_BYTES)
            await store.insert_secret(connection, name, secret)
    return Conversations(secret, memory_type)
