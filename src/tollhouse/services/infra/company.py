"""A company, a category of the value chain, and an edge between two companies, as callers see them."""

from typing import Literal

from msgspec import Struct, field

Kind = Literal[
    "supplies_material",
    "supplies_equipment",
    "licenses_ip",
    "manufactures_for",
    "packages_tests_for",
    "supplies_component",
    "builds_systems_for",
    "supplies_power_to",
    "leases_capacity_to",
    "provides_compute_to",
    "invests_in",
    "partners_with",
    "competes_with",
    "owns",
]
EvidenceClass = Literal["company_filing", "company_announcement", "widely_reported", "same_category"]
Listing = Literal["public", "private", "unverified"]

# Goods, licences, power, space or compute flow along these, from source to target. Money and plans do not.
SUPPLY_KINDS: frozenset[Kind] = frozenset(
    {
        "supplies_material",
        "supplies_equipment",
        "licenses_ip",
        "manufactures_for",
        "packages_tests_for",
        "supplies_component",
        "builds_systems_for",
        "supplies_power_to",
        "leases_capacity_to",
        "provides_compute_to",
    }
)
# Either end may be named first.
MUTUAL_KINDS: frozenset[Kind] = frozenset({"partners_with", "competes_with"})

# How far an edge can be trusted, by the best class of its evidence. No page was opened per edge, so none is certain:
# a filing is audited and names customers, an announcement is one side's word, a report is nobody's.
CONFIDENCE: dict[EvidenceClass, float] = {
    "company_filing": 0.9,
    "company_announcement": 0.8,
    "widely_reported": 0.6,
    "same_category": 0.5,
}


class Category(Struct, frozen=True):
    """A step of the value chain; `order` counts from materials (1) to models."""

    id: str
    name: str
    order: int
    aliases: tuple[str, ...]


class Company(Struct, frozen=True):
    """A company; null is what is not known. `suppliers` and `customers` count companies, not edges."""

    id: str
    name: str
    ticker: str | None
    exchange: str | None
    listing: Listing
    country: str
    category: str
    description: str | None
    products: tuple[str, ...]
    aliases: tuple[str, ...]
    website: str | None
    note: str | None
    suppliers: int
    customers: int


class Evidence(Struct, frozen=True):
    """Where an edge is known from. `date` is as exact as it is known: 2025, 2025-10 or 2025-10-31."""

    evidence_class: EvidenceClass = field(name="class")
    url: str | None = None
    date: str | None = None


class Edge(Struct, frozen=True):
    """`source` supplies, funds or joins `target`. `slots` are the inputs of the target this one fills."""

    id: str
    source: str
    target: str
    kind: Kind
    product: str | None
    slots: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    confidence: float

    @property
    def is_supply(self) -> bool:
        """Whether something the target needs flows along it."""
        return self.kind in SUPPLY_KINDS


def edge_id(source: str, kind: str, target: str) -> str:
    """The same edge keeps its id whatever is added to or taken from the file."""
    return f"{source}.{kind}.{target}"
