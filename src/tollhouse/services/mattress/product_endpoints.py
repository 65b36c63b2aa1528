"""Endpoints for products: lists, search, one product, similar products, suggestions, retailers and pictures."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from tollhouse import clock
from tollhouse.catalogue.api_types import ResponseCache, SimilarQuery, SuggestionsPage, SuggestQuery, check_words
from tollhouse.catalogue.catalogue import PricePoint, lowest_price
from tollhouse.catalogue.query import SearchResult
from tollhouse.http.endpoint import JSON, Example, Request, Response, endpoint
from tollhouse.http.response import compute_etag, json_response
from tollhouse.http.terms import FREE
from tollhouse.services.mattress import api_types as api
from tollhouse.services.mattress.catalogue_view import CatalogueView, attribute_sources
from tollhouse.services.mattress.images import SVG, draw_product
from tollhouse.services.mattress.search import search_products

# Fields of the index that the API shows under another name.
_SHOWN_FIELDS = {"sleep_positions": "sleep_position"}

PRODUCT_ID: dict[str, dict[str, Any]] = {
    "id": {
        "description": "The product's id",
        "example": "harbour-and-doona.wattlerest-cove-queen",
        "schema": {"type": "string", "maxLength": 200},
    }
}
EXAMPLE_SEARCH = "firm queen mattress for hot side sleepers under 1500"

_endpoint = partial(endpoint, tag="products", is_tool=True, visit_types=(JSON,))


class ProductEndpoints:
    """Handlers for products and retailers. Lists and searches are cached until the catalogue changes."""

    def __init__(self, view: CatalogueView) -> None:
        self._view = view
        self._cache = ResponseCache(view.catalogue)

    @_endpoint(
        "GET",
        "/api/products",
        id="listProducts",
        responses={JSON: api.ProductsPage},
        sample=Example(query={"size": "Queen", "max_price": 1200, "facets": "brand,price", "limit": 5}),
    )
    async def list_products(self, request: Request[api.ProductsQuery, None]) -> Response:
        """List products that match every filter.

        Text filters compare whole values in any case. Repeat a parameter to match any of several values. Prices
        are current prices. Each facet is counted without its own filter.
        """
        query = request.query
        if query.q is not None:
            check_words(query.q)
        return await self._cache.get(("products", msgspec.json.encode(query)), lambda: self._list_page(query))

    @_endpoint(
        "GET",
        "/api/search",
        id="searchProducts",
        responses={JSON: api.SearchPage},
        sample=Example(query={"q": EXAMPLE_SEARCH, "limit": 5}),
    )
    async def search(self, request: Request[api.SearchQuery, None]) -> Response:
        """Search products in plain words.

        Matches words in title, brand and description, and corrects typos of one letter. Reads filters from the text,
        for example `firm queen mattress for hot side sleepers under 1500`. `applied_filters` shows them, and which of
        them were dropped because no product matched all. Filters given as parameters are never dropped.
        """
        query = request.query
        check_words(query.q)
        return await self._cache.get(("search", msgspec.json.encode(query)), lambda: self._search_page(query))

    @_endpoint(
        "GET", "/api/products/{id}", id="getProduct", path_parameters=PRODUCT_ID, responses={JSON: api.ProductDetail}
    )
    async def get(self, request: Request[None, None]) -> Response:
        """Get a product with its price history, the offers of its model, and where its attributes were read."""
        item = self._view.item(request.path["id"])
        now = clock.now()
        async with self._view.database.reading() as connection:
            points = (await self._view.catalogue.price_histories(connection, [item["id"]]))[item["id"]]
            stored = await self._view.catalogue.stored_item(connection, item["id"])
        return json_response(
            {
                **self._view.storefront.product(item),
                "price_history": _shown_prices(points),
                "lowest_30_days": lowest_price(points, now - timedelta(days=30)),
                "lowest_90_days": lowest_price(points, now - timedelta(days=90)),
                "offers": await self._view.offers(item),
                "attribute_sources": attribute_sources(stored or item),
            }
        )

    @_endpoint(
        "GET",
        "/api/products/{id}/similar",
        id="listSimilarProducts",
        path_parameters=PRODUCT_ID,
        responses={JSON: api.Similar},
        sample=Example(query={"limit": 3}),
    )
    async def similar(self, request: Request[SimilarQuery, None]) -> Response:
        """List products similar in size, material, firmness, price and title."""
        item = self._view.item(request.path["id"])
        similar = self._view.catalogue.similar(item["id"], request.query.limit)
        products = [self._view.storefront.product(each) for each in similar]
        return json_response({"id": item["id"], "count": len(products), "products": products})

    @_endpoint("GET", "/api/suggest", id="suggest", sample=Example(query={"q": "wat"}))
    async def suggest(self, request: Request[SuggestQuery, None]) -> SuggestionsPage:
        """Complete a search text."""
        suggestions = [
            msgspec.structs.replace(each, field=_SHOWN_FIELDS.get(each.field or "", each.field))
            for each in self._view.catalogue.suggest(request.query.q, request.query.limit)
        ]
        return SuggestionsPage(request.query.q, len(suggestions), suggestions)

    @_endpoint("GET", "/api/retailers", id="listRetailers", tag="retailers")
    async def retailers(self, _request: Request[None, None]) -> api.RetailerList:
        """List retailers with product counts and affiliate domains."""
        retailers = await self._view.retailers()
        return api.RetailerList(len(retailers), list(retailers))

    @_endpoint(
        "GET",
        "/images/{id}.svg",
        id="getProductImage",
        terms=FREE,
        is_tool=False,
        path_parameters=PRODUCT_ID,
        responses={SVG: {"type": "string"}},
    )
    async def image(self, request: Request[None, None]) -> Response:
        """Get a picture drawn from the product's attributes."""
        body = draw_product(self._view.item(request.path["id"]))
        return Response(body, SVG, compute_etag(body), cache_control="public, max-age=86400")

    async def _list_page(self, query: api.ProductsQuery) -> Response:
        result = await self._view.catalogue.search(api.catalogue_query(query, query.q))
        applied = query.applied()
        if query.q is not None:
            applied["q"] = query.q
        if result.corrected:
            applied["understood"] = {"corrected": result.corrected}
        return await self._page(query, result, applied)

    async def _search_page(self, query: api.SearchQuery) -> Response:
        search = await search_products(self._view.catalogue, await self._view.search_words(), query)
        applied = search.filters.applied()
        if search.understanding is not None:
            applied["understood"] = msgspec.to_builtins(search.understanding)
        return await self._page(query, search.result, applied, query=query.q)

    async def _page(self, filters: api.Filters, result: SearchResult, applied: dict[str, Any], **more: str) -> Response:
        names = filters.field_names()
        shown = [self._view.storefront.product(item) for item in result.items]
        products = [{name: product[name] for name in names} for product in shown]
        if filters.includes_prices():
            async with self._view.database.reading() as connection:
                histories = await self._view.catalogue.price_histories(connection, [item["id"] for item in shown])
            products = [{**each, "price_history": _shown_prices(histories[each["id"]])} for each in products]
        page: dict[str, Any] = {
            "total": result.total,
            "count": len(products),
            "offset": filters.offset,
            "limit": filters.limit,
            "products": products,
        }
        if filters.cursor:
            page["next_cursor"] = result.next_cursor
        if filters.facets:
            page["facets"] = {name: result.facets[api.FACETS[name]] for name in filters.facet_names()}
        return json_response({**page, "applied_filters": applied, **more})


def _shown_prices(points: Sequence[PricePoint]) -> list[api.PricePoint]:
    return [api.PricePoint(point.at, point.price, point.current_price) for point in points]
