"""The page of the infra service and its piece of the front page, declared beside their files."""

from pathlib import Path
from typing import Any

from tollhouse.http.pages import FrontPageEntry, Page
from tollhouse.services.infra.supply_graph import SupplyGraph

FRONT_COMPANIES = 30
FRONT_CHOKEPOINTS = 3

_FOLDER = Path(__file__).parent


def declare_pages(graph: SupplyGraph) -> tuple[Page, ...]:
    return (
        Page(
            path="/value-chain",
            title="AI infrastructure value chain",
            label="Value chain",
            file=_FOLDER / "value_chain.html",
            scripts=("value_chain.js", "value_chain.css"),
            parameters=("company", "with", "from", "to", "without", "country", "step", "category"),
            texts={
                "companies": f"{len(graph.companies):,}",
                "links": f"{len(graph.edges):,}",
                "layers": str(len(graph.categories)),
                "revised": graph.revised,
            },
        ),
    )


def declare_front_page(graph: SupplyGraph) -> FrontPageEntry:
    """The entry on the front page: the companies with the most links, and what stops without the worst of them."""
    return FrontPageEntry(
        title="AI infrastructure value chain",
        summary="Who supplies whom, and what stops when one company is lost.",
        example_calls=("/api/paths?from=asml&to=openai", "/api/chokepoints?limit=5", "/api/search?q=lithography"),
        page="/value-chain",
        button="Open the graph",
        file=_FOLDER / "front.html",
        scripts=("front.js", "infra_front.css"),
        facts=_front_facts(graph),
        sources=(f"infra catalogue, public knowledge as of {graph.revised}",),
    )


def _front_facts(graph: SupplyGraph) -> dict[str, Any]:
    order = {category.id: category.order for category in graph.categories}
    worst = graph.chokepoints.chokepoints[:FRONT_CHOKEPOINTS]
    lost = [graph.companies[one.node] for one in worst]
    by_links = sorted(graph.companies, key=lambda one: (-one.suppliers - one.customers, one.id))
    drawn = [*lost, *(one for one in by_links if one not in lost)][:FRONT_COMPANIES]
    ids = {one.id for one in drawn}

    def named(node: int) -> dict[str, Any]:
        return {"id": graph.companies[node].id, "name": graph.companies[node].name}

    pairs = dict.fromkeys((edge.source, edge.target) for edge in graph.edges if edge.is_supply)
    return {
        "companies": [{"id": one.id, "name": one.name, "order": order[one.category]} for one in drawn],
        "layers": len(graph.categories),
        "links": [pair for pair in pairs if ids.issuperset(pair)],
        "total": len(graph.companies),
        "chokepoints": [
            {**named(point.node), "stops": [{**named(one.node), "step": one.round} for one in point.failures]}
            for point in worst
        ],
    }
