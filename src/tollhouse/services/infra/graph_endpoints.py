"""Endpoints for the supply graph: neighbours, paths, exposure, chokepoints, concentration and coverage."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tollhouse.http.endpoint import JSON, Endpoint, Example, Request
from tollhouse.http.terms import FREE
from tollhouse.services.infra.api_types import (
    CHOKEPOINT_CAVEAT,
    EXPOSURE_CAVEAT,
    ChokepointCompany,
    Chokepoints,
    ChokepointsQuery,
    Direction,
    Exposure,
    ExposureQuery,
    FailedCompany,
    Neighbour,
    Neighbours,
    NeighboursQuery,
    Path,
    Paths,
    PathsQuery,
    Side,
)
from tollhouse.services.infra.company import MUTUAL_KINDS, Company, Edge
from tollhouse.services.infra.company_endpoints import (
    COMPANY_ID,
    company_in_path,
    company_parameter,
    country_parameter,
)
from tollhouse.services.infra.concentration import (
    Concentration,
    Coverage,
    measure_concentration,
    measure_coverage,
)
from tollhouse.services.infra.countries import Country
from tollhouse.services.infra.failure_simulation import Failure
from tollhouse.services.infra.reachability import Walk, paths_between
from tollhouse.services.infra.supply_graph import SupplyGraph


class GraphEndpoints:
    """Handlers for the supply graph."""

    def __init__(self, graph: SupplyGraph) -> None:
        self._graph = graph

    async def neighbours(self, request: Request[NeighboursQuery, None]) -> Neighbours:
        """`GET /api/companies/{id}/neighbours`. Raises Problem `not-found` with near matches."""
        query, company = request.query, company_in_path(self._graph, request.path["id"])
        kinds = frozenset(query.kind)
        reached = {company.id: Neighbour(company.id, company.name, 0, company.id)}
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
                        reached[other] = Neighbour(other, self._graph.company(other).name, distance, near)
                        ring.append(other)
                    edges[edge.id] = edge
        del reached[company.id]
        neighbours = tuple(reached.values())
        return Neighbours(
            company.id, query.direction, query.depth, len(neighbours), is_cut, neighbours, tuple(edges.values())
        )

    async def paths(self, request: Request[PathsQuery, None]) -> Paths:
        """`GET /api/paths`. Raises Problem `invalid-parameter` for an unknown company."""
        query = request.query
        source = company_parameter(self._graph, "from", query.source)
        target = company_parameter(self._graph, "to", query.target)
        ends = self._graph.node(source.id), self._graph.node(target.id)
        search = paths_between(self._graph.network, *ends, max_length=query.max_length, limit=query.limit)
        paths = tuple(self._path(self._graph.ids(path)) for path in search.paths)
        return Paths(source.id, target.id, len(paths), search.is_cut, paths[0] if paths else None, paths)

    async def exposure(self, request: Request[ExposureQuery, None]) -> Exposure:
        """`GET /api/exposure`. Raises Problem `invalid-parameter` for an unknown company."""
        query = request.query
        company = company_parameter(self._graph, "company", query.company)
        node = self._graph.node(company.id)
        up, down = (
            self._graph.network.walk(node, upstream=upstream, depth=query.depth, limit=query.limit)
            for upstream in (True, False)
        )
        return Exposure(company.id, query.depth, self._side(up), self._side(down), EXPOSURE_CAVEAT)

    async def chokepoints(self, request: Request[ChokepointsQuery, None]) -> Chokepoints:
        """`GET /api/chokepoints`. Raises Problem `invalid-parameter` for an unknown company or country."""
        query = request.query
        country = country_parameter(query.country)
        company = company_parameter(self._graph, "company", query.company) if query.company else None
        if company or country:
            return Chokepoints(1, 1, False, (self._without(company, country),), CHOKEPOINT_CAVEAT)  # noqa: FBT003
        ranking = self._graph.chokepoints
        listed = tuple(
            _chokepoint(self._graph.companies[each.node], self._failed(each.failures))
            for each in ranking.chokepoints[: query.limit]
        )
        return Chokepoints(len(ranking.chokepoints), len(listed), ranking.is_cut, listed, CHOKEPOINT_CAVEAT)

    async def concentration(self, _request: Request[None, None]) -> Concentration:
        """`GET /api/concentration`."""
        return measure_concentration(self._graph)

    async def coverage(self, _request: Request[None, None]) -> Coverage:
        """`GET /api/coverage`."""
        return measure_coverage(self._graph)

    def _edges_at(self, company: str, direction: Direction, kinds: frozenset[str]) -> list[tuple[Edge, str]]:
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

    def _path(self, ids: Sequence[str]) -> Path:
        pairs = pairwise(ids)
        edges = tuple(edge for source, target in pairs for edge in self._graph.supply_between(source, target))
        return Path(len(ids) - 1, tuple(ids), edges)

    def _side(self, walk: Walk) -> Side:
        companies = [self._graph.companies[step.node] for step in walk.steps]
        reached = tuple(
            Neighbour(company.id, company.name, step.distance, self._graph.companies[step.via].id)
            for company, step in zip(companies, walk.steps, strict=True)
        )
        by_category = _counts(company.category for company in companies)
        return Side(len(reached), walk.is_cut, reached, by_category, _counts(company.country for company in companies))

    def _without(self, company: Company | None, country: Country | None) -> ChokepointCompany:
        """What fails without a company, without every company of a country, or without both."""
        codes = {country.alpha2} if country else set()
        removed = [node for node, c in enumerate(self._graph.companies) if c == company or c.country in codes]
        failed = self._failed(self._graph.failures.simulate_failure(removed))
        if country is None:
            assert company is not None
            return _chokepoint(company, failed)
        name = f"{company.name} and {country.name}" if company else country.name
        return ChokepointCompany(country.alpha2, name, country.alpha2, None, len(failed), failed)

    def _failed(self, failures: Sequence[Failure]) -> tuple[FailedCompany, ...]:
        return tuple(FailedCompany(self._graph.companies[f.node].id, f.round, f.slot) for f in failures)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The declarations."""
        return (
            Endpoint(
                id="listNeighbours",
                method="GET",
                path="/api/companies/{id}/neighbours",
                summary="List the companies around one",
                description="Follows edges of every stored kind, or of the given kinds. `competes_with` is derived "
                "from shared categories and returned only if requested.",
                handler=self.neighbours,
                terms=FREE,
                query=NeighboursQuery,
                path_parameters=COMPANY_ID,
                responses={JSON: Neighbours},
                tag="graph",
                is_tool=True,
                sample=Example(query={"direction": "upstream"}),
            ),
            Endpoint(
                id="findPaths",
                method="GET",
                path="/api/paths",
                summary="Find supply paths from one company to another",
                handler=self.paths,
                terms=FREE,
                query=PathsQuery,
                responses={JSON: Paths},
                tag="graph",
                is_tool=True,
                sample=Example(query={"from": "zeiss_smt", "to": "openai"}),
            ),
            Endpoint(
                id="getExposure",
                method="GET",
                path="/api/exposure",
                summary="Get everything upstream and downstream of a company",
                handler=self.exposure,
                terms=FREE,
                query=ExposureQuery,
                responses={JSON: Exposure},
                tag="graph",
                is_tool=True,
                sample=Example(query={"company": "nvidia", "depth": 3}),
            ),
            Endpoint(
                id="listChokepoints",
                method="GET",
                path="/api/chokepoints",
                summary="List what fails without a company or country",
                description="A company fails when any of its input slots has lost every supplier. Without parameters: "
                "every company whose failure stops another, the worst first. With parameters: what fails without that "
                "company and country.",
                handler=self.chokepoints,
                terms=FREE,
                query=ChokepointsQuery,
                responses={JSON: Chokepoints},
                tag="graph",
                is_tool=True,
                sample=Example(query={"country": "Taiwan", "limit": 5}),
            ),
            Endpoint(
                id="getConcentration",
                method="GET",
                path="/api/concentration",
                summary="Get the distribution of companies over countries",
                handler=self.concentration,
                terms=FREE,
                responses={JSON: Concentration},
                tag="graph",
                is_tool=True,
            ),
            Endpoint(
                id="getCoverage",
                method="GET",
                path="/api/coverage",
                summary="Get what the catalogue knows and what it lacks",
                handler=self.coverage,
                terms=FREE,
                responses={JSON: Coverage},
                tag="graph",
                is_tool=True,
            ),
        )


def _chokepoint(company: Company, failed: tuple[FailedCompany, ...]) -> ChokepointCompany:
    return ChokepointCompany(company.id, company.name, company.country, company.category, len(failed), failed)


def _counts(words: Iterable[str]) -> dict[str, int]:
    return dict(Counter(words).most_common())
