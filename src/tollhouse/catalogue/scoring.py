"""How items are scored by a text's words: BM25 over words and weighted fields, put so that the index reads little.

The best of many items are looked for among few: those that have a rare word, or have it where it weighs most. Every
other item scores at most the sum of what the remaining parts can add, so a page on which all score more is the page of
all items (Turtle and Flood, "Query Evaluation: Strategies and Optimizations", 1995).
"""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

from msgspec import Struct
from tantivy import Occur, Query

from tollhouse.catalogue.index import View, stems_column

Phrase = tuple[str, ...]
Group = tuple[Phrase, ...]

# A word in so large a share of all items adds next to nothing to a score: its rarity is all that BM25 rewards.
EVERYWHERE = 0.95
# A word of so many items, and of so large a share, is looked up for each item that matches. The rarer ones are read
# through together, which is quicker for them, but would read a common word's every item.
COMMON, COMMON_SHARE = 10_000, 1 / 16

# The index's BM25 has k1 = 1.2: no word adds more to a score than its rarity by k1 + 1. Scores are floats of 24 bits.
MOST_BY_RARITY = 2.2 * 1.001
# In a smaller catalogue all items are scored as soon as a choice of them; and no more than this share is a choice.
LARGE, FEW_SHARE = 100_000, 1 / 3


class Ranking(Struct, frozen=True):
    """Items scored, and smaller choices of them in which the best may be found, each a part of the next.

    Of each choice: about how many rows it has, and what no item beside it scores more than. `choice` makes its query.
    """

    scored: Query
    rows: tuple[int, ...] = ()
    rests: tuple[float, ...] = ()
    choice: Callable[[int], Query] | None = None


class _Part(Struct, frozen=True):
    """What adds to the scores of some rows: of how many about, at most how much, and whether it tells them apart."""

    query: Query
    rows: int
    most: float
    is_telling: bool = True


class Scoring:
    """Scores against one view of a catalogue."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._fields = [(stems_column(field.name), field.weight) for field in view.schema.searched]

    def of_word(self, stemmed: str) -> Query:
        """Items that have a word in a searched field, scored by BM25 and the fields' weights."""
        return any_of([part.query for part in self._of_word(stemmed)])

    def ranking(self, groups: Sequence[Group], meant: Query, first: Sequence[Query], wanted: int) -> Ranking:
        """The items of `meant`, which have so many of the groups, scored by these, those of `first` before others."""
        parts = [part for group in groups for part in self._of_group(group) if part.rows]
        telling = [part for part in parts if part.is_telling] or parts
        # Which items have some of the groups, whichever, takes as long to tell of a choice as of all.
        if telling and len(self._view) > LARGE and wanted in (1, len(groups)):
            return self._chosen(telling, meant, first, is_any=wanted == 1)
        if wanted == 1 and len(telling) == len(parts):
            return Ranking(any_of([*(part.query for part in parts), *first]))
        return Ranking(self._scored([meant], telling, first))

    def _chosen(self, parts: Sequence[_Part], meant: Query, first: Sequence[Query], *, is_any: bool) -> Ranking:
        """The first choice has the part that adds the most for its rows, each further choice the next such part."""
        best = sorted(parts, key=lambda part: part.rows / part.most)
        rows = list(accumulate(part.rows for part in best))
        rests = [sum(part.most for part in best[number:]) for number in range(1, len(best) + 1)]
        few = sum(each <= FEW_SHARE * rows[-1] for each in rows)

        def choice(number: int) -> Query:
            chosen = any_of([*(part.query for part in best[: number + 1]), *first])
            return self._scored([chosen] if is_any else [meant, chosen], parts, first)

        return Ranking(self._scored([meant], parts, first), tuple(rows[:few]), tuple(rests[:few]), choice)

    def _scored(self, required: Sequence[Query], telling: Sequence[_Part], first: Sequence[Query]) -> Query:
        """The same items score the same, to the bit, whatever is required of them."""
        many = max(COMMON, COMMON_SHARE * len(self._view))
        rare = [part.query for part in telling if part.rows <= many]
        unscored = [(Occur.Must, Query.const_score_query(query, 0.0)) for query in required]
        scored = Query.boolean_query([*unscored, *((Occur.Should, query) for query in (*rare, *first))])
        for part in telling:
            if part.rows > many:
                scored = Query.boolean_query([(Occur.Must, scored), (Occur.Should, part.query)])
        return scored

    def _of_group(self, group: Group) -> list[_Part]:
        """What a group adds to an item's score: of several readings, the best."""
        if len(group) == len(group[0]) == 1:
            return self._of_word(group[0][0])
        parts = [[part for stemmed in phrase for part in self._of_word(stemmed)] for phrase in group]
        read = [all_of([self.of_word(stemmed) for stemmed in phrase]) for phrase in group]
        return [
            _Part(
                read[0] if len(read) == 1 else Query.disjunction_max_query(read),
                rows=sum(part.rows for phrase in parts for part in phrase),
                most=max(sum(part.most for part in phrase) for phrase in parts),
            )
        ]

    def _of_word(self, stemmed: str) -> list[_Part]:
        held = [(column, weight, self._view.holders(column, stemmed)) for column, weight in self._fields]
        nearly_all = EVERYWHERE * len(self._view)
        return [
            _Part(
                Query.boost_query(self._having(column, stemmed), weight),
                rows,
                most=MOST_BY_RARITY * weight * self._rarity(rows),
                is_telling=rows < nearly_all,
            )
            for column, weight, rows in held
            if rows
        ]

    def _rarity(self, rows: int) -> float:
        """The inverse document frequency, as the index reckons it."""
        return math.log(1 + (self._view.rows_ever - rows + 0.5) / (rows + 0.5))

    def _having(self, column: str, stemmed: str) -> Query:
        return Query.term_query(self._view.columns, column, stemmed, index_option="freq")


def all_of(queries: Sequence[Query]) -> Query:
    """The rows of all queries, which are not none, their scores added."""
    return queries[0] if len(queries) == 1 else Query.boolean_query([(Occur.Must, query) for query in queries])


def any_of(queries: Sequence[Query]) -> Query:
    """The rows of any query, their scores added."""
    if len(queries) == 1:
        return queries[0]
    return Query.boolean_query([(Occur.Should, query) for query in queries]) if queries else Query.empty_query()
