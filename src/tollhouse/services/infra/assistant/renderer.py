"""Renders query results as text, with the evidence of each claim."""

from collections.abc import Callable, Sequence

from tollhouse.questions.places import country_by_code
from tollhouse.services.infra.assistant.executor import QueryResult
from tollhouse.services.infra.company import Company, Edge
from tollhouse.services.infra.supply_graph import SupplyGraph

MAX_NAMES = 12
CAVEAT = "This rests on the supply edges known here; a slot counts as sole-sourced when no other supplier is on file."

_VERBS = {
    "supplies_material": "supplies material to",
    "supplies_equipment": "supplies equipment to",
    "licenses_ip": "licenses to",
    "manufactures_for": "manufactures for",
    "packages_tests_for": "packages and tests for",
    "supplies_component": "supplies components to",
    "builds_systems_for": "builds systems for",
    "supplies_power_to": "supplies power to",
    "leases_capacity_to": "leases capacity to",
    "provides_compute_to": "provides compute to",
    "invests_in": "invests in",
    "partners_with": "partners with",
    "competes_with": "is in the same category as",
    "owns": "owns",
}
_EVIDENCE = {
    "company_filing": "company filing",
    "company_announcement": "company announcement",
    "widely_reported": "widely reported",
    "same_category": "same category",
}


def render_answer(graph: SupplyGraph, result: QueryResult) -> str:
    return _RENDERERS[result.query.operation](graph, result)


def render_citation(graph: SupplyGraph, edge: Edge) -> str:
    about = f": {edge.product}" if edge.product else ""
    ends = graph.company(edge.source).name, graph.company(edge.target).name
    return f"{ends[0]} {_VERBS[edge.kind]} {ends[1]}{about} ({_EVIDENCE[edge.evidence[0].evidence_class]})"


def _describe(graph: SupplyGraph, result: QueryResult) -> str:
    return " ".join(_profile(graph, graph.company(company), result.query.attribute) for company in result.companies)


def _profile(graph: SupplyGraph, company: Company, attribute: str | None) -> str:
    listing = f"listed as {company.ticker} ({company.exchange})" if company.ticker else f"listing: {company.listing}"
    country = country_by_code(company.country).name
    if attribute == "country":
        return f"{company.name} is based in {country} ({company.country})."
    if attribute == "ticker":
        website = f"; its website is {company.website}" if company.website else ""
        return f"{company.name}: {listing}{website}.{_noted(company)}"
    return (
        f"{company.name} ({country}; {listing}) is in {graph.category(company.category).name}. "
        f"{company.description or ''} It has {_number(company.suppliers, 'known supplier')} and "
        f"{_number(company.customers, 'known customer')} here.{_noted(company)}"
    )


def _noted(company: Company) -> str:
    return f" {company.note}" if company.note else ""


def _set(graph: SupplyGraph, result: QueryResult) -> str:
    query = result.query
    what = f"{_adjective(result)}{_number(len(result.companies), 'company', 'companies')}"
    where = f" in {graph.category(query.category).name}" if query.category else ""
    about = f" that make {query.product}" if query.product else ""
    return _listed(graph, f"{what}{where}{about}", result.companies)


def _neighbours(graph: SupplyGraph, result: QueryResult) -> str:
    is_upstream = result.query.operation == "suppliers"
    query, name = result.query, graph.company(result.query.companies[0]).name
    kind = f" ({', '.join(_VERBS[kind] for kind in query.kinds)})" if query.kinds else ""
    product = f" of {query.product}" if query.product else ""
    category = f" in {graph.category(query.category).name}" if query.category else ""
    where = f" from {country_by_code(query.country).name}" if query.country else ""
    count = _number(len(result.companies), "known supplier" if is_upstream else "known customer")
    head = f"{name} has {count}{product}{kind}{category}{where}"
    products: dict[str, list[str]] = {}
    for edge in result.edges:
        products.setdefault(edge.source if is_upstream else edge.target, []).append(
            f"{edge.product or _VERBS[edge.kind]}; {_EVIDENCE[edge.evidence[0].evidence_class]}"
        )
    names = [f"{graph.company(c).name} ({' / '.join(products[c])})" for c in result.companies]
    return _enumerated(head, names)


def _shared(graph: SupplyGraph, result: QueryResult) -> str:
    word = "supplier" if result.query.operation == "shared_suppliers" else "customer"
    first, second = (graph.company(company).name for company in result.query.companies)
    head = f"{first} and {second} have {_number(len(result.companies), f'known {word}')} in common"
    return _listed(graph, head, result.companies)


def _path(graph: SupplyGraph, result: QueryResult) -> str:
    source, target = (graph.company(company).name for company in result.query.companies)
    if not result.companies:
        return (
            f"No chain of known supply edges joins {source} and {target}, in either direction. "
            "Investments and partnerships are not counted as supply."
        )
    names = " → ".join(graph.company(company).name for company in result.companies)
    length = _number(len(result.companies) - 1, "step")
    if result.is_reversed:
        return f"Nothing known flows from {source} to {target}; the supply runs the other way, in {length}: {names}."
    return f"From {source} to {target} in {length}, a shortest way: {names}."


def _walk(graph: SupplyGraph, result: QueryResult) -> str:
    name = graph.company(result.query.companies[0]).name
    count = _number(len(result.companies), "company", "companies")
    if result.query.operation == "upstream":
        return _listed(graph, f"{name} depends, directly or through others, on {count}", result.companies)
    return _listed(graph, f"{count} depend on {name}, directly or through others", result.companies)


def _fails_without(graph: SupplyGraph, result: QueryResult) -> str:
    failed = [graph.company(company).name for company in result.query.companies]
    if result.query.country:
        failed = [f"every company in {country_by_code(result.query.country).name}"]
    count = _number(len(result.companies), "other company", "other companies")
    head = f"If {' and '.join(failed)} failed, {count} would lose the last known supplier of some input"
    return f"{_listed(graph, head, result.companies)} {CAVEAT}"


def _chokepoints(graph: SupplyGraph, result: QueryResult) -> str:
    stops = {graph.companies[c.node].id: len(c.failures) for c in graph.chokepoints.chokepoints}
    names = [f"{graph.company(company).name} (stops {stops[company]})" for company in result.companies]
    return f"{_enumerated('The companies whose failure stops the most others', names)} {CAVEAT}"


def _chokepoints_for(graph: SupplyGraph, result: QueryResult) -> str:
    name = graph.company(result.query.companies[0]).name
    count = _number(len(result.companies), "company", "companies")
    return f"{_listed(graph, f'{count} could stop {name} by failing alone', result.companies)} {CAVEAT}"


def _compare(graph: SupplyGraph, result: QueryResult) -> str:
    both = [graph.company(company) for company in result.companies]
    sides = " ".join(_profile(graph, company, None) for company in both)
    between = "; ".join(render_citation(graph, edge) for edge in result.edges)
    return f"{sides} Between them: {between}." if between else f"{sides} No supply between them is known here."


def _relation(graph: SupplyGraph, result: QueryResult) -> str:
    source, target = (graph.company(company).name for company in result.query.companies)
    if result.edges:
        return f"Yes: {'; '.join(render_citation(graph, edge) for edge in result.edges)}."
    how = " or ".join(_VERBS[kind] for kind in result.query.kinds) or "supplies"
    return f"No: that {source} {how} {target} is not known here, which does not prove that it is not so."


def _related(graph: SupplyGraph, result: QueryResult) -> str:
    name = graph.company(result.query.companies[0]).name
    count = len(result.companies)
    head = {
        "investors": f"{name} has {_number(count, 'known investor')} in this catalogue",
        "investments": f"{name} has {_number(count, 'known investment')} in this catalogue",
        "partners": f"{name} has {_number(count, 'known partner')} in joint designs",
        "competitors": f"{_number(count, 'other company', 'other companies')} in the same category as {name}",
    }[result.query.operation]
    return _listed(graph, head, result.companies)


def _most(graph: SupplyGraph, result: QueryResult) -> str:
    is_suppliers = result.query.operation == "most_suppliers"
    names = [
        f"{company.name} ({company.suppliers if is_suppliers else company.customers})"
        for company in map(graph.company, result.companies)
    ]
    head = f"The most known {'suppliers' if is_suppliers else 'customers'}"
    return f"{_enumerated(head, names)} Such counts measure what is documented before what is important."


_RENDERERS: dict[str, Callable[[SupplyGraph, QueryResult], str]] = {
    "describe": _describe,
    "list": _set,
    "makers": _set,
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


def _listed(graph: SupplyGraph, head: str, ids: Sequence[str]) -> str:
    return _enumerated(head, [graph.company(company).name for company in ids])


def _enumerated(head: str, names: Sequence[str]) -> str:
    if not names:
        return f"{head}."
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{head}: {', '.join(names[:MAX_NAMES])}{more}."


def _adjective(result: QueryResult) -> str:
    query = result.query
    if query.without_country:
        return f"Outside {country_by_code(query.without_country).name}: "
    return f"{country_by_code(query.country).name}: " if query.country else ""


def _number(count: int, one: str, many: str | None = None) -> str:
    return f"{count or 'no'} {one if count == 1 else many or one + 's'}"
