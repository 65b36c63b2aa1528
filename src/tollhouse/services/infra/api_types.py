"""Query parameters and response bodies of the infra endpoints."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from tollhouse.services.infra.company import Company, Edge, Kind

Text = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
Words = Annotated[Text, Meta(description="Search text: names, tickers, products, categories", examples=["hbm"])]
Who = Annotated[
    Text,
    Meta(
        description="A company: its id, name, ticker or alias, in any case", examples=["nvidia", "TSM", "ASML Holding"]
    ),
]
Category = Annotated[
    Text | None,
    Meta(
        description="A category of the value chain by name or id, in any case. `GET /api/retailers` lists them",
        examples=["packaging_test"],
    ),
]
Country = Annotated[
    Text | None, Meta(description="A country by English name or ISO 3166-1 code", examples=["Taiwan", "NL"])
]
Direction = Literal["upstream", "downstream", "both"]

CHOKEPOINT_CAVEAT = (
    "In this simulation a company fails when an input slot has lost every supplier in the catalogue. The catalogue "
    "contains public knowledge: an unreported supplier makes a slot look sole-sourced, and an unreported slot cannot "
    "fail. Stocks, second sources in qualification and time are not modelled. Read it as documented, not as a forecast."
)
EXPOSURE_CAVEAT = (
    "Supply edges only, without investments, ownership and partnerships. A company reached through others has a "
    "documented supply path; the result does not say how much depends on it."
)


class Filters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters and page of a company list. `brand` is the documented name for the category."""

    brand: Category = None
    category: Category = None
    country: Country = None
    limit: Annotated[int, Meta(ge=1, le=250, description="Companies per page", examples=[20])] = 20
    offset: Annotated[int, Meta(ge=0, le=1_000_000, description="Companies to skip")] = 0


class CompaniesQuery(Filters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    q: Words | None = None


class SearchQuery(Filters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    q: Words


class NeighboursQuery(Struct, frozen=True, forbid_unknown_fields=True):
    direction: Annotated[Direction, Meta(description="Suppliers (upstream), customers (downstream), or both")] = "both"
    kind: Annotated[list[Kind], Meta(description="Only edges of these kinds; all stored kinds by default")] = []
    depth: Annotated[int, Meta(ge=1, le=4, description="Maximum number of edges away", examples=[1])] = 1
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of companies")] = 250


class PathsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    source: Who = field(name="from")
    target: Who = field(name="to")
    max_length: Annotated[int, Meta(ge=1, le=10, description="Maximum number of edges in a path", examples=[6])] = 6
    limit: Annotated[int, Meta(ge=1, le=100, description="Maximum number of paths")] = 20


class ExposureQuery(Struct, frozen=True, forbid_unknown_fields=True):
    company: Who
    depth: Annotated[int, Meta(ge=1, le=20, description="Maximum number of edges away", examples=[3])] = 20
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of companies on each side")] = 250


class ChokepointsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    company: Annotated[Who | None, Meta(description="List what fails without this company")] = None
    country: Annotated[Country, Meta(description="List what fails without every company of this country")] = None
    limit: Annotated[int, Meta(ge=1, le=250, description="Maximum number of chokepoints", examples=[10])] = 20


class CompaniesPage(Struct, frozen=True):
    """One page of companies."""

    total: int
    count: int
    offset: int
    limit: int
    companies: tuple[Company, ...]


class SearchPage(CompaniesPage, frozen=True, kw_only=True):
    """One page of search results with the search text."""

    query: str


class CategoryCount(Struct, frozen=True):
    """A category with its number of companies."""

    id: str
    name: str
    company_count: int
    order: int


class CategoriesPage(Struct, frozen=True):
    """Every category, from materials to models."""

    total: int
    categories: tuple[CategoryCount, ...]


class Neighbour(Struct, frozen=True):
    """A company near another, its distance in edges, and the company before it."""

    id: str
    name: str
    distance: int
    via: str


class CompanyDetail(Struct, frozen=True):
    """A company with all its edges."""

    company: Company
    edges_in: tuple[Edge, ...]
    edges_out: tuple[Edge, ...]


class NeighboursPage(Struct, frozen=True):
    """The companies around one. `is_cut` if the limit excluded some."""

    company: str
    direction: Direction
    depth: int
    total: int
    is_cut: bool
    neighbours: tuple[Neighbour, ...]
    edges: tuple[Edge, ...]


class Path(Struct, frozen=True):
    """A path along supply edges: the companies in order, and all edges between neighbours."""

    length: int
    companies: tuple[str, ...]
    edges: tuple[Edge, ...]


class PathsPage(Struct, frozen=True):
    """Paths from one company to another. `shortest` is null if there is no path within `max_length`."""

    source: str = field(name="from")
    target: str = field(name="to")
    total: int
    is_cut: bool
    shortest: Path | None
    paths: tuple[Path, ...]


class Side(Struct, frozen=True):
    """One side of an exposure: the companies, with counts by category and country."""

    total: int
    is_cut: bool
    companies: tuple[Neighbour, ...]
    by_category: dict[str, int]
    by_country: dict[str, int]


class Exposure(Struct, frozen=True):
    """The companies upstream and downstream of a company."""

    company: str
    depth: int
    upstream: Side
    downstream: Side
    caveat: str


class FailedCompany(Struct, frozen=True):
    """A failed company, the round in which it failed, and the first input slot without a supplier."""

    id: str
    round: int
    slot: str


class ChokepointCompany(Struct, frozen=True):
    """A removed company or country, and everything that fails without it."""

    id: str
    name: str
    country: str | None
    category: str | None
    fails_count: int
    fails: tuple[FailedCompany, ...]


class ChokepointsPage(Struct, frozen=True):
    """Chokepoints, the worst first."""

    total: int
    count: int
    is_cut: bool
    chokepoints: tuple[ChokepointCompany, ...]
    caveat: str
