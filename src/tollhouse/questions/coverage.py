"""Whether a query has everything that its question says: words that it lost could change the answer."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from tollhouse.questions.leaves import years_of
from tollhouse.questions.linking import NEGATIONS, Item, Linker, Meaning, Role
from tollhouse.questions.normalise import language_data
from tollhouse.questions.query import (
    ALL,
    COUNT,
    EVERYTHING,
    Call,
    Compare,
    Figure,
    Groups,
    List,
    Not,
    Open,
    Order,
    Query,
    Related,
    Rows,
    Share,
    Test,
    operands,
    rows_in,
)
from tollhouse.questions.spelling import TYPO_COST

_CONTENT: tuple[Role, ...] = (
    *("kind", "attribute", "value", "range", "extreme", "unit", "verb", "party", "operation", "number", "ordinal"),
    *("time", "unavailable", "transitive", "stranded"),
)
# A question with more conditions is none that a person asks.
MOST_PARTS = 80
SHORTEST_MISSPELT_NAME = 5
_COMPARED = ("comparative_more", "comparative_less", "difference")
_MULTIPLIERS = frozenset(language_data()["multipliers"])
_ORDERED = ("most", "least", "top", "bottom", "latest", "earliest")


def unread(items: Sequence[Item], query: Query, linker: Linker, before: Query | None = None) -> tuple[str, ...]:
    """The words that left no trace in the query; empty where it says all that the question says.

    An open question and an operation take their words as they are.
    """
    if isinstance(query, Open):
        return ()
    known = _Parts(query, linker, items)
    lost = [item for place, item in enumerate(items) if not known.has(item, _following(items, place))]
    return tuple(item.text for item in lost) if before is None else tuple(item.text for item in lost if _is_new(item))


def _is_new(item: Item) -> bool:
    """After another question, a word may take its meaning from there, but not a name or a value."""
    return item.find("value", "range") is not None and item.find("kind", "attribute", "party") is None


def is_plausible(query: Query) -> bool:  # noqa: PLR0911
    """Whether anyone would ask for it: not for the number of rows that are named, or a named row among itself.

    Nor for what joins rows with themselves, or compares them. No operation is asked for of all rows together: "whose
    failure would stop the most others?" orders them.
    """
    if sum(1 for _ in nodes(query)) > MOST_PARTS or _joins_same(query):
        return False
    if isinstance(query, Call):
        return all(rows.where != EVERYTHING or rows.order is not None for rows in query.rows)
    if isinstance(query, Compare):
        named = [rows.is_named for rows in query.sides]
        if len({rows.kind for rows in query.sides}) == 1 and any(
            rows.where == EVERYTHING and rows.order is None for rows in query.sides
        ):
            return False
        if query.measure == COUNT and not all(named) and any(_is_one_row(rows) for rows in query.sides):
            return False
        return query.measure != COUNT or all(named) or not any(named)
    if isinstance(query, Share):
        return not query.is_every or query.part.where not in (EVERYTHING, query.whole.where)
    if isinstance(query, Groups) and query.rows in (query.without, query.also):
        return False
    rows = query.rows if isinstance(query, List | Figure | Groups) else None
    if rows is None:
        return True
    if isinstance(query, Figure) and query.measure == COUNT and _is_one_row(rows):
        return False
    parts = rows.parts
    names = [part for part in parts if isinstance(part, Test) and part.attribute == "id"]
    return not any(isinstance(part, Related) and is_open(part, name) for name in names for part in parts)


def _joins_same(query: Query) -> bool:
    sides = rows_in(query)
    return isinstance(query, Call | Compare) and len(set(sides)) < len(sides)


def is_open(related: Related, name: Test) -> bool:
    """Whether a relation leads to no certain rows, or back to the row that is named."""
    if isinstance(related.to, Related):
        return is_open(related.to, name)
    return related.to == EVERYTHING or (isinstance(related.to, Test) and related.to.values == name.values)


def _is_one_row(rows: Rows) -> bool:
    """Whether a row is named, with or without further conditions."""
    parts = rows.parts
    return any(isinstance(part, Test) and part.attribute == "id" and len(part.values) == 1 for part in parts)


def _following(items: Sequence[Item], place: int) -> Item | None:
    return items[place + 1] if place + 1 < len(items) else None


class _Parts:
    """What a query tests, measures, orders and follows."""

    def __init__(self, query: Query, linker: Linker, items: Sequence[Item]) -> None:
        self._query = query
        self._linker = linker
        kinds = (item.find("kind") for item in items if not item.find("attribute"))
        self._said = {meaning.name for meaning in kinds if meaning is not None}
        every = list(nodes(query))
        self._tests = [node for node in every if isinstance(node, Test)]
        self._values = {(test.attribute, _folded(value)) for test in self._tests for value in test.values}
        self._values |= {("id", test.of_row) for test in self._tests}
        self._kinds = {node.kind for node in every if isinstance(node, Rows)}
        related = [node for node in every if isinstance(node, Related)]
        self._relations = {node.relation for node in related}
        self._orders = [node for node in every if isinstance(node, Order)]
        self._attributes = {test.attribute for test in self._tests} | {order.by for order in self._orders}
        measure, by = getattr(query, "measure", COUNT), getattr(query, "by", None)
        self._function = measure.function
        named = (measure.attribute, measure.base, by, getattr(query, "attribute", None))
        self._attributes |= {name for name in named if name}
        computed = [operands(name) for name in self._attributes]
        is_compared = any(second and second != ALL and not second[0].isdigit() for _, _, second in computed)
        self._is_change = measure.base is not None or is_compared
        self._is_part = any(second == ALL for _, _, second in computed)
        self._attributes = {name for first, _, second in computed for name in (first, second) if name}
        counted = {name.partition(".")[0] for name in self._attributes if "." in name}
        self._relations |= counted & linker.relations.keys()
        self._attributes |= counted - linker.relations.keys()
        for name in self._relations:
            self._kinds |= {linker.relations[name].source, linker.relations[name].target}
            if name in linker.link_kinds:
                self._kinds.add(linker.link_kinds[name].name)
        self._counts = {
            attribute.rows_of
            for kind in linker.declaration.kinds
            for attribute in kind.attributes
            if attribute.name in self._attributes and attribute.rows_of
        }
        self._operations = {node.operation for node in every if isinstance(node, Call)}
        for name in self._relations | {counted for counted in self._counts if counted in linker.relations}:
            self._operations.update(linker.relations[name].operations)
        self._is_transitive = any(node.transitive for node in related) or "dependence" in self._relations
        # Two denials can say the same as none.
        self._denies = (
            sum(item.says(*NEGATIONS) for item in items) > 1
            or getattr(query, "without", None) is not None
            or any(isinstance(node, Not) for node in every)
            or any(
                test.comparison in ("at_most", "below", "at_least") or test.values in ((False,), (0.0,))
                for test in self._tests
            )
        )
        self._numbers = _numbers(query, every)
        self._is_counted = any(node.every or node.at_least is not None for node in related)
        contained = (test.values for test in self._tests if test.comparison == "contains")
        self._words = {word for values in contained for value in values for word in _folded(value).split()}

    def has(self, item: Item, following: Item | None) -> bool:  # noqa: C901, PLR0911
        """Whether what a phrase says is in the query."""
        if isinstance(self._query, Call) and not self._is_name(item):
            return True
        if self._is_change and item.says("increase", "decrease", *_COMPARED):
            return True
        # Where another word says the kind, one that can be an attribute is that: "stories with X in the headline".
        is_attribute = item.find("attribute") is not None
        content = [
            meaning
            for meaning in item.meanings
            if meaning.role in _CONTENT and not (is_attribute and meaning.role == "kind" and meaning.name in self._said)
        ]
        if item.find("preposition") and not self._is_name(item):
            return True
        if item.cost >= TYPO_COST and len(item.text) <= SHORTEST_MISSPELT_NAME and self._is_text_only(content):
            return False
        if item.text.casefold() in self._words or (self._words and item.says("about")):
            return True
        if any(self._is_realised(meaning) for meaning in content) or item.text.lower() in _MULTIPLIERS:
            return True
        is_misspelt = " " not in item.text and item.cost >= TYPO_COST and item.says("filler") and not content
        if is_misspelt and following is not None and following.find("kind", "party", "attribute", "value"):
            return False
        if item.says("about") and self._function == "count" and self._is_foreign(item):
            return False
        functions = [meaning.name for meaning in item.meanings if meaning.role in {"function", "mark"}]
        if item.says("ahead", "runner_up", "increase", "decrease") and not item.says("than", "except"):
            return isinstance(self._query, Compare) or self._is_change
        if functions and not self._is_name(item):
            return self._is_function_kept(item, following)
        return not content

    def _is_text_only(self, content: Sequence[Meaning]) -> bool:
        """Whether a phrase is nothing but words of a text: a short one may be another name that is misspelt."""
        return bool(content) and all(self._linker.is_text(meaning) for meaning in content)

    def _is_foreign(self, item: Item) -> bool:
        """Whether an attribute is meant that none of the rows has."""
        kinds = [meaning.kind for meaning in item.meanings if meaning.role == "attribute"]
        return bool(kinds) and self._kinds.isdisjoint(kinds)

    @staticmethod
    def _is_name(item: Item) -> bool:
        meaning = item.meanings[0] if item.meanings else None
        return meaning is not None and meaning.role == "value" and meaning.name == "id"

    def _is_realised(self, meaning: Meaning) -> bool:  # noqa: PLR0911
        role, name = meaning.role, meaning.name
        if role == "value":
            is_any = self._linker.is_text(meaning) or isinstance(meaning.value, bool)
            return (name, _folded(meaning.value)) in self._values or (name in self._attributes and is_any)
        if role in {"range", "extreme", "unit"}:
            return name in self._attributes
        if role in {"verb", "party", "stranded"}:
            relation = self._linker.relations[meaning.relation]
            is_grouped = isinstance(self._query, Groups) and not self._kinds.isdisjoint(
                (relation.source, relation.target)
            )
            # A verb without its preposition belongs to no rows but its own: "keep running" is no edge.
            is_other = role == "stranded" and self._kinds.isdisjoint((relation.source,))
            return is_grouped or is_other or meaning.relation in self._relations or name in self._counts
        if role == "attribute":
            return name in self._attributes or name in self._kinds
        if role == "kind":
            implied = all((key, _folded(value)) in self._values for key, value in meaning.value or ())
            return implied and (name in self._kinds or name in self._counts or name in self._attributes)
        if role == "time":
            is_whole = meaning.value.since is None and meaning.value.until is None
            is_year = not self._numbers.isdisjoint(years_of(meaning.value))
            return is_whole or is_year or any(_is_time(value) for test in self._tests for value in test.values)
        if role == "number":
            return self._has_number(float(meaning.value))
        if role == "ordinal":
            return meaning.value == 1 or meaning.value - 1 in self._numbers
        if role == "operation":
            is_of_data = self._linker.operations[name].rows == (0, 0)
            return isinstance(self._query, Call) or is_of_data or name in self._operations
        return role == "transitive" and self._is_transitive

    def _has_number(self, value: float) -> bool:
        factors = {
            float(factor)
            for kind in self._linker.declaration.kinds
            for attribute in kind.attributes
            for factor in attribute.units.values()
        }
        given = {value * factor * scale for factor in {*factors, 1.0} for scale in (1, 1e3, 1e6, 1e9)}
        if isinstance(self._query, Groups):
            given |= {value - 1, value + 1}
        # Of a set that is counted, its size may be said: "two of the three".
        if self._is_counted or any(name.endswith(f"_{value:g}") for name in self._attributes):
            return True
        return value == 1 or any(abs(one - number) <= 0.2 * abs(one) for one in given for number in self._numbers)

    def _is_function_kept(self, item: Item, following: Item | None) -> bool:  # noqa: PLR0911
        query = self._query
        if item.says("filler", "common", "also", "exists"):
            return True
        if item.says("average", "median"):
            return self._function in {"average", "median"} or getattr(self._query, "mean", False)
        if item.says("share"):
            return isinstance(query, Share) or self._is_change or self._is_part
        if item.says(*_ORDERED) and not item.says("filler", "all", "latest", "earliest"):
            return (
                bool(self._orders) or isinstance(query, Groups | Compare) or self._function in {"smallest", "largest"}
            )
        if item.says(*_COMPARED):
            if following is not None and following.says("about"):
                return True
            compared = any(test.comparison != "is" for test in self._tests) or bool(self._orders)
            return compared or isinstance(query, Compare | Groups)
        if item.says("how_much") and isinstance(query, List):
            weight = self._linker.kinds[query.rows.kind].weight
            is_number = weight is not None and self._linker.attribute_named(query.rows.kind, weight) is not None
            return query.attribute is not None or query.rows.order is not None or not query.rows.is_named or is_number
        if item.says("how_many") and item.text.lower() != "counts":
            return not (isinstance(query, List) and query.attribute is None and not query.rows.order)
        if item.says(*NEGATIONS) and following is not None and not item.says("or_more", "or_less"):
            is_minus = item.says("without") and (getattr(query, "difference", False) or bool(self._operations))
            return self._denies or is_minus
        return True


def nodes(value: Any) -> Iterator[Struct]:
    """Every part of a query."""
    if isinstance(value, Struct):
        yield value
        for name in value.__struct_fields__:
            yield from nodes(getattr(value, name))
    elif isinstance(value, tuple):
        for inner in value:
            yield from nodes(inner)


def _numbers(query: Query, every: Sequence[Struct]) -> set[float]:
    numbers = {
        float(value)
        for node in every
        if isinstance(node, Test)
        for value in node.values
        if isinstance(value, int | float)
    }
    for node in (query, *every):
        for name in ("limit", "skip", "at_least", "at_most"):
            value = getattr(node, name, None)
            if isinstance(value, int | float):
                numbers.add(float(value))
    return numbers


def _folded(value: Any) -> str:
    return str(value).casefold()


def _is_time(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
