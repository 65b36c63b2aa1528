"""Query parameters and response bodies of the infra endpoints."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from tollhouse.services.infra.company import Company, Edge, Kind
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

CHOKEPOINT_CAVEAT = (
    "A company fails here when an input slot has lost every supplier on file. The files hold what is publicly known: "
    "a supplier that nobody reports makes a slot look sole-sourced, and a slot nobody reports cannot fail. Stocks, "
    "second sources in qualification and time are not modelled. Read it as what is documented, not as a forecast."
)
EXPOSURE_CAVEAT = (
    "Supply edges only: investments, ownership and partnerships are left out. Reaching a company through others says "
    "that a chain of supply is documented, not how much depends on it."
)


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


class CompaniesPage(Struct, frozen=True):
    """One page of companies."""

    total: int
    count: int
    offset: int
    limit: int
    companies: tuple[Company, ...]


class SearchPage(Struct, frozen=True):
    """One page of companies, and what they were searched by."""

    query: str
    total: int
    count: int
    offset: int
    limit: int
    companies: tuple[Company, ...]


class CategoryCount(Struct, frozen=True):
    """A category and how many companies are in it."""

    id: str
    name: str
    company_count: int
    order: int


class Categories(Struct, frozen=True):
    """Every category, from materials to models."""

    total: int
    categories: tuple[CategoryCount, ...]


class Neighbour(Struct, frozen=True):
    """A company near another: how many edges away, and the company it was reached from."""

    id: str
    name: str
    distance: int
    via: str


class CompanyDetail(Struct, frozen=True):
    """A company with every edge it is an end of."""

    company: Company
    edges_in: tuple[Edge, ...]
    edges_out: tuple[Edge, ...]


class Neighbours(Struct, frozen=True):
    """The companies near one; `is_cut` when the limit left some out."""

    company: str
    direction: Direction
    depth: int
    total: int
    is_cut: bool
    neighbours: tuple[Neighbour, ...]
    edges: tuple[Edge, ...]


class Path(Struct, frozen=True):
    """A way along supply edges: companies in order, and every edge between each two of them."""

    length: int
    companies: tuple[str, ...]
    edges: tuple[Edge, ...]


class Paths(Struct, frozen=True):
    """Ways from one company to another. `shortest` is null when none is short enough."""

    source: str = field(name="from")
    target: str = field(name="to")
    total: int
    is_cut: bool
    shortest: Path | None
    paths: tuple[Path, ...]


class Side(Struct, frozen=True):
    """One side of an exposure: the companies, and how many of them each category and country holds."""

    total: int
    is_cut: bool
    companies: tuple[Neighbour, ...]
    by_category: dict[str, int]
    by_country: dict[str, int]


class Exposure(Struct, frozen=True):
    """What a company rests on, and what rests on it."""

    company: str
    depth: int
    upstream: Side
    downstream: Side
    caveat: str


class FailedCompany(Struct, frozen=True):
    """A company that fails: in which round, and the input slot that ran dry first."""

    id: str
    round: int
    slot: str


class ChokepointCompany(Struct, frozen=True):
    """What is taken away, and all that fails with it."""

    id: str
    name: str
    country: str | None
    category: str | None
    fails_count: int
    fails: tuple[FailedCompany, ...]


class Chokepoints(Struct, frozen=True):
    """What would fail without whom, the worst first."""

    total: int
    count: int
    is_cut: bool
    chokepoints: tuple[ChokepointCompany, ...]
    caveat: str
