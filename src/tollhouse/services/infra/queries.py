"""What a caller may ask of the company graph."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from tollhouse.services.infra.company import Kind
from tollhouse.services.infra.countries import countries
from tollhouse.services.infra.records import bundled, read_records

# What the description offers; aliases and other spellings are understood beside it.
_RECORDS = read_records(bundled())
_COMPANIES = [company.id for company in _RECORDS.companies]
_CATEGORIES = [text for category in _RECORDS.categories for text in (category.id, category.name)]
_COUNTRIES = sorted({text for country in countries().values() for text in (country.name, country.alpha2)})

Text = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
Words = Annotated[Text, Meta(description="Words to look for: names, tickers, products, categories", examples=["hbm"])]
Who = Annotated[
    Text,
    Meta(
        description="A company: its id, name, ticker or alias, in any case",
        examples=["nvidia"],
        extra_json_schema={"enum": _COMPANIES},
    ),
]
Category = Annotated[
    Annotated[Text, Meta(extra_json_schema={"enum": _CATEGORIES})] | None,
    Meta(description="A category of the value chain by name or id, in any case", examples=["packaging_test"]),
]
Country = Annotated[
    Annotated[Text, Meta(extra_json_schema={"enum": _COUNTRIES})] | None,
    Meta(description="A country by English name or ISO 3166-1 code", examples=["Taiwan"]),
]
Direction = Literal["upstream", "downstream", "both"]


class Filters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which companies, and which page of them. `brand` is the document's name for the category."""

    brand: Category = None
    category: Category = None
    country: Country = None
    limit: Annotated[int, Meta(ge=1, le=250, description="Companies per page", examples=[20])] = 20
    offset: Annotated[int, Meta(ge=0, le=10_000, description="Companies to leave out at the start")] = 0


class CompaniesQuery(Filters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of `GET /api/products`."""

    q: Words | None = None


class SearchQuery(Filters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of `GET /api/search`."""

    q: Words


class NeighboursQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `GET /api/companies/{id}/neighbours`."""

    direction: Annotated[Direction, Meta(description="Who stands before it, after it, or both")] = "both"
    kind: Annotated[list[Kind], Meta(description="Only edges of these kinds; all kinds that are kept by default")] = []
    depth: Annotated[int, Meta(ge=1, le=4, description="How many edges away", examples=[1])] = 1
    limit: Annotated[int, Meta(ge=1, le=1000, description="At most so many companies")] = 250


class PathsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `GET /api/paths`."""

    source: Who = field(name="from")
    target: Who = field(name="to")
    max_length: Annotated[int, Meta(ge=1, le=10, description="Edges a path may have", examples=[6])] = 6
    limit: Annotated[int, Meta(ge=1, le=100, description="At most so many paths")] = 20


class ExposureQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `GET /api/exposure`."""

    company: Who
    depth: Annotated[int, Meta(ge=1, le=20, description="How many edges away", examples=[3])] = 20
    limit: Annotated[int, Meta(ge=1, le=1000, description="At most so many companies on each side")] = 250


class ChokepointsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `GET /api/chokepoints`."""

    company: Annotated[Who | None, Meta(description="What fails without this company")] = None
    country: Annotated[Country, Meta(description="What fails without every company of this country")] = None
    limit: Annotated[int, Meta(ge=1, le=250, description="At most so many chokepoints", examples=[10])] = 20
