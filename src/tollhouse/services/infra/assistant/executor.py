"""Graph queries, and their execution: the companies and edges that answer a query."""

from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from tollhouse.services.infra.company import MUTUAL_KINDS, Company, Edge, Kind
from tollhouse.services.infra.company_search import stems
from tollhouse.services.infra.reachability import paths_between
from tollhouse.services.infra.supply_graph import SupplyGraph

Operation = Literal[
    "describe",
    "list",
    "makers",
    "suppliers",
    "customers",
    "shared_suppliers",
    "shared_customers",
    "path",
    "upstream",
    "downstream",
    "fails_without",
    "chokepoints",
    "chokepoints_for",
    "compare",
    "relation",
    "investors",
    "investments",
    "partners",
    "competitors",
    "most_suppliers",
    "most_customers",
]
Attribute = Literal["country", "ticker"]

# Entries of a ranking if the question has no number.
DEFAULT_RANKS = 5
MAX_RANKS = 65

MAX_PATH_LENGTH = 8
UNLIMITED = 1_000


class GraphQuery(Struct, frozen=True, omit_defaults=True):
    """A question as a query. `companies` are ids, in order; `without_country` excludes; `counts` asks for a number."""

    operation: Operation
    companies: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    product: str | None = None
    category: str | None = None
    country: str | None = None
    without_country: str | None = None
    limit: int | None = None
    counts: bool = False
    attribute: Attribute | None = None


class ShownQuery(Struct, frozen=True):
    """The query as the caller sees it. `equivalent` is a request with the same result, if there is one."""

    operation: Operation
    arguments: dict[str, Any]
    equivalent: str | None


def show_query(query: GraphQuery) -> ShownQuery:
    """The query to show. Its arguments are its members without defaults."""
    arguments: dict[str, Any] = msgspec.to_builtins(query)
    del arguments["operation"]
    return ShownQuery(query.operation, arguments, _equivalent(query))


def _equivalent(query: GraphQuery) -> str | None:
    """The equivalent request; None if it has no parameter for a part of the query."""
    first = query.companies[0] if query.companies else ""
    if query.product or query.without_country or (query.country and query.operation not in ("list", "fails_without")):
        return f"/api/products?{urlencode({'q': query.product})}" if query.operation == "makers" else None
    kinds = "".join(f"&kind={kind}" for kind in query.kinds)
    category = f"&category={query.category}" if query.category else ""
    country = f"&country={query.country}" if query.country else ""
    if category and query.operation != "list":
        return None
    return {
        "describe": f"/api/companies/{first}",
        "list": f"/api/products?limit=250{category}{country}",
        "suppliers": f"/api/companies/{first}/neighbours?direction=upstream{kinds}",
        "customers": f"/api/companies/{first}/neighbours?direction=downstream{kinds}",
        "upstream": f"/api/exposure?company={first}",
        "downstream": f"/api/exposure?company={first}",
        "path": f"/api/paths?from={first}&to={query.companies[-1] if query.companies else ''}",
        "fails_without": f"/api/chokepoints?company={first}" if first else f"/api/chokepoints?country={query.country}",
        "chokepoints": f"/api/chokepoints?limit={query.limit or DEFAULT_RANKS}",
        "investors": f"/api/companies/{first}/neighbours?direction=upstream&kind=invests_in",
        "investments": f"/api/companies/{first}/neighbours?direction=downstream&kind=invests_in",
        "partners": f"/api/companies/{first}/neighbours?kind=partners_with",
        "competitors": f"/api/companies/{first}/neighbours?kind=competes_with",
    }.get(query.operation)


class QueryResult(Struct, frozen=True):
    """The result of a query. `companies` are ids in order; `is_reversed`: the path has the other direction."""

    query: GraphQuery
    companies: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()
    is_reversed: bool = False


def execute(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    """Run a query. Its companies must exist."""
    return _OPERATIONS[query.operation](graph, query)


def _describe(_graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    return QueryResult(query, query.companies)


def _list(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    return QueryResult(query, tuple(company.id for company in graph.companies if _matches(query, company)))


def _makers(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    words = stems(query.product or "")
    here = [company for company in graph.companies if _in_country(query, company)]
    # For "switches", product names that end so come before names that just contain it: switch silicon.
    matching = [
        company
        for company in here
        if any(stems(product.partition(" (")[0])[-len(words) :] == words for product in company.products)
    ] or [company for company in here if _makes(company, set(words))]
    return QueryResult(query, tuple(company.id for company in matching))


def _neighbours(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    is_upstream = query.operation == "suppliers"
    company = query.companies[0]
    edges = [edge for edge in (graph.into(company) if is_upstream else graph.out_of(company)) if edge.is_supply]
    if query.kinds:
        edges = [edge for edge in edges if edge.kind in query.kinds]
    if query.product:
        words = set(stems(query.product))
        named = [edge for edge in edges if words <= set(stems(" ".join((edge.product or "", *edge.slots))))]
        edges = named or [edge for edge in edges if _makes(graph.company(edge.source), words)]
    ends = {edge: edge.source if is_upstream else edge.target for edge in edges}
    ends = {edge: end for edge, end in ends.items() if _matches(query, graph.company(end))}
    if query.product and not ends and not is_upstream:
        # Edges may not say which product a customer buys: then return all customers.
        return _neighbours(graph, msgspec.structs.replace(query, product=None))
    return QueryResult(query, tuple(dict.fromkeys(ends.values())), tuple(ends))


def _shared(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    side: Operation = "suppliers" if query.operation == "shared_suppliers" else "customers"
    first, second = (_neighbours(graph, GraphQuery(side, companies=(company,))) for company in query.companies)
    both = tuple(company for company in first.companies if company in second.companies)
    edges = (edge for edge in (*first.edges, *second.edges) if edge.source in both or edge.target in both)
    return QueryResult(query, both, tuple(dict.fromkeys(edges)))


def _path(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    source, target = map(graph.node, query.companies)
    for is_reversed, (start, end) in enumerate(((source, target), (target, source))):
        paths = paths_between(graph.network, start, end, max_length=MAX_PATH_LENGTH, limit=1)
        if paths.paths:
            ids = graph.ids(paths.paths[0])
            return QueryResult(query, tuple(ids), graph.supply_along(ids), bool(is_reversed))
    return QueryResult(query)


def _walk(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    upstream = query.operation == "upstream"
    walk = graph.network.walk(graph.node(query.companies[0]), upstream=upstream, depth=UNLIMITED, limit=UNLIMITED)
    edges: list[Edge] = []
    for step in walk.steps:
        ends = graph.ids((step.node, step.via) if upstream else (step.via, step.node))
        edges += graph.supply_between(*ends)
    ids = [i for i in graph.ids(step.node for step in walk.steps) if _matches(query, graph.company(i))]
    return QueryResult(query, tuple(ids), tuple(edges))


def _fails_without(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    removed = query.companies or tuple(c.id for c in graph.companies if c.country == query.country)
    failures = graph.failures.simulate_failure([graph.node(company) for company in removed])
    failed = graph.ids(failure.node for failure in failures)
    stopped = {*removed, *failed}
    slots = {graph.companies[failure.node].id: failure.slot for failure in failures}
    edges = [e for company in failed for e in graph.into(company) if slots[company] in e.slots and e.source in stopped]
    return QueryResult(query, tuple(failed), tuple(edges))


def _chokepoints(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    ranked = graph.chokepoints.chokepoints[: query.limit or DEFAULT_RANKS]
    return QueryResult(query, tuple(graph.ids(chokepoint.node for chokepoint in ranked)))


def _chokepoints_for(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    node = graph.node(query.companies[0])
    fatal = [c.node for c in graph.chokepoints.chokepoints if any(failure.node == node for failure in c.failures)]
    return QueryResult(query, tuple(graph.ids(fatal)))


def _compare(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    first, second = query.companies
    between = [*graph.supply_between(first, second), *graph.supply_between(second, first)]
    return QueryResult(query, query.companies, tuple(between))


def _relation(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    first, second = query.companies
    if not query.kinds:
        return QueryResult(query, query.companies, tuple(graph.supply_between(first, second)))
    known = [*graph.out_of(first), *graph.into(first), *graph.rivals(first)]
    edges = (e for e in known if e.kind in query.kinds and second in (e.source, e.target))
    mutual = (e for e in edges if e.kind in MUTUAL_KINDS or e.source == first)
    return QueryResult(query, query.companies, tuple(mutual))


def _related(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    company = query.companies[0]
    kind: Kind = "partners_with" if query.operation == "partners" else "invests_in"
    edges: list[Edge] = []
    if query.operation != "investors":
        edges += [edge for edge in graph.out_of(company) if edge.kind == kind]
    if query.operation != "investments":
        edges += [edge for edge in graph.into(company) if edge.kind == kind]
    if query.operation == "competitors":
        edges = graph.rivals(company)
    others = (edge.source if edge.target == company else edge.target for edge in edges)
    return QueryResult(query, tuple(dict.fromkeys(others)), tuple(edges))


def _most(graph: SupplyGraph, query: GraphQuery) -> QueryResult:
    def degree(company: Company) -> int:
        return company.suppliers if query.operation == "most_suppliers" else company.customers

    ranked = sorted(graph.companies, key=lambda company: -degree(company))
    least = degree(ranked[(query.limit or 1) - 1])
    return QueryResult(query, tuple(company.id for company in ranked if degree(company) >= least))


_OPERATIONS: dict[str, Callable[[SupplyGraph, GraphQuery], QueryResult]] = {
    "describe": _describe,
    "list": _list,
    "makers": _makers,
    "suppliers": _neighbours,
    "customers": _neighbours,
    "shared_suppliers": _shared,
    "shared_customers": _shared,
    "path": _path,
    "upstream": _walk,
    "downstream": _walk,
    "fails_without": _fails_without,
    "chokepoints": _chokepoints,
    "chokepoints_for": _chokepoints_for,
    "compare": _compare,
    "relation": _relation,
    "investors": _related,
    "investments": _related,
    "partners": _related,
    "competitors": _related,
    "most_suppliers": _most,
    "most_customers": _most,
}


def _makes(company: Company, words: set[str]) -> bool:
    return any(words <= set(stems(product)) for product in company.products)


def _matches(query: GraphQuery, company: Company) -> bool:
    return query.category in (None, company.category) and _in_country(query, company)


def _in_country(query: GraphQuery, company: Company) -> bool:
    return query.country in (None, company.country) and query.without_country != company.country
