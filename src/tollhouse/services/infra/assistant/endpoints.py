"""Endpoint for questions in plain words: `POST /api/infra/chat`."""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tollhouse import clock
from tollhouse.accounts import store
from tollhouse.http.endpoint import JSON, Endpoint, Request
from tollhouse.http.terms import FREE
from tollhouse.metering.meter import Meter
from tollhouse.metering.rate_limit import count_or_refuse
from tollhouse.metering.windows import Windows
from tollhouse.services.infra.assistant.assistant import MODEL, Assistant, Reply
from tollhouse.services.infra.assistant.query_parser import ConversationFocus
from tollhouse.storage.database import Database

LIFETIME_SECONDS = 3_600
LONGEST_ID = 2_000
SECRET_BYTES = 32
_PREFIX = "conv_"
_SIGNATURE_BYTES = 16
_SECRET_NAME = "infra-conversation"  # noqa: S105


EXAMPLE_REQUEST: dict[str, Any] = {"message": "Who supplies HBM to NVIDIA?"}


class _State(Struct, frozen=True, array_like=True):
    """The payload of a conversation id. The nonce makes every id unique."""

    nonce: bytes
    expires_at: int
    focus: ConversationFocus | None


class Conversations:
    """Conversation ids: signed, self-contained, valid for an hour. Every process with the secret can read them."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def encode(self, focus: ConversationFocus | None) -> str:
        """A conversation id that carries this focus."""
        state = _State(secrets.token_bytes(8), int(clock.seconds()) + LIFETIME_SECONDS, focus)
        packed = msgspec.msgpack.encode(state)
        return _PREFIX + urlsafe_b64encode(self._signature(packed) + packed).rstrip(b"=").decode()

    def decode(self, conversation_id: str) -> ConversationFocus | None:
        """The focus in an id; None if the id has expired or was not issued here."""
        text = conversation_id.removeprefix(_PREFIX)
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            return None
        signature, packed = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(packed)):
            return None
        try:
            state = msgspec.msgpack.decode(packed, type=_State)
        except msgspec.DecodeError:
            return None  # Signed by an older version of this server.
        return state.focus if state.expires_at > clock.seconds() else None

    def _signature(self, packed: bytes) -> bytes:
        return blake2b(packed, key=self._secret, digest_size=_SIGNATURE_BYTES).digest()


async def open_conversations(database: Database) -> Conversations:
    """Conversations with the secret in the database, which is created on first use."""
    async with database.writing(lock=_SECRET_NAME) as connection:
        secret = await store.secret_named(connection, _SECRET_NAME)
        if secret is None:
            secret = secrets.token_bytes(SECRET_BYTES)
            await store.insert_secret(connection, _SECRET_NAME, secret)
    return Conversations(secret)


class ChatRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/infra/chat`."""

    message: Annotated[
        str,
        Meta(min_length=1, max_length=2000, description="A question in English", examples=["Who supplies NVIDIA?"]),
    ]
    conversation_id: Annotated[
        Annotated[str, Meta(max_length=LONGEST_ID)] | None,
        Meta(description="The newest `conversation_id` of the conversation, to ask a follow-up question"),
    ] = None


class ChatReply(Reply, frozen=True):
    """An answer from the graph. `companies` are ids; `query` is null if the question was not understood."""

    model: str
    conversation_id: str


class AssistantEndpoints:
    """Handler for questions, with a limit per client address."""

    def __init__(self, assistant: Assistant, conversations: Conversations, meter: Meter, per_minute: int) -> None:
        self._assistant = assistant
        self._conversations = conversations
        self._meter = meter
        self._per_address = Windows(None, per_minute, 60)

    async def chat(self, request: Request[None, ChatRequest]) -> ChatReply:
        """`POST /api/infra/chat`. Raises Problem `rate-limited`."""
        given = request.body.conversation_id
        focus = self._conversations.decode(given) if given else None
        await count_or_refuse(self._meter, f"infra-chat:{request.address}", self._per_address, "messages")
        reply, focus = self._assistant.reply(request.body.message, focus)
        return ChatReply(
            **msgspec.structs.asdict(reply), model=MODEL, conversation_id=self._conversations.encode(focus)
        )

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The declaration."""
        return (
            Endpoint(
                id="askConcierge",
                method="POST",
                path="/api/infra/chat",
                summary="Ask a question in plain words",
                description="Answers from the graph: suppliers, customers, paths, exposure, chokepoints, comparisons "
                "and lists. For a follow-up question, send the newest `conversation_id`; it is valid for an hour. "
                "The number of messages per minute and client address is limited.",
                handler=self.chat,
                terms=FREE,
                body=ChatRequest,
                responses={JSON: ChatReply},
                problems=("rate-limited",),
                tag="assistant",
                is_tool=True,
                examples={"body": EXAMPLE_REQUEST},
            ),
        )
