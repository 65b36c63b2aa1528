"""Lists of products: filtered, searched, counted and kept."""

from typing import Any

import msgspec

from tollhouse.catalogue.query import Facet, SearchResult
from tollhouse.catalogue.response_cache import ResponseCache
from tollhouse.errors import invalid_parameter
from tollhouse.http.endpoint import Request, Response
from tollhouse.http.response_writer import etag_of
from tollhouse.services.mattress.catalogue_view import Shop
from tollhouse.services.mattress.queries import FACETS, Filters, ProductsQuery, SearchQuery, engine_query
from tollhouse.services.mattress.search import seek


class ProductListEndpoints:
    """The operations that answer with pages of products."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._kept = ResponseCache(shop.catalogue)

    async def products(self, request: Request[ProductsQuery, None]) -> Response:
        """`GET /api/products`. Raises Problem `invalid-parameter`."""
        query = request.query
        return await self._kept.answer(("products", msgspec.json.encode(query)), lambda: self._products(query))

    async def search(self, request: Request[SearchQuery, None]) -> Response:
        """`GET /api/search`. Raises Problem `invalid-parameter`."""
        query = request.query
        if not query.q.strip():
            raise invalid_parameter("q", "`q` must hold a word to look for.")
        return await self._kept.answer(("search", msgspec.json.encode(query)), lambda: self._search(query))

    async def _products(self, query: ProductsQuery) -> Response:
        if query.q is not None and not query.q.strip():
            raise invalid_parameter("q", "`q` must hold a word to look for.")
        found = await self._shop.catalogue.search(engine_query(query, query.q))
        applied = query.applied()
        if query.q is not None:
            applied["q"] = query.q
        if found.corrected:
            applied["understood"] = {"corrected": found.corrected}
        return self._page(query, found, applied)

    async def _search(self, query: SearchQuery) -> Response:
        sought = await seek(self._shop.catalogue, await self._shop.brands(), query)
        applied = sought.filters.applied()
        if sought.understood is not None:
            applied["understood"] = msgspec.to_builtins(sought.understood)
        return self._page(query, sought.found, applied, query=query.q)

    def _page(self, asked: Filters, found: SearchResult, applied: dict[str, Any], **more: str) -> Response:
        names = asked.field_names()
        products = [self._shop.storefront.shown(item) for item in found.items]
        page: dict[str, Any] = {
            "total": found.total,
            "count": len(products),
            "offset": asked.offset,
            "limit": asked.limit,
            "products": [{name: product[name] for name in names} for product in products],
        }
        if asked.facets:
            page["facets"] = _facets(asked, found.facets)
        body = msgspec.json.encode({**page, "applied_filters": applied, **more})
        return Response(body, etag=etag_of(body))


def _facets(asked: Filters, counted: dict[str, Facet]) -> dict[str, Facet]:
    """The counts under the names they were asked for by."""
    return {name: counted[FACETS[name]] for name in asked.facet_names()}
