"""What a conversation is about, carried by its own id: signed, small, and good for an hour."""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.accounts import store
from tollhouse.services.infra.assistant.follow_ups import Focus
from tollhouse.storage.database import Database

LIVES_SECONDS = 3_600
LONGEST_ID = 2_000
SECRET_BYTES = 32
_PREFIX = "conv_"
_SIGNATURE_BYTES = 16
_SECRET_NAME = "infra-conversation"  # noqa: S105


class _Kept(Struct, frozen=True, array_like=True):
    """What an id holds. `nonce` makes no two ids alike."""

    nonce: bytes
    expires_at: int
    focus: Focus | None


class Conversations:
    """Makes and reads conversation ids. Nothing is stored: any worker that shares the secret can go on."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def id_of(self, focus: Focus | None) -> str:
        """An id that leads back to this focus for an hour."""
        kept = _Kept(secrets.token_bytes(8), int(clock.seconds()) + LIVES_SECONDS, focus)
        packed = msgspec.msgpack.encode(kept)
        return _PREFIX + urlsafe_b64encode(self._signature(packed) + packed).rstrip(b"=").decode()

    def focus_of(self, conversation_id: str) -> Focus | None:
        """What it was about; None when that is too long ago, or when the id was not made here."""
        packed = self._opened(conversation_id)
        if packed is None:
            return None
        try:
            kept = msgspec.msgpack.decode(packed, type=_Kept)
        except msgspec.DecodeError:
            return None  # Signed by an older version of this server.
        return kept.focus if kept.expires_at > clock.seconds() else None

    def _opened(self, conversation_id: str) -> bytes | None:
        text = conversation_id.removeprefix(_PREFIX)
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            return None
        signature, packed = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        return packed if hmac.compare_digest(signature, self._signature(packed)) else None

    def _signature(self, packed: bytes) -> bytes:
        return blake2b(packed, key=self._secret, digest_size=_SIGNATURE_BYTES).digest()


async def open_conversations(database: Database) -> Conversations:
    """Conversations under the secret that all servers on this database share; made once, and kept there."""
    async with database.writing(lock=_SECRET_NAME) as connection:
        secret = await store.secret_named(connection, _SECRET_NAME)
        if secret is None:
            secret = secrets.token_bytes(SECRET_BYTES)
            await store.insert_secret(connection, _SECRET_NAME, secret)
    return Conversations(secret)
