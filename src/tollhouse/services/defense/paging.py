"""What the declarations of the endpoints share: examples, from the bundled recording of 2020, terms, and pages.

Pages of an ordered list are by position, so that they stay right while the list changes.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from tollhouse.http.endpoint import JSON, endpoint
from tollhouse.http.terms import KEY_OR_AGENT

feed_endpoint = partial(endpoint, terms=KEY_OR_AGENT, tag="feeds", is_tool=True, visit_types=(JSON,))


@cache
def example(name: str) -> Any:
    raw = files("tollhouse.services.defense").joinpath("data", "examples.json").read_bytes()
    return msgspec.json.decode(raw, type=dict[str, Any])[name]


def id_parameter(prefix: str, example_id: str, digits: int = 16, name: str = "id") -> dict[str, dict[str, Any]]:
    """A path parameter that is an id: the prefix, an underscore and hexadecimal digits."""
    schema = {"type": "string", "pattern": f"^{prefix}_[0-9a-f]{{{digits}}}$"}
    return {
        name: {"description": f"The id, `{prefix}_` and {digits} hex digits", "example": example_id, "schema": schema}
    }


Item = TypeVar("Item")

# Greater values come first, equals in the order of their ids' hexadecimal digits.
Position = tuple[int, str]

Cursor = Annotated[str, Meta(pattern="^[0-9]{1,14}-[0-9a-f]{16}$")]
ABOUT_CURSOR = Meta(
    description="Where the next page begins: `next_cursor` of the page before", examples=["10000-ffffffffffffffff"]
)


# `gte`: there may be more than were counted.
TotalRelation = Literal["eq", "gte"]


class Slice(Struct, Generic[Item], frozen=True):
    """Some items of a list, how many there are in all, and where the next ones begin."""

    items: list[Item]
    total: int
    next_cursor: str | None
    total_relation: TotalRelation = "eq"


def position(value: int, identity: str) -> Position:
    """The place of an item: `identity` is a prefix, an underscore and 16 hexadecimal digits."""
    return -value, identity.rpartition("_")[2]


def read_cursor(cursor: str | None) -> tuple[int, str] | None:
    """The value and the digits of a cursor."""
    if cursor is None:
        return None
    value, _, digits = cursor.partition("-")
    return int(value), digits


def write_cursor(last: Position) -> str:
    """The cursor of the page after a position."""
    return f"{-last[0]}-{last[1]}"


def sliced(items: Sequence[Item], key: Callable[[Item], Position], cursor: str | None, limit: int) -> Slice[Item]:
    """At most `limit` of `items`, which are in the order of `key`, after the cursor's position."""
    after = read_cursor(cursor)
    start = bisect_right(items, (-after[0], after[1]), key=key) if after else 0
    shown = list(items[start : start + limit])
    if not shown or start + limit >= len(items):
        return Slice(shown, len(items), None)
    return Slice(shown, len(items), write_cursor(key(shown[-1])))
