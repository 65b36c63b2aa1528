"""What the operations over the company graph answer."""

from msgspec import Struct, field

from tollhouse.services.infra.company import Company, Edge
from tollhouse.services.infra.queries import Direction

CHOKEPOINT_CAVEAT = (
    "A company fails here when an input slot has lost every supplier on file. The files hold what is publicly known: "
    "a supplier that nobody reports makes a slot look sole-sourced, and a slot nobody reports cannot fail. Stocks, "
    "second sources in qualification and time are not modelled. Read it as what is documented, not as a forecast."
)
EXPOSURE_CAVEAT = (
    "Supply edges only: investments, ownership and partnerships are left out. Reaching a company through others says "
    "that a chain of supply is documented, not how much depends on it."
)


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


class Fallen(Struct, frozen=True):
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
    fails: tuple[Fallen, ...]


class Chokepoints(Struct, frozen=True):
    """What would fail without whom, the worst first."""

    total: int
    count: int
    is_cut: bool
    chokepoints: tuple[ChokepointCompany, ...]
    caveat: str
