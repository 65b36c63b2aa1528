"""The whole catalogue in the formats that graph programs read."""

import csv
import io
from xml.sax.saxutils import escape, quoteattr

import msgspec
from msgspec import Struct

from tollhouse.services.infra.company import Category, Company, Edge
from tollhouse.services.infra.supply_graph import Chain

GRAPHML = "application/graphml+xml"
CSV = "text/csv"

_NODE_KEYS = ("name", "ticker", "country", "category", "listing", "website", "description")
_EDGE_KEYS = {"kind": "string", "product": "string", "slots": "string", "evidence_class": "string",
              "evidence_date": "string", "confidence": "double"}  # fmt: skip


class InfraCatalogue(Struct, frozen=True):
    """Everything: `generated_at` is the day the catalogue's files were last revised."""

    generated_at: str
    categories: tuple[Category, ...]
    companies: tuple[Company, ...]
    edges: tuple[Edge, ...]


def as_json(chain: Chain) -> bytes:
    """The whole catalogue as one InfraCatalogue."""
    catalogue = InfraCatalogue(f"{chain.revised}T00:00:00Z", chain.categories, chain.companies, chain.edges)
    return msgspec.json.encode(catalogue)


def as_graphml(chain: Chain) -> bytes:
    """GraphML 1.0: a directed graph whose edges have ids, so that two kinds between two companies both survive."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
        *(f'  <key id="n_{name}" for="node" attr.name="{name}" attr.type="string"/>' for name in _NODE_KEYS),
        *(
            f'  <key id="e_{name}" for="edge" attr.name="{name}" attr.type="{kind}"/>'
            for name, kind in _EDGE_KEYS.items()
        ),
        '  <graph id="infra" edgedefault="directed">',
        *(_graphml_node(company) for company in chain.companies),
        *(_graphml_edge(edge) for edge in chain.edges),
        "  </graph>",
        "</graphml>",
        "",
    ]
    return "\n".join(lines).encode()


def as_cytoscape(chain: Chain) -> bytes:
    """Cytoscape JSON: Cytoscape.js takes the member `elements` as it is, networkx the whole document."""
    # networkx asks for `value` on each node, and tells parallel edges apart by `key`.
    nodes = [{"data": {**msgspec.to_builtins(company), "value": company.id}} for company in chain.companies]
    edges = [
        {"data": {"id": edge.id, "key": edge.id, "source": edge.source, "target": edge.target, **_facts(edge)}}
        for edge in chain.edges
    ]
    document = {
        "format_version": "1.0",
        "generated_by": "tollhouse",
        "directed": True,
        "multigraph": True,
        "data": {"name": "infra", "revised": chain.revised},
        "elements": {"nodes": nodes, "edges": edges},
    }
    return msgspec.json.encode(document)


def as_csv(chain: Chain) -> bytes:
    """One row per edge (RFC 4180)."""
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(("source", "target", "kind", "product", "confidence", "evidence_class"))
    for edge in chain.edges:
        evidence = edge.evidence[0].evidence_class
        rows.writerow((edge.source, edge.target, edge.kind, edge.product or "", edge.confidence, evidence))
    return out.getvalue().encode()


def _graphml_node(company: Company) -> str:
    data = "".join(
        f'<data key="n_{name}">{escape(value)}</data>'
        for name in _NODE_KEYS
        if (value := getattr(company, name)) is not None
    )
    return f"    <node id={quoteattr(company.id)}>{data}</node>"


def _graphml_edge(edge: Edge) -> str:
    data = "".join(
        f'<data key="e_{name}">{escape(str(value))}</data>'
        for name, value in _facts(edge).items()
        if name in _EDGE_KEYS and value is not None
    )
    # Readers refuse undirected edges in a directed graph: `kind` tells that partners_with runs both ways.
    ends = f"source={quoteattr(edge.source)} target={quoteattr(edge.target)}"
    return f"    <edge id={quoteattr(edge.id)} {ends}>{data}</edge>"


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
