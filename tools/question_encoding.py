"""Queries as the sequences of tokens from which the parser learns."""

from collections.abc import Iterator, Sequence
from typing import Any

from tollhouse.questions.leaves import IMPLIED, Leaf, LeafType
from tollhouse.questions.plans import COMPUTED, LIMITS, OTHERS, REFUSED, NoPlan, Realiser, Token, key
from tollhouse.questions.query import (
    ALL,
    EVERYTHING,
    AllOf,
    Among,
    AnyOf,
    Call,
    Compare,
    Condition,
    Exists,
    Figure,
    Groups,
    List,
    Measure,
    Not,
    Query,
    Refusal,
    Related,
    Rows,
    Share,
    Test,
    operands,
)


def encode(query: Query | Refusal, leaves: Sequence[Leaf], before: Query | None = None) -> list[Token]:
    """The tokens of a query. Raises NoPlan where a part of it comes from no leaf."""
    if isinstance(query, Compare) and isinstance(before, Figure) and before.earlier and len(query.sides) > 1:
        for flags in (("total",), ("difference",)):
            tokens: list[Token] = ["earlier", *flags, "end"]
            if key(Realiser(tokens, before).query()) == key(query):
                return tokens
    return list(_Encoder(leaves).query(query))


class _Encoder:
    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._leaves: dict[tuple[str, Any], Leaf] = {}
        self._all = leaves
        for leaf in leaves:
            known = self._leaves.get((leaf.type, key(leaf.value)))
            if known is None or known.item == IMPLIED:
                self._leaves[leaf.type, key(leaf.value)] = leaf

    def query(self, query: Query | Refusal) -> Iterator[Token]:
        if isinstance(query, Refusal):
            reason = query.reason if query.reason in REFUSED else "unclear"
            yield f"refuse_{reason}"
        elif isinstance(query, List):
            if query.attribute is None:
                yield "list"
            else:
                yield "values"
                yield from self._attribute(query.attribute)
            yield from self._rows(query.rows)
        elif isinstance(query, Figure):
            yield "figure"
            yield from self._measure(query.measure)
            yield from self._rows(query.rows)
        elif isinstance(query, Exists):
            yield "exists"
            yield from self._rows(query.rows)
        elif isinstance(query, Groups):
            yield "groups"
            yield from self._attribute(query.by)
            yield from self._measure(query.measure)
            yield from self._options(query)
            yield from self._rows(query.rows)
        elif isinstance(query, Compare | Call):
            yield from self._with_sides(query)
        elif isinstance(query, Share):
            yield "is_every" if query.is_every else "share"
            yield from self._rows(query.part)
            yield from self._rows(query.whole)
        else:
            yield f"open_{query.form}"
            yield from self._words(query.words)
            yield from self._rows(query.rows)

    def _with_sides(self, query: Compare | Call) -> Iterator[Token]:
        if isinstance(query, Compare):
            yield "compare"
            yield from self._measure(query.measure)
            flags = {"difference": query.difference, "ascending": not query.descending, "total": query.total}
            flags |= {"yes_no": query.is_yes_no, "equal": query.equal}
            sides = query.sides
        else:
            yield "call"
            yield self._leaf("operation", query.operation)
            flags, sides = {"yes_no": query.is_yes_no}, query.rows
            if query.limit is not None:
                yield "limit"
                yield self._leaf("number", float(query.limit))
            if query.words:
                yield "text"
                yield from self._words(query.words)
        yield from sorted(name for name, is_set in flags.items() if is_set)
        yield "end"
        yield from self._sides(sides)

    def _leaf(self, of_type: LeafType, value: Any) -> Leaf:
        leaf = self._leaves.get((of_type, key(value)))
        if leaf is None:
            raise NoPlan(of_type, value)
        return leaf

    def _attribute(self, attribute: str) -> Iterator[Token]:
        first, operator, second = operands(attribute)
        is_number = second[:1].isdigit()
        if operator:
            yield "in_units" if is_number else next(name for name, sign in COMPUTED.items() if sign == operator)
        yield self._leaf("attribute", first)
        if operator and second != ALL:
            yield self._leaf("number", float(second)) if is_number else self._leaf("attribute", second)

    def _measure(self, measure: Measure) -> Iterator[Token]:
        yield measure.function
        for attribute in (measure.attribute, measure.base):
            if attribute is not None:
                yield from self._attribute(attribute)

    def _options(self, query: Groups) -> Iterator[Token]:
        if not query.descending:
            yield "ascending"
        if query.counts:
            yield "counts"
        for name in ("limit", "skip"):
            if number := getattr(query, name):
                yield name
                yield self._leaf("number", float(number))
        yield from self._limits(query, is_counted=query.measure.function == "count")
        if query.mean:
            yield "mean"
        for name in OTHERS:
            if (rows := getattr(query, name.partition("_")[0])) is not None:
                yield name
                yield from self._rows(rows)
        yield "end"

    def _limits(self, bounded: Groups | Related, *, is_counted: bool) -> Iterator[Token]:
        """The bounds by the number that the question says: at least eleven is "more than ten" where it says ten."""
        for bound in ("at_least", "at_most"):
            if (number := getattr(bounded, bound)) is None:
                continue
            names = {name: float(number - step) for name, (of, step) in LIMITS.items() if of == bound}
            said = [name for name, at in names.items() if (leaf := self._leaves.get(("number", at))) and leaf.item >= 0]
            name = said[0] if said and (is_counted or said[0] == bound) else bound
            yield name
            yield self._leaf("number", names[name])

    def _words(self, words: Sequence[str]) -> Iterator[Token]:
        for word in words:
            yield self._leaf("word", word)
        yield "end"

    def _rows(self, rows: Rows) -> Iterator[Token]:
        yield "rows"
        yield self._leaf("kind", rows.kind)
        yield from self._conditions(rows.parts if rows.where != EVERYTHING else ())
        yield "end"
        if rows.order is not None:
            leaf = self._leaves.get(("order", key(rows.order)))
            if leaf is not None:
                yield leaf
            else:
                yield "most" if rows.order.descending else "least"
                yield from self._attribute(rows.order.by)
        if rows.limit is not None:
            yield "limit"
            yield self._leaf("number", float(rows.limit))
        if rows.skip:
            yield "skip"
            yield self._leaf("number", float(rows.skip))
        yield "end"

    def _conditions(self, parts: Sequence[Condition]) -> Iterator[Token]:
        parts = list(parts)
        while parts:
            joined = next(
                (
                    (length, leaf)
                    for length in range(min(3, len(parts)), 1, -1)
                    if (leaf := self._leaves.get(("condition", key(AllOf(tuple(parts[:length])))))) is not None
                ),
                None,
            )
            if joined:
                yield joined[1]
                parts = parts[joined[0] :]
            else:
                yield from self._condition(parts.pop(0))

    def _condition(self, condition: Condition) -> Iterator[Token]:
        leaf = self._leaves.get(("condition", key(condition)))
        if leaf is not None:
            yield leaf
        elif condition == EVERYTHING:
            yield "every"
        elif isinstance(condition, Test):
            yield from self._test(condition)
        elif isinstance(condition, Not):
            yield "not"
            yield from self._condition(condition.of)
        elif isinstance(condition, AllOf | AnyOf):
            yield "all" if isinstance(condition, AllOf) else "any"
            yield from self._conditions(condition.of)
            yield "end"
        elif isinstance(condition, Among):
            yield from self._among(condition.rows)
        else:
            yield "related"
            yield self._leaf("relation", (condition.relation, condition.outgoing))
            yield from self._limits(condition, is_counted=True)
            yield "transitive" if condition.transitive else "each" if condition.every else "direct"
            for test in condition.link:
                link = self._leaves.get(("link", key(test)))
                if link is not None:
                    yield link
                elif test.comparison != "contains":
                    raise NoPlan(test)
                else:
                    yield "contains"
                    yield from self._attribute(test.attribute)
                    yield from self._words(str(test.values[0]).split())
            yield "end"
            yield from self._condition(condition.to)

    def _among(self, rows: Rows) -> Iterator[Token]:
        if rows.of is None:
            yield "among"
            yield from self._rows(rows)
            return
        if rows != Rows(rows.kind, of=Call(rows.of.operation, rows.of.rows)):
            raise NoPlan(rows)
        yield "called"
        yield self._leaf("operation", rows.of.operation)
        yield from self._sides(rows.of.rows)

    def _sides(self, sides: Sequence[Rows]) -> Iterator[Token]:
        for side in sides:
            yield "side"
            yield from self._rows(side)
        yield "end"

    def _test(self, test: Test) -> Iterator[Token]:
        if test.of_row:
            yield f"row_{test.comparison}"
            yield from self._attribute(test.attribute)
            yield self._leaf("condition", Test("id", "is", (test.of_row,)))
        elif test.comparison == "known":
            yield "known"
            yield from self._attribute(test.attribute)
        elif test.comparison in ("is", "contains") and test.values and not isinstance(test.values[0], float):
            yield from self._values(test)
        elif isinstance(test.values[0], str):
            raise NoPlan(test)
        else:
            yield test.comparison
            yield from self._attribute(test.attribute)
            yield self._leaf("number", float(test.values[0]))

    def _values(self, test: Test) -> Iterator[Token]:
        """One of several values, each of which a leaf has."""
        missing = set(test.values)
        chosen: list[Leaf] = []
        for leaf in self._all:
            value = leaf.value
            if leaf.type != "condition" or not isinstance(value, Test) or value.attribute != test.attribute:
                continue
            if value.comparison == test.comparison and value.values and set(value.values) <= missing:
                chosen.append(leaf)
                missing -= set(value.values)
        if missing and test.comparison == "contains" and len(test.values) == 1:
            yield "contains"
            yield from self._attribute(test.attribute)
            yield from self._words(str(test.values[0]).split())
            return
        if missing:
            raise NoPlan(test)
        yield "in"
        yield from chosen
        yield "end"
