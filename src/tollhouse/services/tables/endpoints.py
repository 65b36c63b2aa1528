"""Endpoints of a table: lists by filters and words, single items, similar items, suggestions, and whole-table files."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from tollhouse.catalogue.api_types import (
    AskQuery,
    ResponseCache,
    SimilarQuery,
    SuggestionsPage,
    SuggestQuery,
    check_words,
)
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.exports import CSV, NDJSON, csv_rows, ndjson_rows
from tollhouse.catalogue.items import Item
from tollhouse.errors import Problem, invalid_parameter
from tollhouse.http.endpoint import JSON, Endpoint, Example, Request, Response, endpoint, endpoints_of
from tollhouse.http.response import compute_etag, json_response
from tollhouse.http.terms import Terms, by_row
from tollhouse.services.tables.api_types import ResponseTypes, TableQueries, applied_filters
from tollhouse.services.tables.declaration import RANGED, Declaration
from tollhouse.services.tables.positions import find_position_fields, list_points
from tollhouse.services.tables.questions import TableAnswer, TableQuestions
from tollhouse.services.tables.readiness import Readiness
from tollhouse.services.tables.rows import visible_item

_NO_ITEM = "no-item-yet"
"""The example id of an empty table."""

_endpoint = partial(endpoint, "GET", tag="items", is_tool=True, visit_types=(JSON,))
_export_endpoint = partial(endpoint, "GET", tag="exports")


class TableEndpoints:
    """While the table is being indexed, lists are of the rows that are ready, say so, and are free.

    What needs every row is refused then.
    """

    def __init__(
        self, declaration: Declaration, catalogue: Catalogue, readiness: Readiness, questions: TableQuestions
    ) -> None:
        self._declaration = declaration
        self._catalogue = catalogue
        self._readiness = readiness
        self._queries = TableQueries(declaration)
        self._responses = ResponseCache(catalogue)
        self._questions = questions
        self._positions = find_position_fields(declaration)
        fields = declaration.fields.items()
        self._counted = [name for name, one in fields if one.filtered and one.exported and one.type in RANGED]
        self._rights = {"licence": declaration.licence, "source": declaration.source}

    def endpoints(self, terms: Terms, example: Item | None) -> Sequence[Endpoint]:
        """Every endpoint in the order of the description, with an example item if there is one."""
        types = ResponseTypes(self._declaration)
        sample = visible_item(self._declaration, example) if example else {}
        words = _searchable_words(self._declaration, sample)
        counted = {"facets": self._queries.facets[0]} if self._queries.facets else {}
        identity = {
            "id": {
                "description": "The item's id",
                "example": sample.get("id", _NO_ITEM),
                "schema": {"type": "string", "maxLength": 200},
            }
        }
        exported: dict[str, dict[str, Any]] = {
            f"export{ending.capitalize()}": {"query": query, "terms": by_row(terms), "count_units": self.count}
            for ending, query in self._queries.exports.items()
        }
        own: dict[str, dict[str, Any]] = {
            "listItems": {
                "query": self._queries.items,
                "responses": {JSON: types.page},
                "sample": Example(query={"limit": 5, **counted}),
            },
            "searchItems": {
                "query": self._queries.search,
                "responses": {JSON: types.search},
                "sample": Example(query={"q": words, "limit": 5}),
            },
            "getItem": {"path_parameters": identity, "responses": {JSON: types.single}},
            "listSimilarItems": {"path_parameters": identity, "responses": {JSON: types.similar}},
            "suggest": {"sample": Example(query={"q": words[:3]})},
            "ask": {"responses": {JSON: TableAnswer}, "sample": Example(query={"q": self._questions.example})},
            "listPoints": {"query": self._queries.points, "responses": {JSON: types.points}},
            "countByValue": {
                "query": self._queries.histogram,
                "path_parameters": {
                    "field": {
                        "description": "A number or a date",
                        "example": next(iter(self._counted), ""),
                        "schema": {"type": "string", "enum": self._counted},
                    }
                },
                "responses": {JSON: types.histogram},
            },
            **exported,
            "exportJson": {**exported["exportJson"], "responses": {JSON: types.whole}},
        }
        endpoints = [replace(one, **own[one.id]) for one in endpoints_of(self, terms=terms)]
        is_offered = {"listPoints": self._positions is not None, "countByValue": bool(self._counted)}
        is_exported = self._declaration.exports
        return [one for one in endpoints if is_offered.get(one.id, is_exported or one.tag != "exports")]

    @_endpoint("/api/items", id="listItems")
    async def items(self, request: Request[Any, None]) -> Response:
        """List items by filters.

        Text filters compare whole values in any case. A repeated filter matches any of its values. Facets are counted
        as if their own filter were not set.
        """
        return await self._cached(("items", msgspec.json.encode(request.query)), lambda: self._page(request.query))

    @_endpoint("/api/search", id="searchItems")
    async def search(self, request: Request[Any, None]) -> Response:
        """Search items by words, or by a description.

        Words also match with a typing error; every filter of the list works here too. A description has denials,
        comparisons, yes or no, or a superlative: `not in the cellar, under 20 euros`. Its words become filters, and
        `applied_filters.understood` shows which.
        """
        key = ("search", msgspec.json.encode(request.query))
        return await self._cached(key, lambda: self._page(request.query, request.query.q))

    @_endpoint("/api/points", id="listPoints", is_tool=False)
    async def points(self, request: Request[Any, None]) -> Response:
        """List the positions of all items that match the filters, for a map.

        Ids, latitudes and longitudes are lists of the same length. Above 20,000 positions it is an even sample.
        """
        query, positions = self._queries.catalogue_query(request.query), self._positions
        assert positions is not None, "tables without positions have no such endpoint"

        async def make() -> Response:
            total = (await self._catalogue.search(query)).total
            points = await asyncio.to_thread(lambda: list_points(positions, self._catalogue.items(query)))
            filters = applied_filters(request.query)
            return self._listed({"total": total, **points, "applied_filters": filters, **self._rights})

        return await self._cached(("points", msgspec.json.encode(request.query)), make)

    @_endpoint("/api/histogram/{field}", id="countByValue")
    async def histogram(self, request: Request[Any, None]) -> Response:
        """Count the items that match the filters by a number or a date, in at most 100 bars.

        The bars of dates are hours, days, months, years, decades or centuries. `missing` items have no value.
        """
        name = request.path["field"]
        if name not in self._counted:
            raise invalid_parameter("field", "`field` must be a number or a date of this table.", self._counted)
        query = self._queries.catalogue_query(request.query)

        async def make() -> Response:
            counted = msgspec.structs.asdict(await self._catalogue.distribution(query, name))
            filters = applied_filters(request.query)
            return self._listed({"field": name, **counted, "applied_filters": filters, **self._rights})

        return await self._cached(("histogram", name, msgspec.json.encode(request.query)), make)

    @_endpoint("/api/ask", id="ask")
    async def ask(self, request: Request[AskQuery, None]) -> Response:
        """Answer a question about the table: how many, which, average, most, share.

        The answer is computed from the rows, and `query` shows how. A question that the table cannot answer is refused
        with questions that it can, and costs nothing.
        """
        question = request.query.q
        check_words(question)
        self._readiness.require_all()

        async def answer() -> Response:
            answer = await self._questions.answer(question)
            response = json_response(self._questions.render(question, answer))
            response.is_free = answer.refusal is not None
            return response

        return await self._responses.get(("ask", question), answer)

    @_endpoint("/api/items/{id}", id="getItem")
    async def one(self, request: Request[None, None]) -> Response:
        """Get one item."""
        return json_response({"item": self._visible(self._item(request)), **self._rights})

    @_endpoint("/api/items/{id}/similar", id="listSimilarItems", sample=Example(query={"limit": 3}))
    async def similar(self, request: Request[SimilarQuery, None]) -> Response:
        """List items with a similar title and equal values."""
        item = self._item(request)
        similar = [self._visible(each) for each in self._catalogue.similar(item["id"], request.query.limit)]
        return self._listed({"id": item["id"], "count": len(similar), "items": similar, **self._rights})

    @_endpoint("/api/suggest", id="suggest")
    async def suggest(self, request: Request[SuggestQuery, None]) -> SuggestionsPage:
        """Complete typed words."""
        suggestions = self._catalogue.suggest(request.query.q, request.query.limit)
        return SuggestionsPage(request.query.q, len(suggestions), suggestions)

    @_export_endpoint("/api/items.csv", id="exportCsv", responses={CSV: {"type": "string"}})
    async def as_csv(self, request: Request[Any, None]) -> Response:
        """Download every item as CSV.

        With filters or words, every item that matches them.
        """
        names = tuple(self._queries.members(request.query))
        schema = self._catalogue.schema
        return await self._file(
            f"{CSV}; charset=utf-8", request, lambda items: b"".join(csv_rows(schema, items, names))
        )

    @_export_endpoint("/api/items.ndjson", id="exportNdjson", responses={NDJSON: {"type": "string"}})
    async def as_ndjson(self, request: Request[Any, None]) -> Response:
        """Download every item as JSON Lines.

        With filters or words, every item that matches them.
        """
        return await self._file(NDJSON, request, lambda items: b"".join(ndjson_rows(items)))

    @_export_endpoint("/api/items.json", id="exportJson")
    async def as_json(self, request: Request[Any, None]) -> Response:
        """Download every item as one JSON document.

        With filters or words, every item that matches them.
        """

        def encode(items: Iterator[Item]) -> bytes:
            listed = list(items)
            return msgspec.json.encode({"total": len(listed), **self._rights, "items": listed})

        return await self._file(JSON, request, encode)

    async def _page(self, query: Any, words: str | None = None) -> Response:
        names = self._queries.members(query)
        whole = self._queries.catalogue_query(query, limit=query.limit, offset=query.offset)
        filters = applied_filters(query)
        is_described = words is not None and self._readiness.indexing is None
        described = await self._questions.describe(words) if words and is_described else None
        if described is not None:
            whole = msgspec.structs.replace(
                whole,
                text=described.text or None,
                where=(*whole.where, *described.where),
                sort=whole.sort or described.sort,
            )
            filters["understood"] = described.understood
        result = await self._catalogue.search(whole)
        if described is not None and described.text and not result.total:
            # Words that no item has change nothing.
            result = await self._catalogue.search(msgspec.structs.replace(whole, text=None))
            filters["understood"] = {**described.understood, "unused": [described.text]}
        elif result.corrected:
            filters["understood"] = {**filters.get("understood", {}), "corrected": result.corrected}
        page: dict[str, Any] = {
            "total": result.total,
            "total_relation": "gte" if self._readiness.indexing else "eq",
            "count": len(result.items),
            "offset": query.offset,
            "limit": query.limit,
            "items": [self._visible(item, names) for item in result.items],
            "applied_filters": filters,
            **self._rights,
        }
        page |= {} if words is None else {"query": words}
        page |= {"next_cursor": result.next_cursor} if query.cursor else {}
        return self._listed(page | ({"facets": result.facets} if query.facets else {}))

    async def _cached(self, key: Hashable, make: Callable[[], Awaitable[Response]]) -> Response:
        """The response from the cache once the table is complete."""
        return await (make() if self._readiness.indexing else self._responses.get(key, make))

    def _listed(self, members: dict[str, Any]) -> Response:
        """A response made of the rows that are ready."""
        indexing = self._readiness.indexing
        if indexing is None:
            return json_response(members)
        response = json_response({**members, "indexing": indexing})
        response.cache_control, response.is_free = "no-store", True
        return response

    async def count(self, request: Request[Any, None]) -> int:
        """How many items an export has: those that match."""
        self._readiness.require_all()
        query = self._queries.catalogue_query(request.query)
        return (await self._catalogue.search(msgspec.structs.replace(query, limit=1))).total

    async def _file(
        self, media_type: str, request: Request[Any, None], encode: Callable[[Iterator[Item]], bytes]
    ) -> Response:
        """Every item that matches, encoded once until something changes."""
        self._readiness.require_all()
        query = self._queries.catalogue_query(request.query)
        names = self._queries.members(request.query)

        async def make() -> Response:
            # Encoding a large table takes longer than the event loop should wait.
            body = await asyncio.to_thread(
                lambda: encode(self._visible(item, names) for item in self._catalogue.items(query))
            )
            return Response(body, media_type, compute_etag(body))

        return await self._responses.get((media_type, msgspec.json.encode(request.query)), make)

    def _item(self, request: Request[Any, None]) -> Item:
        item = self._catalogue.get(request.path["id"])
        if item is None:
            self._readiness.require_all()
            raise Problem("not-found", "There is no item with this id.")
        return item

    def _visible(self, item: Item, names: list[str] | None = None) -> Item:
        whole = visible_item(self._declaration, item)
        return whole if names is None else {name: whole[name] for name in names}


def _searchable_words(declaration: Declaration, sample: Item) -> str:
    searched = [name for name, field in declaration.fields.items() if field.searched and field.exported]
    for name in [declaration.table.title, *searched]:
        value = sample.get(name)
        text = value[0] if isinstance(value, list) and value else value
        if name in searched and isinstance(text, str) and text.strip():
            return " ".join(text.split()[:2])[:60]
    return "word"
