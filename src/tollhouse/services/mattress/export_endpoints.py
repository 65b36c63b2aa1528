"""Endpoints that export the whole catalogue: JSON-LD, CSV, NDJSON and a Google Merchant feed."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tollhouse.catalogue.exports import CSV, NDJSON, csv_rows, ndjson_rows
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.catalogue.response_cache import ResponseCache
from tollhouse.http.endpoint import JSON, Endpoint, Handler, Request, Response
from tollhouse.http.response import compute_etag
from tollhouse.http.terms import Terms
from tollhouse.services.mattress.catalogue_view import CatalogueView
from tollhouse.services.mattress.export_formats import LD_JSON, XML, item_list, merchant_feed
from tollhouse.services.mattress.product import MATTRESSES

TITLE = "Mattresses of several retailers"
DEMO_NOTICE = "Demonstration data: its retailers, brands and products are made up."

_ITEM_LIST = {"type": "object", "description": "A schema.org ItemList of every product"}


class ExportEndpoints:
    """Handlers for the exports: every product, ordered by id. Each file is cached until the catalogue changes."""

    def __init__(self, view: CatalogueView) -> None:
        self._view = view
        self._cache = ResponseCache(view.catalogue)
        self._is_demo = False

    async def json_ld(self, request: Request[None, None]) -> Response:
        """`GET /api/products.jsonld`."""
        return await self._export(
            request.media_type,
            lambda: msgspec.json.encode(item_list(list(self._products_with_retailers()), TITLE, self._about())),
        )

    async def merchant(self, _request: Request[None, None]) -> Response:
        """`GET /api/products.merchant.xml`."""
        link = self._view.storefront.base_url or "/"
        return await self._export(
            XML, lambda: merchant_feed(self._products_with_retailers(), TITLE, link, self._about())
        )

    async def csv(self, _request: Request[None, None]) -> Response:
        """`GET /api/products.csv`."""
        return await self._export(CSV, lambda: b"".join(csv_rows(MATTRESSES, self._products())))

    async def ndjson(self, _request: Request[None, None]) -> Response:
        """`GET /api/products.ndjson`."""
        return await self._export(NDJSON, lambda: b"".join(ndjson_rows(self._products())))

    async def _export(self, media_type: str, write: Callable[[], bytes]) -> Response:
        async def make() -> Response:
            self._is_demo = bool(await self._view.demo_count())
            # Writing out a large catalogue would block the event loop.
            body = await asyncio.to_thread(write)
            charset = "; charset=utf-8" if media_type in (CSV, XML) else ""
            return Response(body, media_type + charset, compute_etag(body))

        return await self._cache.get(media_type, make)

    def _products(self) -> Iterator[dict[str, Any]]:
        return (self._view.storefront.product(item) for item in self._view.catalogue.items(CatalogueQuery()))

    def _products_with_retailers(self) -> Iterator[dict[str, Any]]:
        for product in self._products():
            yield {**product, "retailer_name": self._view.retailer_name(product["retailer"])}

    def _about(self) -> str:
        demo = f" {DEMO_NOTICE}" if self._is_demo else ""
        return f"Prices in Australian dollars, links with affiliate references.{demo}"

    def endpoints(self, metered: Terms) -> tuple[Endpoint, ...]:
        """The declarations, all under the terms `metered`."""

        def export(name: str, ending: str, summary: str, handler: Handler, responses: dict[str, Any]) -> Endpoint:
            return Endpoint(
                id=f"export{name}",
                method="GET",
                path=f"/api/products.{ending}",
                summary=summary,
                handler=handler,
                terms=metered,
                responses=responses,
                tag="exports",
            )

        text = {"type": "string"}
        return (
            export(
                "JsonLd",
                "jsonld",
                "Export every product as a schema.org ItemList",
                self.json_ld,
                {LD_JSON: _ITEM_LIST, JSON: _ITEM_LIST},
            ),
            export("Csv", "csv", "Export every product as CSV, one row each", self.csv, {CSV: text}),
            export("Ndjson", "ndjson", "Export every product as JSON, one line each", self.ndjson, {NDJSON: text}),
            export("Merchant", "merchant.xml", "Export a Google Merchant feed", self.merchant, {XML: text}),
        )
