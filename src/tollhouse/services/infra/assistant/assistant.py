"""Questions in plain words, `POST /api/infra/chat`: read as a query on the graph, answered with citations."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated

from msgspec import Meta, Struct

from tollhouse.http.endpoint import Request, endpoint
from tollhouse.http.terms import FREE
from tollhouse.metering.address_budget import count_or_refuse
from tollhouse.metering.meter import Meter, Windows
from tollhouse.questions.answering import Answer, Engine
from tollhouse.questions.conversation import Conversations
from tollhouse.questions.grounding import Reference
from tollhouse.questions.query import Query
from tollhouse.services.infra.assistant.dataset import RELATION, GraphDataset
from tollhouse.services.infra.company import Edge, EvidenceClass
from tollhouse.services.infra.supply_graph import SupplyGraph, load_supply_graph

MODEL = "graph"
LONGEST_ID = 2_000
MAX_CITATIONS = 60
SUGGESTIONS = 3


class Citation(Struct, frozen=True):
    """An edge that supports the answer, or a chain of edges with the class and confidence of its weakest.

    `url` and `date` are null if unknown, and for chains.
    """

    id: str
    text: str
    evidence_class: EvidenceClass
    url: str | None
    date: str | None
    confidence: float


class ChatReply(Struct, frozen=True):
    """An answer from the graph. `companies` are ids; `query` is null if the question was not understood.

    Of a question about relations themselves the answer is `edges`, and `companies` is empty.

    `value` is the number that was asked for, 1 and 0 for yes and no, percent for a share; null if there is none.
    `names` are the names that were asked for: of countries, categories, tickers.
    """

    reply: str
    value: float | None
    companies: tuple[str, ...]
    names: tuple[str, ...]
    edges: tuple[Edge, ...]
    citations: tuple[Citation, ...]
    query: Query | None
    suggestions: tuple[str, ...]
    model: str
    conversation_id: str


class AssistantMemory(Struct, frozen=True, array_like=True):
    """The memory of a conversation: the last query that was understood."""

    query: Query | None


class ChatRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/infra/chat`."""

    message: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=2000,
            description="A question in English, German, Spanish or French",
            examples=["Who supplies NVIDIA?"],
        ),
    ]
    conversation_id: Annotated[
        Annotated[str, Meta(max_length=LONGEST_ID)] | None,
        Meta(description="The newest `conversation_id` of the conversation, to ask a follow-up question"),
    ] = None


class Assistant:
    """Answers from one graph. It is stateless: the context of a conversation is passed in and returned."""

    def __init__(self, graph: SupplyGraph) -> None:
        self.engine = Engine(GraphDataset(graph))
        self.edges: Mapping[str, Edge] = {edge.id: edge for edge in graph.edges}

    def answer(self, message: str, before: Query | None) -> tuple[Answer, Query | None]:
        """The answer, and the query to remember."""
        answer = self.engine.answer(message, before)
        return answer, answer.query or before


async def ask(turns: Sequence[str]) -> Answer:
    """The answer to the last turn of a conversation about the bundled graph."""
    assistant, before = bundled_assistant(), None
    for turn in turns:
        answer, before = assistant.answer(turn, before)
    return answer


@cache
def bundled_assistant() -> Assistant:
    return Assistant(load_supply_graph())


class AssistantEndpoints:
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

        Answers from the graph: suppliers, customers, paths, exposure, chokepoints, comparisons, counts and lists. For a
        follow-up question, send the newest `conversation_id`; it is valid for an hour. The number of messages
        per minute and client address is limited.
        """
        given = request.body.conversation_id
        memory = self._conversations.decode(given) if given else None
        await count_or_refuse(self._meter, "infra-chat", request.address, self._per_address, "messages")
        answer, query = self._assistant.answer(request.body.message, memory.query if memory else None)
        conversation_id = self._conversations.encode(AssistantMemory(query))
        if len(conversation_id) > LONGEST_ID:
            conversation_id = self._conversations.encode(AssistantMemory(None))
        return _reply(answer, conversation_id, self._assistant.edges)


def _reply(answer: Answer, conversation_id: str, by_edge_id: Mapping[str, Edge]) -> ChatReply:
    chains: list[tuple[Edge, ...]] = [link if isinstance(link, tuple) else (link,) for link in answer.links]
    is_of_edges = answer.kind == RELATION
    if is_of_edges:
        chains = [(by_edge_id[edge_id],) for edge_id in answer.ids]
    by_id = {"+".join(edge.id for edge in chain): chain for chain in chains}
    cited = [(reference, by_id[reference.id]) for reference in answer.citations if reference.id in by_id]
    return ChatReply(
        reply=answer.text,
        value=answer.value,
        companies=() if is_of_edges else answer.ids,
        names=answer.names,
        edges=tuple(dict.fromkeys(edge for chain in chains for edge in chain))[:MAX_CITATIONS],
        citations=tuple(_citation(reference, chain) for reference, chain in cited[:MAX_CITATIONS]),
        query=answer.query,
        suggestions=answer.suggestions[:SUGGESTIONS],
        model=MODEL,
        conversation_id=conversation_id,
    )


def _citation(reference: Reference, chain: tuple[Edge, ...]) -> Citation:
    weakest = min(chain, key=lambda edge: edge.confidence)
    evidence = weakest.evidence[0]
    date = evidence.date if len(chain) == 1 else None
    return Citation(reference.id, reference.title, evidence.evidence_class, reference.url, date, weakest.confidence)
