"""How items are scored by a text's words: BM25 over words and weighted fields, put so that the index reads little."""

from collections.abc import Sequence

from msgspec import Struct
from tantivy import Occur, Query

from tollhouse.catalogue.columns import stems_column
from tollhouse.catalogue.index import View

Phrase = tuple[str, ...]
Group = tuple[Phrase, ...]

# A word in so large a share of all items adds next to nothing to a score: its rarity is all that BM25 rewards.
EVERYWHERE = 0.95
# A word of so many items, and of so large a share, is looked up for each item that matches. The rarer ones are read
# through together, which is quicker for them, but would read a common word's every item.
COMMON, COMMON_SHARE = 10_000, 1 / 16


class _Part(Struct, frozen=True):
    """What adds to the scores of some rows, of how many about, and whether it tells them from the others."""

    query: Query
    rows: int
    is_telling: bool = True


class Scoring:
    """Scores against one view of a catalogue."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._fields = [(stems_column(field.name), field.weight) for field in view.schema.searched]

    def of_word(self, stemmed: str) -> Query:
        """Items that have a word in a searched field, scored by BM25 and the fields' weights."""
        return any_of([part.query for part in self._of_word(stemmed)])

    def scored(self, groups: Sequence[Group], meant: Query, first: Sequence[Query], *, is_any: bool) -> Query:
        """The items of `meant`, scored by the groups, those of `first` before others.

        `is_any`: they are the items with any of the groups.
        """
        parts = [part for group in groups for part in self._of_group(group)]
        telling = [part for part in parts if part.is_telling] or parts
        if is_any and len(telling) == len(parts):
            return any_of([*(part.query for part in parts), *first])
        many = max(COMMON, COMMON_SHARE * len(self._view))
        rare = [part.query for part in telling if part.rows <= many]
        unscored = Query.const_score_query(meant, 0.0)
        scored = Query.boolean_query([(Occur.Must, unscored), *((Occur.Should, query) for query in (*rare, *first))])
        for part in telling:
            if part.rows > many:
                scored = Query.boolean_query([(Occur.Must, scored), (Occur.Should, part.query)])
        return scored

    def _of_group(self, group: Group) -> list[_Part]:
        """What a group adds to an item's score: of several readings, the best."""
        if len(group) == len(group[0]) == 1:
            return self._of_word(group[0][0])
        rows = sum(part.rows for phrase in group for stemmed in phrase for part in self._of_word(stemmed))
        read = [all_of([self.of_word(stemmed) for stemmed in phrase]) for phrase in group]
        return [_Part(read[0] if len(read) == 1 else Query.disjunction_max_query(read), rows)]

    def _of_word(self, stemmed: str) -> list[_Part]:
        held = [(column, weight, self._view.holders(column, stemmed)) for column, weight in self._fields]
        nearly_all = EVERYWHERE * len(self._view)
        return [
            _Part(Query.boost_query(self._having(column, stemmed), weight), rows, rows < nearly_all)
            for column, weight, rows in held
            if rows
        ]

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
