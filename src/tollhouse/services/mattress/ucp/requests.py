"""UCP request bodies, each in a loose and a strict form.

The server parses the loose form, so that errors in a body are reported in the protocol's own error format.
"""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tollhouse.errors import Problem
from tollhouse.http.request_parser import parse_body

MAX_IDS = 100
MAX_LIMIT = 250
DEFAULT_LIMIT = 10

Typed = TypeVar("Typed", bound=Struct)


_ABOUT_FILTERS = (
    "`price` {min, max} in minor units, `categories`, and for this catalogue: brand, size, material, retailer, "
    "sleep_position (a text or a list of texts), in_stock"
)
_ABOUT_IGNORED = "Defined by the protocol; ignored here"

LooseText = Annotated[Any, Meta(extra_json_schema={"type": "string"})]
LooseObject = Annotated[Any, Meta(extra_json_schema={"type": "object"})]
LooseFilters = Annotated[Any, Meta(extra_json_schema={"type": "object", "description": _ABOUT_FILTERS})]
Ignored = Annotated[Any, Meta(extra_json_schema={"type": "object", "description": _ABOUT_IGNORED})]
Identities = Annotated[
    Any, Meta(extra_json_schema={"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_IDS})
]
LooseList = Annotated[Any, Meta(extra_json_schema={"type": "array"})]


class CatalogBody(Struct, frozen=True, kw_only=True):
    """Members of every body."""

    filters: LooseFilters = UNSET
    context: LooseObject = UNSET
    signals: Ignored = UNSET
    attribution: Ignored = UNSET


class SearchBody(CatalogBody, frozen=True, kw_only=True):
    """The body of `POST /catalog/search`."""

    query: LooseText = UNSET
    pagination: LooseObject = UNSET


class LookupBody(CatalogBody, frozen=True, kw_only=True):
    """The body of `POST /catalog/lookup`."""

    ids: Identities = UNSET


class ProductBody(CatalogBody, frozen=True, kw_only=True):
    """The body of `POST /catalog/product`."""

    id: LooseText = UNSET
    selected: LooseList = UNSET
    preferences: LooseList = UNSET


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
    """Valid members of every request."""

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


def parse_strictly(body: bytes | Struct, content_type: str, loose: type[Struct], shape: type[Typed]) -> Typed:
    """The body in its strict form, from its bytes or its loose form.

    Raises Problem `invalid-body` with the member as `parameter`, or `unsupported-media-type`.
    """
    read = parse_body(body, content_type, loose) if isinstance(body, bytes) else body
    given = {name: value for name in read.__struct_fields__ if not isinstance(value := getattr(read, name), UnsetType)}
    try:
        return msgspec.convert(given, shape)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        raise Problem("invalid-body", f"{message}.", parameter=where.rstrip("`").lstrip(".")) from None
