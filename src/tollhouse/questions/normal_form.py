"""Conditions in conjunctive form: groups that must all hold, each by any of its members."""

from collections.abc import Callable
from itertools import product
from typing import TypeVar

from tollhouse.questions.query import AllOf, AnyOf, Condition, Not, Test

T = TypeVar("T")

Groups = list[tuple[T, ...]]


def groups_of(condition: Condition, of_test: Callable[[Test, bool], Groups[T]], *, negated: bool = False) -> Groups[T]:
    """The groups of a condition. `of_test` gives those of one test, or of its denial; none where it says nothing."""
    if isinstance(condition, Test):
        return of_test(condition, negated)
    if isinstance(condition, Not):
        return groups_of(condition.of, of_test, negated=not negated)
    if not isinstance(condition, AllOf | AnyOf):
        return []
    parts = [groups_of(each, of_test, negated=negated) for each in condition.of]
    if isinstance(condition, AllOf) != negated:
        return [group for part in parts for group in part]
    return [tuple(member for group in choice for member in group) for choice in product(*filter(None, parts))]
