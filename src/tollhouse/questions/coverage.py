"""Whether a query has everything that its question says: words that it lost could change the answer."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from tollhouse.questions.leaves import years_of
from tollhouse.questions.linking import Item, Linker, Meaning, Role
from tollhouse.questions.normalise import language_data
from tollhouse.questions.query import ALL, COUNT, Call, Groups, Not, Open, Order, Query, Related, Rows, Test, operands

_CONTENT: tuple[Role, ...] = (
    *("kind", "attribute", "value", "range", "extreme", "unit", "verb", "party", "operation", "number", "ordinal"),
    *("time", "unavailable", "transitive", "stranded"),
)
_MULTIPLIERS = frozenset(language_data()["multipliers"])


def unread(items: Sequence[Item], query: Query, linker: Linker, before: Query | None = None) -> list[Item]:
    """The items that left no trace in the query; empty where it says all that the question says.

    An open question and an operation take their words as they are.
    """
    if isinstance(query, Open):
        return []
    known = _Parts(query, linker, items)
    lost = [item for item in items if not known.has(item)]
    return lost if before is None else [item for item in lost if _is_new(item)]


def _is_new(item: Item) -> bool:
    """After another question, a word may take its meaning from there, but not a name or a value."""
    return item.find("value", "range") is not None and item.find("kind", "attribute", "party") is None


class _Parts:
    """What a query tests, measures, orders and follows."""

    def __init__(self, query: Query, linker: Linker, items: Sequence[Item]) -> None:
        self._query = query
        self._linker = linker
        kinds = (item.find("kind") for item in items if not item.find("attribute"))
        self._said = {meaning.name for meaning in kinds if meaning is not None}
        every = list(nodes(query))
        self._tests = [node for node in every if isinstance(node, Test)]
        # "Cheaper than X" is below it.
        compared = ((test.attribute, test.comparison in ("above", "at_least")) for test in self._tests if test.of_row)
        self._compared = {} if any(isinstance(node, Not) for node in every) else dict(compared)
        self._values = {(test.attribute, _folded(value)) for test in self._tests for value in test.values}
        self._values |= {("id", test.of_row) for test in self._tests}
        self._kinds = {node.kind for node in every if isinstance(node, Rows)}
        related = [node for node in every if isinstance(node, Related)]
        self._relations = {node.relation for node in related}
        orders = {node.by for node in every if isinstance(node, Order)}
        measure, by = getattr(query, "measure", COUNT), getattr(query, "by", None)
        named = (measure.attribute, measure.base, by, getattr(query, "attribute", None))
        self._attributes = {test.attribute for test in self._tests} | orders | {name for name in named if name}
        computed = [operands(name) for name in self._attributes]
        self._attributes = {name for first, _, second in computed for name in (first, second) if name and name != ALL}
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
        self._operations = {
            operation
            for name in self._relations | (self._counts & linker.relations.keys())
            for operation in linker.relations[name].operations
        }
        self._is_transitive = any(node.transitive for node in related) or "dependence" in self._relations
        self._numbers = _numbers(query, every)
        # Of a set that is counted, its size may be said: "two of the three".
        self._is_counted = any(node.every or node.at_least is not None for node in related)

    def has(self, item: Item) -> bool:
        """Whether what a phrase says is in the query. Function words have a part in every query."""
        is_name = bool(item.meanings) and item.meanings[0].role == "value" and item.meanings[0].name == "id"
        if not is_name and (isinstance(self._query, Call) or item.find("function", "mark", "preposition")):
            return True
        # Where another word says the kind, one that can be an attribute is that: "stories with X in the headline".
        is_attribute = item.find("attribute") is not None
        content = [
            meaning
            for meaning in item.meanings
            if meaning.role in _CONTENT and not (is_attribute and meaning.role == "kind" and meaning.name in self._said)
        ]
        return not content or item.text.lower() in _MULTIPLIERS or any(self._is_realised(each) for each in content)

    def _is_realised(self, meaning: Meaning) -> bool:  # noqa: PLR0911
        role, name = meaning.role, meaning.name
        if role == "value":
            is_any = self._linker.is_text(meaning) or isinstance(meaning.value, bool)
            return (name, _folded(meaning.value)) in self._values or (name in self._attributes and is_any)
        if role in {"range", "extreme", "unit"}:
            is_turned = role == "extreme" and self._compared.get(name, bool(meaning.value)) != bool(meaning.value)
            return name in self._attributes and not is_turned
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
            return self._linker.operations[name].rows == (0, 0) or name in self._operations
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
        is_known = value == 1 or self._is_counted or any(name.endswith(f"_{value:g}") for name in self._attributes)
        return is_known or any(abs(one - number) <= 0.2 * abs(one) for one in given for number in self._numbers)


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
    limits = (
        getattr(node, name, None) for node in (query, *every) for name in ("limit", "skip", "at_least", "at_most")
    )
    return numbers | {float(value) for value in limits if isinstance(value, int | float)}


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
