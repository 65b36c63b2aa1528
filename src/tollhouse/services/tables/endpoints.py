"""A table's items: filtered, searched, counted, one by one, like one another, and all of them as a file."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.exports import CSV, NDJSON, csv_rows, ndjson_rows
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.catalogue.response_cache import ResponseCache
from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Request, Response
from tollhouse.http.response_writer import etag_of
from tollhouse.services.tables.declaration import Declaration
from tollhouse.services.tables.queries import Asking, SimilarQuery, SuggestQuery, applied
from tollhouse.services.tables.responses import Suggestions
from tollhouse.services.tables.schema import shown


class TableEndpoints:
    """The operations of one table."""

    def __init__(self, declaration: Declaration, catalogue: Catalogue, asking: Asking) -> None:
        self._declaration = declaration
        self._catalogue = catalogue
        self._asking = asking
        self._kept = ResponseCache(catalogue)
        self._rights = {"licence": declaration.licence, "source": declaration.source}

    async def items(self, request: Request[Any, None]) -> Response:
        """`GET /api/items`. Raises Problem `invalid-parameter`."""
        question = ("items", msgspec.json.encode(request.query))
        return await self._kept.get(question, lambda: self._page(request.query))

    async def search(self, request: Request[Any, None]) -> Response:
        """`GET /api/search`. Raises Problem `invalid-parameter`."""
        question = ("search", msgspec.json.encode(request.query))
        return await self._kept.get(question, lambda: self._page(request.query, request.query.q))

    async def one(self, request: Request[None, None]) -> Response:
        """`GET /api/items/{id}`. Raises Problem `not-found`."""
        return _answer({"item": self._shown(self._item(request)), **self._rights})

    async def similar(self, request: Request[SimilarQuery, None]) -> Response:
        """`GET /api/items/{id}/similar`. Raises Problem `not-found`."""
        item = self._item(request)
        alike = [self._shown(each) for each in self._catalogue.similar(item["id"], request.query.limit)]
        return _answer({"id": item["id"], "count": len(alike), "items": alike, **self._rights})

    async def suggest(self, request: Request[SuggestQuery, None]) -> Suggestions:
        """`GET /api/suggest`."""
        found = self._catalogue.suggest(request.query.q, request.query.limit)
        return Suggestions(request.query.q, len(found), found)

    async def as_csv(self, request: Request[Any, None]) -> Response:
        """`GET /api/items.csv`. Raises Problem `invalid-parameter`."""
        names = tuple(self._asking.members(request.query))
        schema = self._catalogue.schema
        return await self._file(
            f"{CSV}; charset=utf-8", request, lambda items: b"".join(csv_rows(schema, items, names))
        )

    async def as_ndjson(self, request: Request[Any, None]) -> Response:
        """`GET /api/items.ndjson`. Raises Problem `invalid-parameter`."""
        return await self._file(NDJSON, request, lambda items: b"".join(ndjson_rows(items)))

    async def as_json(self, request: Request[Any, None]) -> Response:
        """`GET /api/items.json`. Raises Problem `invalid-parameter`."""

        def whole(items: Iterator[Item]) -> bytes:
            listed = list(items)
            return msgspec.json.encode({"total": len(listed), **self._rights, "items": listed})

        return await self._file(JSON, request, whole)

    async def _page(self, query: Any, words: str | None = None) -> Response:
        names = self._asking.members(query)
        found = await self._catalogue.search(self._asking.question(query, limit=query.limit, offset=query.offset))
        filters = applied(query)
        if found.corrected:
            filters["understood"] = {"corrected": found.corrected}
        page: dict[str, Any] = {
            "total": found.total,
            "count": len(found.items),
            "offset": query.offset,
            "limit": query.limit,
            "items": [self._shown(item, names) for item in found.items],
            "applied_filters": filters,
            **self._rights,
        }
        page |= {} if words is None else {"query": words}
        return _answer(page | ({"facets": found.facets} if query.facets else {}))

    async def _file(
        self, media_type: str, request: Request[Any, None], make: Callable[[Iterator[Item]], bytes]
    ) -> Response:
        """Every item that matches, made once for as long as nothing changes."""
        question = self._asking.question(request.query)
        names = self._asking.members(request.query)

        async def made() -> Response:
            # A large table takes longer to write out than the event loop should wait.
            body = await asyncio.to_thread(lambda: make(self._every(question, names)))
            return Response(body, media_type, etag_of(body))

        return await self._kept.get((media_type, msgspec.json.encode(request.query)), made)

    def _every(self, question: CatalogueQuery, names: list[str]) -> Iterator[Item]:
        return (self._shown(item, names) for item in self._catalogue.items(question))

    def _item(self, request: Request[Any, None]) -> Item:
        item = self._catalogue.get(request.path["id"])
        if item is None:
            raise Problem("not-found", "There is no item of this id.")
        return item

    def _shown(self, item: Item, names: list[str] | None = None) -> Item:
        whole = shown(self._declaration, item)
        return whole if names is None else {name: whole[name] for name in names}


def _answer(members: dict[str, Any]) -> Response:
    body = msgspec.json.encode(members)
    return Response(body, etag=etag_of(body))
