"""The supply graph: companies, categories and edges in memory, indexed for lookup, search and analysis."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import cast

import msgspec
from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA

from tollhouse.questions.places import country_by_code, normalize
from tollhouse.services.infra.company import CONFIDENCE, Category, Company, Edge, Evidence, EvidenceClass, Kind
from tollhouse.services.infra.failure_simulation import FailureModel, SlotSupply
from tollhouse.services.infra.reachability import SupplyNetwork
from tollhouse.services.infra.records import CompanyRow, EdgeRow, Records, bundled, read_records

MIN_SIMILARITY = 60
MAX_NEAR = 5
# A typo is a letter left out, added, changed, or swapped with its neighbour.
_SHORTEST, _TWO_TYPOS_FROM = 4, 8

_NAME, _PRODUCT, _CATEGORY, _DESCRIPTION = 10.0, 5.0, 3.0, 2.0
_EXACT = 100.0

Texts = tuple[tuple[float, frozenset[str]], ...]


class CompanyNames:
    """Names of all companies and categories; case, accents and punctuation do not matter."""

    def __init__(self, companies: Sequence[Company], categories: Sequence[Category]) -> None:
        self.companies = {
            normalize(text): company
            for company in companies
            for text in (*company.aliases, company.ticker or company.id, company.name, company.id)
        }
        self.categories = {
            normalize(text): category
            for category in categories
            for text in (*category.aliases, category.name, category.id)
        }

    def company(self, text: str) -> Company | None:
        return self.companies.get(normalize(text))

    def category(self, text: str) -> Category | None:
        return self.categories.get(normalize(text))

    def misspelt(self, text: str) -> Company | None:
        """The company whose name differs from `text` by one typo, or two in a long name."""
        word = normalize(text)
        if len(word) < _SHORTEST:
            return None
        # In a short word only two swapped letters are a typo: any other short word is another word.
        short = (name for name in self.companies if len(name) == len(word) == _SHORTEST)
        swapped = next((name for name in short if sorted(name) == sorted(word)), "")
        longer = [name for name in self.companies if len(name) > _SHORTEST]
        best = process.extractOne(word, longer, scorer=OSA.distance, score_cutoff=_allowed_typos(word))
        return self.companies.get(swapped or (best[0] if best and best[1] <= _allowed_typos(best[0]) else ""))


def _allowed_typos(word: str) -> int:
    return 2 if len(word) >= _TWO_TYPOS_FROM else 1


def near_ids(text: str, index: Mapping[str, Company | Category]) -> list[str]:
    """Ids of the entries with a name similar to `text`, the nearest first."""
    matches = process.extract(
        normalize(text), index.keys(), scorer=fuzz.WRatio, limit=MAX_NEAR * 3, score_cutoff=MIN_SIMILARITY
    )
    return list(dict.fromkeys(index[key].id for key, _, _ in matches))[:MAX_NEAR]


class CompanySearch:
    def __init__(self, companies: Sequence[Company], categories: Sequence[Category], names: CompanyNames) -> None:
        by_id = {category.id: category for category in categories}
        self._companies = companies
        self._names = names
        self._places = {company.id: place for place, company in enumerate(companies)}
        self._texts = [_weighted_texts(company, by_id[company.category]) for company in companies]

    def __call__(self, q: str) -> list[Company]:
        """The companies that match `q`, the best first; equals in the order of the catalogue.

        A company must have all words, in any of its texts; if no company has them all, any word matches. A name, ticker
        or alias that equals `q` comes first. Misspelt names are corrected.
        """
        words = stems(q)
        matches = {place: scores for place, texts in enumerate(self._texts) if (scores := _scores(texts, words))}
        complete = {place: scores for place, scores in matches.items() if len(scores) == len(words)}
        totals = {place: sum(scores.values()) for place, scores in (complete or matches).items()}
        named = self._names.company(q) or (None if totals else self._names.misspelt(q))
        if named:
            totals[self._places[named.id]] = _EXACT
        return [self._companies[place] for place in sorted(totals, key=lambda place: (-totals[place], place))]


def stems(text: str) -> tuple[str, ...]:
    """The distinct words of a text without plural endings."""
    return tuple(dict.fromkeys(stem(word) for word in normalize(text).split()))


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """The word without a plural ending, in American spelling."""
    word = {"centre": "center", "centres": "center", "fibre": "fiber", "fibres": "fiber"}.get(word, word)
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _scores(texts: Texts, words: tuple[str, ...]) -> dict[str, float]:
    """The words that occur in the texts, with the weight of the first text that has them."""
    scores: dict[str, float] = {}
    for weight, text in texts:
        for word in words:
            if word in text:
                scores.setdefault(word, weight)
    return scores


def _weighted_texts(company: Company, category: Category) -> Texts:
    """The company's words with their weights, the heaviest first."""
    country = country_by_code(company.country)
    origin = (country.alpha2, country.name, *country.demonyms)
    return (
        (_NAME, _stem_set(company.id, company.name, company.ticker, *company.aliases)),
        (_PRODUCT, _stem_set(*company.products)),
        (_CATEGORY, _stem_set(category.name, *category.aliases)),
        (_DESCRIPTION, _stem_set(company.description, *origin)),
    )


def _stem_set(*texts: str | None) -> frozenset[str]:
    return frozenset(stems(" ".join(text for text in texts if text)))


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
        others = [other.id for other in self.companies if other.category == own.category and other.id != own.id]
        return [_edge(EdgeRow(0, own.id, other, "competes_with", None, (), "same_category")) for other in others]


def load_supply_graph() -> SupplyGraph:
    """The bundled graph. Raises CatalogueError if its files are inconsistent."""
    return SupplyGraph(read_records(bundled()))


def _edge(row: EdgeRow) -> Edge:
    # `read_records` has validated the kind and the class.
    evidence_class = cast("EvidenceClass", row.evidence_class)
    return Edge(
        id=f"{row.source}.{row.kind}.{row.target}",
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
