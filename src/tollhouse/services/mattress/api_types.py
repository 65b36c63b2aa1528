"""Query parameters and response bodies of the product endpoints."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tollhouse.catalogue.api_types import ABOUT_CURSOR, Cursor, Words, known_names
from tollhouse.catalogue.query import CatalogueQuery, Clause, NumberFacet, Range, Value, ValueCount
from tollhouse.services.mattress.product import (
    AVAILABILITIES,
    COOLING,
    FIRMNESS,
    MATERIALS,
    PRODUCT_FIELDS,
    SIZES,
    SLEEP_POSITIONS,
    Product,
)

Sort = Literal["relevance", "price", "-price", "discount", "firmness", "-firmness", "-cooling", "newest"]

_SORTS: dict[Sort, str] = {
    "relevance": "", "price": "current_price", "-price": "-current_price", "discount": "-discount",
    "firmness": "firmness", "-firmness": "-firmness", "-cooling": "-cooling", "newest": "-created_at",
}  # fmt: skip
# Fields of the index by the name of their facet.
FACETS = {
    "brand": "brand", "size": "size", "material": "material", "retailer": "retailer", "firmness": "firmness",
    "cooling": "cooling", "sleep_position": "sleep_positions", "availability": "availability", "tags": "tags",
    "price": "current_price",
}  # fmt: skip

Text = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
Dollars = Annotated[float, Meta(ge=0, le=1_000_000_000)]
Firmness = Annotated[int, Meta(ge=FIRMNESS[0], le=FIRMNESS[1])]
Cooling = Annotated[int, Meta(ge=COOLING[0], le=COOLING[1])]
_UP_TO_100 = Meta(max_length=100)
Texts = Annotated[list[Text], _UP_TO_100]
Brands = Annotated[list[Annotated[Text, Meta(examples=["Wattlerest"])]], _UP_TO_100]
Sizes = Annotated[list[Annotated[Text, Meta(examples=list(SIZES))]], _UP_TO_100]
Materials = Annotated[list[Annotated[Text, Meta(examples=list(MATERIALS))]], _UP_TO_100]
RetailerIds = Annotated[list[Annotated[Text, Meta(examples=["coastal-kip"])]], _UP_TO_100]
SleepPositions = Annotated[list[Annotated[Text, Meta(examples=list(SLEEP_POSITIONS))]], _UP_TO_100]
Availabilities = Annotated[list[Annotated[Text, Meta(examples=list(AVAILABILITIES))]], _UP_TO_100]
_SEVERAL = "in any case; repeat the parameter to match any of several"
_NONE_OF = "in any case; repeat the parameter to leave out several"
# Parameters that compare whole values, each also with `_not` behind its name.
KEYWORDS = ("brand", "size", "material", "retailer", "sleep_position", "tag", "availability")


# What a product of a list has beside its own members if `include` names it.
INCLUDED = ("price_history",)
_NO_FILTERS = ("limit", "offset", "cursor", "sort", "facets", "fields", "include", "q", "after")

_SHOWN = Meta(
    extra_json_schema={
        "items": {
            "anyOf": [
                {"$ref": "#/components/schemas/Product"},
                {"type": "object", "required": ["id"], "description": "With `fields`, only the named members"},
            ]
        }
    }
)


def _names_of(known: Iterable[str]) -> Meta:
    one = rf"\s*({'|'.join(known)})\s*"
    several = {"pattern": rf"^{one}(,{one})*$"}
    return Meta(min_length=1, max_length=200, description="Comma-separated names", extra_json_schema=several)


_Facets = Annotated[str, _names_of(FACETS)]
_Fields = Annotated[str, _names_of(PRODUCT_FIELDS)]
_Included = Annotated[str, _names_of(INCLUDED)]


class Filters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Filters, order and page of a product list. All filters must match; a repeated one matches any of its values."""

    id: Annotated[Texts, Meta(description="Product id; repeat the parameter to compare several products")] = []
    brand: Annotated[Brands, Meta(description=f"Brand, the whole name {_SEVERAL}")] = []
    size: Annotated[Sizes, Meta(description=f"Size {_SEVERAL}")] = []
    material: Annotated[Materials, Meta(description=f"Material {_SEVERAL}")] = []
    retailer: Annotated[RetailerIds, Meta(description=f"Retailer id {_SEVERAL}")] = []
    sleep_position: Annotated[SleepPositions, Meta(description=f"Sleep position {_SEVERAL}")] = []
    tag: Annotated[Texts, Meta(description=f"Tag {_SEVERAL}")] = []
    availability: Annotated[Availabilities, Meta(description=f"Availability {_SEVERAL}")] = []
    brand_not: Annotated[Brands, Meta(description=f"Leave out a brand, {_NONE_OF}")] = []
    size_not: Annotated[Sizes, Meta(description=f"Leave out a size, {_NONE_OF}")] = []
    material_not: Annotated[Materials, Meta(description=f"Leave out a material, {_NONE_OF}")] = []
    retailer_not: Annotated[RetailerIds, Meta(description=f"Leave out a retailer id, {_NONE_OF}")] = []
    sleep_position_not: Annotated[SleepPositions, Meta(description=f"Leave out a sleep position, {_NONE_OF}")] = []
    tag_not: Annotated[Texts, Meta(description=f"Leave out a tag, {_NONE_OF}")] = []
    availability_not: Annotated[Availabilities, Meta(description=f"Leave out an availability, {_NONE_OF}")] = []
    sleep_position_all: Annotated[
        SleepPositions, Meta(description="Sleep position; a repeated one must match as well")
    ] = []
    text: Annotated[
        Texts, Meta(description="Words that title, description or tags must have; repeated: any of several")
    ] = []
    text_not: Annotated[Texts, Meta(description="Words that no text of the product may have")] = []
    min_price: Annotated[Dollars | None, Meta(description="Minimum current price in AUD", examples=[500])] = None
    max_price: Annotated[Dollars | None, Meta(description="Maximum current price in AUD", examples=[1500])] = None
    firmness_min: Annotated[Firmness | None, Meta(description="Minimum firmness: 1 is softest", examples=[6])] = None
    firmness_max: Annotated[Firmness | None, Meta(description="Maximum firmness: 10 is firmest", examples=[8])] = None
    cooling_min: Annotated[Cooling | None, Meta(description="Minimum cooling: 5 is coolest", examples=[4])] = None
    cooling_max: Annotated[Cooling | None, Meta(description="Maximum cooling: 1 is warmest")] = None
    in_stock: Annotated[bool | None, Meta(description="Only products in stock, or only products not in stock")] = None
    on_sale: Annotated[bool | None, Meta(description="Only products below their list price, or only others")] = None
    sort: Annotated[
        Sort | None, Meta(description="Order; by relevance if omitted. `discount` and `newest` are descending")
    ] = None
    facets: Annotated[
        list[_Facets],
        Meta(max_length=20, description=f"Facets to count: {', '.join(FACETS)}", examples=[["brand,size,price"]]),
    ] = []
    fields: Annotated[
        list[_Fields],
        Meta(max_length=50, description="Members of each product to return, besides `id`", examples=[["title,price"]]),
    ] = []
    include: Annotated[
        list[_Included],
        Meta(max_length=5, description="`price_history`: also return the price history of each product"),
    ] = []
    limit: Annotated[int, Meta(ge=1, le=250, description="Products per page", examples=[20])] = 20
    offset: Annotated[int, Meta(ge=0, le=10_000, description="Products to skip")] = 0
    cursor: Annotated[Cursor | None, ABOUT_CURSOR] = None

    def applied(self) -> dict[str, Any]:
        given: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in given.items() if name not in _NO_FILTERS}

    def facet_names(self) -> list[str]:
        """The requested facets without repetition. Raises Problem `invalid-parameter` for an unknown facet."""
        return known_names("facets", self.facets, list(FACETS))

    def field_names(self) -> list[str]:
        """The members to return, `id` first; all if none is named. Raises Problem `invalid-parameter`."""
        named = known_names("fields", self.fields, PRODUCT_FIELDS)
        return [name for name in PRODUCT_FIELDS if name in {"id", *named}] if named else list(PRODUCT_FIELDS)

    def includes_prices(self) -> bool:
        """Raises Problem `invalid-parameter` for an unknown name."""
        return bool(known_names("include", self.include, INCLUDED))


class ProductsQuery(Filters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    q: Annotated[Words | None, Meta(description="Words in title, brand and description", examples=["latex"])] = None


class SearchQuery(Filters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    q: Annotated[
        Words,
        Meta(
            description="Search text: words, or a description of the product",
            examples=["firm queen mattress for hot side sleepers under 1500"],
        ),
    ]
    after: Annotated[
        list[Words],
        Meta(
            max_length=10, description="Search before, which `q` narrows down or changes; repeated: from the first on"
        ),
    ] = []


def catalogue_query(
    filters: Filters, text: str | None = None, where: tuple[tuple[Clause, ...], ...] = ()
) -> CatalogueQuery:
    """The catalogue query for these filters, this text, and further clauses. Raises Problem `invalid-parameter`."""
    any_of: dict[str, tuple[Value, ...]] = {_field(name): tuple(getattr(filters, name)) for name in KEYWORDS}
    any_of["id"] = tuple(filters.id)
    if filters.in_stock is not None:
        any_of["in_stock"] = (filters.in_stock,)
    between = {
        "current_price": Range(filters.min_price, filters.max_price),
        "firmness": Range(filters.firmness_min, filters.firmness_max),
        "cooling": Range(filters.cooling_min, filters.cooling_max),
    }
    return CatalogueQuery(
        text=text,
        any_of={name: values for name, values in any_of.items() if values},
        between={name: ends for name, ends in between.items() if ends != Range()},
        where=(*((clause,) for clause in _clauses(filters)), *where),
        facets=tuple(FACETS[name] for name in filters.facet_names()),
        sort=_SORTS[filters.sort or "relevance"],
        offset=filters.offset,
        cursor=filters.cursor or "",
        limit=filters.limit,
    )


def _clauses(filters: Filters) -> Iterator[Clause]:
    """The filters that exclude, that ask for several values at once, or that ask for words."""
    for name in KEYWORDS:
        if excluded := getattr(filters, f"{name}_not"):
            yield Clause(_field(name), tuple(excluded), negated=True)
    for position in filters.sleep_position_all:
        yield Clause("sleep_positions", (position,))
    if filters.text:
        yield Clause(values=tuple(filters.text))
    if filters.text_not:
        yield Clause(values=tuple(filters.text_not), negated=True)
    if filters.on_sale is not None:
        yield Clause("discount", ends=Range(maximum=0), negated=filters.on_sale)


def _field(name: str) -> str:
    return FACETS.get(name, "tags")


class ProductsPage(Struct, frozen=True, kw_only=True):
    """One page of products. `total` counts every match; `facets` is present if requested, `next_cursor` with `cursor`.

    `applied_filters` are the filters that were applied, including those read from the text of a search. Its member
    `understood` says which words became which filter, which typos were corrected, and which filters were dropped.
    With `fields`, products have only those members. With `include=price_history`, each also has `price_history`, as
    `GET /api/products/{id}` shows it.
    """

    total: int
    count: int
    offset: int
    limit: int
    next_cursor: str | UnsetType | None = UNSET
    products: Annotated[list[Any], _SHOWN]
    facets: dict[str, list[ValueCount] | NumberFacet] | UnsetType = UNSET
    applied_filters: dict[str, Any]


class SearchPage(ProductsPage, frozen=True, kw_only=True):
    """One page of search results with the search text."""

    query: str


class PricePoint(Struct, frozen=True):
    """The product's price from this time on, in the product's currency."""

    at: str
    price: float
    sale_price: float


class AttributeSource(Struct, frozen=True):
    """Where the value of an attribute was read, and the words that decided.

    `declared` is a field or option of the retailer's feed. Without words the value is the feed's own.
    """

    place: Literal["declared", "title", "tags", "description"]
    words: list[str]


class Offer(Struct, frozen=True):
    """A product of the same model. Prices are in the unit of its currency."""

    id: str
    retailer: str
    size: str | None
    price: float
    sale_price: float
    availability: str


class ProductDetail(Product, frozen=True, kw_only=True):
    """A product with its price history, the oldest price first.

    `lowest_30_days` and `lowest_90_days` are the lowest prices in that time, including the price in force at its
    start, as Directive (EU) 2019/2161 requires beside a reduced price. `offers` are the sizes of the same model at
    every retailer, this product included, the cheapest of each size first. `attribute_sources` is by attribute; an
    attribute with a source but without a value is one whose texts contradict each other.
    """

    price_history: list[PricePoint]
    lowest_30_days: float
    lowest_90_days: float
    offers: list[Offer]
    attribute_sources: dict[str, AttributeSource]


class Similar(Struct, frozen=True):
    """Products similar to one, the most similar first."""

    id: str
    count: int
    products: list[Product]


class RetailerCount(Struct, frozen=True):
    """A retailer with its product count and the domains that its affiliate links use."""

    id: str
    name: str
    product_count: int
    affiliate_domains: list[str]


class RetailerList(Struct, frozen=True):
    """Every retailer with at least one product, the one with most first."""

    total: int
    retailers: list[RetailerCount]
