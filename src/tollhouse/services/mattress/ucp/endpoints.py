"""The catalogue operations of the Universal Commerce Protocol, and the profile that leads to them."""

import base64
import binascii
import re
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.catalogue.query import CatalogueQuery, SearchResult
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Request, Response
from tollhouse.http.response_writer import etag_of
from tollhouse.services.mattress.catalogue_view import Shop
from tollhouse.services.mattress.product import CURRENCY
from tollhouse.services.mattress.queries import Filters, SearchQuery, engine_query
from tollhouse.services.mattress.search import seek
from tollhouse.services.mattress.ucp import envelope
from tollhouse.services.mattress.ucp.products import MATTRESS_CATEGORIES, as_ucp, detailed, product_id_of
from tollhouse.services.mattress.ucp.requests import (
    MAX_LIMIT,
    Context,
    GetProduct,
    Lookup,
    LookupBody,
    Paging,
    ProductBody,
    Search,
    SearchBody,
    SearchFilters,
    Typed,
    strictly,
)

_SPECIFICATION = "https://ucp.dev/specification"
_SCHEMAS = "https://ucp.dev/schemas/shopping"
_LAST_OFFSET = 10_000

Json = dict[str, Any]


class UcpEndpoints:
    """Answers in the protocol's own form; that nothing was found is one of them."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        body = msgspec.json.encode(_profile(shop.storefront.base_url))
        self._profile = Response(body, etag=etag_of(body), cache_control="public, max-age=3600")

    async def profile(self, _asked: Request[None, None]) -> Response:
        """`GET /.well-known/ucp`."""
        return self._profile

    async def search(self, request: Request[None, SearchBody]) -> Response:
        """`POST /catalog/search`."""
        return await self._search(_read(request, SearchBody, Search))

    async def lookup(self, request: Request[None, LookupBody]) -> Response:
        """`POST /catalog/lookup`."""
        return await self._lookup(_read(request, LookupBody, Lookup))

    async def product(self, request: Request[None, ProductBody]) -> Response:
        """`POST /catalog/product`."""
        return await self._product(_read(request, ProductBody, GetProduct))

    async def _search(self, search: Search) -> Response:
        offset = _offset(search.pagination)
        limit = min(search.pagination.limit, MAX_LIMIT, _LAST_OFFSET)
        filters, messages = _filters(search.filters, search.context)
        if search.query.strip():
            found = (await seek(self._shop.catalogue, await self._shop.brands(),
                                _searching(filters, search.query, offset, limit))).found  # fmt: skip
        else:
            found = await self._shop.catalogue.search(_paged(engine_query(filters), offset, limit))
        products = [self._as_ucp(item) for item in found.items]
        page = _pagination(found, offset, limit)
        return envelope.success(products=products, pagination=page, **_with(messages))

    async def _lookup(self, lookup: Lookup) -> Response:
        filters, messages = _filters(lookup.filters, lookup.context)
        asked_for: dict[str, list[str]] = {}
        for identity in dict.fromkeys(lookup.ids):
            asked_for.setdefault(product_id_of(identity), []).append(identity)
        fitting = await self._fitting(filters, list(asked_for))
        products = [self._as_ucp(fitting[own], inputs) for own, inputs in asked_for.items() if own in fitting]
        missing = [each for own, inputs in asked_for.items() if own not in fitting for each in inputs]
        messages += [envelope.info("not_found", f"There is nothing of this id: {each}") for each in missing]
        return envelope.success(products=products, **_with(messages))

    async def _product(self, wanted: GetProduct) -> Response:
        filters, messages = _filters(wanted.filters, wanted.context)
        own = product_id_of(wanted.id)
        item = (await self._fitting(filters, [own])).get(own)
        if item is None:
            return envelope.failure(Problem("not-found", "There is no product of this id.", parameter="id"))
        shown = self._shop.storefront.shown(item)
        return envelope.success(product=detailed(self._as_ucp(item), shown), **_with(messages))

    async def _fitting(self, filters: Filters, identities: list[str]) -> dict[str, Json]:
        """The products of these ids that pass the filters. The engine takes ids in any case, the protocol does not."""
        possible = tuple(identity for identity in identities if identity.isprintable())
        if not possible:
            return {}
        query = engine_query(filters)
        wanted = msgspec.structs.replace(query, any_of={**query.any_of, "id": possible}, limit=len(possible), offset=0)
        found = await self._shop.catalogue.search(wanted)
        return {item["id"]: item for item in found.items if item["id"] in identities}

    def _as_ucp(self, item: Json, inputs: list[str] | None = None) -> Json:
        product = self._shop.storefront.shown(item)
        return as_ucp(product, self._shop.retailer_name(product["retailer"]), inputs or ())


def _read(request: Request[None, Any], loose: type[Struct], shape: type[Typed]) -> Typed:
    content_type = request.http.header(b"content-type") if request.http else "application/json"
    return strictly(request.body, content_type, loose, shape)


def _filters(asked: SearchFilters, context: Context) -> tuple[Filters, list[Json]]:
    """This catalogue's filters, and what to tell about those that were left aside."""
    told: list[Json] = []
    low, high = asked.price.min, asked.price.max
    if (low, high) != (None, None) and context.currency not in (None, CURRENCY):
        told.append(
            envelope.info("price_filter_ignored", f"Prices are in {CURRENCY} and are not converted", "$.filters.price")
        )
        low = high = None
    lists = {
        "brand": _listed(asked.brand),
        "size": _listed(asked.size),
        "material": _listed(asked.material),
        "retailer": _listed(asked.retailer),
        "sleep_position": _listed(asked.sleep_position),
    }
    categories = {category.strip().casefold() for category in asked.categories}
    if categories and not categories & MATTRESS_CATEGORIES:
        own = {each.strip().casefold() for each in lists["material"]}
        # Both must hold; a category that is no material's leaves nothing.
        lists["material"] = sorted(categories & own if own else categories) or ["\u2205"]
    given: Json = {**lists, "min_price": _dollars(low), "max_price": _dollars(high), "in_stock": asked.in_stock}
    return Filters(**given), told


def _searching(filters: Filters, words: str, offset: int, limit: int) -> SearchQuery:
    given = {name: getattr(filters, name) for name in filters.__struct_fields__}
    return SearchQuery(**{**given, "q": words, "offset": offset, "limit": limit})


def _paged(query: CatalogueQuery, offset: int, limit: int) -> CatalogueQuery:
    return msgspec.structs.replace(query, offset=offset, limit=limit)


def _listed(value: list[str] | str) -> list[str]:
    return [value] if isinstance(value, str) else value


def _dollars(cents: int | None) -> float | None:
    return None if cents is None else cents / 100


def _pagination(found: SearchResult, offset: int, limit: int) -> Json:
    after = offset + len(found.items)
    has_next = bool(found.items) and after < found.total and offset + limit <= _LAST_OFFSET
    cursor = {"cursor": base64.urlsafe_b64encode(b"o%d" % after).decode()} if has_next else {}
    return {"has_next_page": has_next, "total_count": found.total, **cursor}


def _offset(page: Paging) -> int:
    """Where the page of a cursor begins. Raises Problem `invalid-body` for what is no cursor of this server's."""
    if page.cursor is None:
        return 0
    try:
        told = re.fullmatch(rb"o(\d{1,5})", base64.urlsafe_b64decode(page.cursor.encode()))
    except (binascii.Error, ValueError):
        told = None
    if told is None or int(told[1]) > _LAST_OFFSET:
        raise Problem("invalid-body", "This cursor was not given out here.", parameter="pagination.cursor")
    return int(told[1])


def _with(messages: list[Json]) -> Json:
    return {"messages": messages} if messages else {}


def _profile(base_url: str) -> Json:
    """The business profile: which version, where, and what it can do (profile.json, business_schema)."""
    version = {"version": envelope.VERSION}
    capabilities = {
        name: [{**version, "spec": f"{_SPECIFICATION}/catalog", "schema": f"{_SCHEMAS}/{file}.json"}]
        for name, file in zip(envelope.CAPABILITIES, ("catalog_search", "catalog_lookup"), strict=True)
    }
    service = {
        **version,
        "spec": f"{_SPECIFICATION}/overview",
        "transport": "rest",
        "schema": "https://ucp.dev/services/shopping/rest.openapi.json",
        "endpoint": base_url,
    }
    return {
        "ucp": {
            **version,
            "services": {"dev.ucp.shopping": [service]},
            "capabilities": capabilities,
            "payment_handlers": {},
        }
    }
