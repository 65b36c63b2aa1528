"""Questions that continue the one before: "and in X?", "only the ...", "which of those ...", pronouns."""

from collections.abc import Callable, Collection, Sequence

import msgspec

from tollhouse.questions.clauses import Clauses
from tollhouse.questions.frames import Frame, Part, all_of, named_in, split
from tollhouse.questions.query import (
    EVERYTHING,
    AllOf,
    Among,
    AnyOf,
    Call,
    Compare,
    Condition,
    Figure,
    Function,
    Groups,
    List,
    Measure,
    Not,
    Query,
    Related,
    Rows,
    Share,
    Test,
)

# Words of a question's form that ask something new of the same rows.
_NEW_FORMS = {
    "how_many", "how_much", "which", "who", "where", "when", "list", "average", "median", "sum", "share", "compare",
    "per", "why", "happened", "summary", "timeline", "difference",
}  # fmt: skip


# So many figures before are kept for their sum.
MOST_EARLIER = 4
_FUNCTIONS: tuple[Function, ...] = ("average", "median", "sum")


def rows_of(query: Query) -> Rows | None:
    """The rows that a query is about; None for an operation without rows."""
    if isinstance(query, Compare):
        return query.sides[0]
    if isinstance(query, Share):
        return query.part
    if isinstance(query, Call):
        return query.rows[0] if query.rows else None
    return query.rows


def with_rows(query: Query, change: Callable[[Rows], Rows]) -> Query:
    """The same query of other rows."""
    if isinstance(query, Compare):
        return msgspec.structs.replace(query, sides=tuple(change(side) for side in query.sides))
    if isinstance(query, Share):
        return msgspec.structs.replace(query, part=change(query.part), whole=change(query.whole))
    if isinstance(query, Call):
        return msgspec.structs.replace(query, rows=tuple(change(rows) for rows in query.rows))
    return msgspec.structs.replace(query, rows=change(query.rows))


def with_earlier(query: Query, before: Query | None) -> Query:
    """The query with the figures before it, for a sum or difference of them; or with the list before it."""
    if isinstance(before, List) and isinstance(query, List):
        is_pair = before.rows.kind == query.rows.kind and before.rows.where != query.rows.where
        return msgspec.structs.replace(query, earlier=(before.rows,)) if is_pair else query
    if not isinstance(before, Figure) or not isinstance(query, Figure) or before.measure != query.measure:
        return query
    if before.rows.kind != query.rows.kind or before.rows == query.rows:
        return query
    return msgspec.structs.replace(query, earlier=(before.rows, *before.earlier)[:MOST_EARLIER])


def mentions(clauses: Clauses) -> bool:
    """Whether a question points back to the rows of the one before."""
    return clauses.before is not None and bool({"those", "both", *_NEW_FORMS} & clauses.forms.keys())


def continued(  # noqa: PLR0911
    before: Query, rows: Rows, frame: Frame, clauses: Clauses, query: Callable[[], Query | None]
) -> Query | None:
    """The query of a question after another one; a question that stands by itself is its own."""
    forms = clauses.forms.keys()
    if isinstance(before, Call) and not clauses.operations and (call := _continued_call(before, frame, clauses)):
        return call
    if not clauses.refers_back:
        changed = _changed_form(before, frame, forms)
        if changed is not None:
            return changed
        if frame.open_party is not None and not frame.is_named and not (forms & {"which", "who"}):
            return with_rows(before, lambda old: _turned(old, frame))
    excludes = bool(clauses.items) and clauses.items[0].says("without", "except", "not", "but")
    leads = "only" in forms or excludes or clauses.forms.get("what_about", 9) <= 1
    is_fragment = not frame.has_noun and frame.requested is None and not clauses.operations
    continues = is_fragment or (leads and not (forms & _NEW_FORMS) and frame.kind == rows.kind and not frame.requested)
    if not clauses.refers_back and _asks_of_rows(frame, rows):
        frame.parts = [Part(Among(rows) if rows.order and rows.limit else rows.where, "", "", 0)]
        return query()
    if _narrows(before, frame, forms) or (not clauses.refers_back and _adds_to(before, frame, clauses)):
        return with_rows(before, lambda old: override(old, frame.parts))
    if clauses.refers_back or not continues:
        return query()
    if frame.order is not None and not frame.parts:
        return List(msgspec.structs.replace(rows, order=frame.order, limit=frame.limit, skip=frame.skip))
    if forms & _NEW_FORMS and not leads:
        frame.parts = [Part(override(rows, frame.parts).where, "", "", 0)]
        return query()
    return with_rows(before, lambda old: override(old, frame.parts)) if frame.parts else query()


def _asks_of_rows(frame: Frame, rows: Rows) -> bool:
    """Whether only an attribute is asked for: "how many mentions?" after the most mentioned person."""
    meaning = frame.requested
    says_no_rows = not frame.parts and not frame.has_noun and not frame.is_named and frame.group is None
    is_narrow = rows.limit is not None or named_in(rows.where) is not None
    return meaning is not None and meaning.kind == rows.kind and says_no_rows and is_narrow and not frame.superlative


def _narrows(before: Query, frame: Frame, forms: Collection[str]) -> bool:
    """Whether a figure is asked for again of some of its rows: "only the ones in X" after a count."""
    tests = all(isinstance(part.condition, Test) and part.key != "id" for part in frame.parts)
    asks_same = isinstance(before, Figure) and before.rows.kind == frame.kind and _NEW_FORMS.isdisjoint(forms)
    return asks_same and "only" in forms and bool(frame.parts) and tests and frame.order is None


def _adds_to(before: Query, frame: Frame, clauses: Clauses) -> bool:
    """Whether the same figure is asked for with another value: "and how many battles?" after events of a country."""
    begins = bool(clauses.items) and clauses.items[0].says("and", "what_about")
    is_count = isinstance(before, Figure) and before.measure == Measure() and "how_many" in clauses.forms
    is_bare = frame.requested is None and frame.order is None and not frame.is_named and clauses.than is None
    tests = all(isinstance(part.condition, Test) and part.key != "id" for part in frame.parts)
    same = isinstance(before, Figure) and before.rows.kind == frame.kind
    return begins and is_count and is_bare and same and bool(frame.parts) and tests


def _changed_form(  # noqa: PLR0911
    before: Query, frame: Frame, forms: Collection[str]
) -> Query | None:
    """The query before with another measure, order or limit, where that is all that the question says."""
    if frame.parts or frame.has_noun or frame.is_named or frame.requested:
        return None
    if isinstance(before, List) and before.earlier and "how_many" in forms:
        before = Figure(before.rows, earlier=before.earlier)
    if isinstance(before, Figure) and before.earlier and not {"sum", "both", "difference"}.isdisjoint(forms):
        sides = (*reversed(before.earlier), before.rows)
        is_difference = "difference" in forms
        return Compare(
            sides[-2:] if is_difference or "both" in forms else sides,
            before.measure,
            is_difference,
            total=not is_difference,
        )
    if isinstance(before, Compare) and "difference" in forms:
        return msgspec.structs.replace(before, difference=True, is_yes_no=False)
    if isinstance(before, List) and "difference" in forms and before.rows.order is not None:
        sides = tuple(Rows(before.rows.kind, one) for one in split(before.rows.where))
        return Compare(sides, Measure("sum", before.rows.order.by), difference=True) if len(sides) > 1 else None
    if isinstance(before, Groups) and frame.superlative:
        limit = frame.limit or 1
        return msgspec.structs.replace(before, descending=frame.superlative != "least", limit=limit, skip=frame.skip)
    function: Function | None = next((each for each in _FUNCTIONS if each in forms), None)
    if isinstance(before, Figure) and before.measure.attribute is not None and function is not None:
        return msgspec.structs.replace(before, measure=Measure(function, before.measure.attribute))
    return None


def _continued_call(before: Call, frame: Frame, clauses: Clauses) -> Call | None:
    """The same operation for its number, or on another row: "how many?", "and from Zeiss?", "and without Samsung?"."""
    if "how_many" in clauses.forms and not frame.parts and not frame.requested:
        return before
    names = [part for part in frame.parts if part.key == "id" or isinstance(part.condition, Not)]
    if not before.rows or len(frame.parts) != 1 or not names or frame.has_noun or clauses.refers_back:
        return None
    condition = names[0].condition.of if isinstance(names[0].condition, Not) else names[0].condition
    if named_in(condition) is None:
        return None
    leading = clauses.items[names[0].at - 1] if names[0].at else None
    replaced = 0 if len(before.rows) == 1 or (leading is not None and leading.says("from")) else 1
    rows = list(before.rows)
    rows[replaced] = Rows(frame.kind, condition)
    return msgspec.structs.replace(before, rows=tuple(rows))


def override(rows: Rows, parts: Sequence[Part]) -> Rows:
    """The rows with new conditions in the place of those on the same attributes."""
    conditions: list[Condition] = list(rows.parts)
    for part in parts:
        if part.key == "id" and isinstance(part.condition, Test):
            replaced = [_renamed(condition, part.condition) for condition in conditions]
            if replaced != conditions:
                conditions = replaced
                continue
        if not part.is_negated:
            conditions = [condition for condition in conditions if _key(condition) != part.key]
        conditions.append(part.condition)
    where = all_of([condition for condition in conditions if condition != EVERYTHING])
    return msgspec.structs.replace(rows, where=where)


def _key(condition: Condition) -> str:
    """The attribute or relation that a condition is about; "" for several."""
    if isinstance(condition, Test):
        return condition.attribute
    if isinstance(condition, Related):
        return condition.relation
    if isinstance(condition, Not):
        return _key(condition.of)
    if isinstance(condition, Among):
        return "id"
    keys = {_key(inner) for inner in condition.of}
    return keys.pop() if len(keys) == 1 else ""


def _turned(rows: Rows, frame: Frame) -> Rows:
    """The rows at the other end of a relation: "and customers?" after suppliers."""
    party = frame.open_party
    assert party is not None
    conditions = rows.parts
    turned = [
        Related(party.relation, bool(party.value), condition.to) if isinstance(condition, Related) else condition
        for condition in conditions
    ]
    return msgspec.structs.replace(rows, where=all_of(turned))


def _renamed(condition: Condition, name: Test) -> Condition:
    """The condition with another named row in the place of the one that a relation leads to."""
    if isinstance(condition, Related):
        if isinstance(condition.to, Test) and condition.to.attribute == "id":
            return msgspec.structs.replace(condition, to=name)
        return msgspec.structs.replace(condition, to=_renamed(condition.to, name))
    if isinstance(condition, Not):
        return Not(_renamed(condition.of, name))
    if isinstance(condition, AllOf | AnyOf):
        return type(condition)(tuple(_renamed(inner, name) for inner in condition.of))
    return condition
