"""Endpoint for questions in plain words: `POST /api/infra/chat`."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tollhouse.http.endpoint import JSON, Endpoint, Request
from tollhouse.http.terms import FREE
from tollhouse.metering.meter import Meter, Windows, count_or_refuse
from tollhouse.questions.conversation import Conversations
from tollhouse.services.infra.assistant.assistant import MODEL, Assistant, Reply
from tollhouse.services.infra.assistant.query_parser import ConversationFocus

LONGEST_ID = 2_000

EXAMPLE_REQUEST: dict[str, Any] = {"message": "Who supplies HBM to NVIDIA?"}


class AssistantMemory(Struct, frozen=True, array_like=True):
    """The memory of a conversation. `focus` is null until a question was understood."""

    focus: ConversationFocus | None


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

    def __init__(
        self, assistant: Assistant, conversations: Conversations[AssistantMemory], meter: Meter, per_minute: int
    ) -> None:
        self._assistant = assistant
        self._conversations = conversations
        self._meter = meter
        self._per_address = Windows(None, per_minute, 60)

    async def chat(self, request: Request[None, ChatRequest]) -> ChatReply:
        """`POST /api/infra/chat`. Raises Problem `rate-limited`."""
        given = request.body.conversation_id
        memory = self._conversations.decode(given) if given else None
        await count_or_refuse(self._meter, f"infra-chat:{request.address}", self._per_address, "messages")
        reply, focus = self._assistant.reply(request.body.message, memory.focus if memory else None)
        conversation_id = self._conversations.encode(AssistantMemory(focus))
        return ChatReply(**msgspec.structs.asdict(reply), model=MODEL, conversation_id=conversation_id)

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
