"""Questions in plain words, `POST /api/infra/chat`: parsed to a query on the graph, answered with citations."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tollhouse.http.endpoint import Request, endpoint
from tollhouse.http.terms import FREE
from tollhouse.metering.address_budget import count_or_refuse
from tollhouse.metering.meter import Meter, Windows
from tollhouse.questions.conversation import Conversations
from tollhouse.services.infra.assistant.executor import QueryResult, ShownQuery, execute, show_query
from tollhouse.services.infra.assistant.query_parser import ConversationFocus, ParseFailure, parse_message
from tollhouse.services.infra.assistant.renderer import render_answer, render_citation
from tollhouse.services.infra.assistant.sentence import EntityLinker
from tollhouse.services.infra.company import Edge, EvidenceClass
from tollhouse.services.infra.supply_graph import SupplyGraph

MODEL = "graph"
LONGEST_ID = 2_000
MAX_CITATIONS = 60
MAX_CONTEXT_COMPANIES = 5
# Similarity (of 100) from which a company is suggested for an unknown word.
SUGGESTION_SIMILARITY = 80
DEFAULT_SUGGESTIONS = (
    "Who supplies NVIDIA?",
    "What would fail without TSMC?",
    "How is Zeiss connected to OpenAI?",
    "Which Japanese companies are in wafer-fab equipment?",
)


class Citation(Struct, frozen=True):
    """An edge that supports the answer. `url` and `date` are null if unknown."""

    id: str
    text: str
    evidence_class: EvidenceClass
    url: str | None
    date: str | None
    confidence: float


class Reply(Struct, frozen=True):
    """What the assistant answers; `query` is null if the question was not understood."""

    reply: str
    companies: tuple[str, ...]
    edges: tuple[Edge, ...]
    citations: tuple[Citation, ...]
    query: ShownQuery | None
    suggestions: tuple[str, ...]


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


class Assistant:
    """Answers from one graph. It is stateless: the context of a conversation is passed in and returned."""

    def __init__(self, graph: SupplyGraph) -> None:
        self._graph = graph
        self._linker = EntityLinker(graph)

    def reply(self, message: str, focus: ConversationFocus | None) -> tuple[Reply, ConversationFocus | None]:
        """The answer, and the context for a follow-up."""
        focus = focus if focus and self._knows(focus) else None
        query = parse_message(self._linker, message, focus)
        if isinstance(query, ParseFailure):
            return self._refusal(query), focus
        result = execute(self._graph, query)
        about = query.companies or result.companies
        named = result.companies[:MAX_CONTEXT_COMPANIES]
        return self._answer(result), ConversationFocus(result.query, about[:MAX_CONTEXT_COMPANIES], named)

    def _knows(self, focus: ConversationFocus) -> bool:
        """Whether all its companies still exist: a conversation may be older than the catalogue."""
        ids = {company.id for company in self._graph.companies}
        categories = {None, *(category.id for category in self._graph.categories)}
        return ids.issuperset((*focus.query.companies, *focus.companies, *focus.named)) and (
            focus.query.category in categories
        )

    def _answer(self, result: QueryResult) -> Reply:
        edges = result.edges[:MAX_CITATIONS]
        return Reply(
            reply=render_answer(self._graph, result),
            companies=result.companies,
            edges=edges,
            citations=tuple(
                Citation(
                    edge.id,
                    render_citation(self._graph, edge),
                    edge.evidence[0].evidence_class,
                    edge.evidence[0].url,
                    edge.evidence[0].date,
                    edge.confidence,
                )
                for edge in edges
            ),
            query=show_query(result.query),
            suggestions=self._suggestions(result),
        )

    def _suggestions(self, result: QueryResult) -> tuple[str, ...]:
        about = (*result.query.companies, *result.companies)
        if not about:
            return DEFAULT_SUGGESTIONS[:3]
        name = self._graph.company(about[0]).name
        current = result.query.operation
        offers = {
            "suppliers": f"Who supplies {name}?",
            "customers": f"Who buys from {name}?",
            "upstream": f"What does {name} depend on?",
            "fails_without": f"What would fail without {name}?",
        }
        return tuple(text for operation, text in offers.items() if operation != current)[:3]

    def _refusal(self, failure: ParseFailure) -> Reply:
        words = ", ".join(f"“{word}”" for word in failure.words)
        return Reply(
            reply=f"{_REFUSALS[failure.reason].format(words=words)} {_TRY}",
            companies=(),
            edges=(),
            citations=(),
            query=None,
            suggestions=self._near_companies(failure) or DEFAULT_SUGGESTIONS,
        )

    def _near_companies(self, failure: ParseFailure) -> tuple[str, ...]:
        near = [
            company
            for word in failure.words
            for company in self._graph.names.near_companies(word, 1, SUGGESTION_SIMILARITY)
        ]
        return tuple(f"Tell me about {self._graph.company(company).name}" for company in dict.fromkeys(near))


_REFUSALS = {
    "unknown-word": "I cannot answer that: I do not know {words}.",
    "no-company": "I cannot answer that: I do not know the company.",
    "not-here": "I cannot answer that: this catalogue has companies and who supplies whom, nothing else.",
    "not-understood": "I cannot answer that.",
}
_TRY = (
    "Try who supplies a company, who buys from it, what depends on it, what fails without it, how two are connected "
    "or compare, or which companies are in a category or country."
)


class AssistantEndpoints:
    """Handler for questions, with a limit per client address."""

    def __init__(
        self, assistant: Assistant, conversations: Conversations[AssistantMemory], meter: Meter, per_minute: int
    ) -> None:
        self._assistant = assistant
        self._conversations = conversations
        self._meter = meter
        self._per_address = Windows(None, per_minute, 60)

    @endpoint(
        "POST",
        "/api/infra/chat",
        id="askConcierge",
        terms=FREE,
        problems=("rate-limited",),
        tag="assistant",
        is_tool=True,
        examples={"body": {"message": "Who supplies HBM to NVIDIA?"}},
    )
    async def chat(self, request: Request[None, ChatRequest]) -> ChatReply:
        """Ask a question in plain words.

        Answers from the graph: suppliers, customers, paths, exposure, chokepoints, comparisons and lists. For a
        follow-up question, send the newest `conversation_id`; it is valid for an hour. The number of messages
        per minute and client address is limited.
        """
        given = request.body.conversation_id
        memory = self._conversations.decode(given) if given else None
        await count_or_refuse(self._meter, "infra-chat", request.address, self._per_address, "messages")
        reply, focus = self._assistant.reply(request.body.message, memory.focus if memory else None)
        conversation_id = self._conversations.encode(AssistantMemory(focus))
        return ChatReply(**msgspec.structs.asdict(reply), model=MODEL, conversation_id=conversation_id)
