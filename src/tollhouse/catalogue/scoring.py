"""Scoring of items by the words of a text: BM25 over weighted fields, with few reads of the index.

The best items are searched in a small choice: items with a rare word, or with a word in a field of high weight. Every
other item scores at most the sum of the remaining parts, so if all items of a page score more, the page is complete
(Turtle and Flood, "Query Evaluation: Strategies and Optimizations", 1995).
"""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

from msgspec import Struct
from tantivy import Occur, Query

from tollhouse.catalogue.index import View, stems_column

Phrase = tuple[str, ...]
Group = tuple[Phrase, ...]

# A word in this share of all items or more hardly changes a score, since BM25 rewards rarity.
UBIQUITOUS_SHARE = 0.95
# A word with this many items and this share is looked up for each match. Rarer words are read in one union, which is
# faster for them, but would read every item of a common word.
COMMON, COMMON_SHARE = 10_000, 1 / 16

# BM25 with k1 = 1.2: a word adds at most its rarity times k1 + 1. The margin covers rounding of 24-bit floats.
MAX_PER_RARITY = 2.2 * 1.001
# In a smaller catalogue all items are scored just as fast. A choice has at most this share of the rows.
LARGE, FEW_SHARE = 100_000, 1 / 3


class Ranking(Struct, frozen=True):
    """The scored items, and growing choices of them in which to search for the best.

    `rows` are the approximate numbers of rows of the choices, `rests` the maximum scores of items outside of them.
    `choice` makes the query of one.
    """

    scored: Query
    rows: tuple[int, ...] = ()
    rests: tuple[float, ...] = ()
    choice: Callable[[int], Query] | None = None


class _Part(Struct, frozen=True):
    """A part of a score: its approximate number of rows, its maximum, and whether it distinguishes items."""

    query: Query
    rows: int
    maximum: float
    is_selective: bool = True


class Scoring:
    def __init__(self, view: View) -> None:
        self._view = view
        self._fields = [(stems_column(field.name), field.weight) for field in view.schema.searched]

    def word_query(self, stemmed: str) -> Query:
        """Items with a word in a searched field, scored by BM25 and field weights."""
        return any_of([part.query for part in self._word_parts(stemmed)])

    def ranking(self, groups: Sequence[Group], matches: Query, first: Sequence[Query], required: int) -> Ranking:
        """Rank `matches`, which have at least `required` groups, by those groups; items in `first` come first."""
        parts = [part for group in groups for part in self._group_parts(group) if part.rows]
        selective = [part for part in parts if part.is_selective] or parts
        # With some but not all groups required, a choice takes as long to search as all items.
        if selective and len(self._view) > LARGE and required in (1, len(groups)):
            return self._chosen(selective, matches, first, is_any=required == 1)
        if required == 1 and len(selective) == len(parts):
            return Ranking(any_of([*(part.query for part in parts), *first]))
        return Ranking(self._scored([matches], selective, first))

    def _chosen(self, parts: Sequence[_Part], matches: Query, first: Sequence[Query], *, is_any: bool) -> Ranking:
        """Choices by part, the part with the highest score per row first."""
        best = sorted(parts, key=lambda part: part.rows / part.maximum)
        rows = list(accumulate(part.rows for part in best))
        rests = [sum(part.maximum for part in best[number:]) for number in range(1, len(best) + 1)]
        few = sum(each <= FEW_SHARE * rows[-1] for each in rows)

        def choice(number: int) -> Query:
            chosen = any_of([*(part.query for part in best[: number + 1]), *first])
            return self._scored([chosen] if is_any else [matches, chosen], parts, first)

        return Ranking(self._scored([matches], parts, first), tuple(rows[:few]), tuple(rests[:few]), choice)

    def _scored(self, conditions: Sequence[Query], selective: Sequence[_Part], first: Sequence[Query]) -> Query:
        """An item's score is bit-identical whatever is required."""
        many = max(COMMON, COMMON_SHARE * len(self._view))
        rare = [part.query for part in selective if part.rows <= many]
        unscored = [(Occur.Must, Query.const_score_query(query, 0.0)) for query in conditions]
        scored = Query.boolean_query([*unscored, *((Occur.Should, query) for query in (*rare, *first))])
        for part in selective:
            if part.rows > many:
                scored = Query.boolean_query([(Occur.Must, scored), (Occur.Should, part.query)])
        return scored

    def _group_parts(self, group: Group) -> list[_Part]:
        """The parts of a group; of several phrases the best one counts."""
        if len(group) == len(group[0]) == 1:
            return self._word_parts(group[0][0])
        parts = [[part for stemmed in phrase for part in self._word_parts(stemmed)] for phrase in group]
        phrases = [all_of([self.word_query(stemmed) for stemmed in phrase]) for phrase in group]
        return [
            _Part(
                phrases[0] if len(phrases) == 1 else Query.disjunction_max_query(phrases),
                rows=sum(part.rows for phrase in parts for part in phrase),
                maximum=max(sum(part.maximum for part in phrase) for phrase in parts),
            )
        ]

    def _word_parts(self, stemmed: str) -> list[_Part]:
        counted = [(column, weight, self._view.row_count(column, stemmed)) for column, weight in self._fields]
        nearly_all = UBIQUITOUS_SHARE * len(self._view)
        return [
            _Part(
                Query.boost_query(Query.term_query(self._view.columns, column, stemmed, index_option="freq"), weight),
                rows,
                maximum=MAX_PER_RARITY * weight * self._rarity(rows),
                is_selective=rows < nearly_all,
            )
            for column, weight, rows in counted
            if rows
        ]

    def _rarity(self, rows: int) -> float:
        """The inverse document frequency as tantivy computes it."""
        return math.log(1 + (self._view.rows_ever - rows + 0.5) / (rows + 0.5))


def all_of(queries: Sequence[Query]) -> Query:
    """Rows that match all queries (at least one), with their scores added."""
    return queries[0] if len(queries) == 1 else Query.boolean_query([(Occur.Must, query) for query in queries])


def any_of(queries: Sequence[Query]) -> Query:
    """Rows that match any query, with their scores added."""
    if len(queries) == 1:
        return queries[0]
    return Query.boolean_query([(Occur.Should, query) for query in queries]) if queries else Query.empty_query()
