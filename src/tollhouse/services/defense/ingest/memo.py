"""Answers worked out once: what a table of a day's repeated words, codes and places remembers."""

from collections.abc import Callable
from typing import TypeVar

MEMO_SIZE = 65536

Key = TypeVar("Key")
Value = TypeVar("Value")


class Memo(dict[Key, Value]):
    """The answers of `learn` so far: a hit is a plain dict lookup, half the cost of an lru_cache."""

    def __init__(self, learn: Callable[[Key], Value]) -> None:
        super().__init__()
        self.learn = learn

    def __missing__(self, key: Key) -> Value:
        if len(self) >= MEMO_SIZE:
            self.clear()
        value = self[key] = self.learn(key)
        return value
