"""Where questions come in: a free call, so many a minute from one address."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from tollhouse.http.endpoint import Request
from tollhouse.metering.meter import Meter
from tollhouse.metering.rate_limit import count_or_refuse
from tollhouse.metering.windows import Windows
from tollhouse.services.infra.assistant.assistant import MODEL, Assistant, Citation
from tollhouse.services.infra.assistant.conversation import LONGEST_ID, Conversations
from tollhouse.services.infra.assistant.query_types import ShownQuery
from tollhouse.services.infra.company import Edge


class ChatRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/infra/chat`."""

    message: Annotated[
        str,
        Meta(min_length=1, max_length=2000, description="A question in English", examples=["Who supplies NVIDIA?"]),
    ]
    conversation_id: Annotated[
        Annotated[str, Meta(max_length=LONGEST_ID)] | None,
        Meta(
            description="The id of the answer before, to go on from it. Each answer has a new one; the last one counts"
        ),
    ] = None


class ChatReply(Struct, frozen=True):
    """An answer from the graph. `companies` are ids; `query` is null when the question was not understood."""

    reply: str
    companies: tuple[str, ...]
    edges: tuple[Edge, ...]
    citations: tuple[Citation, ...]
    query: ShownQuery | None
    suggestions: tuple[str, ...]
    model: str
    conversation_id: str


class AssistantEndpoints:
    """The operation `POST /api/infra/chat`."""

    def __init__(self, concierge: Assistant, conversations: Conversations, meter: Meter, per_minute: int) -> None:
        self._concierge = concierge
        self._conversations = conversations
        self._meter = meter
        self._per_address = Windows(None, per_minute, 60)

    async def chat(self, request: Request[None, ChatRequest]) -> ChatReply:
        """Answer one message. Raises Problem `rate-limited`."""
        given = request.body.conversation_id
        focus = self._conversations.focus_of(given) if given else None
        await count_or_refuse(self._meter, f"infra-chat:{request.address}", self._per_address, "messages")
        # `reply` is a finding put into words. A configured model may put the same finding into other words here.
        reply, focus = self._concierge.reply(request.body.message, focus)
        return ChatReply(
            reply=reply.reply,
            companies=reply.companies,
            edges=reply.edges,
            citations=reply.citations,
            query=reply.query,
            suggestions=reply.suggestions,
            model=MODEL,
            conversation_id=self._conversations.id_of(focus),
        )


EXAMPLE_REQUEST: dict[str, Any] = {"message": "Who supplies HBM to NVIDIA?"}
