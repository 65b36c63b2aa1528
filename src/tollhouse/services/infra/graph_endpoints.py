"""Questions to the graph: neighbours, paths, exposure, chokepoints, concentration and coverage."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tollhouse.http.endpoint import Request
from tollhouse.services.infra.company import MUTUAL_KINDS, Company, Edge
from tollhouse.services.infra.company_endpoints import company_at, company_named, country_named
from tollhouse.services.infra.concentration import Concentration, Coverage, concentration_of, coverage_of
from tollhouse.services.infra.countries import Country
from tollhouse.services.infra.failure_simulation import Failure
from tollhouse.services.infra.paths import paths_between
from tollhouse.services.infra.queries import ChokepointsQuery, Direction, ExposureQuery, NeighboursQuery, PathsQuery
from tollhouse.services.infra.reachability import Walk
from tollhouse.services.infra.responses import (
    CHOKEPOINT_CAVEAT,
    EXPOSURE_CAVEAT,
    ChokepointCompany,
    Chokepoints,
    Exposure,
    Fallen,
    Neighbour,
    Neighbours,
    Path,
    Paths,
    Side,
)
from tollhouse.services.infra.supply_graph import Chain


class GraphEndpoints:
    """The operations over one chain."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    async def neighbours(self, request: Request[NeighboursQuery, None]) -> Neighbours:
        """The companies around one. Raises Problem `not-found` with near matches."""
        query, company = request.query, company_at(self._chain, request.path["id"])
        kinds = frozenset(query.kind)
        found = {company.id: Neighbour(company.id, company.name, 0, company.id)}
        edges: dict[str, Edge] = {}
        ring, is_cut = [company.id], False
        for distance in range(1, query.depth + 1):
            here, ring = ring, []
            for near in here:
                for edge, other in self._around(near, query.direction, kinds):
                    if other not in found:
                        if len(found) > query.limit:
                            is_cut = True
                            continue
                        found[other] = Neighbour(other, self._chain.company(other).name, distance, near)
                        ring.append(other)
                    edges[edge.id] = edge
        del found[company.id]
        return Neighbours(
            company.id, query.direction, query.depth, len(found), is_cut, tuple(found.values()), tuple(edges.values())
        )

    async def paths(self, request: Request[PathsQuery, None]) -> Paths:
        """Simple paths along supply edges. Raises Problem `invalid-parameter` for a company nobody knows."""
        query = request.query
        source = company_named(self._chain, "from", query.source)
        target = company_named(self._chain, "to", query.target)
        ends = self._chain.node(source.id), self._chain.node(target.id)
        found = paths_between(self._chain.flow, *ends, max_length=query.max_length, limit=query.limit)
        paths = tuple(self._path(self._chain.ids(path)) for path in found.found)
        return Paths(source.id, target.id, len(paths), found.is_cut, paths[0] if paths else None, paths)

    async def exposure(self, request: Request[ExposureQuery, None]) -> Exposure:
        """Both sides of a company. Raises Problem `invalid-parameter` for a company nobody knows."""
        query = request.query
        company = company_named(self._chain, "company", query.company)
        node = self._chain.node(company.id)
        up, down = (
            self._chain.flow.walk(node, upstream=upstream, depth=query.depth, limit=query.limit)
            for upstream in (True, False)
        )
        return Exposure(company.id, query.depth, self._side(up), self._side(down), EXPOSURE_CAVEAT)

    async def chokepoints(self, request: Request[ChokepointsQuery, None]) -> Chokepoints:
        """What fails without whom. Raises Problem `invalid-parameter` for an unknown company or country."""
        query = request.query
        country = country_named(query.country)
        company = company_named(self._chain, "company", query.company) if query.company else None
        if company or country:
            return _listed([self._without(company, country)], 1)
        ranking = self._chain.chokepoints
        told = [
            _company(self._chain.companies[chokepoint.node], self._fallen(chokepoint.failures))
            for chokepoint in ranking.chokepoints[: query.limit]
        ]
        return _listed(told, len(ranking.chokepoints), is_cut=ranking.is_cut)

    async def concentration(self, _asked: Request[None, None]) -> Concentration:
        """How companies and supply edges are spread over countries."""
        return concentration_of(self._chain)

    async def coverage(self, _asked: Request[None, None]) -> Coverage:
        """What the catalogue knows and what it lacks."""
        return coverage_of(self._chain)

    def _around(self, company: str, direction: Direction, kinds: frozenset[str]) -> list[tuple[Edge, str]]:
        """The edges at a company in a direction, each with its other end. What both share has no direction."""
        chain = self._chain
        edges = [*chain.into(company), *chain.out_of(company)]
        if "competes_with" in kinds:
            edges += chain.rivals(company)
        found = []
        for edge in edges:
            is_before = edge.target == company
            wanted = direction == "both" or edge.kind in MUTUAL_KINDS or (direction == "upstream") == is_before
            if wanted and (not kinds or edge.kind in kinds):
                found.append((edge, edge.source if is_before else edge.target))
        return found

    def _path(self, ids: Sequence[str]) -> Path:
        pairs = pairwise(ids)
        edges = tuple(edge for source, target in pairs for edge in self._chain.supply_between(source, target))
        return Path(len(ids) - 1, tuple(ids), edges)

    def _side(self, walk: Walk) -> Side:
        companies = [self._chain.companies[step.node] for step in walk.steps]
        reached = tuple(
            Neighbour(company.id, company.name, step.distance, self._chain.companies[step.via].id)
            for company, step in zip(companies, walk.steps, strict=True)
        )
        by_category = _counts(company.category for company in companies)
        return Side(len(reached), walk.is_cut, reached, by_category, _counts(company.country for company in companies))

    def _without(self, company: Company | None, country: Country | None) -> ChokepointCompany:
        """What fails when a company is taken away, or every company of a country, or both."""
        codes = {country.alpha2} if country else set()
        gone = [node for node, c in enumerate(self._chain.companies) if c == company or c.country in codes]
        fallen = self._fallen(self._chain.slots.knock_out(gone))
        if country is None:
            assert company is not None
            return _company(company, fallen)
        name = f"{company.name} and {country.name}" if company else country.name
        return ChokepointCompany(country.alpha2, name, country.alpha2, None, len(fallen), fallen)

    def _fallen(self, failures: Sequence[Failure]) -> tuple[Fallen, ...]:
        return tuple(Fallen(self._chain.companies[f.node].id, f.round, f.slot) for f in failures)


def _company(company: Company, fallen: tuple[Fallen, ...]) -> ChokepointCompany:
    return ChokepointCompany(company.id, company.name, company.country, company.category, len(fallen), fallen)


def _listed(chokepoints: list[ChokepointCompany], total: int, *, is_cut: bool = False) -> Chokepoints:
    return Chokepoints(total, len(chokepoints), is_cut, tuple(chokepoints), CHOKEPOINT_CAVEAT)


def _counts(words: Iterable[str]) -> dict[str, int]:
    return dict(Counter(words).most_common())
