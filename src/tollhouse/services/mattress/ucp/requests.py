"""What a UCP caller may send: loosely as it comes in, strictly once it is known to be to the protocol.

The gate reads the loose forms, so that what is wrong with a body can be told in the protocol's own words.
"""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tollhouse.errors import Problem
from tollhouse.http.request_parser import read_body

MAX_IDS = 100
MAX_LIMIT = 250
DEFAULT_LIMIT = 10

Typed = TypeVar("Typed", bound=Struct)


_ABOUT_FILTERS = (
    "`price` {min, max} in minor units, `categories`, and of this catalogue: brand, size, material, retailer, "
    "sleep_position (a text or a list of texts), in_stock"
)
_ABOUT_PASSED_BY = "Known to the protocol; changes nothing here"

LooseText = Annotated[Any, Meta(extra_json_schema={"type": "string"})]
LooseObject = Annotated[Any, Meta(extra_json_schema={"type": "object"})]
LooseFilters = Annotated[Any, Meta(extra_json_schema={"type": "object", "description": _ABOUT_FILTERS})]
PassedBy = Annotated[Any, Meta(extra_json_schema={"type": "object", "description": _ABOUT_PASSED_BY})]
Identities = Annotated[
    Any, Meta(extra_json_schema={"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_IDS})
]
LooseList = Annotated[Any, Meta(extra_json_schema={"type": "array"})]


class SearchBody(Struct, frozen=True):
    """The body of `POST /catalog/search`."""

    query: LooseText = UNSET
    filters: LooseFilters = UNSET
    pagination: LooseObject = UNSET
    context: LooseObject = UNSET
    signals: PassedBy = UNSET
    attribution: PassedBy = UNSET


class LookupBody(Struct, frozen=True):
    """The body of `POST /catalog/lookup`."""

    ids: Identities = UNSET
    filters: LooseFilters = UNSET
    context: LooseObject = UNSET
    signals: PassedBy = UNSET
    attribution: PassedBy = UNSET


class ProductBody(Struct, frozen=True):
    """The body of `POST /catalog/product`."""

    id: LooseText = UNSET
    selected: LooseList = UNSET
    preferences: LooseList = UNSET
    filters: LooseFilters = UNSET
    context: LooseObject = UNSET
    signals: PassedBy = UNSET
    attribution: PassedBy = UNSET


Amount = Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)]
Words = Annotated[str, Meta(max_length=500)]
Identity = Annotated[str, Meta(max_length=250)]
Value = Annotated[str, Meta(max_length=200)]


class PriceEnds(Struct, frozen=True):
    """In minor units of the context's currency."""

    min: Amount | None = None
    max: Amount | None = None


class SearchFilters(Struct, frozen=True):
    """Other members are left aside, as the protocol wants it."""

    price: PriceEnds = PriceEnds()
    categories: Annotated[list[Value], Meta(max_length=100)] = []
    brand: Annotated[list[Value], Meta(max_length=100)] | Value = []
    size: Annotated[list[Value], Meta(max_length=100)] | Value = []
    material: Annotated[list[Value], Meta(max_length=100)] | Value = []
    retailer: Annotated[list[Value], Meta(max_length=100)] | Value = []
    sleep_position: Annotated[list[Value], Meta(max_length=100)] | Value = []
    in_stock: bool | None = None


class Paging(Struct, frozen=True):
    """Which page; a larger limit than is given out is taken for the largest."""

    cursor: Annotated[str, Meta(max_length=200)] | None = None
    limit: Annotated[int, Meta(ge=1)] = DEFAULT_LIMIT


class Context(Struct, frozen=True):
    """Where the buyer is, as far as it matters here."""

    currency: str | None = None


class SelectedOption(Struct, frozen=True):
    """A choice a buyer made."""

    name: str
    label: str
    id: str | None = None


class Search(Struct, frozen=True):
    """A search to the protocol."""

    query: Words = ""
    filters: SearchFilters = SearchFilters()
    pagination: Paging = Paging()
    context: Context = Context()
    signals: dict[str, Any] = {}
    attribution: dict[str, str] = {}


class Lookup(Struct, frozen=True):
    """A lookup to the protocol."""

    ids: Annotated[list[Identity], Meta(min_length=1, max_length=MAX_IDS)]
    filters: SearchFilters = SearchFilters()
    context: Context = Context()
    signals: dict[str, Any] = {}
    attribution: dict[str, str] = {}


class GetProduct(Struct, frozen=True):
    """A question for one product to the protocol."""

    id: Identity
    selected: Annotated[list[SelectedOption], Meta(max_length=20)] = []
    preferences: Annotated[list[str], Meta(max_length=20)] = []
    filters: SearchFilters = SearchFilters()
    context: Context = Context()
    signals: dict[str, Any] = {}
    attribution: dict[str, str] = {}


def strictly(body: bytes | Struct, content_type: str, loose: type[Struct], shape: type[Typed]) -> Typed:
    """The body, as it came or read by the gate, as the protocol has it.

    Raises Problem `invalid-body` naming the member, `unsupported-media-type`.
    """
    read = read_body(body, content_type, loose) if isinstance(body, bytes) else body
    given = {name: value for name in read.__struct_fields__ if not isinstance(value := getattr(read, name), UnsetType)}
    try:
        return msgspec.convert(given, shape)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        raise Problem("invalid-body", f"{message}.", parameter=where.rstrip("`").lstrip(".")) from None
