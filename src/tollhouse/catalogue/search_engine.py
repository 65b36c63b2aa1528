"""The search engine of a catalogue, with tantivy."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct
from tantivy import Document, Occur
from tantivy import Query as IndexQuery

from tollhouse.catalogue import facets, index, search
from tollhouse.catalogue.distribution import count_bars
from tollhouse.catalogue.index import View
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.query import CatalogueQuery, Distribution, SearchResult, Suggestion, ValueCount
from tollhouse.catalogue.schema import Schema
from tollhouse.catalogue.search import Conditions
from tollhouse.catalogue.term_matching import Matcher
from tollhouse.catalogue.tokens import Word, query_words, text_words
from tollhouse.storage.shared_index import SharedIndex

# Equal titles are returned once, so more are read than returned.
READ_AHEAD = 3
MAX_SUGGESTIONS = 50


class _Snapshot(Struct, frozen=True):
    view: View
    matcher: Matcher
    suggester: "Suggester"


class TantivyEngine:
    """Stores prepared items and searches them. Every engine must pass tests/catalogue/test_conformance.py.

    One writer, any number of readers in other threads. A reader sees one publication consistently. The index is in
    memory, or in `folder`, where other processes may use it too: a `SharedIndex`.
    """

    def __init__(self, schema: Schema, folder: Path | None = None) -> None:
        self._schema = schema
        self._columns = index.build_index_schema(schema)
        # Segments are sorted by id, so that equal rows come in order of id.
        self.index = SharedIndex(
            folder, self._columns, layout=index.layout(schema), tokenizers=index.TOKENIZERS, sort_by="id"
        )
        self._snapshot = self._take_snapshot()

    def put(self, upserts: Iterable[Item], removals: Iterable[str] = (), *, are_new: bool = False) -> None:
        """Insert prepared items, replacing those with the same id unless they `are_new`, and remove others."""
        writer = self.index.writer
        for identity in removals:
            writer.delete_documents_by_term("id", index.text_place(identity))
        for item in upserts:
            # The writer needs more than a kilobyte of memory per removal until it commits.
            if not are_new:
                writer.delete_documents_by_term("id", index.text_place(item["id"]))
            writer.add_document(Document.from_dict(index.index_row(self._schema, item), self._columns))

    def clear(self) -> None:
        self.index.clear()

    def publish(self, about: bytes = b"") -> None:
        """Make all changes since the last call visible at once."""
        self.index.publish(about)
        self._snapshot = self._take_snapshot()

    def reload(self) -> None:
        self.index.reload()
        if self._snapshot.view.searcher is not self.index.searcher:
            self._snapshot = self._take_snapshot()

    def tidy(self) -> None:
        """Show segments that were merged in the meantime."""
        if self.index.tidy():
            self._snapshot = self._take_snapshot()

    def merge_segments(self) -> None:
        """Merge index segments for faster searches. Useful after many rows."""
        self.index.merge_segments()
        self._snapshot = self._take_snapshot()

    def find(self, query: CatalogueQuery) -> SearchResult:
        """One page, the exact total and the facets. Raises Problem `invalid-parameter`."""
        where, corrected = self._where(query)
        counts, total = facets.count_facets(where, query)
        total, items, cursor = search.read_page(where, query, total)
        return SearchResult(total, items, counts, corrected, cursor)

    def distribution(self, query: CatalogueQuery, field: str) -> Distribution:
        """The matching items by a filtered number or time. Raises Problem `invalid-parameter`."""
        where, _ = self._where(query)
        return count_bars(where, self._schema.by_name[field])

    def items(self, query: CatalogueQuery) -> Iterator[Item]:
        """Every match in one publication, by id, ignoring page and order, for exports; later changes do not show.

        Raises Problem `invalid-parameter`.
        """
        where, _ = self._where(query)
        return search.all_matches(where)

    def get(self, identity: str) -> Item | None:
        return search.get_item(self._snapshot.view, identity)

    def similar(self, identity: str, limit: int = 10) -> list[Item]:
        """The items most similar to this one, without itself; empty for an unknown id."""
        return search.find_similar(self._snapshot.view, self._snapshot.matcher, identity, limit)

    def suggest(self, text: str, limit: int = 10) -> list[Suggestion]:
        return self._snapshot.suggester.suggestions(text, limit)

    def __len__(self) -> int:
        return len(self._snapshot.view)

    def _take_snapshot(self) -> _Snapshot:
        view = View(self._schema, self._columns, self.index.searcher)
        matcher = Matcher(view)
        return _Snapshot(view, matcher, Suggester(view, matcher))

    def _where(self, query: CatalogueQuery) -> tuple[Conditions, dict[str, str]]:
        query.check(self._schema)
        snapshot = self._snapshot
        match = None if query.text is None else snapshot.matcher.match(query.text, every_word=query.every_word)
        return search.build_conditions(snapshot.view, query, match), match.corrected if match else {}


class Suggester:
    """Completes texts from one view of a catalogue."""

    def __init__(self, view: View, matcher: Matcher) -> None:
        self._view = view
        self._matcher = matcher

    def suggestions(self, text: str, limit: int) -> list[Suggestion]:
        """At most `limit` (and 50) completions, values first. Empty for a text without a word."""
        words = query_words(text)
        limit = max(0, min(limit, MAX_SUGGESTIONS))
        if not words or not limit:
            return []
        values = list(self._value_suggestions(words, limit // 2))
        titles: list[Suggestion] = []
        for distance in (0, 1):
            titles = titles or self._titles(words, limit - len(values), distance)
            if values:
                break
        return [*values, *titles]

    def _value_suggestions(self, words: Sequence[Word], limit: int) -> Iterator[Suggestion]:
        """Values of counted keywords with these words; the last word is a prefix."""
        *complete, prefix = (word.raw for word in words)
        matching = [
            each
            for each in self._values
            if any(word.startswith(prefix) for word in each[0]) and set(complete) <= set(each[0])
        ]
        ranked = sorted(matching, key=lambda each: (-each[2].count, str(each[2].value)))
        for _, name, value in ranked[:limit]:
            yield Suggestion(str(value.value), field=name, count=value.count)

    @cached_property
    def _values(self) -> list[tuple[list[str], str, ValueCount]]:
        """Words, field and count of every value of the counted keywords."""
        offered = self._view.schema.by_name.values()
        names = tuple(field.name for field in offered if field.faceted and field.type in ("keyword", "keywords"))
        everything = search.build_conditions(self._view, CatalogueQuery(), None)
        counted, _ = facets.count_facets(everything, CatalogueQuery(facets=names))
        return [
            (text_words(str(value.value)), name, value)
            for name, values in counted.items()
            if isinstance(values, list)
            for value in values
        ]

    def _titles(self, words: Sequence[Word], limit: int, distance: int) -> list[Suggestion]:
        """Titles with these words; the last one may have `distance` typos."""
        *complete, prefix = words
        view, title = self._view, self._view.schema.title
        typed = IndexQuery.fuzzy_term_query(view.columns, index.TITLE_WORDS, prefix.raw, distance=distance, prefix=True)
        parts = [(Occur.Must, typed), (Occur.Should, self._matcher.score(prefix.stem))]
        if complete:
            match = self._matcher.match(" ".join(word.raw for word in complete), every_word=True)
            parts.append((Occur.Must, match.ranking.scored))
        by_title: dict[str, Suggestion] = {}
        for item in search.best_matches(view, IndexQuery.boolean_query(parts), limit * READ_AHEAD):
            if title in item:
                by_title.setdefault(item[title], Suggestion(item[title], id=item["id"]))
        return list(by_title.values())[:limit]
