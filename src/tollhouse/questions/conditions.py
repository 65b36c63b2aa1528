"""Conditions joined, negated and looked through."""

from collections.abc import Sequence
from math import inf

from tollhouse.questions.query import AllOf, AnyOf, Condition, Not, Related, Test


def all_of(conditions: Sequence[Condition]) -> Condition:
    """Every condition; of a single one, that."""
    flat = [inner for one in conditions for inner in (one.of if isinstance(one, AllOf) else (one,))]
    return flat[0] if len(flat) == 1 else AllOf(tuple(flat))


def any_of(first: Condition, second: Condition) -> Condition:
    """Either condition; values of one attribute become one list."""
    if (
        isinstance(first, Test)
        and isinstance(second, Test)
        and first.comparison == second.comparison
        and first.comparison in {"is", "contains"}
        and first.attribute == second.attribute
    ):
        values = dict.fromkeys((*first.values, *second.values))
        return Test(first.attribute, first.comparison, tuple(values), f"{first.words}, {second.words}")
    of = [inner for one in (first, second) for inner in (one.of if isinstance(one, AnyOf) else (one,))]
    return AnyOf(tuple(of))


def named_in(condition: Condition) -> Test | None:
    """The row that a condition names, on itself or where its relations lead; None for none or several."""
    if isinstance(condition, Test):
        return condition if condition.attribute == "id" and len(condition.values) == 1 else None
    inner: tuple[Condition, ...] = ()
    if isinstance(condition, Related):
        inner = (condition.to,)
    elif isinstance(condition, AllOf | AnyOf):
        inner = condition.of
    tests = [test for one in inner if (test := named_in(one)) is not None]
    return tests[0] if len(tests) == 1 else None


def negated(condition: Condition) -> Condition:
    """The opposite of a condition; of a negated one, what it negates."""
    return condition.of if isinstance(condition, Not) else Not(condition)


def range_test(attribute: str, low: float | None, high: float | None, *, words: str) -> Condition:
    """A number from `low` to `high`, both included, where they are given."""
    tests = [] if low in {None, -inf} else [Test(attribute, "at_least", (low or 0,), words)]
    tests += [] if high in {None, inf} else [Test(attribute, "at_most", (high or 0,), words)]
    return all_of(tests)
