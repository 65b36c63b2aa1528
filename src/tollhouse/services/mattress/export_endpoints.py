"""The whole catalogue as files, each made once for as long as nothing changes."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tollhouse.catalogue.exports import csv_rows, ndjson_rows
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.catalogue.response_cache import ResponseCache
from tollhouse.http.endpoint import Request, Response
from tollhouse.http.response_writer import etag_of
from tollhouse.services.mattress.catalogue_view import Shop
from tollhouse.services.mattress.jsonld_export import item_list
from tollhouse.services.mattress.merchant_export import XML, merchant_feed
from tollhouse.services.mattress.product import MATTRESSES

CSV = "text/csv"
NDJSON = "application/x-ndjson"

TITLE = "Mattresses of several retailers"
DEMO_NOTICE = "Demonstration data: its retailers, brands and products are made up."


class ExportEndpoints:
    """Every product there is, by id, in each format."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._kept = ResponseCache(shop.catalogue)
        self._is_demo = False

    async def linked_data(self, request: Request[None, None]) -> Response:
        """`GET /api/products.jsonld`."""
        return await self._export(
            request.media_type, lambda: msgspec.json.encode(item_list(list(self._told()), TITLE, self._about()))
        )

    async def merchant(self, _asked: Request[None, None]) -> Response:
        """`GET /api/products.merchant.xml`."""
        link = self._shop.storefront.base_url or "/"
        return await self._export(XML, lambda: merchant_feed(self._told(), TITLE, link, self._about()))

    async def table(self, _asked: Request[None, None]) -> Response:
        """`GET /api/products.csv`."""
        return await self._export(CSV, lambda: b"".join(csv_rows(MATTRESSES, self._products())))

    async def lines(self, _asked: Request[None, None]) -> Response:
        """`GET /api/products.ndjson`."""
        return await self._export(NDJSON, lambda: b"".join(ndjson_rows(self._products())))

    async def _export(self, media_type: str, make: Callable[[], bytes]) -> Response:
        async def made() -> Response:
            self._is_demo = bool(await self._shop.demo_count())
            # A large catalogue takes longer to write out than the event loop should wait.
            body = await asyncio.to_thread(make)
            charset = "; charset=utf-8" if media_type in (CSV, XML) else ""
            return Response(body, media_type + charset, etag_of(body))

        return await self._kept.answer(media_type, made)

    def _products(self) -> Iterator[dict[str, Any]]:
        return (self._shop.storefront.shown(item) for item in self._shop.catalogue.items(CatalogueQuery()))

    def _told(self) -> Iterator[dict[str, Any]]:
        """The products with their retailers' names."""
        for product in self._products():
            yield {**product, "retailer_name": self._shop.retailer_name(product["retailer"])}

    def _about(self) -> str:
        demo = f" {DEMO_NOTICE}" if self._is_demo else ""
        return f"Prices in Australian dollars, links with affiliate references.{demo}"
