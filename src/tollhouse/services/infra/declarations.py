"""The infra service's operations, declared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tollhouse.http.endpoint import JSON, Endpoint, Example, Handler, Request, Response
from tollhouse.http.response_writer import etag_of
from tollhouse.http.terms import FREE
from tollhouse.services.infra import exports
from tollhouse.services.infra.assistant.endpoints import EXAMPLE_REQUEST, AssistantEndpoints, ChatReply, ChatRequest
from tollhouse.services.infra.company_endpoints import CompanyEndpoints
from tollhouse.services.infra.concentration import Concentration, Coverage
from tollhouse.services.infra.exports import CSV, GRAPHML, InfraCatalogue
from tollhouse.services.infra.graph_endpoints import GraphEndpoints
from tollhouse.services.infra.queries import (
    ChokepointsQuery,
    CompaniesQuery,
    ExposureQuery,
    NeighboursQuery,
    PathsQuery,
    SearchQuery,
)
from tollhouse.services.infra.responses import (
    Categories,
    Chokepoints,
    CompaniesPage,
    CompanyDetail,
    Exposure,
    Neighbours,
    Paths,
    SearchPage,
)
from tollhouse.services.infra.supply_graph import Chain


@dataclass(frozen=True, slots=True)
class Desks:
    """What the operations are answered by."""

    companies: CompanyEndpoints
    graph: GraphEndpoints
    chat: AssistantEndpoints


def operations(chain: Chain, desks: Desks) -> Sequence[Endpoint]:
    """Every operation, in the order the description shows them."""
    return [*_company_operations(desks), *_graph_operations(desks), *_export_operations(chain), _chat(desks)]


def _company_operations(desks: Desks) -> list[Endpoint]:
    return [
        Endpoint(
            id="listCompanies",
            method="GET",
            path="/api/products",
            summary="Companies of the value chain",
            description="Search by words, category and country. The path and the parameter `brand` keep the names of a "
            "product service; `category` means the same as `brand`.",
            handler=desks.companies.products,
            terms=FREE,
            query=CompaniesQuery,
            responses={JSON: CompaniesPage},
            tag="companies",
            is_tool=True,
            sample=Example(query={"category": "packaging_test", "limit": 5}),
        ),
        Endpoint(
            id="searchCompanies",
            method="GET",
            path="/api/search",
            summary="Companies found by words",
            handler=desks.companies.search,
            terms=FREE,
            query=SearchQuery,
            responses={JSON: SearchPage},
            tag="companies",
            is_tool=True,
            sample=Example(query={"q": "hbm", "limit": 5}),
        ),
        Endpoint(
            id="listCategories",
            method="GET",
            path="/api/retailers",
            summary="Categories of the value chain",
            handler=desks.companies.categories,
            terms=FREE,
            responses={JSON: Categories},
            tag="companies",
            is_tool=True,
        ),
        Endpoint(
            id="getCompany",
            method="GET",
            path="/api/companies/{id}",
            summary="One company and its edges",
            handler=desks.companies.one,
            terms=FREE,
            path_parameters=_ID,
            responses={JSON: CompanyDetail},
            tag="companies",
            is_tool=True,
        ),
    ]


def _graph_operations(desks: Desks) -> list[Endpoint]:
    return [
        Endpoint(
            id="listNeighbours",
            method="GET",
            path="/api/companies/{id}/neighbours",
            summary="Companies around one",
            description="Over edges of every kind that is kept, or of the kinds asked for. `competes_with` is derived "
            "from shared categories and only shown when asked for.",
            handler=desks.graph.neighbours,
            terms=FREE,
            query=NeighboursQuery,
            path_parameters=_ID,
            responses={JSON: Neighbours},
            tag="graph",
            is_tool=True,
            sample=Example(query={"direction": "upstream"}),
        ),
        Endpoint(
            id="findPaths",
            method="GET",
            path="/api/paths",
            summary="Ways along supply edges from one company to another",
            handler=desks.graph.paths,
            terms=FREE,
            query=PathsQuery,
            responses={JSON: Paths},
            tag="graph",
            is_tool=True,
            sample=Example(query={"from": "zeiss_smt", "to": "openai"}),
        ),
        Endpoint(
            id="getExposure",
            method="GET",
            path="/api/exposure",
            summary="What a company rests on, and what rests on it",
            handler=desks.graph.exposure,
            terms=FREE,
            query=ExposureQuery,
            responses={JSON: Exposure},
            tag="graph",
            is_tool=True,
            sample=Example(query={"company": "nvidia", "depth": 3}),
        ),
        Endpoint(
            id="listChokepoints",
            method="GET",
            path="/api/chokepoints",
            summary="What fails without whom",
            description="A company fails when any of its input slots has lost every supplier. Without parameters: each "
            "company that stops another, the worst first; with them: what fails without that company and country.",
            handler=desks.graph.chokepoints,
            terms=FREE,
            query=ChokepointsQuery,
            responses={JSON: Chokepoints},
            tag="graph",
            is_tool=True,
            sample=Example(query={"country": "Taiwan", "limit": 5}),
        ),
        Endpoint(
            id="getConcentration",
            method="GET",
            path="/api/concentration",
            summary="How the chain is spread over countries",
            handler=desks.graph.concentration,
            terms=FREE,
            responses={JSON: Concentration},
            tag="graph",
            is_tool=True,
        ),
        Endpoint(
            id="getCoverage",
            method="GET",
            path="/api/coverage",
            summary="What the catalogue knows, and what it lacks",
            handler=desks.graph.coverage,
            terms=FREE,
            responses={JSON: Coverage},
            tag="graph",
            is_tool=True,
        ),
    ]


def _export_operations(chain: Chain) -> list[Endpoint]:
    return [
        Endpoint(
            id="getInfraCatalogue",
            method="GET",
            path="/infra-catalog.json",
            summary="Everything: categories, companies, edges",
            handler=_kept(JSON, lambda: exports.as_json(chain)),
            terms=FREE,
            responses={JSON: InfraCatalogue},
            tag="exports",
        ),
        _export(chain, "Graphml", "/infra-catalog.graphml", GRAPHML, exports.as_graphml),
        _export(chain, "Cytoscape", "/infra-catalog.cytoscape.json", JSON, exports.as_cytoscape),
        _export(chain, "Csv", "/infra-catalog.csv", CSV, exports.as_csv),
    ]


def _export(chain: Chain, name: str, path: str, media_type: str, write: Callable[[Chain], bytes]) -> Endpoint:
    return Endpoint(
        id=f"getInfraCatalogue{name}",
        method="GET",
        path=path,
        summary=f"The whole graph as {path.rpartition('/')[2].partition('.')[2]}",
        handler=_kept(media_type, lambda: write(chain)),
        terms=FREE,
        responses={media_type: {"type": "object" if media_type == JSON else "string"}},
        tag="exports",
    )


def _kept(media_type: str, make: Callable[[], bytes]) -> Handler:
    """Answers with what `make` gave when it was first asked for: the catalogue does not change while it is served."""
    kept: list[Response] = []

    async def serve(_asked: Request[Any, Any]) -> Response:
        if not kept:
            body = make()
            kept.append(Response(body, media_type, etag_of(body)))
        return kept[0]

    return serve


def _chat(desks: Desks) -> Endpoint:
    return Endpoint(
        id="askConcierge",
        method="POST",
        path="/api/infra/chat",
        summary="Ask in plain words",
        description="Answers from the graph: who supplies or buys, paths, exposure, chokepoints, comparisons, lists. "
        "Send the newest `conversation_id` back for follow-ups; it is good for an hour. "
        "Limited to a number of messages a minute per client address.",
        handler=desks.chat.chat,
        terms=FREE,
        body=ChatRequest,
        responses={JSON: ChatReply},
        problems=("rate-limited",),
        tag="concierge",
        is_tool=True,
        examples={"body": EXAMPLE_REQUEST},
    )


_ID: dict[str, dict[str, Any]] = {
    "id": {
        "description": "A company: its id, name, ticker or alias, in any case",
        "example": "nvidia",
        "schema": {"type": "string", "maxLength": 200},
    }
}
