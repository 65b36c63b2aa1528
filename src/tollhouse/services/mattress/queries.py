"""What a caller may ask of the mattress catalogue, and which question to the engine that is."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from tollhouse.catalogue.query import CatalogueQuery, Range
from tollhouse.errors import invalid_parameter
from tollhouse.services.mattress.product import COOLING, FIRMNESS, MATERIALS, PRODUCT_FIELDS, SIZES, SLEEP_POSITIONS

Sort = Literal["relevance", "price", "-price", "discount", "firmness", "-firmness", "newest"]

_SORTS: dict[Sort, str] = {
    "relevance": "",
    "price": "current_price",
    "-price": "-current_price",
    "discount": "-discount",
    "firmness": "firmness",
    "-firmness": "-firmness",
    "newest": "-created_at",
}
# What can be counted, by the name it is asked for and shown under.
FACETS = {
    "brand": "brand",
    "size": "size",
    "material": "material",
    "retailer": "retailer",
    "firmness": "firmness",
    "cooling": "cooling",
    "sleep_position": "sleep_positions",
    "availability": "availability",
    "tags": "tags",
    "price": "current_price",
}

Text = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
Words = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]
Dollars = Annotated[float, Meta(ge=0, le=1_000_000_000)]
Firmness = Annotated[int, Meta(ge=FIRMNESS[0], le=FIRMNESS[1])]
Cooling = Annotated[int, Meta(ge=COOLING[0], le=COOLING[1])]
Some = Meta(max_length=100)
Brand = Annotated[Text, Meta(examples=["Wattlerest"])]
Size = Annotated[Text, Meta(examples=list(SIZES))]
Material = Annotated[Text, Meta(examples=list(MATERIALS))]
RetailerId = Annotated[Text, Meta(examples=["coastal-kip"])]
SleepPosition = Annotated[Text, Meta(examples=list(SLEEP_POSITIONS))]


def _names_of(known: Iterable[str]) -> Meta:
    one = rf"\s*({'|'.join(known)})\s*"
    several = {"pattern": rf"^{one}(,{one})*$"}
    return Meta(min_length=1, max_length=200, description="Names with commas between them", extra_json_schema=several)


_Facets = Annotated[str, _names_of(FACETS)]
_Fields = Annotated[str, _names_of(PRODUCT_FIELDS)]
_SEVERAL = "in any case; given several times, any of them"


class Filters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which products, in which order, and which of them. Every filter narrows; one given several times means any of."""

    brand: Annotated[list[Brand], Some, Meta(description=f"The brand's whole name {_SEVERAL}")] = []
    size: Annotated[list[Size], Some, Meta(description=f"The size {_SEVERAL}")] = []
    material: Annotated[list[Material], Some, Meta(description=f"What it is made of {_SEVERAL}")] = []
    retailer: Annotated[list[RetailerId], Some, Meta(description=f"The retailer's id {_SEVERAL}")] = []
    sleep_position: Annotated[list[SleepPosition], Some, Meta(description=f"How its sleepers lie {_SEVERAL}")] = []
    min_price: Annotated[Dollars | None, Meta(description="At least this current price, in AUD", examples=[500])] = None
    max_price: Annotated[Dollars | None, Meta(description="At most this current price, in AUD", examples=[1500])] = None
    firmness_min: Annotated[Firmness | None, Meta(description="At least this firm: 1 is softest", examples=[6])] = None
    firmness_max: Annotated[Firmness | None, Meta(description="At most this firm: 10 is firmest", examples=[8])] = None
    cooling_min: Annotated[Cooling | None, Meta(description="At least this cool: 5 is coolest", examples=[4])] = None
    in_stock: Annotated[bool | None, Meta(description="Only what is in stock, or only what is not")] = None
    sort: Annotated[
        Sort | None, Meta(description="`discount` and `newest` show the largest first. Without it, by relevance")
    ] = None
    facets: Annotated[
        list[_Facets],
        Meta(max_length=20, description=f"What to count, of: {', '.join(FACETS)}", examples=[["brand,size,price"]]),
    ] = []
    fields: Annotated[
        list[_Fields],
        Meta(
            max_length=50, description="Only these members of each product, beside its id", examples=[["title,price"]]
        ),
    ] = []
    limit: Annotated[int, Meta(ge=1, le=250, description="Products per page", examples=[20])] = 20
    offset: Annotated[int, Meta(ge=0, le=10_000, description="Products to leave out at the start")] = 0

    def applied(self) -> dict[str, Any]:
        """The filters in force, as `applied_filters` shows them."""
        given: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in given.items() if name not in _NO_FILTERS}

    def facet_names(self) -> list[str]:
        """What to count, each once. Raises Problem `invalid-parameter` for what cannot be."""
        return _names("facets", self.facets, list(FACETS))

    def field_names(self) -> list[str]:
        """The members to show, `id` first; every one when none is named. Raises Problem `invalid-parameter`."""
        named = _names("fields", self.fields, list(PRODUCT_FIELDS))
        return [name for name in PRODUCT_FIELDS if name in {"id", *named}] if named else list(PRODUCT_FIELDS)


_NO_FILTERS = ("limit", "offset", "sort", "facets", "fields", "q")


class ProductsQuery(Filters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The parameters of `GET /api/products`."""

    q: Annotated[Words | None, Meta(description="Words in title, brand and description", examples=["latex"])] = None


class SearchQuery(Filters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The parameters of `GET /api/search`."""

    q: Annotated[
        Words, Meta(description="Words, or a wish", examples=["firm queen mattress for hot side sleepers under 1500"])
    ]


class SimilarQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `GET /api/products/{id}/similar`."""

    limit: Annotated[int, Meta(ge=1, le=50, description="At most so many", examples=[5])] = 10


class SuggestQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `GET /api/suggest`."""

    q: Annotated[Words, Meta(description="What was typed so far", examples=["wat"])]
    limit: Annotated[int, Meta(ge=1, le=20, description="At most so many", examples=[5])] = 10


def engine_query(filters: Filters, text: str | None = None) -> CatalogueQuery:
    """The question to the catalogue. Raises Problem `invalid-parameter`."""
    any_of: dict[str, Any] = {
        "brand": tuple(filters.brand),
        "size": tuple(filters.size),
        "material": tuple(filters.material),
        "retailer": tuple(filters.retailer),
        "sleep_positions": tuple(filters.sleep_position),
    }
    if filters.in_stock is not None:
        any_of["in_stock"] = (filters.in_stock,)
    between = {
        "current_price": Range(filters.min_price, filters.max_price),
        "firmness": Range(filters.firmness_min, filters.firmness_max),
        "cooling": Range(filters.cooling_min),
    }
    return CatalogueQuery(
        text=text,
        any_of={name: values for name, values in any_of.items() if values},
        between={name: ends for name, ends in between.items() if ends != Range()},
        facets=tuple(FACETS[name] for name in filters.facet_names()),
        sort=_SORTS[filters.sort or "relevance"],
        offset=filters.offset,
        limit=filters.limit,
    )


def _names(parameter: str, given: list[str], allowed: list[str]) -> list[str]:
    names = [name.strip() for text in given for name in text.split(",")]
    for name in names:
        if name not in allowed:
            raise invalid_parameter(parameter, f"`{parameter}` has no {name[:60]!r}.", allowed)
    return list(dict.fromkeys(names))
