"""What the mattress operations answer."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from tollhouse.catalogue.query import NumberFacet, Suggestion, ValueCount
from tollhouse.services.mattress.product import Product

_SHOWN = Meta(
    extra_json_schema={
        "items": {
            "anyOf": [
                {"$ref": "#/components/schemas/Product"},
                {"type": "object", "required": ["id"], "description": "With `fields`, only the members named there"},
            ]
        }
    }
)


class ProductsPage(Struct, frozen=True, kw_only=True):
    """One page of products. `total` counts every match; `facets` is there when it was asked for.

    `applied_filters` are the filters in force, those read from the words of a search included; its member
    `understood` says which words made which filter, what was mistyped, and what was given up as nothing had it all.
    With `fields`, products have only the members named there.
    """

    total: int
    count: int
    offset: int
    limit: int
    products: Annotated[list[Any], _SHOWN]
    facets: dict[str, list[ValueCount] | NumberFacet] | UnsetType = UNSET
    applied_filters: dict[str, Any]


class SearchPage(ProductsPage, frozen=True, kw_only=True):
    """One page of products, and the words they were searched by."""

    query: str


class PricePoint(Struct, frozen=True):
    """What the product cost from this moment on."""

    at: str
    price: float
    sale_price: float


class ProductDetail(Product, frozen=True, kw_only=True):
    """A product and what it has cost, the oldest price first.

    `lowest_30_days` and `lowest_90_days` are the lowest prices to be paid in that time, the one in force at its start
    included (what Directive (EU) 2019/2161 asks to be shown beside a reduced price).
    """

    price_history: list[PricePoint]
    lowest_30_days: float
    lowest_90_days: float


class Similar(Struct, frozen=True):
    """Products like one, the likest first."""

    id: str
    count: int
    products: list[Product]


class Suggestions(Struct, frozen=True):
    """What the typed text may become: brands and other values with how many products have them, then titles."""

    query: str
    count: int
    suggestions: list[Suggestion]


class RetailerCount(Struct, frozen=True):
    """A retailer, how many products it has here, and the domains its affiliate links lead through or to."""

    id: str
    name: str
    product_count: int
    affiliate_domains: list[str]


class RetailerList(Struct, frozen=True):
    """Every retailer with a product, the one with most first."""

    total: int
    retailers: list[RetailerCount]
