"""The whole value chain in memory: companies, categories, edges, and the graphs they make."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import cast

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
from tollhouse.services.infra.failure_simulation import Slots, Supply
from tollhouse.services.infra.name_lookup import Names
from tollhouse.services.infra.reachability import Flow
from tollhouse.services.infra.records import CategoryRow, CompanyRow, EdgeRow, Records, bundled, read_records


class Chain:
    """Everything the service knows, never changed once made. Nodes of its graphs are places in `companies`."""

    def __init__(self, records: Records) -> None:
        self.revised = records.revised
        self.categories = _categories(records.categories)
        self.edges = tuple(_edge(row) for row in records.edges)
        self.companies = _companies(records.companies, self.edges)
        self.names = Names(self.companies, self.categories)
        self._by_id = {company.id: company for company in self.companies}
        self._category = {category.id: category for category in self.categories}
        self._node = {company.id: node for node, company in enumerate(self.companies)}
        self._into: dict[str, list[Edge]] = defaultdict(list)
        self._out_of: dict[str, list[Edge]] = defaultdict(list)
        for edge in self.edges:
            self._out_of[edge.source].append(edge)
            self._into[edge.target].append(edge)
        supply = [edge for edge in self.edges if edge.is_supply]
        self.flow = Flow(len(self.companies), [(self._node[e.source], self._node[e.target]) for e in supply])
        self.slots = Slots(
            Supply(self._node[edge.source], self._node[edge.target], slot) for edge in supply for slot in edge.slots
        )
        self.chokepoints = self.slots.ranking()

    def company(self, company_id: str) -> Company:
        """The company of an id that is known to exist."""
        return self._by_id[company_id]

    def category(self, category_id: str) -> Category:
        """The category of an id that is known to exist."""
        return self._category[category_id]

    def node(self, company_id: str) -> int:
        """Its number in the graphs."""
        return self._node[company_id]

    def ids(self, nodes: Iterable[int]) -> list[str]:
        """The companies that these nodes are."""
        return [self.companies[node].id for node in nodes]

    def into(self, company_id: str) -> Sequence[Edge]:
        """The edges that end at this company."""
        return self._into.get(company_id, ())

    def out_of(self, company_id: str) -> Sequence[Edge]:
        """The edges that start at this company."""
        return self._out_of.get(company_id, ())

    def supply_between(self, source: str, target: str) -> list[Edge]:
        """The supply edges from one company to another."""
        return [edge for edge in self.out_of(source) if edge.target == target and edge.is_supply]

    def rivals(self, company_id: str) -> list[Edge]:
        """Edges to the others of its category: derived, for nobody files a list of competitors."""
        own = self.company(company_id)
        return [
            _derived(own.id, other.id)
            for other in self.companies
            if other.category == own.category and other.id != own.id
        ]


def load_chain() -> Chain:
    """The chain that comes with the server. Raises CatalogueError when its files contradict themselves."""
    return Chain(read_records(bundled()))


def _categories(rows: Sequence[CategoryRow]) -> tuple[Category, ...]:
    return tuple(Category(row.id, row.name, order, row.aliases) for order, row in enumerate(rows, 1))


def _edge(row: EdgeRow) -> Edge:
    # The records are checked: these words are of their types.
    kind, evidence = cast("Kind", row.kind), cast("EvidenceClass", row.evidence_class)
    return Edge(
        id=edge_id(row.source, row.kind, row.target),
        source=row.source,
        target=row.target,
        kind=kind,
        product=row.product,
        slots=row.slots,
        evidence=(Evidence(evidence, row.evidence_url, row.evidence_date),),
        confidence=CONFIDENCE[evidence],
    )


def _derived(source: str, target: str) -> Edge:
    return Edge(
        id=edge_id(source, "competes_with", target),
        source=source,
        target=target,
        kind="competes_with",
        product=None,
        slots=(),
        evidence=(Evidence("same_category"),),
        confidence=CONFIDENCE["same_category"],
    )


def _companies(rows: Sequence[CompanyRow], edges: Sequence[Edge]) -> tuple[Company, ...]:
    suppliers: dict[str, set[str]] = defaultdict(set)
    customers: dict[str, set[str]] = defaultdict(set)
    for edge in edges:
        if edge.is_supply:
            suppliers[edge.target].add(edge.source)
            customers[edge.source].add(edge.target)
    return tuple(_company(row, len(suppliers[row.id]), len(customers[row.id])) for row in rows)


def _company(row: CompanyRow, suppliers: int, customers: int) -> Company:
    return Company(
        id=row.id,
        name=row.name,
        ticker=row.ticker,
        exchange=row.exchange,
        listing=row.listing,
        country=row.country,
        category=row.category,
        description=row.description,
        products=row.products,
        aliases=row.aliases,
        website=row.website,
        note=row.note,
        suppliers=suppliers,
        customers=customers,
    )
