"""Endpoints that export the whole catalogue: JSON, GraphML, Cytoscape JSON and CSV."""

from collections.abc import Callable
from functools import cache
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import msgspec
from msgspec import Struct

from tollhouse.csv_text import write_rows
from tollhouse.http.endpoint import JSON, Endpoint, Handler, Request, Response
from tollhouse.http.response import compute_etag
from tollhouse.http.terms import FREE
from tollhouse.services.infra.company import Category, Company, Edge
from tollhouse.services.infra.supply_graph import SupplyGraph

GRAPHML = "application/graphml+xml"
CSV = "text/csv"

_NODE_KEYS = ("name", "ticker", "country", "category", "listing", "website", "description")
_EDGE_KEYS = {"kind": "string", "product": "string", "slots": "string", "evidence_class": "string",
              "evidence_date": "string", "confidence": "double"}  # fmt: skip


class InfraCatalogue(Struct, frozen=True):
    """The whole catalogue. `generated_at` is the day its files were last revised."""

    generated_at: str
    categories: tuple[Category, ...]
    companies: tuple[Company, ...]
    edges: tuple[Edge, ...]


def export_endpoints(graph: SupplyGraph) -> tuple[Endpoint, ...]:
    """The declarations. Each export is written on its first request: the catalogue does not change while served."""
    formats: list[tuple[str, str, str, str, Any, Callable[[SupplyGraph], bytes]]] = [
        ("", "json", "Export categories, companies and edges", JSON, InfraCatalogue, as_json),
        ("Graphml", "graphml", "Export the graph as GraphML", GRAPHML, {"type": "string"}, as_graphml),
        ("Cytoscape", "cytoscape.json", "Export the graph as Cytoscape JSON", JSON, {"type": "object"}, as_cytoscape),
        ("Csv", "csv", "Export the edges as CSV", CSV, {"type": "string"}, as_csv),
    ]
    return tuple(
        Endpoint(
            id=f"getInfraCatalogue{name}",
            method="GET",
            path=f"/infra-catalog.{ending}",
            summary=summary,
            handler=_cached_export(graph, media_type, write),
            terms=FREE,
            responses={media_type: schema},
            tag="exports",
        )
        for name, ending, summary, media_type, schema, write in formats
    )


def _cached_export(graph: SupplyGraph, media_type: str, write: Callable[[SupplyGraph], bytes]) -> Handler:
    @cache
    def response() -> Response:
        body = write(graph)
        return Response(body, media_type, compute_etag(body))

    async def export(_request: Request[Any, Any]) -> Response:
        return response()

    return export


def as_json(graph: SupplyGraph) -> bytes:
    catalogue = InfraCatalogue(f"{graph.revised}T00:00:00Z", graph.categories, graph.companies, graph.edges)
    return msgspec.json.encode(catalogue)


def as_graphml(graph: SupplyGraph) -> bytes:
    """GraphML 1.0: a directed graph. Edges have ids, so that two kinds of edge between two companies stay apart."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
        *(f'  <key id="n_{name}" for="node" attr.name="{name}" attr.type="string"/>' for name in _NODE_KEYS),
        *(
            f'  <key id="e_{name}" for="edge" attr.name="{name}" attr.type="{kind}"/>'
            for name, kind in _EDGE_KEYS.items()
        ),
        '  <graph id="infra" edgedefault="directed">',
        *(_graphml_node(company) for company in graph.companies),
        *(_graphml_edge(edge) for edge in graph.edges),
        "  </graph>",
        "</graphml>",
        "",
    ]
    return "\n".join(lines).encode()


def as_cytoscape(graph: SupplyGraph) -> bytes:
    """Cytoscape JSON: Cytoscape.js reads the member `elements`, networkx the whole document."""
    # networkx needs `value` on each node, and `key` on parallel edges.
    nodes = [{"data": {**msgspec.to_builtins(company), "value": company.id}} for company in graph.companies]
    edges = [
        {"data": {"id": edge.id, "key": edge.id, "source": edge.source, "target": edge.target, **_facts(edge)}}
        for edge in graph.edges
    ]
    document = {
        "format_version": "1.0",
        "generated_by": "tollhouse",
        "directed": True,
        "multigraph": True,
        "data": {"name": "infra", "revised": graph.revised},
        "elements": {"nodes": nodes, "edges": edges},
    }
    return msgspec.json.encode(document)


def as_csv(graph: SupplyGraph) -> bytes:
    header = ("source", "target", "kind", "product", "confidence", "evidence_class")
    rows = [
        (edge.source, edge.target, edge.kind, edge.product, edge.confidence, edge.evidence[0].evidence_class)
        for edge in graph.edges
    ]
    return write_rows([header, *rows])


def _graphml_node(company: Company) -> str:
    data = _graphml_data("n", {name: getattr(company, name) for name in _NODE_KEYS})
    return f"    <node id={quoteattr(company.id)}>{data}</node>"


def _graphml_edge(edge: Edge) -> str:
    # Readers reject undirected edges in a directed graph: the kind says that partners_with is mutual.
    ends = f"source={quoteattr(edge.source)} target={quoteattr(edge.target)}"
    return f"    <edge id={quoteattr(edge.id)} {ends}>{_graphml_data('e', _facts(edge))}</edge>"


def _graphml_data(prefix: str, facts: dict[str, Any]) -> str:
    return "".join(
        f'<data key="{prefix}_{name}">{escape(str(value))}</data>' for name, value in facts.items() if value is not None
    )


def _facts(edge: Edge) -> dict[str, str | float | None]:
    evidence = edge.evidence[0]
    return {
        "kind": edge.kind,
        "product": edge.product,
        "slots": ";".join(edge.slots) or None,
        "evidence_class": evidence.evidence_class,
        "evidence_date": evidence.date,
        "confidence": edge.confidence,
    }
