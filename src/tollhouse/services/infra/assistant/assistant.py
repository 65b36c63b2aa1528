"""The assistant: parses a question, runs its query on the graph, and renders the answer with citations."""

from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.services.infra.assistant.executor import GraphQuery, QueryResult, ShownQuery, execute, show_query
from tollhouse.services.infra.assistant.query_parser import ConversationFocus, ParseFailure, parse_message
from tollhouse.services.infra.assistant.renderer import render_answer, render_citation
from tollhouse.services.infra.assistant.sentence import EntityLinker
from tollhouse.services.infra.company import Edge, EvidenceClass
from tollhouse.services.infra.supply_graph import SupplyGraph

MODEL = "graph"
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
        return self._answer(result), _focus_after(result)

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
            citations=tuple(self._citation(edge) for edge in edges),
            query=show_query(result.query, _arguments(result.query)),
            suggestions=self._suggestions(result),
        )

    def _citation(self, edge: Edge) -> Citation:
        evidence = edge.evidence[0]
        return Citation(
            edge.id,
            render_citation(self._graph, edge),
            evidence.evidence_class,
            evidence.url,
            evidence.date,
            edge.confidence,
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
        return Reply(
            reply=f"{_REFUSALS[failure.reason].format(words=_quoted(failure.words))} {_TRY}",
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


def _focus_after(result: QueryResult) -> ConversationFocus:
    about = result.query.companies or result.companies
    return ConversationFocus(result.query, about[:MAX_CONTEXT_COMPANIES], result.companies[:MAX_CONTEXT_COMPANIES])


def _arguments(query: GraphQuery) -> dict[str, Any]:
    arguments: dict[str, Any] = msgspec.to_builtins(query)
    del arguments["operation"]
    return arguments


def _quoted(words: tuple[str, ...]) -> str:
    return ", ".join(f"“{word}”" for word in words)
