"""What a text may become when it is typed on: values of the counted fields, then titles, with a typo if need be."""

from collections.abc import Iterator, Sequence
from functools import cached_property

from tantivy import Occur
from tantivy import Query as IndexQuery

from tollhouse.catalogue import facets, index, search
from tollhouse.catalogue.index import View
from tollhouse.catalogue.query import CatalogueQuery, Suggestion, ValueCount
from tollhouse.catalogue.term_matching import Matcher
from tollhouse.catalogue.tokens import Word, query_words, text_words

# Titles of the same words are told once, so more are read than are told.
READ_AHEAD = 3
MOST = 50


class Suggester:
    """Completes texts from one view of a catalogue."""

    def __init__(self, view: View, matcher: Matcher) -> None:
        self._view = view
        self._matcher = matcher

    def suggestions(self, text: str, limit: int) -> list[Suggestion]:
        """At most `limit`, and 50: values first, then titles. Nothing for a text without a word."""
        words = query_words(text)
        limit = max(0, min(limit, MOST))
        if not words or not limit:
            return []
        found = list(self._fitting(words, limit // 2))
        titles: list[Suggestion] = []
        for distance in (0, 1):
            titles = titles or self._titles(words, limit - len(found), distance)
            if found:
                break
        return [*found, *titles]

    def _fitting(self, words: Sequence[Word], limit: int) -> Iterator[Suggestion]:
        """Values of counted keywords that have these words, the last of them begun."""
        typed = [word.raw for word in words]
        fitting = [found for found in self._values if _begins(typed, found[0])]
        ranked = sorted(fitting, key=lambda found: (-found[2].count, str(found[2].value)))
        for _, name, value in ranked[:limit]:
            yield Suggestion(str(value.value), field=name, count=value.count)

    @cached_property
    def _values(self) -> list[tuple[list[str], str, ValueCount]]:
        """Every value of the counted keywords: its words, its field, how many items have it."""
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
        """Titles with these words; `distance` letters of the last one may be wrong."""
        *whole, begun = words
        view, title = self._view, self._view.schema.title
        typed = IndexQuery.fuzzy_term_query(view.columns, index.TITLE_WORDS, begun.raw, distance=distance, prefix=True)
        parts = [(Occur.Must, typed), (Occur.Should, self._matcher.score(begun.stem))]
        if whole:
            meant = self._matcher.match(" ".join(word.raw for word in whole), every_word=True)
            parts.append((Occur.Must, meant.ranking.scored))
        told: dict[str, Suggestion] = {}
        for item in search.best_matches(view, IndexQuery.boolean_query(parts), limit * READ_AHEAD):
            if title in item:
                told.setdefault(item[title], Suggestion(item[title], id=item["id"]))
        return list(told.values())[:limit]


def _begins(typed: Sequence[str], words: Sequence[str]) -> bool:
    whole, begun = typed[:-1], typed[-1]
    return any(word.startswith(begun) for word in words) and set(whole) <= set(words)
