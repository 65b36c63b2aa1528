"""The search engine interface of a catalogue, and its implementation with tantivy."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from tollhouse.catalogue import facets, search
from tollhouse.catalogue.index import CatalogueIndex, View
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.items import visible_members as shown_members
from tollhouse.catalogue.query import CatalogueQuery, SearchResult, Suggestion
from tollhouse.catalogue.schema import Schema
from tollhouse.catalogue.search import Conditions
from tollhouse.catalogue.suggestions import Suggester
from tollhouse.catalogue.term_matching import Matcher


class Engine(Protocol):
    """Stores prepared items and searches them. Every engine must pass tests/catalogue/test_conformance.py."""

    def put(self, upserts: Iterable[Item], removals: Iterable[str] = ()) -> None:
        """Insert items, replacing those with the same id, and remove others."""

    def publish(self) -> None:
        """Make all changes visible at once."""

    def clear(self) -> None:
        """Remove everything."""

    def find(self, query: CatalogueQuery) -> SearchResult:
        """One page, the exact total and the facets. Raises Problem `invalid-parameter`."""

    def items(self, query: CatalogueQuery) -> Iterator[Item]:
        """Every match ordered by id, ignoring page and order. Raises Problem `invalid-parameter`."""

    def get(self, identity: str) -> Item | None:
        """The item with this id, or None."""

    def similar(self, identity: str, limit: int = 10) -> list[Item]:
        """The items most similar to this one, without itself; empty for an unknown id."""

    def suggest(self, text: str, limit: int = 10) -> list[Suggestion]:
        """Completions of the text."""

    def __len__(self) -> int: ...


class _Snapshot(Struct, frozen=True):
    view: View
    matcher: Matcher
    suggester: Suggester


class TantivyEngine(Engine):
    """One writer, any number of readers in other threads. A reader sees one publication consistently."""

    def __init__(self, schema: Schema, folder: Path | None = None) -> None:
        self._schema = schema
        self._index = CatalogueIndex(schema, folder)
        self._snapshot = self._take_snapshot()

    def put(self, upserts: Iterable[Item], removals: Iterable[str] = ()) -> None:
        """As `Engine.put`."""
        self._index.put(upserts, removals)

    def clear(self) -> None:
        """As `Engine.clear`."""
        self._index.clear()

    def publish(self) -> None:
        """As `Engine.publish`."""
        self._index.publish()
        self._snapshot = self._take_snapshot()

    def merge_segments(self) -> None:
        """Merge index segments for faster searches. Useful after many rows."""
        self._index.merge_segments()
        self._snapshot = self._take_snapshot()

    def find(self, query: CatalogueQuery) -> SearchResult:
        """As `Engine.find`."""
        where, corrected = self._where(query)
        counts, total = facets.count_facets(where, query)
        total, items = search.read_page(where, query, total)
        if query.fields is not None:
            items = [shown_members(self._schema, item, query.fields) for item in items]
        return SearchResult(total, items, counts, corrected)

    def items(self, query: CatalogueQuery) -> Iterator[Item]:
        """As `Engine.items`, over one publication."""
        where, _ = self._where(query)
        found = search.all_matches(where)
        return found if query.fields is None else (shown_members(self._schema, item, query.fields) for item in found)

    def get(self, identity: str) -> Item | None:
        """As `Engine.get`."""
        return search.get_item(self._snapshot.view, identity)

    def similar(self, identity: str, limit: int = 10) -> list[Item]:
        """As `Engine.similar`."""
        return search.find_similar(self._snapshot.view, self._snapshot.matcher, identity, limit)

    def suggest(self, text: str, limit: int = 10) -> list[Suggestion]:
        """As `Engine.suggest`."""
        return self._snapshot.suggester.suggestions(text, limit)

    def __len__(self) -> int:
        return len(self._snapshot.view)

    def _take_snapshot(self) -> _Snapshot:
        view = self._index.view
        matcher = Matcher(view)
        return _Snapshot(view, matcher, Suggester(view, matcher))

    def _where(self, query: CatalogueQuery) -> tuple[Conditions, dict[str, str]]:
        query.check(self._schema)
        snapshot = self._snapshot
        match = None if query.text is None else snapshot.matcher.match(query.text, every_word=query.every_word)
        return search.build_conditions(snapshot.view, query, match), match.corrected if match else {}
