"""Pages of an ordered list by position, so that they stay right while the list changes."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

from msgspec import Meta, Struct

Item = TypeVar("Item")

# Greater values come first, equals in the order of their ids' hexadecimal digits.
Position = tuple[int, str]

Cursor = Annotated[str, Meta(pattern="^[0-9]{1,14}-[0-9a-f]{16}$")]
ABOUT_CURSOR = Meta(
    description="Where the next page begins: `next_cursor` of the page before", examples=["10000-ffffffffffffffff"]
)


class Slice(Struct, Generic[Item], frozen=True):
    """Some items of a list, how many there are in all, and where the next ones begin."""

    items: list[Item]
    total: int
    next_cursor: str | None


def position(value: int, identity: str) -> Position:
    """The place of an item: `identity` is a prefix, an underscore and 16 hexadecimal digits."""
    return -value, identity.rpartition("_")[2]


def sliced(items: Sequence[Item], key: Callable[[Item], Position], cursor: str | None, limit: int) -> Slice[Item]:
    """At most `limit` of `items`, which are in the order of `key`, after the cursor's position."""
    start = 0
    if cursor:
        value, _, digits = cursor.partition("-")
        start = bisect_right(items, (-int(value), digits), key=key)
    shown = list(items[start : start + limit])
    if not shown or start + limit >= len(items):
        return Slice(shown, len(items), None)
    negated, digits = key(shown[-1])
    return Slice(shown, len(items), f"{-negated}-{digits}")
