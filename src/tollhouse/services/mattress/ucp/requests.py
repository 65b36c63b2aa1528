"""UCP request bodies."""

from typing import Annotated, Any

from msgspec import Meta, Struct

MAX_IDS = 100
MAX_LIMIT = 250
DEFAULT_LIMIT = 10

Amount = Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)]
Words = Annotated[str, Meta(max_length=500)]
Identity = Annotated[str, Meta(max_length=250)]
Value = Annotated[str, Meta(max_length=200)]
Values = Annotated[list[Value], Meta(max_length=100)]


class PriceRange(Struct, frozen=True):
    """In minor units of the context's currency."""

    min: Amount | None = None
    max: Amount | None = None


class SearchFilters(Struct, frozen=True):
    """Filters of a search. Unknown members are ignored, as the protocol requires."""

    price: PriceRange = PriceRange()
    categories: Values = []
    brand: Values | Value = []
    size: Values | Value = []
    material: Values | Value = []
    retailer: Values | Value = []
    sleep_position: Values | Value = []
    in_stock: bool | None = None


class Paging(Struct, frozen=True):
    """The page. A limit above the maximum means the maximum."""

    cursor: Annotated[str, Meta(max_length=200)] | None = None
    limit: Annotated[int, Meta(ge=1)] = DEFAULT_LIMIT


class Context(Struct, frozen=True):
    """The buyer's context; only the currency matters here."""

    currency: str | None = None


class SelectedOption(Struct, frozen=True):
    """An option that the buyer selected."""

    name: str
    label: str
    id: str | None = None


class CatalogRequest(Struct, frozen=True, kw_only=True):
    """Members of every request."""

    filters: SearchFilters = SearchFilters()
    context: Context = Context()
    signals: dict[str, Any] = {}
    attribution: dict[str, str] = {}


class Search(CatalogRequest, frozen=True, kw_only=True):
    """A valid search request."""

    query: Words = ""
    pagination: Paging = Paging()


class Lookup(CatalogRequest, frozen=True, kw_only=True):
    """A valid lookup request."""

    ids: Annotated[list[Identity], Meta(min_length=1, max_length=MAX_IDS)]


class GetProduct(CatalogRequest, frozen=True, kw_only=True):
    """A valid request for one product."""

    id: Identity
    selected: Annotated[list[SelectedOption], Meta(max_length=20)] = []
    preferences: Annotated[list[str], Meta(max_length=20)] = []
