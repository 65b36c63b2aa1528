"""Completions of a text: values of counted fields, then titles, tolerating one typo."""

from collections.abc import Iterator, Sequence
from functools import cached_property

from tantivy import Occur
from tantivy import Query as IndexQuery

from tollhouse.catalogue import facets, index, search
from tollhouse.catalogue.index import View
from tollhouse.catalogue.query import CatalogueQuery, Suggestion, ValueCount
from tollhouse.catalogue.term_matching import Matcher
from tollhouse.catalogue.tokens import Word, query_words, text_words

# Equal titles are returned once, so more are read than returned.
READ_AHEAD = 3
MAX_SUGGESTIONS = 50


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
        typed = [word.raw for word in words]
        matching = [each for each in self._values if _matches_prefix(typed, each[0])]
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


def _matches_prefix(typed: Sequence[str], words: Sequence[str]) -> bool:
    *complete, prefix = typed
    return any(word.startswith(prefix) for word in words) and set(complete) <= set(words)
