"""Concentration of companies and supply by country, and coverage of the catalogue."""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from tollhouse.services.infra.company import Company
from tollhouse.services.infra.supply_graph import SupplyGraph

CAVEAT = (
    "Shares count the companies of this catalogue, not output, revenue or capacity. Companies that are not in the "
    "catalogue are not counted."
)
COVERAGE_CAVEAT = (
    "Edges come from public knowledge. Companies that report more have more edges, so a number of edges measures "
    "documentation more than importance."
)


class CountryShare(Struct, frozen=True):
    """A country's share of a group of companies."""

    country: str
    companies: int
    share: float


class CountryDistribution(Struct, frozen=True):
    """The companies of a group by country. `hhi` is the sum of squared shares: 1 if all are in one country."""

    category: str | None
    companies: int
    countries: tuple[CountryShare, ...]
    hhi: float


class Concentration(Struct, frozen=True):
    """The whole catalogue and each category; `supply_edges_from` counts supply edges by the supplier's country."""

    overall: CountryDistribution
    categories: tuple[CountryDistribution, ...]
    supply_edges_from: tuple[CountryShare, ...]
    caveat: str


class CategoryCoverage(Struct, frozen=True):
    """The number of companies and edges in a category."""

    category: str
    companies: int
    edges_in: int
    edges_out: int


class Coverage(Struct, frozen=True):
    """What the catalogue contains and what it lacks."""

    companies: int
    edges: int
    supply_edges: int
    edges_by_kind: dict[str, int]
    edges_by_evidence_class: dict[str, int]
    edges_with_slot: int
    edges_with_url: int
    edges_with_date: int
    without_suppliers: tuple[str, ...]
    without_customers: tuple[str, ...]
    without_supply_edges: tuple[str, ...]
    categories: tuple[CategoryCoverage, ...]
    caveat: str


def measure_concentration(graph: SupplyGraph) -> Concentration:
    suppliers = [graph.company(edge.source) for edge in graph.edges if edge.is_supply]
    return Concentration(
        overall=_distribution(None, graph.companies),
        categories=tuple(
            _distribution(category.id, [company for company in graph.companies if company.category == category.id])
            for category in graph.categories
        ),
        supply_edges_from=_shares(suppliers),
        caveat=CAVEAT,
    )


def measure_coverage(graph: SupplyGraph) -> Coverage:
    companies, edges = graph.companies, graph.edges
    return Coverage(
        companies=len(companies),
        edges=len(edges),
        supply_edges=sum(edge.is_supply for edge in edges),
        edges_by_kind=_counts(edge.kind for edge in edges),
        edges_by_evidence_class=_counts(edge.evidence[0].evidence_class for edge in edges),
        edges_with_slot=sum(bool(edge.slots) for edge in edges),
        edges_with_url=sum(edge.evidence[0].url is not None for edge in edges),
        edges_with_date=sum(edge.evidence[0].date is not None for edge in edges),
        without_suppliers=tuple(company.id for company in companies if not company.suppliers),
        without_customers=tuple(company.id for company in companies if not company.customers),
        without_supply_edges=tuple(c.id for c in companies if not c.suppliers and not c.customers),
        categories=tuple(_category_coverage(graph, category.id) for category in graph.categories),
        caveat=COVERAGE_CAVEAT,
    )


def _distribution(category: str | None, companies: Sequence[Company]) -> CountryDistribution:
    shares = _shares(companies)
    return CountryDistribution(category, len(companies), shares, round(sum(part.share**2 for part in shares), 4))


def _shares(companies: Sequence[Company]) -> tuple[CountryShare, ...]:
    counted = Counter(company.country for company in companies)
    ordered = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(CountryShare(country, count, round(count / len(companies), 4)) for country, count in ordered)


def _category_coverage(graph: SupplyGraph, category: str) -> CategoryCoverage:
    members = [company.id for company in graph.companies if company.category == category]
    return CategoryCoverage(
        category,
        len(members),
        edges_in=sum(len(graph.into(member)) for member in members),
        edges_out=sum(len(graph.out_of(member)) for member in members),
    )


def _counts(words: Iterable[str]) -> dict[str, int]:
    return dict(Counter(words).most_common())
