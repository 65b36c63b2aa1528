"""The assistant: reads a question, runs the query it means, and tells what the graph says, with its evidence."""

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
CITED = 60
REMEMBERED = 5
# So much must a company's name be like a word (of 100) for the company to be offered in its place.
LIKELY_MEANT = 80
USUAL_SUGGESTIONS = (
    "Who supplies NVIDIA?",
    "What would fail without TSMC?",
    "How is Zeiss connected to OpenAI?",
    "Which Japanese companies are in wafer-fab equipment?",
)


class Citation(Struct, frozen=True):
    """An edge that the answer rests on; `url` and `date` are null where they are not known."""

    id: str
    text: str
    evidence_class: EvidenceClass
    url: str | None
    date: str | None
    confidence: float


class Reply(Struct, frozen=True):
    """What the assistant answers; `query` is null when the question was not understood."""

    reply: str
    companies: tuple[str, ...]
    edges: tuple[Edge, ...]
    citations: tuple[Citation, ...]
    query: ShownQuery | None
    suggestions: tuple[str, ...]


class Assistant:
    """Answers from one chain. It keeps nothing: what a conversation is about goes in and comes out."""

    def __init__(self, graph: SupplyGraph) -> None:
        self._graph = graph
        self._linker = EntityLinker(graph)

    def reply(self, message: str, focus: ConversationFocus | None) -> tuple[Reply, ConversationFocus | None]:
        """The answer, and what it leaves to come back to."""
        focus = focus if focus and self._knows(focus) else None
        meant = parse_message(self._linker, message, focus)
        if isinstance(meant, ParseFailure):
            return self._puzzled(meant), focus
        finding = execute(self._graph, meant)
        return self._answer(finding), _focus_after(finding)

    def _knows(self, focus: ConversationFocus) -> bool:
        """Whether all it names is still here: a conversation may outlive an edit of the catalogue."""
        ids = {company.id for company in self._graph.companies}
        categories = {None, *(category.id for category in self._graph.categories)}
        return ids.issuperset((*focus.query.companies, *focus.companies, *focus.named)) and (
            focus.query.category in categories
        )

    def _answer(self, finding: QueryResult) -> Reply:
        edges = finding.edges[:CITED]
        return Reply(
            reply=render_answer(self._graph, finding),
            companies=finding.companies,
            edges=edges,
            citations=tuple(self._citation(edge) for edge in edges),
            query=show_query(finding.query, _arguments(finding.query)),
            suggestions=self._suggestions(finding),
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

    def _suggestions(self, finding: QueryResult) -> tuple[str, ...]:
        about = (*finding.query.companies, *finding.companies)
        if not about:
            return USUAL_SUGGESTIONS[:3]
        name = self._graph.company(about[0]).name
        asked = finding.query.operation
        offers = {
            "suppliers": f"Who supplies {name}?",
            "customers": f"Who buys from {name}?",
            "upstream": f"What does {name} depend on?",
            "fails_without": f"What would fail without {name}?",
        }
        return tuple(text for operation, text in offers.items() if operation != asked)[:3]

    def _puzzled(self, puzzled: ParseFailure) -> Reply:
        return Reply(
            reply=f"{_WHY[puzzled.why].format(words=_quoted(puzzled.words))} {_TRY}",
            companies=(),
            edges=(),
            citations=(),
            query=None,
            suggestions=self._meant(puzzled) or USUAL_SUGGESTIONS,
        )

    def _meant(self, puzzled: ParseFailure) -> tuple[str, ...]:
        near = [
            company for word in puzzled.words for company in self._graph.names.near_companies(word, 1, LIKELY_MEANT)
        ]
        return tuple(f"Tell me about {self._graph.company(company).name}" for company in dict.fromkeys(near))


_WHY = {
    "unknown-word": "I cannot answer that: I do not know {words}.",
    "no-company": "I cannot answer that: I know no company of the name you ask about.",
    "not-here": "I cannot answer that: this catalogue holds companies and who supplies whom, nothing about that.",
    "not-understood": "I cannot answer that.",
}
_TRY = (
    "Try who supplies a company, who buys from it, what depends on it, what fails without it, how two are connected "
    "or compare, or which companies are in a category or country."
)


def _focus_after(finding: QueryResult) -> ConversationFocus:
    about = finding.query.companies or finding.companies
    return ConversationFocus(finding.query, about[:REMEMBERED], finding.companies[:REMEMBERED])


def _arguments(query: GraphQuery) -> dict[str, Any]:
    arguments: dict[str, Any] = msgspec.to_builtins(query)
    del arguments["operation"]
    return arguments


def _quoted(words: tuple[str, ...]) -> str:
    return ", ".join(f"“{word}”" for word in words)
