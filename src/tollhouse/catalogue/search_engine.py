"""What a catalogue's index can be asked: the interface, and the one that tantivy answers."""

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
    """What holds prepared items and finds them. Every backend must pass tests/catalogue/test_conformance.py."""

    def put(self, upserts: Iterable[Item], removals: Iterable[str] = ()) -> None:
        """Take items in, each in the place of the one with its id, and take others out."""

    def publish(self) -> None:
        """Show what was put, all at once."""

    def clear(self) -> None:
        """Take everything out."""

    def find(self, query: CatalogueQuery) -> SearchResult:
        """One page, the exact total and the facets. Raises Problem `invalid-parameter`."""

    def items(self, query: CatalogueQuery) -> Iterator[Item]:
        """Every item that matches, by id, whatever the page and the order. Raises Problem `invalid-parameter`."""

    def get(self, identity: str) -> Item | None:
        """The item of this id, or None."""

    def similar(self, identity: str, limit: int = 10) -> list[Item]:
        """The items most like that one, itself not among them; nothing for an unknown id."""

    def suggest(self, text: str, limit: int = 10) -> list[Suggestion]:
        """What the text may become when it is typed on."""

    def __len__(self) -> int: ...


class _Reading(Struct, frozen=True):
    view: View
    matcher: Matcher
    suggester: Suggester


class TantivyEngine(Engine):
    """One writer, any number of readers in other threads; a reader sees one publication as a whole."""

    def __init__(self, schema: Schema, folder: Path | None = None) -> None:
        self._schema = schema
        self._index = CatalogueIndex(schema, folder)
        self._reading = self._read()

    def put(self, upserts: Iterable[Item], removals: Iterable[str] = ()) -> None:
        """As `Engine.put`."""
        self._index.put(upserts, removals)

    def clear(self) -> None:
        """As `Engine.clear`."""
        self._index.clear()

    def publish(self) -> None:
        """As `Engine.publish`."""
        self._index.publish()
        self._reading = self._read()

    def settle(self) -> None:
        """Bring the rows into the order in which they are read fastest: worth while after a great many `put`."""
        self._index.settle()
        self._reading = self._read()

    def find(self, query: CatalogueQuery) -> SearchResult:
        """As `Engine.find`."""
        where, corrected = self._where(query)
        counts, total = facets.count_facets(where, query)
        total, items = search.read_page(where, query, total)
        if query.fields is not None:
            items = [shown_members(self._schema, item, query.fields) for item in items]
        return SearchResult(total, items, counts, corrected)

    def items(self, query: CatalogueQuery) -> Iterator[Item]:
        """As `Engine.items`; what is published meanwhile does not show."""
        where, _ = self._where(query)
        found = search.all_matches(where)
        return found if query.fields is None else (shown_members(self._schema, item, query.fields) for item in found)

    def get(self, identity: str) -> Item | None:
        """As `Engine.get`."""
        return search.get_item(self._reading.view, identity)

    def similar(self, identity: str, limit: int = 10) -> list[Item]:
        """As `Engine.similar`."""
        return search.find_similar(self._reading.view, self._reading.matcher, identity, limit)

    def suggest(self, text: str, limit: int = 10) -> list[Suggestion]:
        """As `Engine.suggest`."""
        return self._reading.suggester.suggestions(text, limit)

    def __len__(self) -> int:
        return len(self._reading.view)

    def _read(self) -> _Reading:
        view = self._index.view
        matcher = Matcher(view)
        return _Reading(view, matcher, Suggester(view, matcher))

    def _where(self, query: CatalogueQuery) -> tuple[Conditions, dict[str, str]]:
        query.check(self._schema)
        reading = self._reading
        match = None if query.text is None else reading.matcher.match(query.text, every_word=query.every_word)
        return search.build_conditions(reading.view, query, match), match.corrected if match else {}
