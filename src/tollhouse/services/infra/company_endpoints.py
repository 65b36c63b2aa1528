"""Companies and categories: lists, search, one company, and the whole catalogue."""

from tollhouse.errors import Problem, invalid_parameter
from tollhouse.http.endpoint import Request
from tollhouse.services.infra.company import Category, Company
from tollhouse.services.infra.countries import Country, find_country, near_countries
from tollhouse.services.infra.queries import CompaniesQuery, Filters, SearchQuery
from tollhouse.services.infra.responses import Categories, CategoryCount, CompaniesPage, CompanyDetail, SearchPage
from tollhouse.services.infra.search import CompanySearch
from tollhouse.services.infra.supply_graph import Chain


class CompanyEndpoints:
    """The operations that answer with companies."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._search = CompanySearch(chain)

    async def products(self, request: Request[CompaniesQuery, None]) -> CompaniesPage:
        """One page of the companies that fit. Raises Problem `invalid-parameter` for an unknown category or country."""
        query = request.query
        found = self._fitting(query.q, query)
        page = found[query.offset : query.offset + query.limit]
        return CompaniesPage(len(found), len(page), query.offset, query.limit, tuple(page))

    async def search(self, request: Request[SearchQuery, None]) -> SearchPage:
        """As `products`, for words that must be there."""
        query = request.query
        if not query.q.strip():
            raise invalid_parameter("q", "`q` must hold a word to look for.")
        found = self._fitting(query.q, query)
        page = found[query.offset : query.offset + query.limit]
        return SearchPage(query.q, len(found), len(page), query.offset, query.limit, tuple(page))

    async def categories(self, _asked: Request[None, None]) -> Categories:
        """Every category with its number of companies."""
        counts = [
            CategoryCount(
                category.id,
                category.name,
                sum(company.category == category.id for company in self._chain.companies),
                category.order,
            )
            for category in self._chain.categories
        ]
        return Categories(len(counts), tuple(counts))

    async def one(self, request: Request[None, None]) -> CompanyDetail:
        """One company and its edges. Raises Problem `not-found` with near matches."""
        company = company_at(self._chain, request.path["id"])
        return CompanyDetail(company, tuple(self._chain.into(company.id)), tuple(self._chain.out_of(company.id)))

    def _fitting(self, q: str | None, filters: Filters) -> list[Company]:
        given = {"brand": filters.brand, "category": filters.category}
        categories = {self._category_named(name, text).id for name, text in given.items() if text}
        country = country_named(filters.country)
        found = self._search.search_companies(q) if q and q.strip() else self._chain.companies
        return [
            company
            for company in found
            if categories <= {company.category} and (country is None or company.country == country.alpha2)
        ]

    def _category_named(self, parameter: str, text: str) -> Category:
        category = self._chain.names.category(text)
        if category is None:
            near = self._chain.names.near_categories(text) or [category.id for category in self._chain.categories]
            raise invalid_parameter(parameter, "There is no category of that name or id.", near)
        return category


def company_at(chain: Chain, text: str) -> Company:
    """The company of a path. Raises Problem `not-found` with near matches in `allowed`."""
    company = chain.names.company(text)
    if company is None:
        raise Problem(
            "not-found",
            "There is no company of that id, name, ticker or alias.",
            parameter="id",
            allowed=chain.names.near_companies(text),
        )
    return company


def company_named(chain: Chain, parameter: str, text: str) -> Company:
    """The company of a query parameter. Raises Problem `invalid-parameter` with near matches in `allowed`."""
    company = chain.names.company(text)
    if company is None:
        detail = "There is no company of that id, name, ticker or alias."
        raise invalid_parameter(parameter, detail, chain.names.near_companies(text))
    return company


def country_named(text: str | None) -> Country | None:
    """The country of a query parameter. Raises Problem `invalid-parameter` with near matches in `allowed`."""
    if text is None:
        return None
    country = find_country(text)
    if country is None:
        raise invalid_parameter("country", "There is no country of that name or code.", near_countries(text))
    return country
