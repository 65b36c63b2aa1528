"""A question as a typed query over the graph: what the concierge understood, and all that it acts on."""

from typing import Any, Literal
from urllib.parse import urlencode

from msgspec import Struct

from tollhouse.services.infra.company import Kind

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

# How many of a ranking are told where nobody says how many.
USUAL_RANKS = 5
MOST_RANKS = 65


class Query(Struct, frozen=True, omit_defaults=True):
    """`companies` are ids, in the order that counts. `without_country` leaves a country out. `counts` asks how many."""

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
    """The query as the caller sees it; `equivalent` is a request that answers the same, where there is one."""

    operation: Operation
    arguments: dict[str, Any]
    equivalent: str | None


def shown(query: Query, arguments: dict[str, Any]) -> ShownQuery:
    """The query to show; `arguments` are its members that are not left at their defaults."""
    return ShownQuery(query.operation, arguments, _equivalent(query))


def _equivalent(query: Query) -> str | None:
    """Leaves out what the request has no parameter for, so that it never promises another answer."""
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
        "chokepoints": f"/api/chokepoints?limit={query.limit or USUAL_RANKS}",
        "investors": f"/api/companies/{first}/neighbours?direction=upstream&kind=invests_in",
        "investments": f"/api/companies/{first}/neighbours?direction=downstream&kind=invests_in",
        "partners": f"/api/companies/{first}/neighbours?kind=partners_with",
        "competitors": f"/api/companies/{first}/neighbours?kind=competes_with",
    }.get(query.operation)
