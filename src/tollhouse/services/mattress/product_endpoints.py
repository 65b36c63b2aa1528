"""One product: what it is, what it has cost, what is like it; and what typed words may become."""

from datetime import timedelta

import msgspec

from tollhouse import clock
from tollhouse.catalogue.catalogue import lowest_price
from tollhouse.http.endpoint import Request, Response
from tollhouse.http.response_writer import etag_of
from tollhouse.services.mattress.catalogue_view import Shop
from tollhouse.services.mattress.images import SVG, drawn
from tollhouse.services.mattress.queries import SimilarQuery, SuggestQuery
from tollhouse.services.mattress.responses import PricePoint, RetailerList, Suggestions

MONTH, QUARTER = timedelta(days=30), timedelta(days=90)
# Fields of the engine that readers know by another name.
_SHOWN_FIELDS = {"sleep_positions": "sleep_position"}


class ProductEndpoints:
    """The operations about single products, and about the catalogue as a whole."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    async def one(self, request: Request[None, None]) -> Response:
        """`GET /api/products/{id}`. Raises Problem `not-found`."""
        item = self._shop.item(request.path["id"])
        catalogue, now = self._shop.catalogue, clock.now()
        async with self._shop.database.reading() as connection:
            points = await catalogue.price_history(connection, item["id"])
        detail = {
            **self._shop.storefront.shown(item),
            "price_history": [PricePoint(point.at, point.price, point.current_price) for point in points],
            "lowest_30_days": lowest_price(points, now - MONTH),
            "lowest_90_days": lowest_price(points, now - QUARTER),
        }
        body = msgspec.json.encode(detail)
        return Response(body, etag=etag_of(body))

    async def similar(self, request: Request[SimilarQuery, None]) -> Response:
        """`GET /api/products/{id}/similar`. Raises Problem `not-found`."""
        item = self._shop.item(request.path["id"])
        alike = self._shop.catalogue.similar(item["id"], request.query.limit)
        products = [self._shop.storefront.shown(each) for each in alike]
        body = msgspec.json.encode({"id": item["id"], "count": len(products), "products": products})
        return Response(body, etag=etag_of(body))

    async def suggest(self, request: Request[SuggestQuery, None]) -> Suggestions:
        """`GET /api/suggest`."""
        found = self._shop.catalogue.suggest(request.query.q, request.query.limit)
        named = [msgspec.structs.replace(each, field=_SHOWN_FIELDS.get(each.field or "", each.field)) for each in found]
        return Suggestions(request.query.q, len(named), named)

    async def retailers(self, _asked: Request[None, None]) -> RetailerList:
        """`GET /api/retailers`."""
        listed = await self._shop.retailers()
        return RetailerList(len(listed), list(listed))

    async def image(self, request: Request[None, None]) -> Response:
        """`GET /images/{id}.svg`. Raises Problem `not-found`."""
        body = drawn(self._shop.item(request.path["id"]))
        return Response(body, SVG, etag_of(body), cache_control="public, max-age=86400")
