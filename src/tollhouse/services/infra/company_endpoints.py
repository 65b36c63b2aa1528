"""Endpoints for companies: lists, search, categories, and one company with its edges."""

from typing import Any

from tollhouse.errors import Problem, invalid_parameter
from tollhouse.http.endpoint import JSON, Endpoint, Example, Request
from tollhouse.http.terms import FREE
from tollhouse.services.infra.api_types import (
    Categories,
    CategoryCount,
    CompaniesPage,
    CompaniesQuery,
    CompanyDetail,
    Filters,
    SearchPage,
    SearchQuery,
)
from tollhouse.services.infra.company import Category, Company
from tollhouse.services.infra.countries import Country, find_country, near_countries
from tollhouse.services.infra.supply_graph import SupplyGraph

COMPANY_ID: dict[str, dict[str, Any]] = {
    "id": {
        "description": "A company: its id, name, ticker or alias, in any case",
        "example": "nvidia",
        "schema": {"type": "string", "maxLength": 200},
    }
}
_NO_COMPANY = "No company has this id, name, ticker or alias."


class CompanyEndpoints:
    """Handlers for companies and categories."""

    def __init__(self, graph: SupplyGraph) -> None:
        self._graph = graph

    async def list_companies(self, request: Request[CompaniesQuery, None]) -> CompaniesPage:
        """`GET /api/products`. Raises Problem `invalid-parameter` for an unknown category or country."""
        query = request.query
        companies = self._matching(query.q, query)
        page = companies[query.offset : query.offset + query.limit]
        return CompaniesPage(len(companies), len(page), query.offset, query.limit, tuple(page))

    async def search(self, request: Request[SearchQuery, None]) -> SearchPage:
        """`GET /api/search`. Raises Problem `invalid-parameter`, also for a `q` without a word."""
        query = request.query
        if not query.q.strip():
            raise invalid_parameter("q", "`q` must contain at least one word.")
        companies = self._matching(query.q, query)
        page = companies[query.offset : query.offset + query.limit]
        return SearchPage(query.q, len(companies), len(page), query.offset, query.limit, tuple(page))

    async def categories(self, _request: Request[None, None]) -> Categories:
        """`GET /api/retailers`."""
        counts = [
            CategoryCount(
                category.id,
                category.name,
                sum(company.category == category.id for company in self._graph.companies),
                category.order,
            )
            for category in self._graph.categories
        ]
        return Categories(len(counts), tuple(counts))

    async def get(self, request: Request[None, None]) -> CompanyDetail:
        """`GET /api/companies/{id}`. Raises Problem `not-found` with near matches."""
        company = company_in_path(self._graph, request.path["id"])
        return CompanyDetail(company, tuple(self._graph.into(company.id)), tuple(self._graph.out_of(company.id)))

    def _matching(self, q: str | None, filters: Filters) -> list[Company]:
        given = {"brand": filters.brand, "category": filters.category}
        categories = {self._category(name, text).id for name, text in given.items() if text}
        country = country_parameter(filters.country)
        companies = self._graph.search(q) if q and q.strip() else self._graph.companies
        return [
            company
            for company in companies
            if categories <= {company.category} and (country is None or company.country == country.alpha2)
        ]

    def _category(self, parameter: str, text: str) -> Category:
        category = self._graph.names.category(text)
        if category is None:
            near = self._graph.names.near_categories(text) or [category.id for category in self._graph.categories]
            raise invalid_parameter(parameter, "No category has this name or id.", near)
        return category

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The declarations."""
        return (
            Endpoint(
                id="listCompanies",
                method="GET",
                path="/api/products",
                summary="List companies of the value chain",
                description="Filter by words, category and country. The path and the parameter `brand` have the names "
                "of a product service; `category` is the same filter as `brand`.",
                handler=self.list_companies,
                terms=FREE,
                query=CompaniesQuery,
                responses={JSON: CompaniesPage},
                tag="companies",
                is_tool=True,
                sample=Example(query={"category": "packaging_test", "limit": 5}),
            ),
            Endpoint(
                id="searchCompanies",
                method="GET",
                path="/api/search",
                summary="Search companies in words",
                handler=self.search,
                terms=FREE,
                query=SearchQuery,
                responses={JSON: SearchPage},
                tag="companies",
                is_tool=True,
                sample=Example(query={"q": "hbm", "limit": 5}),
            ),
            Endpoint(
                id="listCategories",
                method="GET",
                path="/api/retailers",
                summary="List categories of the value chain",
                handler=self.categories,
                terms=FREE,
                responses={JSON: Categories},
                tag="companies",
                is_tool=True,
            ),
            Endpoint(
                id="getCompany",
                method="GET",
                path="/api/companies/{id}",
                summary="Get a company with its edges",
                handler=self.get,
                terms=FREE,
                path_parameters=COMPANY_ID,
                responses={JSON: CompanyDetail},
                tag="companies",
                is_tool=True,
            ),
        )


def company_in_path(graph: SupplyGraph, text: str) -> Company:
    """The company that a path names. Raises Problem `not-found` with near matches in `allowed`."""
    company = graph.names.company(text)
    if company is None:
        raise Problem("not-found", _NO_COMPANY, parameter="id", allowed=graph.names.near_companies(text))
    return company


def company_parameter(graph: SupplyGraph, parameter: str, text: str) -> Company:
    """The company that a query parameter names. Raises Problem `invalid-parameter` with near matches in `allowed`."""
    company = graph.names.company(text)
    if company is None:
        raise invalid_parameter(parameter, _NO_COMPANY, graph.names.near_companies(text))
    return company


def country_parameter(text: str | None) -> Country | None:
    """The country that `country` names. Raises Problem `invalid-parameter` with near matches in `allowed`."""
    if text is None:
        return None
    country = find_country(text)
    if country is None:
        raise invalid_parameter("country", "No country has this name or code.", near_countries(text))
    return country
