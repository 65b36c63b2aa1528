"""The item of an id, and the items most like it: by the words of its title, and by the fields its schema names."""

from collections.abc import Iterator

from tantivy import Occur, Query

from tollhouse.catalogue import index_columns, search
from tollhouse.catalogue.field_values import Comparable
from tollhouse.catalogue.index import View
from tollhouse.catalogue.items import Item, compared
from tollhouse.catalogue.schema import RANGED, Field
from tollhouse.catalogue.term_matching import Matcher
from tollhouse.catalogue.tokens import words_asked

# Numbers within a fifth of each other are alike.
NEAR = 0.2


def by_id(view: View, identity: str) -> Item | None:
    """The item of this id, or None."""
    _, hits = view.best(_this(view, identity), 1)
    return view.item(hits[0][1]) if hits else None


def similar(view: View, matcher: Matcher, identity: str, limit: int) -> list[Item]:
    """The items most like that one, the likest first; nothing for an unknown id."""
    item = by_id(view, identity)
    if item is None or limit <= 0:
        return []
    alike = [(Occur.Should, query) for query in _likenesses(view, matcher, item)]
    if not alike:
        return []
    others = Query.boolean_query([*alike, (Occur.MustNot, _this(view, identity))])
    return search.best(view, others, limit)


def _likenesses(view: View, matcher: Matcher, item: Item) -> Iterator[Query]:
    words = words_asked(str(item.get(view.schema.title, "")))
    for stemmed in dict.fromkeys(word.stem for word in words):
        yield matcher.score(stemmed)
    for name, weight in view.schema.alike.items():
        field = view.schema.by_name[name]
        for value in compared(view.schema, item, name) if field.filtered else ():
            yield Query.boost_query(_alike(view, field, value), weight)


def _alike(view: View, field: Field, value: Comparable) -> Query:
    column = index_columns.value_column(field)
    if isinstance(value, str) or field.type not in RANGED or field.type == "timestamp":
        return Query.const_score_query(index_columns.equal(view.columns, field.type, column, value), 1.0)
    low, high = sorted((value * (1 - NEAR), value * (1 + NEAR)))
    ends = (low, high) if field.type == "number" else (round(low), round(high))
    return Query.const_score_query(index_columns.between(view.columns, field.type, column, *ends), 1.0)


def _this(view: View, identity: str) -> Query:
    return Query.term_query(view.columns, "id", identity.encode(errors="replace").decode(), index_option="basic")
