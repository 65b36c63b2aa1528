"""The concierge: reads a question, runs the query it means, and tells what the graph says, with its evidence."""

from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.services.infra.assistant.entity_linking import Linker
from tollhouse.services.infra.assistant.executor import Finding, find
from tollhouse.services.infra.assistant.follow_ups import Focus
from tollhouse.services.infra.assistant.interpretation import Puzzled, understood
from tollhouse.services.infra.assistant.query_types import Query, ShownQuery, shown
from tollhouse.services.infra.assistant.renderer import cited, told
from tollhouse.services.infra.company import Edge, EvidenceClass
from tollhouse.services.infra.supply_graph import Chain

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
    """What the concierge answers; `query` is null when the question was not understood."""

    reply: str
    companies: tuple[str, ...]
    edges: tuple[Edge, ...]
    citations: tuple[Citation, ...]
    query: ShownQuery | None
    suggestions: tuple[str, ...]


class Assistant:
    """Answers from one chain. It keeps nothing: what a conversation is about goes in and comes out."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._linker = Linker(chain)

    def reply(self, message: str, focus: Focus | None) -> tuple[Reply, Focus | None]:
        """The answer, and what it leaves to come back to."""
        focus = focus if focus and self._knows(focus) else None
        meant = understood(self._linker, message, focus)
        if isinstance(meant, Puzzled):
            return self._puzzled(meant), focus
        finding = find(self._chain, meant)
        return self._answer(finding), _focus_after(finding)

    def _knows(self, focus: Focus) -> bool:
        """Whether all it names is still here: a conversation may outlive an edit of the catalogue."""
        ids = {company.id for company in self._chain.companies}
        categories = {None, *(category.id for category in self._chain.categories)}
        return ids.issuperset((*focus.query.companies, *focus.companies, *focus.named)) and (
            focus.query.category in categories
        )

    def _answer(self, finding: Finding) -> Reply:
        edges = finding.edges[:CITED]
        return Reply(
            reply=told(self._chain, finding),
            companies=finding.companies,
            edges=edges,
            citations=tuple(self._citation(edge) for edge in edges),
            query=shown(finding.query, _arguments(finding.query)),
            suggestions=self._suggestions(finding),
        )

    def _citation(self, edge: Edge) -> Citation:
        evidence = edge.evidence[0]
        return Citation(
            edge.id, cited(self._chain, edge), evidence.evidence_class, evidence.url, evidence.date, edge.confidence
        )

    def _suggestions(self, finding: Finding) -> tuple[str, ...]:
        about = (*finding.query.companies, *finding.companies)
        if not about:
            return USUAL_SUGGESTIONS[:3]
        name = self._chain.company(about[0]).name
        asked = finding.query.operation
        offers = {
            "suppliers": f"Who supplies {name}?",
            "customers": f"Who buys from {name}?",
            "upstream": f"What does {name} depend on?",
            "fails_without": f"What would fail without {name}?",
        }
        return tuple(text for operation, text in offers.items() if operation != asked)[:3]

    def _puzzled(self, puzzled: Puzzled) -> Reply:
        return Reply(
            reply=f"{_WHY[puzzled.why].format(words=_quoted(puzzled.words))} {_TRY}",
            companies=(),
            edges=(),
            citations=(),
            query=None,
            suggestions=self._meant(puzzled) or USUAL_SUGGESTIONS,
        )

    def _meant(self, puzzled: Puzzled) -> tuple[str, ...]:
        near = [
            company for word in puzzled.words for company in self._chain.names.near_companies(word, 1, LIKELY_MEANT)
        ]
        return tuple(f"Tell me about {self._chain.company(company).name}" for company in dict.fromkeys(near))


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


def _focus_after(finding: Finding) -> Focus:
    about = finding.query.companies or finding.companies
    return Focus(finding.query, about[:REMEMBERED], finding.companies[:REMEMBERED])


def _arguments(query: Query) -> dict[str, Any]:
    arguments: dict[str, Any] = msgspec.to_builtins(query)
    del arguments["operation"]
    return arguments


def _quoted(words: tuple[str, ...]) -> str:
    return ", ".join(f"“{word}”" for word in words)
