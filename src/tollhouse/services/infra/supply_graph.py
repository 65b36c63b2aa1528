"""The supply graph: companies, categories and edges in memory, indexed for lookup, search and analysis."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import cast

import msgspec

from tollhouse.services.infra.company import (
    CONFIDENCE,
    Category,
    Company,
    Edge,
    Evidence,
    EvidenceClass,
    Kind,
    edge_id,
)
from tollhouse.services.infra.company_search import CompanyNames, CompanySearch
from tollhouse.services.infra.failure_simulation import FailureModel, SlotSupply
from tollhouse.services.infra.reachability import SupplyNetwork
from tollhouse.services.infra.records import CompanyRow, EdgeRow, Records, bundled, read_records


class SupplyGraph:
    """The immutable catalogue. A node number is an index into `companies`."""

    def __init__(self, records: Records) -> None:
        self.revised = records.revised
        self.categories = tuple(
            Category(row.id, row.name, order, row.aliases) for order, row in enumerate(records.categories, 1)
        )
        self.edges = tuple(_edge(row) for row in records.edges)
        self.companies = _companies(records.companies, self.edges)
        self.names = CompanyNames(self.companies, self.categories)
        self.search = CompanySearch(self.companies, self.categories, self.names)
        self._by_id = {company.id: company for company in self.companies}
        self._category = {category.id: category for category in self.categories}
        self._node = {company.id: node for node, company in enumerate(self.companies)}
        self._into: dict[str, list[Edge]] = defaultdict(list)
        self._out_of: dict[str, list[Edge]] = defaultdict(list)
        for edge in self.edges:
            self._out_of[edge.source].append(edge)
            self._into[edge.target].append(edge)
        supply = [edge for edge in self.edges if edge.is_supply]
        self.network = SupplyNetwork(
            len(self.companies), [(self._node[e.source], self._node[e.target]) for e in supply]
        )
        self.failures = FailureModel(
            SlotSupply(self._node[edge.source], self._node[edge.target], slot) for edge in supply for slot in edge.slots
        )
        self.chokepoints = self.failures.ranking()

    def company(self, company_id: str) -> Company:
        """The company with this id. Raises KeyError if there is none."""
        return self._by_id[company_id]

    def category(self, category_id: str) -> Category:
        """The category with this id. Raises KeyError if there is none."""
        return self._category[category_id]

    def node(self, company_id: str) -> int:
        return self._node[company_id]

    def ids(self, nodes: Iterable[int]) -> list[str]:
        return [self.companies[node].id for node in nodes]

    def into(self, company_id: str) -> Sequence[Edge]:
        return self._into.get(company_id, ())

    def out_of(self, company_id: str) -> Sequence[Edge]:
        return self._out_of.get(company_id, ())

    def supply_between(self, source: str, target: str) -> list[Edge]:
        return [edge for edge in self.out_of(source) if edge.target == target and edge.is_supply]

    def supply_along(self, ids: Iterable[str]) -> tuple[Edge, ...]:
        """The supply edges between each company and the next."""
        return tuple(edge for source, target in pairwise(ids) for edge in self.supply_between(source, target))

    def rivals(self, company_id: str) -> list[Edge]:
        """`competes_with` edges to the other companies of its category. They are derived, not stored."""
        own = self.company(company_id)
        return [
            Edge(
                id=edge_id(own.id, "competes_with", other.id),
                source=own.id,
                target=other.id,
                kind="competes_with",
                product=None,
                slots=(),
                evidence=(Evidence("same_category"),),
                confidence=CONFIDENCE["same_category"],
            )
            for other in self.companies
            if other.category == own.category and other.id != own.id
        ]


def load_supply_graph() -> SupplyGraph:
    """The bundled graph. Raises CatalogueError if its files are inconsistent."""
    return SupplyGraph(read_records(bundled()))


def _edge(row: EdgeRow) -> Edge:
    # `read_records` has validated the kind and the class.
    evidence_class = cast("EvidenceClass", row.evidence_class)
    return Edge(
        id=edge_id(row.source, row.kind, row.target),
        source=row.source,
        target=row.target,
        kind=cast("Kind", row.kind),
        product=row.product,
        slots=row.slots,
        evidence=(Evidence(evidence_class, row.evidence_url, row.evidence_date),),
        confidence=CONFIDENCE[evidence_class],
    )


def _companies(rows: Sequence[CompanyRow], edges: Sequence[Edge]) -> tuple[Company, ...]:
    suppliers: dict[str, set[str]] = defaultdict(set)
    customers: dict[str, set[str]] = defaultdict(set)
    for edge in edges:
        if edge.is_supply:
            suppliers[edge.target].add(edge.source)
            customers[edge.source].add(edge.target)
    return tuple(
        Company(**msgspec.structs.asdict(row), suppliers=len(suppliers[row.id]), customers=len(customers[row.id]))
        for row in rows
    )
