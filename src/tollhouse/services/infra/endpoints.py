"""Endpoints for companies and the supply graph between them."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from msgspec.structs import asdict

from tollhouse.errors import Problem, invalid_parameter
from tollhouse.http.endpoint import Example, Request, endpoint
from tollhouse.http.terms import FREE
from tollhouse.questions.places import Country, find_country, near_countries
from tollhouse.services.infra import api_types as api
from tollhouse.services.infra.company import MUTUAL_KINDS, Category, Company, Edge
from tollhouse.services.infra.concentration import Concentration, Coverage, measure_concentration, measure_coverage
from tollhouse.services.infra.failure_simulation import Failure
from tollhouse.services.infra.reachability import Walk, paths_between
from tollhouse.services.infra.supply_graph import SupplyGraph, near_ids

COMPANY_ID = {
    "id": {
        "description": "A company: its id, name, ticker or alias, in any case",
        "example": "nvidia",
        "schema": {"type": "string", "maxLength": 200},
    }
}

_endpoint = partial(endpoint, terms=FREE, is_tool=True)


class GraphEndpoints:
    def __init__(self, graph: SupplyGraph) -> None:
        self._graph = graph

    @_endpoint(
        "GET",
        "/api/products",
        id="listCompanies",
        tag="companies",
        sample=Example(query={"category": "packaging_test", "limit": 5}),
    )
    async def list_companies(self, request: Request[api.CompaniesQuery, None]) -> api.CompaniesPage:
        """List companies of the value chain.

        Filter by words, category and country. The path and the parameter `brand` have the names of a product
        service; `category` is the same filter as `brand`.
        """
        return self._page(request.query.q, request.query)

    @_endpoint(
        "GET", "/api/search", id="searchCompanies", tag="companies", sample=Example(query={"q": "hbm", "limit": 5})
    )
    async def search(self, request: Request[api.SearchQuery, None]) -> api.SearchPage:
        """Search companies in words."""
        query = request.query
        if not query.q.strip():
            raise invalid_parameter("q", "`q` must contain at least one word.")
        return api.SearchPage(**asdict(self._page(query.q, query)), query=query.q)

    @_endpoint("GET", "/api/retailers", id="listCategories", tag="companies")
    async def categories(self, _request: Request[None, None]) -> api.CategoriesPage:
        """List categories of the value chain."""
        sizes = Counter(company.category for company in self._graph.companies)
        counts = tuple(api.CategoryCount(one.id, one.name, sizes[one.id], one.order) for one in self._graph.categories)
        return api.CategoriesPage(len(counts), counts)

    @_endpoint("GET", "/api/companies/{id}", id="getCompany", path_parameters=COMPANY_ID, tag="companies")
    async def get(self, request: Request[None, None]) -> api.CompanyDetail:
        """Get a company with its edges."""
        company = self._company("id", request.path["id"])
        return api.CompanyDetail(company, tuple(self._graph.into(company.id)), tuple(self._graph.out_of(company.id)))

    @_endpoint(
        "GET",
        "/api/companies/{id}/neighbours",
        id="listNeighbours",
        path_parameters=COMPANY_ID,
        tag="graph",
        sample=Example(query={"direction": "upstream"}),
    )
    async def neighbours(self, request: Request[api.NeighboursQuery, None]) -> api.NeighboursPage:
        """List the companies around one.

        Follows edges of every stored kind, or of the given kinds. `competes_with` is derived from shared
        categories and returned only if requested.
        """
        query, company = request.query, self._company("id", request.path["id"])
        kinds = frozenset(query.kind)
        reached = {company.id: api.Neighbour(company.id, company.name, 0, company.id)}
        edges: dict[str, Edge] = {}
        ring, is_cut = [company.id], False
        for distance in range(1, query.depth + 1):
            previous, ring = ring, []
            for near in previous:
                for edge, other in self._edges_at(near, query.direction, kinds):
                    if other not in reached:
                        if len(reached) > query.limit:
                            is_cut = True
                            continue
                        reached[other] = api.Neighbour(other, self._graph.company(other).name, distance, near)
                        ring.append(other)
                    edges[edge.id] = edge
        del reached[company.id]
        neighbours = tuple(reached.values())
        return api.NeighboursPage(
            company.id, query.direction, query.depth, len(neighbours), is_cut, neighbours, tuple(edges.values())
        )

    @_endpoint(
        "GET", "/api/paths", id="findPaths", tag="graph", sample=Example(query={"from": "zeiss_smt", "to": "openai"})
    )
    async def paths(self, request: Request[api.PathsQuery, None]) -> api.PathsPage:
        """Find supply paths from one company to another."""
        query = request.query
        source = self._company("from", query.source)
        target = self._company("to", query.target)
        ends = self._graph.node(source.id), self._graph.node(target.id)
        search = paths_between(self._graph.network, *ends, max_length=query.max_length, limit=query.limit)
        ids = [tuple(self._graph.ids(path)) for path in search.paths]
        paths = tuple(api.Path(len(path) - 1, path, self._graph.supply_along(path)) for path in ids)
        return api.PathsPage(source.id, target.id, len(paths), search.is_cut, paths[0] if paths else None, paths)

    @_endpoint(
        "GET", "/api/exposure", id="getExposure", tag="graph", sample=Example(query={"company": "nvidia", "depth": 3})
    )
    async def exposure(self, request: Request[api.ExposureQuery, None]) -> api.Exposure:
        """Get everything upstream and downstream of a company."""
        query = request.query
        company = self._company("company", query.company)
        node = self._graph.node(company.id)
        up, down = (
            self._graph.network.walk(node, upstream=upstream, depth=query.depth, limit=query.limit)
            for upstream in (True, False)
        )
        return api.Exposure(company.id, query.depth, self._side(up), self._side(down), api.EXPOSURE_CAVEAT)

    @_endpoint(
        "GET",
        "/api/chokepoints",
        id="listChokepoints",
        tag="graph",
        sample=Example(query={"country": "Taiwan", "limit": 5}),
    )
    async def chokepoints(self, request: Request[api.ChokepointsQuery, None]) -> api.ChokepointsPage:
        """List what fails without a company or country.

        A company fails when any of its input slots has lost every supplier. Without parameters: every company
        whose failure stops another, the worst first. With parameters: what fails without that company and
        country.
        """
        query = request.query
        country = _country(query.country)
        company = self._company("company", query.company) if query.company else None
        if company or country:
            return api.ChokepointsPage(1, 1, False, (self._without(company, country),), api.CHOKEPOINT_CAVEAT)  # noqa: FBT003
        ranking = self._graph.chokepoints
        listed = tuple(
            _chokepoint(self._graph.companies[each.node], self._failed(each.failures))
            for each in ranking.chokepoints[: query.limit]
        )
        return api.ChokepointsPage(len(ranking.chokepoints), len(listed), ranking.is_cut, listed, api.CHOKEPOINT_CAVEAT)

    @_endpoint("GET", "/api/concentration", id="getConcentration", tag="graph")
    async def concentration(self, _request: Request[None, None]) -> Concentration:
        """Get the distribution of companies over countries."""
        return measure_concentration(self._graph)

    @_endpoint("GET", "/api/coverage", id="getCoverage", tag="graph")
    async def coverage(self, _request: Request[None, None]) -> Coverage:
        """Get what the catalogue knows and what it lacks."""
        return measure_coverage(self._graph)

    def _page(self, q: str | None, filters: api.Filters) -> api.CompaniesPage:
        given = {"brand": filters.brand, "category": filters.category}
        categories = {self._category(name, text).id for name, text in given.items() if text}
        country = _country(filters.country)
        companies = [
            company
            for company in (self._graph.search(q) if q and q.strip() else self._graph.companies)
            if categories <= {company.category} and (country is None or company.country == country.alpha2)
        ]
        page = tuple(companies[filters.offset : filters.offset + filters.limit])
        return api.CompaniesPage(len(companies), len(page), filters.offset, filters.limit, page)

    def _company(self, parameter: str, text: str) -> Company:
        """The company that a parameter names. Raises Problem with near matches: `not-found` for the path's `id`."""
        company = self._graph.names.company(text)
        if company is None:
            near = near_ids(text, self._graph.names.companies)
            detail = "No company has this id, name, ticker or alias."
            if parameter == "id":
                raise Problem("not-found", detail, parameter=parameter, allowed=near)
            raise invalid_parameter(parameter, detail, near)
        return company

    def _category(self, parameter: str, text: str) -> Category:
        category = self._graph.names.category(text)
        if category is None:
            near = near_ids(text, self._graph.names.categories) or [each.id for each in self._graph.categories]
            raise invalid_parameter(parameter, "No category has this name or id.", near)
        return category

    def _edges_at(self, company: str, direction: api.Direction, kinds: frozenset[str]) -> list[tuple[Edge, str]]:
        """The edges at a company in a direction, each with its other end. Mutual kinds have no direction."""
        edges = [*self._graph.into(company), *self._graph.out_of(company)]
        if "competes_with" in kinds:
            edges += self._graph.rivals(company)
        matching = []
        for edge in edges:
            is_incoming = edge.target == company
            is_in_direction = direction == "both" or (direction == "upstream") == is_incoming
            if (is_in_direction or edge.kind in MUTUAL_KINDS) and (not kinds or edge.kind in kinds):
                matching.append((edge, edge.source if is_incoming else edge.target))
        return matching

    def _side(self, walk: Walk) -> api.Side:
        companies = [self._graph.companies[step.node] for step in walk.steps]
        reached = tuple(
            api.Neighbour(company.id, company.name, step.distance, self._graph.companies[step.via].id)
            for company, step in zip(companies, walk.steps, strict=True)
        )
        by_category, by_country = (
            dict(Counter(values).most_common())
            for values in ([company.category for company in companies], [company.country for company in companies])
        )
        return api.Side(len(reached), walk.is_cut, reached, by_category, by_country)

    def _without(self, company: Company | None, country: Country | None) -> api.ChokepointCompany:
        """What fails without a company, without every company of a country, or without both."""
        codes = {country.alpha2} if country else set()
        removed = [node for node, c in enumerate(self._graph.companies) if c == company or c.country in codes]
        failed = self._failed(self._graph.failures.simulate_failure(removed))
        if country is None:
            assert company is not None
            return _chokepoint(company, failed)
        name = f"{company.name} and {country.name}" if company else country.name
        return api.ChokepointCompany(country.alpha2, name, country.alpha2, None, len(failed), failed)

    def _failed(self, failures: Sequence[Failure]) -> tuple[api.FailedCompany, ...]:
        return tuple(api.FailedCompany(self._graph.companies[f.node].id, f.round, f.slot) for f in failures)


def _country(text: str | None) -> Country | None:
    """The country that `country` names. Raises Problem `invalid-parameter` with near matches in `allowed`."""
    if text is None:
        return None
    country = find_country(text)
    if country is None:
        raise invalid_parameter("country", "No country has this name or code.", near_countries(text))
    return country


def _chokepoint(company: Company, failed: tuple[api.FailedCompany, ...]) -> api.ChokepointCompany:
    return api.ChokepointCompany(company.id, company.name, company.country, company.category, len(failed), failed)
