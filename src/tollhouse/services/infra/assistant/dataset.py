"""The company graph as rows, names and operations of the engine for questions."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, cast

import msgspec

from tollhouse.questions.grounding import Reference
from tollhouse.questions.places import (
    countries,
    country_by_code,
    country_names,
    normalize,
    parts_of_world,
    with_parts_of_world,
)
from tollhouse.questions.query import Scalar
from tollhouse.questions.vocabulary import CallResult, Dataset, Declaration, Named, Values
from tollhouse.services.infra.company import Category, Company, Edge, Kind
from tollhouse.services.infra.failure_simulation import Failure
from tollhouse.services.infra.reachability import paths_between
from tollhouse.services.infra.supply_graph import SupplyGraph

MAX_PATH_LENGTH = 8
# So many paths are searched for those of the shortest length.
MOST_SHORTEST = 500
# Entries of a ranking of chokepoints if the question has no number.
USUAL_RANKS = 5
# Names of products that people use are parts of those in the catalogue: this many words at most.
_LONGEST_PART = 4
_SEPARATORS = re.compile(r"\s*(?:,|&|/|\()\s*")
_ENDINGS = re.compile(r"(?:(?:ies|y)|(?:ings?|ers?|ed|e)?s?)$")
CAVEAT = "This rests on the supply edges known here; a slot counts as sole-sourced when no other supplier is on file."

# The kinds of rows.
COMPANY, RELATION = "company", "relation"
# What leads from an edge to its companies: to both, to the one that supplies, to the one that is supplied.
_ENDS = ("end", "source", "target")
_VERBS: dict[Kind, str] = {
    "supplies_material": "supplies material to",
    "supplies_equipment": "supplies equipment to",
    "licenses_ip": "licenses to",
    "manufactures_for": "manufactures for",
    "packages_tests_for": "packages and tests for",
    "supplies_component": "supplies components to",
    "builds_systems_for": "builds systems for",
    "supplies_power_to": "supplies power to",
    "leases_capacity_to": "leases capacity to",
    "provides_compute_to": "provides compute to",
    "invests_in": "invests in",
    "partners_with": "partners with",
    "competes_with": "is in the same category as",
    "owns": "owns",
}
# What flows along an edge, where its kind says so.
_INPUTS: dict[Kind, str] = {
    "supplies_power_to": "power",
    "provides_compute_to": "compute",
    "licenses_ip": "licences",
    "leases_capacity_to": "space",
    "supplies_equipment": "equipment",
    "supplies_material": "materials",
}
_EVIDENCE = {
    "company_filing": "company filing",
    "company_announcement": "company announcement",
    "widely_reported": "widely reported",
    "same_category": "same category",
}


@cache
def declaration() -> Declaration:
    text = files("tollhouse.services.infra").joinpath("data", "vocabulary.toml").read_text("utf-8")
    return with_parts_of_world(msgspec.convert(tomllib.loads(text), Declaration), "region")


class GraphDataset(Dataset):
    """Companies with their attributes, and the edges between them, as relations and as rows of their own."""

    quotes = False

    def __init__(self, graph: SupplyGraph) -> None:
        self.declaration = declaration()
        self.graph = graph

    def rows(self, kind: str) -> Sequence[Any]:
        return self.graph.edges if kind == RELATION else self.graph.companies

    def id(self, kind: str, row: Any) -> str:
        return str(row.id)

    def label(self, kind: str, row: Any) -> str:
        return self._stated(row) if kind == RELATION else str(row.name)

    def values(self, kind: str, row: Any, attribute: str) -> Values:
        if kind == RELATION:
            return self._edge_values(row, attribute)
        if attribute == "region":
            return parts_of_world()[country_by_code(row.country).name]
        if attribute == "product":
            return cast("Company", row).products
        if attribute == "exchange":
            return _exchanges(row)
        if attribute == "stops":
            return (float(len(self._failures.get(row.id, ()))),)
        if not hasattr(row, attribute):
            raise KeyError(attribute)
        value = getattr(row, attribute)
        return () if value is None else (value,)

    def _edge_values(self, edge: Edge, attribute: str) -> Values:
        if attribute == "type":
            return (edge.kind,)
        if attribute == "flow":
            return ("along supply",) if edge.is_supply else ()
        if attribute == "evidence":
            return tuple(evidence.evidence_class for evidence in edge.evidence)
        if attribute == "date":
            return tuple(_moment(evidence.date) for evidence in edge.evidence if evidence.date)
        if attribute == "confidence":
            return (edge.confidence,)
        return (*((edge.product,) if edge.product else ()), *edge.slots)

    @cached_property
    def _failures(self) -> dict[str, tuple[Failure, ...]]:
        """What would stop if one company failed alone, by its id; nothing for those that are not here."""
        points = self.graph.chokepoints.chokepoints
        return {self.graph.companies[point.node].id: point.failures for point in points}

    def display(self, attribute: str, value: Scalar | datetime) -> str:
        if attribute == "country":
            return country_by_code(str(value)).name
        if attribute in ("type", "evidence"):
            return str(value).replace("_", " ")
        if isinstance(value, datetime):
            return f"{value:%Y-%m}"
        return self.graph.category(str(value)).name if attribute == "category" else super().display(attribute, value)

    def reference(self, kind: str, row: Any) -> Reference | None:
        return self.link_reference("", row) if kind == RELATION else None

    def related(self, relation: str, row: Any) -> Iterator[tuple[Any, Any]]:
        if relation in _ENDS:
            for end in _ENDS[1:] if relation == "end" else (relation,):
                yield self.graph.company(getattr(row, end)), row
            return
        if relation in ("dependence", "halts"):
            yield from self._dependants(row) if relation == "dependence" else self._stopped_by(row)
            return
        edges: Iterable[Edge] = self.graph.rivals(row.id) if relation == "competes_with" else self.graph.out_of(row.id)
        for edge in edges:
            if edge.kind == relation or (relation == "supplies" and edge.is_supply):
                yield self.graph.company(edge.target), edge

    def _stopped_by(self, company: Company) -> Iterator[tuple[Company, Edge]]:
        """Every company that would stop if one failed alone, with a supply edge that it would lose."""
        failures = self._failures.get(company.id, ())
        stopped = {company.id, *self.graph.ids(failure.node for failure in failures)}
        for failure in failures:
            other = self.graph.companies[failure.node]
            lost = (edge for edge in self.graph.into(other.id) if failure.slot in edge.slots)
            yield other, next(edge for edge in lost if edge.source in stopped)

    def _dependants(self, company: Company) -> Iterator[tuple[Company, tuple[Edge, ...]]]:
        """Every company that is supplied through others, with a shortest chain of edges to it."""
        chains: dict[int, tuple[Edge, ...]] = {self.graph.node(company.id): ()}
        size = len(self.graph.companies)
        for step in self.graph.network.walk(self.graph.node(company.id), upstream=False, depth=size, limit=size).steps:
            source, target = self.graph.ids((step.via, step.node))
            chains[step.node] = (*chains[step.via], self.graph.supply_between(source, target)[0])
            yield self.graph.companies[step.node], chains[step.node]

    def link_values(self, relation: str, link: Any, attribute: str) -> Values:
        edge = cast("Edge", link)
        if attribute == "input":
            return (_INPUTS[edge.kind],) if edge.kind in _INPUTS else ()
        if attribute != "product":
            return self._edge_values(edge, attribute)
        return (*self._edge_values(edge, attribute), *self.graph.company(edge.source).products)

    def link_reference(self, relation: str, link: Any) -> Reference:
        """An edge, or a chain of edges, in words."""
        edges: tuple[Edge, ...] = link if isinstance(link, tuple) else (link,)
        if len(edges) > 1:
            names = [self.graph.company(edge.source).name for edge in edges]
            text = " → ".join((*names, self.graph.company(edges[-1].target).name))
            return Reference("+".join(edge.id for edge in edges), text, None)
        edge = edges[0]
        evidence = edge.evidence[0]
        return Reference(edge.id, f"{self._stated(edge)} ({_EVIDENCE[evidence.evidence_class]})", evidence.url)

    def _stated(self, edge: Edge) -> str:
        """An edge in words, without its evidence."""
        about = f": {edge.product}" if edge.product else ""
        ends = self.graph.company(edge.source).name, self.graph.company(edge.target).name
        return f"{ends[0]} {_VERBS[edge.kind]} {ends[1]}{about}"

    def names(self) -> Iterator[Named]:
        for company in self.graph.companies:
            for text in (company.name, company.id, *company.aliases):
                yield Named(text, "company", "id", company.id)
            if company.ticker:
                yield Named(company.ticker, "company", "id", company.id, exact=True)
            for exchange in _exchanges(company):
                yield Named(exchange, "company", "exchange", exchange)
        made = {product for company in self.graph.companies for product in company.products}
        for category in self.graph.categories:
            # "HBM makers" are those that list HBM.
            others = (*category.aliases, *_SEPARATORS.split(category.name))
            aliases = (text for text in others if text.lower().removesuffix(" makers").upper() not in made)
            for text in (category.name, category.id, *aliases):
                yield Named(text, "company", "category", category.id)
        used = {company.country for company in self.graph.companies}
        for country in countries().values():
            yield from country_names(country, "company", country.alpha2, with_codes=country.alpha2 in used)
        products = (product for company in self.graph.companies for product in company.products)
        inputs = (text for edge in self.graph.edges for text in (*edge.slots, edge.product or ""))
        yield from self._product_names("company", products)
        yield from self._product_names("supplies", inputs)

    def _product_names(self, kind: str, texts: Iterable[str]) -> Iterator[Named]:
        """The names of products, and their parts that contain no name of a company and are no common word."""
        texts = tuple(text.replace("_", " ") for text in texts)
        whole = {text.casefold() for text in texts}
        named, common = self.graph.names.companies.keys(), self._common_stems
        for part in _parts(texts):
            is_common = kind == "company" and part.casefold() not in whole and _stem(part) in common
            if not is_common and named.isdisjoint((normalize(part), *normalize(part).split())):
                yield Named(part, kind, "product", part)

    @cached_property
    def _common_stems(self) -> set[str]:
        """The stems of words that name kinds, relations and categories, which alone name no product."""
        declared = [noun for each in self.declaration.kinds for noun in each.nouns]
        for attribute in (attribute for each in self.declaration.kinds for attribute in each.attributes):
            declared += [*attribute.nouns, *attribute.prepositions]
        for relation in self.declaration.relations:
            declared += [*relation.verbs, *relation.inverse_verbs, *relation.sources, *relation.targets]
        declared += [text for category in self.graph.categories for text in (category.name, *category.aliases)]
        return {_stem(word) for phrase in declared for word in phrase.split()}

    def texts(self, kind: str) -> Mapping[str, str]:
        return self._texts if kind == COMPANY else {}

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {
            company.id: " ".join((company.name, company.description or "", *company.products, *company.aliases))
            for company in self.graph.companies
        }

    def call(
        self, operation: str, rows: Sequence[Sequence[Any]], words: Sequence[str], limit: int | None
    ) -> CallResult:
        if operation in ("path", "steps"):
            path = self._path(*rows)
            is_counted = operation == "steps" and path.rows
            return msgspec.structs.replace(path, value=float(len(path.rows) - 1)) if is_counted else path
        if operation == "between":
            return self._between(*rows)
        if operation == "failure":
            return self._failure(rows[0], rows[1] if len(rows) > 1 else ())
        return self._chokepoints(rows[0] if rows else (), limit or USUAL_RANKS)

    def profile(self, kind: str, row: Any) -> str:
        if kind == RELATION:
            return ""
        company = cast("Company", row)
        listing = (
            f"listed as {company.ticker} ({company.exchange})" if company.ticker else f"listing: {company.listing}"
        )
        category: Category = self.graph.category(company.category)
        return (
            f"{company.name} ({country_by_code(company.country).name}; {listing}) is in {category.name}. "
            f"{company.description or ''} It has {_count(company.suppliers, 'known supplier')} and "
            f"{_count(company.customers, 'known customer')} here.{f' {company.note}' if company.note else ''}"
        )

    def _path(self, sources: Sequence[Company], targets: Sequence[Company]) -> CallResult:
        """A shortest way of supply, in either direction."""
        paths, reverse = self._shortest(sources, targets, limit=1)
        if paths:
            return self._along(paths[0], reverse=reverse)
        first, last = sources[0].name, targets[0].name
        return CallResult(
            f"No chain of known supply edges joins {first} and {last}, in either direction. Investments and "
            "partnerships are not counted as supply.",
            "company",
        )

    def _between(self, sources: Sequence[Company], targets: Sequence[Company]) -> CallResult:
        """The companies on all the shortest ways of supply without the ends; the value is how many each way has."""
        paths, _ = self._shortest(sources, targets, limit=MOST_SHORTEST)
        if not paths:
            return self._path(sources, targets)
        shortest = [path for path in paths if len(path) == len(paths[0])]
        middle = dict.fromkeys(one for path in shortest for one in path[1:-1])
        companies = tuple(map(self.graph.company, middle))
        edges = dict.fromkeys(edge for path in shortest for edge in self.graph.supply_along(path))
        ends = f"{sources[0].name} and {targets[0].name}"
        names = ", ".join(company.name for company in companies)
        text = f"Between {ends} on the shortest ways: {names}." if names else f"No company is between {ends}."
        return self._called(text, companies, tuple(edges), value=float(len(shortest[0]) - 2))

    def _shortest(
        self, sources: Sequence[Company], targets: Sequence[Company], limit: int
    ) -> tuple[list[Sequence[str]], bool]:
        """Paths of company ids, the shortest first, and whether they run from target to source."""
        for reverse in (False, True):
            for source in sources:
                for target in targets:
                    start, end = (target, source) if reverse else (source, target)
                    nodes = self.graph.node(start.id), self.graph.node(end.id)
                    search = paths_between(self.graph.network, *nodes, max_length=MAX_PATH_LENGTH, limit=limit)
                    if search.paths:
                        return [self.graph.ids(path) for path in search.paths], reverse
        return [], False

    def _along(self, ids: Sequence[str], *, reverse: bool) -> CallResult:
        companies = tuple(map(self.graph.company, ids))
        names = " → ".join(company.name for company in companies)
        ends = companies[0].name, companies[-1].name
        head = f"From {ends[0]} to {ends[1]} in {_count(len(ids) - 1, 'step')}, a shortest way"
        if reverse:
            head = f"Nothing known flows from {ends[1]} to {ends[0]}; the supply runs the other way"
        edges = self.graph.supply_along(ids)
        called = self._called(f"{head}: {names}.", companies, edges, value=float(len(ids) - 2))
        return msgspec.structs.replace(called, holds=not reverse)

    def _failure(self, removed: Sequence[Company], victims: Sequence[Company]) -> CallResult:
        """The companies that would fail; or whether those that the question names would."""
        failures = self.graph.failures.simulate_failure([self.graph.node(company.id) for company in removed])
        failed = self.graph.ids(failure.node for failure in failures)
        stopped = {*(company.id for company in removed), *failed}
        slots = {self.graph.companies[failure.node].id: failure.slot for failure in failures}
        edges = [
            edge
            for company in failed
            for edge in self.graph.into(company)
            if slots[company] in edge.slots and edge.source in stopped
        ]
        names = " and ".join(company.name for company in removed)
        count = _count(len(failed), "other company")
        head = f"If {names} failed, {count} would lose the last known supplier of some input"
        companies = tuple(map(self.graph.company, failed))
        value = float(len(failed))
        if victims:
            value = float(all(company in companies for company in victims))
            head = f"{'Yes' if value else 'No'}. {head}"
        return self._called(f"{_named(head, companies)} {CAVEAT}", companies, edges, value=value)

    def _chokepoints(self, victims: Sequence[Company], limit: int) -> CallResult:
        """The companies whose failure stops the most others, or those that could stop the victims."""
        ranked = self.graph.chokepoints.chokepoints
        if victims:
            nodes = {self.graph.node(company.id) for company in victims}
            ranked = tuple(point for point in ranked if nodes & {failure.node for failure in point.failures})
            head = f"These could stop {' or '.join(company.name for company in victims)} by failing alone"
        else:
            ranked = ranked[:limit]
            head = "The companies whose failure stops the most others"
        companies = tuple(map(self.graph.company, self.graph.ids(point.node for point in ranked)))
        counts = {self.graph.companies[point.node].id: len(point.failures) for point in ranked}
        names = ", ".join(f"{company.name} (stops {counts[company.id]})" for company in companies) or "none known"
        return self._called(f"{head}: {names}. {CAVEAT}", companies, ())

    def _called(
        self, text: str, companies: tuple[Company, ...], edges: Iterable[Edge], *, value: float | None = None
    ) -> CallResult:
        links = tuple(dict.fromkeys(edges))
        cited = tuple(self.link_reference("supplies", edge) for edge in links)
        return CallResult(text, "company", companies, value=value, references=cited, links=links)


def _parts(texts: Iterable[str]) -> set[str]:
    """Every sequence of up to four words of the texts."""
    parts: set[str] = set()
    for text in texts:
        words = text.replace("(", " ").replace(")", " ").replace(",", " ").replace("/", " ").split()
        lengths = range(1, _LONGEST_PART + 1)
        parts |= {" ".join(words[i : i + n]) for n in lengths for i in range(len(words) - n + 1)}
    return {part for part in parts if not (_is_small(part.split()[0]) or _is_small(part.split()[-1]))}


def _stem(word: str) -> str:
    """A word without the endings of plurals, persons and actions."""
    return _ENDINGS.sub("", word.casefold())


def _exchanges(company: Company) -> tuple[str, ...]:
    return tuple(company.exchange.split(", ")) if company.exchange else ()


def _is_small(word: str) -> bool:
    """Whether it is likely an article, preposition or number, which no name of a product begins or ends with."""
    return (len(word) < 4 and word.islower()) or not any(letter.isalpha() for letter in word)


def _moment(date: str) -> datetime:
    """The beginning of a year, month or day."""
    year, month, day = (*map(int, date.split("-")), 1, 1)[:3]
    return datetime(year, month, day, tzinfo=UTC)


def _named(head: str, companies: Sequence[Company]) -> str:
    names = ", ".join(company.name for company in companies)
    return f"{head}: {names}." if names else f"{head}."


def _count(count: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count or 'no'} {noun if count == 1 else plural}"
