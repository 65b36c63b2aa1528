"""Queries in words: which rows were counted or listed, so that a reader sees how the question was read."""

import math
import re

from tollhouse.questions.execution import Tables
from tollhouse.questions.query import (
    EVERYTHING,
    AllOf,
    Among,
    AnyOf,
    Condition,
    Groups,
    Not,
    Related,
    Rows,
    Scalar,
    Test,
    operands,
)
from tollhouse.questions.vocabulary import Attribute

_COMPARISONS = {"is": "", "at_least": "at least ", "above": "above ", "at_most": "at most ", "below": "below "}


class Wording:
    """Words rows and conditions with the nouns and verbs of a service's vocabulary."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._dataset = tables.dataset

    def describe(self, rows: Rows, count: float | None) -> str:
        """The rows: "5 companies that supply NVIDIA (country Taiwan)" without its number, which is `count`."""
        relations = [part for part in _parts(rows.where) if _is_relation(part)]
        stated = "; ".join(self._condition(part, rows.kind) for part in _parts(rows.where) if not _is_relation(part))
        clauses = " and ".join(self._relation(part, is_one=count == 1) for part in relations)
        return f"{self.plural(rows.kind, count)}{f' {clauses}' if clauses else ''}{f' ({stated})' if stated else ''}"

    def remaining(self, query: Groups) -> str:
        """Which groups count, where rows beside the grouped ones say that; empty where all do."""
        by = self.noun(query.by)
        also = f", only each {by} that {self.describe(query.also, 2)} have too" if query.also is not None else ""
        without = f", without each {by} of {self.describe(query.without, 2)}" if query.without is not None else ""
        bounds = (("more than", query.above), ("less than", query.below), ("as much as", query.equal))
        bounded = (f", {words} {self.describe(rows, 2)}" for words, rows in bounds if rows is not None)
        return f"{also}{without}{''.join(bounded)}"

    def plural(self, kind: str, count: float | None) -> str:
        """The noun of a kind for this many rows."""
        noun = self._tables.kinds[kind].nouns[0]
        if count == 1:
            return noun
        return f"{noun[:-1]}ies" if re.search(r"[^aeiou]y$", noun) else f"{noun}s"

    def noun(self, attribute: str) -> str:
        """The name of an attribute, or of a number of related rows, or how it is computed."""
        first, operator, second = operands(attribute)
        if operator == "%":
            return f"percentage of all {self.noun(first)}"
        if second[:1].isdigit():
            return f"{self.noun(first)} (in {self._unit(first, float(second))})"
        if operator:
            return f"{self.noun(first)} {'minus' if operator == '-' else 'divided by'} {self.noun(second)}"
        relation, _, side = attribute.partition(".")
        if side in ("in", "out") and (declared := self._tables.relations.get(relation)):
            nouns = declared.sources if side == "in" else declared.targets
            return f"number of {nouns[0] if nouns else relation}s"
        if side == "values":
            return f"number of {relation} values"
        return next((each.nouns[0] for each in self._attributes_named(attribute) if each.nouns), attribute)

    def _unit(self, attribute: str, size: float) -> str:
        """The unit of this size in words: "million dollars"."""
        for declared in self._attributes_named(attribute):
            for unit, factor in declared.units.items():
                for word, times in (("thousand", 1e3), ("million", 1e6), ("billion", 1e9)):
                    if math.isclose(size, factor * times):
                        return f"{word} {unit}"
        return f"units of {size:g}"

    def is_time(self, kind: str, attribute: str) -> bool:
        """Whether an attribute of a kind of row is a time."""
        return any(one.name == attribute and one.type == "time" for one in self._tables.kinds[kind].attributes)

    def value(self, test: Test) -> str:
        """The values that a test names, or the labels of its rows."""
        if test.attribute != "id":
            return " or ".join(self._shown(test.attribute, value) for value in test.values)
        return next((names for kind in self._tables.kinds if (names := self._names(test, kind))), "")

    def _attributes_named(self, name: str) -> list[Attribute]:
        declared = [attribute for kind in self._tables.kinds.values() for attribute in kind.attributes]
        declared += [attribute for relation in self._tables.relations.values() for attribute in relation.link]
        return [attribute for attribute in declared if attribute.name == name]

    def _condition(self, condition: Condition, kind: str) -> str:
        if isinstance(condition, AllOf):
            return " and ".join(self._condition(each, kind) for each in condition.of)
        if isinstance(condition, AnyOf):
            return " or ".join(self._condition(each, kind) for each in condition.of)
        if isinstance(condition, Not):
            return f"not {self._condition(condition.of, kind)}"
        if isinstance(condition, Among):
            return self._chosen(condition.rows)
        return (
            self._relation(condition, is_one=False) if isinstance(condition, Related) else self._test(condition, kind)
        )

    def _chosen(self, rows: Rows) -> str:
        """Rows that an order and a limit choose: "number 2 by number of suppliers"; or that an operation finds."""
        if rows.of is not None:
            operation = next(each for each in self._dataset.declaration.operations if each.name == rows.of.operation)
            sides = " and ".join(self.describe(side, 2) for side in rows.of.rows)
            return f"found by “{operation.phrases[0]}” of {sides}"
        last = rows.skip + (rows.limit or 1)
        places = f"number {last}" if rows.skip + 1 == last else f"numbers {rows.skip + 1} to {last}"
        return f"{places} by {self.noun(rows.order.by)}" if rows.order is not None else places

    def _relation(self, condition: Condition, *, is_one: bool) -> str:
        is_negated = isinstance(condition, Not)
        related = condition.of if isinstance(condition, Not) else condition
        assert isinstance(related, Related)
        relation = self._tables.relations[related.relation]
        verbs = relation.verbs if related.outgoing or relation.symmetric else relation.inverse_verbs
        verb = verbs[0] if verbs else relation.name
        if is_negated:
            verb = f"{'does' if is_one else 'do'} not {verb}"
        elif is_one:
            verb = _third_person(verb)
        other = relation.target if related.outgoing else relation.source
        whom = self._names(related.to, other) or self.describe(Rows(other, related.to), 2)
        link = f" ({', '.join(self._test(test, '') for test in related.link)})" if related.link else ""
        through = ", directly or through others," if related.transitive else " every one of" if related.every else ""
        for words, bound in ((" at least", related.at_least), (" at most", related.at_most)):
            through += f"{words} {bound} of" if bound is not None else ""
        return f"that {verb}{through} {whom}{link}"

    def _names(self, condition: Condition, kind: str) -> str:
        """The labels of the rows that a condition names by id."""
        if not (isinstance(condition, Test) and condition.attribute == "id"):
            return ""
        rows = self._dataset.rows(kind)
        places = [self._tables.place_of(kind, str(value)) for value in condition.values]
        return " or ".join(self._dataset.label(kind, rows[place]) for place in places if place is not None)

    def _test(self, test: Test, kind: str) -> str:
        if test.attribute == "id":
            return self._names(test, kind) or "of that name"
        values = " or ".join(self._shown(test.attribute, value) for value in test.values)
        if test.of_row:
            values = f"that of {self._names(Test('id', 'is', (test.of_row,)), kind)}"
        if test.comparison == "contains":
            return f"{'text' if test.attribute in ('', 'text') else self.noun(test.attribute)} with “{values}”"
        noun = self.noun(test.attribute)
        return f"known {noun}" if test.comparison == "known" else f"{noun} {_COMPARISONS[test.comparison]}{values}"

    def _shown(self, attribute: str, value: Scalar) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        return self._dataset.display(attribute, value)


def _parts(condition: Condition) -> tuple[Condition, ...]:
    if condition == EVERYTHING:
        return ()
    return condition.of if isinstance(condition, AllOf) else (condition,)


def _is_relation(condition: Condition) -> bool:
    return isinstance(condition.of if isinstance(condition, Not) else condition, Related)


def _third_person(verb: str) -> str:
    """A verb phrase for one subject: "buy from" becomes "buys from"."""
    first, _, rest = verb.partition(" ")
    if re.search(r"[^aeiou]y$", first):
        first = f"{first[:-1]}ies"
    else:
        first += "es" if first.endswith(("s", "sh", "ch", "x", "z", "o")) else "s"
    return f"{first} {rest}".rstrip()
