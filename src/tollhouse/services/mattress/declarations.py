"""The mattress service's operations, declared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tollhouse.http.endpoint import JSON, Endpoint, Example, Handler
from tollhouse.http.terms import FREE, Terms
from tollhouse.services.mattress.export_endpoints import CSV, NDJSON, ExportEndpoints
from tollhouse.services.mattress.images import SVG
from tollhouse.services.mattress.jsonld_export import LD_JSON
from tollhouse.services.mattress.list_endpoints import ProductListEndpoints
from tollhouse.services.mattress.merchant_export import XML
from tollhouse.services.mattress.product_endpoints import ProductEndpoints
from tollhouse.services.mattress.queries import ProductsQuery, SearchQuery, SimilarQuery, SuggestQuery
from tollhouse.services.mattress.responses import (
    ProductDetail,
    ProductsPage,
    RetailerList,
    SearchPage,
    Similar,
    Suggestions,
)
from tollhouse.services.mattress.ucp.endpoints import UcpEndpoints
from tollhouse.services.mattress.ucp.envelope import FORM
from tollhouse.services.mattress.ucp.requests import GetProduct, Lookup, Search

_LIST = {"type": "object", "description": "A schema.org ItemList with every product"}
_UCP = {"type": "object", "description": "As the Universal Commerce Protocol has it, errors included: https://ucp.dev"}


@dataclass(frozen=True, slots=True)
class Desks:
    """What the operations are answered by."""

    products: ProductListEndpoints
    product: ProductEndpoints
    exports: ExportEndpoints
    ucp: UcpEndpoints


def operations(desks: Desks, metered: Terms) -> Sequence[Endpoint]:
    """Every operation, in the order the description shows them; `metered` are the terms of those that answer."""
    return [
        *_lists(desks.products, metered),
        *_singles(desks.product, metered),
        *_exports(desks.exports, metered),
        *_ucp(desks.ucp, metered),
    ]


def _lists(desk: ProductListEndpoints, metered: Terms) -> list[Endpoint]:
    return [
        Endpoint(
            id="listProducts",
            method="GET",
            path="/api/products",
            summary="Products that pass every filter",
            description="Text filters compare whole values in any case; given several times, any of them will do. "
            "Prices are the current ones. Facets are counted as if their own filter were not set.",
            handler=desk.products,
            terms=metered,
            query=ProductsQuery,
            responses={JSON: ProductsPage},
            tag="products",
            is_tool=True,
            sample=Example(query={"size": "Queen", "max_price": 1200, "facets": "brand,price", "limit": 5}),
        ),
        Endpoint(
            id="searchProducts",
            method="GET",
            path="/api/search",
            summary="Products for words, or for a wish in plain words",
            description="Words are matched against title, brand and description, with a wrong letter if need be. A "
            "wish is read as filters: `firm queen mattress for hot side sleepers under 1500`. `applied_filters` shows "
            "them, and what was given up where nothing had it all. What other parameters ask for is never given up.",
            handler=desk.search,
            terms=metered,
            query=SearchQuery,
            responses={JSON: SearchPage},
            tag="products",
            is_tool=True,
            sample=Example(query={"q": "firm queen mattress for hot side sleepers under 1500", "limit": 5}),
        ),
    ]


def _singles(desk: ProductEndpoints, metered: Terms) -> list[Endpoint]:
    return [
        Endpoint(
            id="getProduct",
            method="GET",
            path="/api/products/{id}",
            summary="One product and what it has cost",
            handler=desk.one,
            terms=metered,
            path_parameters=_ID,
            responses={JSON: ProductDetail},
            tag="products",
            is_tool=True,
        ),
        Endpoint(
            id="listSimilarProducts",
            method="GET",
            path="/api/products/{id}/similar",
            summary="Products like one: in size, material, firmness, price and title",
            handler=desk.similar,
            terms=metered,
            query=SimilarQuery,
            path_parameters=_ID,
            responses={JSON: Similar},
            tag="products",
            is_tool=True,
            sample=Example(query={"limit": 3}),
        ),
        Endpoint(
            id="suggest",
            method="GET",
            path="/api/suggest",
            summary="What typed words may become",
            handler=desk.suggest,
            terms=metered,
            query=SuggestQuery,
            responses={JSON: Suggestions},
            tag="products",
            is_tool=True,
            sample=Example(query={"q": "wat"}),
        ),
        Endpoint(
            id="listRetailers",
            method="GET",
            path="/api/retailers",
            summary="Retailers, their counts, and the domains of their affiliate links",
            handler=desk.retailers,
            terms=metered,
            responses={JSON: RetailerList},
            tag="retailers",
            is_tool=True,
        ),
        Endpoint(
            id="getProductImage",
            method="GET",
            path="/images/{id}.svg",
            summary="A picture drawn from what the product is",
            handler=desk.image,
            terms=FREE,
            path_parameters=_ID,
            responses={SVG: {"type": "string"}},
            tag="products",
        ),
    ]


def _exports(desk: ExportEndpoints, metered: Terms) -> list[Endpoint]:
    return [
        Endpoint(
            id="exportJsonLd",
            method="GET",
            path="/api/products.jsonld",
            summary="Every product as a schema.org ItemList",
            handler=desk.linked_data,
            terms=metered,
            responses={LD_JSON: _LIST, JSON: _LIST},
            tag="exports",
        ),
        _file("exportCsv", "/api/products.csv", {CSV: "Every product as CSV, a row each"}, desk.table, metered),
        _file(
            "exportNdjson", "/api/products.ndjson", {NDJSON: "Every product as JSON, a line each"}, desk.lines, metered
        ),
        _file("exportMerchant", "/api/products.merchant.xml", {XML: "A Google Merchant feed"}, desk.merchant, metered),
    ]


def _file(identity: str, path: str, offered: dict[str, str], handler: Handler, metered: Terms) -> Endpoint:
    [(media_type, summary)] = offered.items()
    return Endpoint(
        id=identity,
        method="GET",
        path=path,
        summary=summary,
        handler=handler,
        terms=metered,
        responses={media_type: {"type": "string"}},
        tag="exports",
    )


def _ucp(desk: UcpEndpoints, metered: Terms) -> list[Endpoint]:
    return [
        Endpoint(
            id="getUcpProfile",
            method="GET",
            path="/.well-known/ucp",
            summary="Where the Universal Commerce Protocol is spoken here",
            handler=desk.profile,
            terms=FREE,
            responses={JSON: _UCP},
            tag="ucp",
        ),
        Endpoint(
            id="search_catalog",
            method="POST",
            path="/catalog/search",
            summary="Search the catalogue (UCP)",
            handler=desk.search,
            terms=metered,
            body=Search,
            takes_bytes=True,
            responses={JSON: _UCP},
            tag="ucp",
            problem_form=FORM,
            sample=Example(body={"query": "latex queen", "pagination": {"limit": 3}}),
        ),
        Endpoint(
            id="lookup_catalog",
            method="POST",
            path="/catalog/lookup",
            summary="Products by their ids (UCP)",
            handler=desk.lookup,
            terms=metered,
            body=Lookup,
            takes_bytes=True,
            responses={JSON: _UCP},
            tag="ucp",
            problem_form=FORM,
            sample=Example(body={"ids": [_ID["id"]["example"]]}),
        ),
        Endpoint(
            id="get_product",
            method="POST",
            path="/catalog/product",
            summary="One product in full (UCP)",
            handler=desk.product,
            terms=metered,
            body=GetProduct,
            takes_bytes=True,
            responses={JSON: _UCP},
            tag="ucp",
            problem_form=FORM,
            sample=Example(body={"id": _ID["id"]["example"]}),
        ),
    ]


_ID: dict[str, dict[str, Any]] = {
    "id": {
        "description": "The product's id",
        "example": "harbour-and-doona.wattlerest-cove-queen",
        "schema": {"type": "string", "maxLength": 200},
    }
}
