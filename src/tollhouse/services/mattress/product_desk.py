"""One product: what it is, what it has cost, what is like it; and what typed words may become."""

from datetime import timedelta

import msgspec

from tollhouse import clock
from tollhouse.catalogue.catalogue import lowest
from tollhouse.gate.answering import etag_of
from tollhouse.gate.operation import Answer, Asked
from tollhouse.services.mattress.answers import PricePoint, RetailerList, Suggestions
from tollhouse.services.mattress.images import SVG, drawn
from tollhouse.services.mattress.queries import SimilarQuery, SuggestQuery
from tollhouse.services.mattress.shop import Shop

MONTH, QUARTER = timedelta(days=30), timedelta(days=90)
# Fields of the engine that readers know by another name.
_SHOWN_FIELDS = {"sleep_positions": "sleep_position"}


class ProductDesk:
    """The operations about single products, and about the catalogue as a whole."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    async def one(self, asked: Asked[None, None]) -> Answer:
        """`GET /api/products/{id}`. Raises Problem `not-found`."""
        item = self._shop.item(asked.path["id"])
        catalogue, now = self._shop.catalogue, clock.now()
        async with self._shop.database.reading() as connection:
            points = await catalogue.price_history(connection, item["id"])
        detail = {
            **self._shop.storefront.shown(item),
            "price_history": [PricePoint(point.at, point.price, point.current_price) for point in points],
            "lowest_30_days": lowest(points, now - MONTH),
            "lowest_90_days": lowest(points, now - QUARTER),
        }
        body = msgspec.json.encode(detail)
        return Answer(body, etag=etag_of(body))

    async def similar(self, asked: Asked[SimilarQuery, None]) -> Answer:
        """`GET /api/products/{id}/similar`. Raises Problem `not-found`."""
        item = self._shop.item(asked.path["id"])
        alike = self._shop.catalogue.similar(item["id"], asked.query.limit)
        products = [self._shop.storefront.shown(each) for each in alike]
        body = msgspec.json.encode({"id": item["id"], "count": len(products), "products": products})
        return Answer(body, etag=etag_of(body))

    async def suggest(self, asked: Asked[SuggestQuery, None]) -> Suggestions:
        """`GET /api/suggest`."""
        found = self._shop.catalogue.suggest(asked.query.q, asked.query.limit)
        named = [msgspec.structs.replace(each, field=_SHOWN_FIELDS.get(each.field or "", each.field)) for each in found]
        return Suggestions(asked.query.q, len(named), named)

    async def retailers(self, _asked: Asked[None, None]) -> RetailerList:
        """`GET /api/retailers`."""
        listed = await self._shop.retailers()
        return RetailerList(len(listed), list(listed))

    async def image(self, asked: Asked[None, None]) -> Answer:
        """`GET /images/{id}.svg`. Raises Problem `not-found`."""
        body = drawn(self._shop.item(asked.path["id"]))
        return Answer(body, SVG, etag_of(body), cache_control="public, max-age=86400")
