"""Endpoints of the Universal Commerce Protocol (UCP): the catalogue, and the profile that leads to it."""

import base64
import binascii
import re
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tollhouse.catalogue.query import SearchResult
from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Example, ProblemForm, Request, Response, endpoint
from tollhouse.http.response import compute_etag, problem_headers
from tollhouse.http.terms import FREE
from tollhouse.services.mattress.api_types import Filters, SearchQuery, catalogue_query
from tollhouse.services.mattress.catalogue_view import CatalogueView
from tollhouse.services.mattress.product import CURRENCY
from tollhouse.services.mattress.product_endpoints import PRODUCT_ID
from tollhouse.services.mattress.search import search_products
from tollhouse.services.mattress.ucp.products import MATTRESS_CATEGORIES, as_ucp, product_detail, product_id_of

MAX_IDS = 100
MAX_LIMIT = 250
DEFAULT_LIMIT = 10

Amount = Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)]
Words = Annotated[str, Meta(max_length=500)]
Identity = Annotated[str, Meta(max_length=250)]
Value = Annotated[str, Meta(max_length=200)]
Values = Annotated[list[Value], Meta(max_length=100)]


class PriceRange(Struct, frozen=True):
    """In minor units of the context's currency."""

    min: Amount | None = None
    max: Amount | None = None


class SearchFilters(Struct, frozen=True):
    """Filters of a search. Unknown members are ignored, as the protocol requires."""

    price: PriceRange = PriceRange()
    categories: Values = []
    brand: Values | Value = []
    size: Values | Value = []
    material: Values | Value = []
    retailer: Values | Value = []
    sleep_position: Values | Value = []
    in_stock: bool | None = None


class Paging(Struct, frozen=True):
    """The page. A limit above the maximum means the maximum."""

    cursor: Annotated[str, Meta(max_length=200)] | None = None
    limit: Annotated[int, Meta(ge=1)] = DEFAULT_LIMIT


class Context(Struct, frozen=True):
    """The buyer's context; only the currency matters here."""

    currency: str | None = None


class SelectedOption(Struct, frozen=True):
    """An option that the buyer selected."""

    name: str
    label: str
    id: str | None = None


class CatalogRequest(Struct, frozen=True, kw_only=True):
    """Members of every request."""

    filters: SearchFilters = SearchFilters()
    context: Context = Context()
    signals: dict[str, Any] = {}
    attribution: dict[str, str] = {}


class Search(CatalogRequest, frozen=True, kw_only=True):
    """A valid search request."""

    query: Words = ""
    pagination: Paging = Paging()


class Lookup(CatalogRequest, frozen=True, kw_only=True):
    """A valid lookup request."""

    ids: Annotated[list[Identity], Meta(min_length=1, max_length=MAX_IDS)]


class GetProduct(CatalogRequest, frozen=True, kw_only=True):
    """A valid request for one product."""

    id: Identity
    selected: Annotated[list[SelectedOption], Meta(max_length=20)] = []
    preferences: Annotated[list[str], Meta(max_length=20)] = []


VERSION = "2026-04-08"
CAPABILITIES = {
    "dev.ucp.shopping.catalog.search": "catalog_search",
    "dev.ucp.shopping.catalog.lookup": "catalog_lookup",
}

_SUCCESS = {
    "version": VERSION,
    "status": "success",
    "capabilities": {name: [{"version": VERSION}] for name in CAPABILITIES},
}
_BODY = {"type": "object", "description": "As UCP defines it, errors included: https://ucp.dev"}
# UCP's codes for problems; others keep their own code with underscores.
_CODES = {
    "not-found": "not_found",
    "invalid-body": "invalid_request",
    "invalid-parameter": "invalid_request",
    "missing-credentials": "identity_required",
    "tier-required": "insufficient_scope",
}
_UNRECOVERABLE = {"internal-error", "not-configured", "method-not-allowed"}
# UCP's error object allows no other members; its messages do, so the x402 challenge is put there.
_X402_MEMBERS = ("x402Version", "error", "accepts")

_LAST_OFFSET = 10_000

Json = dict[str, Any]


def failure(problem: Problem) -> Response:
    """A problem as UCP's error_response. `not-found` is a regular outcome in UCP and has status 200."""
    facts = problem.facts
    x402 = {name: facts[name] for name in _X402_MEMBERS if name in facts}
    message = {
        "type": "error",
        "code": _CODES.get(problem.code, problem.code.replace("-", "_")),
        "content": problem.detail,
        "severity": "unrecoverable" if problem.code in _UNRECOVERABLE else "recoverable",
        **{name: value for name, value in facts.items() if name not in {"parameter", *_X402_MEMBERS}},
        **({"path": f"$.{facts['parameter']}"} if "parameter" in facts else {}),
        **({"x402": x402} if x402 else {}),
    }
    body = {"ucp": {"version": VERSION, "status": "error"}, "messages": [message]}
    status = 200 if problem.code == "not-found" else problem.status
    return Response(
        msgspec.json.encode(body), status=status, headers=problem_headers(problem), cache_control="no-store"
    )


FORM = ProblemForm(
    failure, JSON, {"type": "object", "description": "A UCP error response: https://ucp.dev/schemas/common/types/"}
)

_OWN = PRODUCT_ID["id"]["example"]
_catalog_endpoint = partial(endpoint, "POST", responses={JSON: _BODY}, tag="ucp", problem_form=FORM)


class UcpEndpoints:
    """Handlers for UCP. Responses and errors have the protocol's own form."""

    def __init__(self, view: CatalogueView) -> None:
        self._view = view
        body = msgspec.json.encode(_profile(view.storefront.base_url))
        self._profile = Response(body, etag=compute_etag(body), cache_control="public, max-age=3600")

    @endpoint("GET", "/.well-known/ucp", id="getUcpProfile", terms=FREE, responses={JSON: _BODY}, tag="ucp")
    async def profile(self, _request: Request[None, None]) -> Response:
        """Get the UCP profile: version, endpoint and capabilities."""
        return self._profile

    @_catalog_endpoint(
        "/catalog/search",
        id="ucpSearchCatalog",
        sample=Example(body={"query": "latex queen", "pagination": {"limit": 3}}),
    )
    async def search(self, request: Request[None, Search]) -> Response:
        """Search the catalogue (UCP)."""
        search = request.body
        offset = _offset(search.pagination)
        limit = min(search.pagination.limit, MAX_LIMIT, _LAST_OFFSET)
        filters, messages = _filters(search.filters, search.context)
        if search.query.strip():
            given = {name: getattr(filters, name) for name in filters.__struct_fields__}
            query = SearchQuery(**{**given, "q": search.query, "offset": offset, "limit": limit})
            result = (await search_products(self._view.catalogue, await self._view.search_words(), query)).result
        else:
            query_all = msgspec.structs.replace(catalogue_query(filters), offset=offset, limit=limit)
            result = await self._view.catalogue.search(query_all)
        products = [self._as_ucp(item) for item in result.items]
        return _success(messages, products=products, pagination=_pagination(result, offset, limit))

    @_catalog_endpoint("/catalog/lookup", id="ucpLookupCatalog", sample=Example(body={"ids": [_OWN]}))
    async def lookup(self, request: Request[None, Lookup]) -> Response:
        """Look up products by id (UCP)."""
        lookup = request.body
        filters, messages = _filters(lookup.filters, lookup.context)
        inputs_by_product: dict[str, list[str]] = {}
        for identity in dict.fromkeys(lookup.ids):
            inputs_by_product.setdefault(product_id_of(identity), []).append(identity)
        items = await self._matching(filters, list(inputs_by_product))
        products = [self._as_ucp(items[own], inputs) for own, inputs in inputs_by_product.items() if own in items]
        missing = [each for own, inputs in inputs_by_product.items() if own not in items for each in inputs]
        messages += [
            {"type": "info", "code": "not_found", "content": f"No product has this id: {each}"} for each in missing
        ]
        return _success(messages, products=products)

    @_catalog_endpoint("/catalog/product", id="ucpGetProduct", sample=Example(body={"id": _OWN}))
    async def product(self, request: Request[None, GetProduct]) -> Response:
        """Get one product in full (UCP)."""
        body = request.body
        filters, messages = _filters(body.filters, body.context)
        own = product_id_of(body.id)
        item = (await self._matching(filters, [own])).get(own)
        if item is None:
            return failure(Problem("not-found", "No product has this id.", parameter="id"))
        return _success(messages, product=product_detail(self._as_ucp(item), self._view.storefront.product(item)))

    async def _matching(self, filters: Filters, identities: list[str]) -> dict[str, Json]:
        """The products with these ids that match the filters. Ids match in any case in the index, exactly in UCP."""
        printable = tuple(identity for identity in identities if identity.isprintable())
        if not printable:
            return {}
        query = catalogue_query(filters)
        query = msgspec.structs.replace(query, any_of={**query.any_of, "id": printable}, limit=len(printable), offset=0)
        result = await self._view.catalogue.search(query)
        return {item["id"]: item for item in result.items if item["id"] in identities}

    def _as_ucp(self, item: Json, inputs: list[str] | None = None) -> Json:
        product = self._view.storefront.product(item)
        return as_ucp(product, self._view.retailer_name(product["retailer"]), inputs or ())


def _success(messages: list[Json], **members: Any) -> Response:
    body = {"ucp": _SUCCESS, **members, **({"messages": messages} if messages else {})}
    return Response(msgspec.json.encode(body), cache_control="no-store")


def _filters(ucp: SearchFilters, context: Context) -> tuple[Filters, list[Json]]:
    """The filters of this catalogue, and messages about filters that were ignored."""
    messages: list[Json] = []
    low, high = ucp.price.min, ucp.price.max
    if (low, high) != (None, None) and context.currency not in (None, CURRENCY):
        messages.append({"type": "info", "code": "price_filter_ignored", "path": "$.filters.price",
                         "content": f"Prices are in {CURRENCY} and are not converted"})  # fmt: skip
        low = high = None
    lists: dict[str, list[str]] = {}
    for name in ("brand", "size", "material", "retailer", "sleep_position"):
        value: list[str] | str = getattr(ucp, name)
        lists[name] = [value] if isinstance(value, str) else value
    categories = {category.strip().casefold() for category in ucp.categories}
    if categories and not categories & MATTRESS_CATEGORIES:
        materials = {each.strip().casefold() for each in lists["material"]}
        # Both filters must match. A category that is no material matches nothing.
        lists["material"] = sorted(categories & materials if materials else categories) or ["\u2205"]
    prices = {"min_price": None if low is None else low / 100, "max_price": None if high is None else high / 100}
    return Filters(**lists, **prices, in_stock=ucp.in_stock), messages  # type: ignore[arg-type]


def _pagination(result: SearchResult, offset: int, limit: int) -> Json:
    after = offset + len(result.items)
    has_next = bool(result.items) and after < result.total and offset + limit <= _LAST_OFFSET
    cursor = {"cursor": base64.urlsafe_b64encode(b"o%d" % after).decode()} if has_next else {}
    return {"has_next_page": has_next, "total_count": result.total, **cursor}


def _offset(page: Paging) -> int:
    """The offset in a cursor. Raises Problem `invalid-body` for a cursor that this server did not issue."""
    if page.cursor is None:
        return 0
    try:
        match = re.fullmatch(rb"o(\d{1,5})", base64.urlsafe_b64decode(page.cursor.encode()))
    except (binascii.Error, ValueError):
        match = None
    if match is None or int(match[1]) > _LAST_OFFSET:
        detail = "Invalid `cursor`. Use the `cursor` of a previous response."
        raise Problem("invalid-body", detail, parameter="pagination.cursor")
    return int(match[1])


def _profile(base_url: str) -> Json:
    """The business profile: versions, endpoint and capabilities (profile.json, business_schema)."""
    version = {"version": VERSION}
    spec, schemas = "https://ucp.dev/specification/catalog", "https://ucp.dev/schemas/shopping"
    capabilities = {
        name: [{**version, "spec": spec, "schema": f"{schemas}/{file}.json"}] for name, file in CAPABILITIES.items()
    }
    service = {
        **version,
        "spec": "https://ucp.dev/specification/overview",
        "transport": "rest",
        "schema": "https://ucp.dev/services/shopping/rest.openapi.json",
        "endpoint": base_url,
    }
    services = {"dev.ucp.shopping": [service]}
    return {"ucp": {**version, "services": services, "capabilities": capabilities, "payment_handlers": {}}}
