"""A table's items: filtered, searched, counted, one by one, like one another, and all of them as a file."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.exports import CSV, NDJSON, csv_rows, ndjson_rows
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.kept import KeptAnswers
from tollhouse.catalogue.query import Query
from tollhouse.errors import Problem
from tollhouse.gate.answering import etag_of
from tollhouse.gate.operation import JSON, Answer, Asked
from tollhouse.services.tables.answers import Suggestions
from tollhouse.services.tables.declaration import Declaration
from tollhouse.services.tables.indexing import shown
from tollhouse.services.tables.queries import Asking, SimilarQuery, SuggestQuery, applied


class Desk:
    """The operations of one table."""

    def __init__(self, declaration: Declaration, catalogue: Catalogue, asking: Asking) -> None:
        self._declaration = declaration
        self._catalogue = catalogue
        self._asking = asking
        self._kept = KeptAnswers(catalogue)
        self._rights = {"licence": declaration.licence, "source": declaration.source}

    async def items(self, asked: Asked[Any, None]) -> Answer:
        """`GET /api/items`. Raises Problem `invalid-parameter`."""
        question = ("items", msgspec.json.encode(asked.query))
        return await self._kept.answer(question, lambda: self._page(asked.query))

    async def search(self, asked: Asked[Any, None]) -> Answer:
        """`GET /api/search`. Raises Problem `invalid-parameter`."""
        question = ("search", msgspec.json.encode(asked.query))
        return await self._kept.answer(question, lambda: self._page(asked.query, asked.query.q))

    async def one(self, asked: Asked[None, None]) -> Answer:
        """`GET /api/items/{id}`. Raises Problem `not-found`."""
        return _answer({"item": self._shown(self._item(asked)), **self._rights})

    async def similar(self, asked: Asked[SimilarQuery, None]) -> Answer:
        """`GET /api/items/{id}/similar`. Raises Problem `not-found`."""
        item = self._item(asked)
        alike = [self._shown(each) for each in self._catalogue.similar(item["id"], asked.query.limit)]
        return _answer({"id": item["id"], "count": len(alike), "items": alike, **self._rights})

    async def suggest(self, asked: Asked[SuggestQuery, None]) -> Suggestions:
        """`GET /api/suggest`."""
        found = self._catalogue.suggest(asked.query.q, asked.query.limit)
        return Suggestions(asked.query.q, len(found), found)

    async def as_csv(self, asked: Asked[Any, None]) -> Answer:
        """`GET /api/items.csv`. Raises Problem `invalid-parameter`."""
        names = tuple(self._asking.members(asked.query))
        schema = self._catalogue.schema
        return await self._file(f"{CSV}; charset=utf-8", asked, lambda items: b"".join(csv_rows(schema, items, names)))

    async def as_ndjson(self, asked: Asked[Any, None]) -> Answer:
        """`GET /api/items.ndjson`. Raises Problem `invalid-parameter`."""
        return await self._file(NDJSON, asked, lambda items: b"".join(ndjson_rows(items)))

    async def as_json(self, asked: Asked[Any, None]) -> Answer:
        """`GET /api/items.json`. Raises Problem `invalid-parameter`."""

        def whole(items: Iterator[Item]) -> bytes:
            listed = list(items)
            return msgspec.json.encode({"total": len(listed), **self._rights, "items": listed})

        return await self._file(JSON, asked, whole)

    async def _page(self, query: Any, words: str | None = None) -> Answer:
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

    async def _file(self, media_type: str, asked: Asked[Any, None], make: Callable[[Iterator[Item]], bytes]) -> Answer:
        """Every item that matches, made once for as long as nothing changes."""
        question = self._asking.question(asked.query)
        names = self._asking.members(asked.query)

        async def made() -> Answer:
            # A large table takes longer to write out than the event loop should wait.
            body = await asyncio.to_thread(lambda: make(self._every(question, names)))
            return Answer(body, media_type, etag_of(body))

        return await self._kept.answer((media_type, msgspec.json.encode(asked.query)), made)

    def _every(self, question: Query, names: list[str]) -> Iterator[Item]:
        return (self._shown(item, names) for item in self._catalogue.items(question))

    def _item(self, asked: Asked[Any, None]) -> Item:
        item = self._catalogue.get(asked.path["id"])
        if item is None:
            raise Problem("not-found", "There is no item of this id.")
        return item

    def _shown(self, item: Item, names: list[str] | None = None) -> Item:
        whole = shown(self._declaration, item)
        return whole if names is None else {name: whole[name] for name in names}


def _answer(members: dict[str, Any]) -> Answer:
    body = msgspec.json.encode(members)
    return Answer(body, etag=etag_of(body))
