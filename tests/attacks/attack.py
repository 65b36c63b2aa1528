"""The table of attacks: each row is a function whose name says what must hold."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from tests.attacks.target import Target

Play = Callable[..., Awaitable[Any]]


class Attack(NamedTuple):
    """One row. `count` is the least number of attempts it makes; `closes` is the hole that it belongs to.

    `play` gets the target; with `is_joint`, also the other deployment, which has a database of its own.
    """

    kind: str
    play: Play
    count: int
    closes: str = ""
    is_joint: bool = False

    @property
    def name(self) -> str:
        return self.play.__name__


TABLE: list[Attack] = []


def attack(kind: str, count: int, *, closes: str = "", is_joint: bool = False) -> Callable[[Play], Play]:
    """Put a function into the table."""

    def put(play: Play) -> Play:
        TABLE.append(Attack(kind, play, count, closes, is_joint))
        return play

    return put


__all__ = ["TABLE", "Attack", "Target", "attack"]
