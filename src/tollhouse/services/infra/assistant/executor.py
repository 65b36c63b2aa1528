"""A typed query run over the graph: the companies and edges that answer it."""

from collections.abc import Callable, Iterable
from itertools import pairwise

import msgspec
from msgspec import Struct

from tollhouse.services.infra.assistant.query_types import USUAL_RANKS, Query
from tollhouse.services.infra.company import MUTUAL_KINDS, Company, Edge, Kind
from tollhouse.services.infra.paths import paths_between
from tollhouse.services.infra.search import stems
from tollhouse.services.infra.supply_graph import Chain

LONGEST_PATH = 8
MANY = 1_000


class Finding(Struct, frozen=True):
    """What answers a query. `companies` are ids in the order told; `is_reversed`: the path runs the other way."""

    query: Query
    companies: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()
    is_reversed: bool = False


def find(chain: Chain, query: Query) -> Finding:
    """Run a query; its companies exist."""
    return _FINDERS[query.operation](chain, query)


def _describe(_chain: Chain, query: Query) -> Finding:
    return Finding(query, query.companies)


def _list(chain: Chain, query: Query) -> Finding:
    fitting = (c for c in chain.companies if query.category in (None, c.category) and _in_country(query, c))
    return Finding(query, tuple(company.id for company in fitting))


def _makers(chain: Chain, query: Query) -> Finding:
    words = stems(query.product or "")
    here = [company for company in chain.companies if _in_country(query, company)]
    # "Switches" are first what is called so, and only then what has them in its name: switch silicon.
    fitting = [company for company in here if any(_ends_in(product, words) for product in company.products)]
    fitting = fitting or [company for company in here if _makes(company, set(words))]
    return Finding(query, tuple(company.id for company in fitting))


def _suppliers(chain: Chain, query: Query) -> Finding:
    edges = [edge for edge in chain.into(query.companies[0]) if edge.is_supply]
    return _neighbours(chain, query, edges, lambda edge: edge.source)


def _customers(chain: Chain, query: Query) -> Finding:
    edges = [edge for edge in chain.out_of(query.companies[0]) if edge.is_supply]
    found = _neighbours(chain, query, edges, lambda edge: edge.target)
    if query.product and not found.companies:
        # No edge tells which of its products a customer takes: then all customers are the answer, as the query says.
        found = _neighbours(chain, msgspec.structs.replace(query, product=None), edges, lambda edge: edge.target)
    return found


def _neighbours(chain: Chain, query: Query, edges: Iterable[Edge], end: Callable[[Edge], str]) -> Finding:
    kept = [edge for edge in edges if not query.kinds or edge.kind in query.kinds]
    if query.product:
        words = set(stems(query.product))
        told = [edge for edge in kept if words <= _words_of(edge)]
        kept = told or [edge for edge in kept if _makes(chain.company(edge.source), words)]
    kept = [edge for edge in kept if _fits(query, chain.company(end(edge)))]
    return Finding(query, tuple(dict.fromkeys(end(edge) for edge in kept)), tuple(kept))


def _shared(chain: Chain, query: Query) -> Finding:
    ask = _suppliers if query.operation == "shared_suppliers" else _customers
    first, second = (ask(chain, Query("suppliers", companies=(company,))) for company in query.companies)
    both = tuple(company for company in first.companies if company in second.companies)
    edges = (edge for edge in (*first.edges, *second.edges) if edge.source in both or edge.target in both)
    return Finding(query, both, tuple(dict.fromkeys(edges)))


def _path(chain: Chain, query: Query) -> Finding:
    source, target = map(chain.node, query.companies)
    for is_reversed, (start, end) in enumerate(((source, target), (target, source))):
        paths = paths_between(chain.flow, start, end, max_length=LONGEST_PATH, limit=1)
        if paths.found:
            ids = chain.ids(paths.found[0])
            return Finding(query, tuple(ids), _along(chain, ids), bool(is_reversed))
    return Finding(query)


def _walk(chain: Chain, query: Query) -> Finding:
    upstream = query.operation == "upstream"
    walk = chain.flow.walk(chain.node(query.companies[0]), upstream=upstream, depth=MANY, limit=MANY)
    edges: list[Edge] = []
    for step in walk.steps:
        ends = chain.ids((step.node, step.via) if upstream else (step.via, step.node))
        edges += chain.supply_between(*ends)
    ids = [i for i in chain.ids(step.node for step in walk.steps) if _fits(query, chain.company(i))]
    return Finding(query, tuple(ids), tuple(edges))


def _fails_without(chain: Chain, query: Query) -> Finding:
    gone = query.companies or tuple(c.id for c in chain.companies if c.country == query.country)
    failures = chain.slots.knock_out([chain.node(company) for company in gone])
    failed = chain.ids(failure.node for failure in failures)
    stopped = {*gone, *failed}
    slots = {chain.companies[failure.node].id: failure.slot for failure in failures}
    edges = [e for company in failed for e in chain.into(company) if slots[company] in e.slots and e.source in stopped]
    return Finding(query, tuple(failed), tuple(edges))


def _chokepoints(chain: Chain, query: Query) -> Finding:
    ranked = chain.chokepoints.chokepoints[: query.limit or USUAL_RANKS]
    return Finding(query, tuple(chain.ids(chokepoint.node for chokepoint in ranked)))


def _chokepoints_for(chain: Chain, query: Query) -> Finding:
    node = chain.node(query.companies[0])
    fatal = [c.node for c in chain.chokepoints.chokepoints if any(failure.node == node for failure in c.failures)]
    return Finding(query, tuple(chain.ids(fatal)))


def _compare(chain: Chain, query: Query) -> Finding:
    first, second = query.companies
    between = [*chain.supply_between(first, second), *chain.supply_between(second, first)]
    return Finding(query, query.companies, tuple(between))


def _relation(chain: Chain, query: Query) -> Finding:
    first, second = query.companies
    if not query.kinds:
        return Finding(query, query.companies, tuple(chain.supply_between(first, second)))
    known = [*chain.out_of(first), *chain.into(first), *chain.rivals(first)]
    edges = (e for e in known if e.kind in query.kinds and second in (e.source, e.target))
    mutual = (e for e in edges if e.kind in MUTUAL_KINDS or e.source == first)
    return Finding(query, query.companies, tuple(mutual))


def _related(chain: Chain, query: Query) -> Finding:
    company = query.companies[0]
    kind: Kind = "partners_with" if query.operation == "partners" else "invests_in"
    edges: list[Edge] = []
    if query.operation != "investors":
        edges += [edge for edge in chain.out_of(company) if edge.kind == kind]
    if query.operation != "investments":
        edges += [edge for edge in chain.into(company) if edge.kind == kind]
    if query.operation == "competitors":
        edges = chain.rivals(company)
    others = (edge.source if edge.target == company else edge.target for edge in edges)
    return Finding(query, tuple(dict.fromkeys(others)), tuple(edges))


def _most(chain: Chain, query: Query) -> Finding:
    def degree(company: Company) -> int:
        return company.suppliers if query.operation == "most_suppliers" else company.customers

    ranked = sorted(chain.companies, key=lambda company: -degree(company))
    least = degree(ranked[(query.limit or 1) - 1])
    return Finding(query, tuple(company.id for company in ranked if degree(company) >= least))


_FINDERS: dict[str, Callable[[Chain, Query], Finding]] = {
    "describe": _describe,
    "list": _list,
    "makers": _makers,
    "suppliers": _suppliers,
    "customers": _customers,
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


def _along(chain: Chain, ids: list[str]) -> tuple[Edge, ...]:
    pairs = pairwise(ids)
    return tuple(edge for source, target in pairs for edge in chain.supply_between(source, target))


def _makes(company: Company, words: set[str]) -> bool:
    return any(words <= set(stems(product)) for product in company.products)


def _ends_in(product: str, words: tuple[str, ...]) -> bool:
    return stems(product.partition(" (")[0])[-len(words) :] == words


def _words_of(edge: Edge) -> set[str]:
    return set(stems(" ".join((edge.product or "", *edge.slots))))


def _fits(query: Query, company: Company) -> bool:
    return query.category in (None, company.category) and _in_country(query, company)


def _in_country(query: Query, company: Company) -> bool:
    return query.country in (None, company.country) and query.without_country != company.country
