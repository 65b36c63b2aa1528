"""Right answers about the infrastructure graph, worked out from its catalogue alone."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from tools.question_gold import evaluation

NOT_SUPPLY = frozenset({"invests_in", "partners_with", "competes_with", "owns"})

COUNTRY_NAMES = {
    "AU": "Australia",
    "CA": "Canada",
    "CN": "China",
    "DE": "Germany",
    "FR": "France",
    "GB": "United Kingdom",
    "IE": "Ireland",
    "JP": "Japan",
    "KR": "South Korea",
    "NL": "Netherlands",
    "TW": "Taiwan",
    "US": "United States",
}
REGIONS = {
    "Europe": {"DE", "FR", "GB", "IE", "NL"},
    "European Union": {"DE", "FR", "IE", "NL"},
    "Asia": {"CN", "JP", "KR", "TW"},
    "North America": {"CA", "US"},
}


class Graph:
    """Companies and the relations between them, with the helpers that gold expressions use."""

    def __init__(self, catalogue: dict[str, Any]) -> None:
        self.categories: list[dict[str, Any]] = catalogue["categories"]
        self.companies: list[dict[str, Any]] = catalogue["companies"]
        self.edges: list[dict[str, Any]] = catalogue["edges"]
        self.by_id: dict[str, dict[str, Any]] = {company["id"]: company for company in self.companies}
        self.supply = [edge for edge in self.edges if edge["kind"] not in NOT_SUPPLY]
        self._sources: dict[str, set[str]] = defaultdict(set)
        self._targets: dict[str, set[str]] = defaultdict(set)
        for edge in self.supply:
            self._sources[edge["target"]].add(edge["source"])
            self._targets[edge["source"]].add(edge["target"])

    def suppliers(self, company: str, kind: str | None = None, slot: str | None = None) -> set[str]:
        """Return who supplies a company, by edges of one kind or into one input slot if given."""
        return {
            edge["source"]
            for edge in self.supply
            if edge["target"] == self._known(company)
            and kind in (None, edge["kind"])
            and (slot is None or slot in edge["slots"])
        }

    def customers(self, company: str, kind: str | None = None, slot: str | None = None) -> set[str]:
        """Return whom a company supplies, by edges of one kind or into one input slot if given."""
        return {
            edge["target"]
            for edge in self.supply
            if edge["source"] == self._known(company)
            and kind in (None, edge["kind"])
            and (slot is None or slot in edge["slots"])
        }

    def upstream(self, company: str) -> set[str]:
        """Return the direct and indirect suppliers of a company, without itself."""
        return self._reach(self._known(company), self._sources)

    def downstream(self, company: str) -> set[str]:
        """Return the direct and indirect customers of a company, without itself."""
        return self._reach(self._known(company), self._targets)

    def paths(self, start: str, end: str) -> list[list[str]]:
        """Return every shortest chain of supply from one company to another, sorted."""
        reached: list[list[str]] = [[self._known(start)]]
        seen = {start}
        self._known(end)
        while reached:
            found = sorted(path for path in reached if path[-1] == end)
            if found:
                return found
            reached = [[*path, target] for path in reached for target in self._targets[path[-1]] if target not in seen]
            seen |= {path[-1] for path in reached}
        return []

    def country(self, name: str) -> set[str]:
        """Return the companies of a country, given by its English name or its code."""
        codes = {code for code, english in COUNTRY_NAMES.items() if name in (code, english)}
        if not codes:
            raise KeyError(name)
        return {company["id"] for company in self.companies if company["country"] in codes}

    def region(self, name: str) -> set[str]:
        """Return the companies of a part of the world."""
        return {company["id"] for company in self.companies if company["country"] in REGIONS[name]}

    def country_name(self, company: str) -> str:
        """Return the English name of the country of a company."""
        return COUNTRY_NAMES[self.by_id[company]["country"]]

    def category(self, name: str) -> set[str]:
        """Return the companies of a value-chain category, given by its id."""
        if name not in {category["id"] for category in self.categories}:
            raise KeyError(name)
        return {company["id"] for company in self.companies if company["category"] == name}

    def category_name(self, category: str) -> str:
        """Return the name of a category."""
        return next(row["name"] for row in self.categories if row["id"] == category)

    def makers(self, product: str) -> set[str]:
        """Return the companies with this product, named exactly as in the catalogue but in any case."""
        found = {
            company["id"]
            for company in self.companies
            if product.casefold() in {item.casefold() for item in company["products"]}
        }
        if not found:
            raise KeyError(product)
        return found

    def traded_on(self, exchange: str) -> set[str]:
        """Return the companies traded on an exchange, whether or not they are traded elsewhere too."""
        return {row["id"] for row in self.companies if exchange in (row["exchange"] or "").split(", ")}

    def investors(self, company: str) -> set[str]:
        """Return who invests in a company."""
        return {e["source"] for e in self.edges if e["kind"] == "invests_in" and e["target"] == self._known(company)}

    def investments(self, company: str) -> set[str]:
        """Return what a company invests in."""
        return {e["target"] for e in self.edges if e["kind"] == "invests_in" and e["source"] == self._known(company)}

    def partners(self, company: str) -> set[str]:
        """Return the partners of a company; a partnership has no direction."""
        ends = {(e["source"], e["target"]) for e in self.edges if e["kind"] == "partners_with"}
        return {b if a == company else a for a, b in ends if self._known(company) in (a, b)}

    def competitors(self, company: str) -> set[str]:
        """Return the other companies of the same category, which is how the service derives competitors."""
        return self.category(self.by_id[company]["category"]) - {company}

    def fails(self, *companies: str) -> set[str]:
        """Return what stops without some companies: whatever has an input that lost all its suppliers."""
        slots: dict[tuple[str, str], set[str]] = defaultdict(set)
        for edge in self.supply:
            for slot in edge["slots"]:
                slots[edge["target"], slot].add(edge["source"])
        gone = {self._known(company) for company in companies}
        while stopped := {target for (target, _), sources in slots.items() if sources <= gone} - gone:
            gone |= stopped
        return gone - set(companies)

    def best(self, companies: Iterable[str], score: Callable[[str], float]) -> list[str]:
        """Return the companies with the highest score, several if they tie."""
        scores = {company: score(company) for company in companies}
        return sorted(company for company, value in scores.items() if value == max(scores.values()))

    def ranked(self, companies: Iterable[str], score: Callable[[str], float]) -> list[str]:
        """Return the companies by score, the highest first, ties by id."""
        return sorted(companies, key=lambda company: (-score(company), company))

    def _known(self, company: str) -> str:
        if company not in self.by_id:
            raise KeyError(company)
        return company

    @staticmethod
    def _reach(start: str, nearby: dict[str, set[str]]) -> set[str]:
        seen = {start}
        queue = deque([start])
        while queue:
            for company in nearby.get(queue.popleft(), set()) - seen:
                seen.add(company)
                queue.append(company)
        return seen - {start}


def fetch_rows(base_url: str, key: str | None = None) -> dict[str, Any]:
    """The catalogue of the service at `base_url`."""
    catalogue: dict[str, Any] = evaluation.fetch(f"{base_url}/infra-catalog.json", key)
    return catalogue


def names(rows: dict[str, Any]) -> evaluation.Names:
    """Everything that a gold expression may name."""
    graph = Graph(rows)
    public = [name for name in dir(graph) if not name.startswith("_")]
    return {name: getattr(graph, name) for name in public} | {"ids": set(graph.by_id)}
