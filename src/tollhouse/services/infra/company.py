"""Companies, categories of the value chain, and edges between companies, as the API returns them."""

from typing import Literal, get_args

from msgspec import Struct, field

# Kinds along which goods, licences, power, space or compute flow from source to target.
SupplyKind = Literal[
    "supplies_material", "supplies_equipment", "licenses_ip", "manufactures_for", "packages_tests_for",
    "supplies_component", "builds_systems_for", "supplies_power_to", "leases_capacity_to", "provides_compute_to",
]  # fmt: skip
Kind = Literal[SupplyKind, "invests_in", "partners_with", "competes_with", "owns"]
EvidenceClass = Literal["company_filing", "company_announcement", "widely_reported", "same_category"]
Listing = Literal["public", "private", "unverified"]

SUPPLY_KINDS: frozenset[Kind] = frozenset(get_args(SupplyKind))
# Kinds without a direction.
MUTUAL_KINDS: frozenset[Kind] = frozenset({"partners_with", "competes_with"})

# Confidence of an edge by its best class of evidence. Filings are audited and name customers, announcements come from
# one side, reports have no named source. No edge has confidence 1, since no page was opened per edge.
CONFIDENCE: dict[EvidenceClass, float] = {
    "company_filing": 0.9,
    "company_announcement": 0.8,
    "widely_reported": 0.6,
    "same_category": 0.5,
}


class Category(Struct, frozen=True):
    """A step of the value chain. `order` counts from materials (1) to models."""

    id: str
    name: str
    order: int
    aliases: tuple[str, ...]


class Company(Struct, frozen=True):
    """A company. Unknown members are null. `suppliers` and `customers` count companies, not edges."""

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
    """The evidence of an edge. `date` is a year, a month or a day: 2025, 2025-10 or 2025-10-31."""

    evidence_class: EvidenceClass = field(name="class")
    url: str | None = None
    date: str | None = None


class Edge(Struct, frozen=True):
    """A relation from `source` to `target`. `slots` are the inputs of the target that the source supplies."""

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
        return self.kind in SUPPLY_KINDS
