"""JSON from strangers: decoded, and looked into without trusting any member's type."""

import json
from typing import Any

import msgspec

from tollhouse.catalogue.importers.article import Unreadable

Object = dict[str, Any]


def decoded(text: str) -> Any:
    """The value. Raises Unreadable when it is no JSON, or nests too deeply."""
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unreadable(str(error)[:200] or "the JSON nests too deeply") from None


def lenient(text: str) -> Any:
    """The value, where strings may hold line ends, as in many pages. Raises ValueError when it is no JSON."""
    try:
        return json.loads(text, strict=False, parse_constant=lambda _: None)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def objects(value: Any) -> list[Object]:
    """The objects of a list, of an object alone, or none."""
    found = value if isinstance(value, list) else [value]
    return [each for each in found if isinstance(each, dict)]


def text(value: Any) -> str:
    """A text, a whole number as text, or "" for anything else."""
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def texts(value: Any) -> tuple[str, ...]:
    """The texts of a list, or of one string that commas divide."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(found for found in map(text, parts) if found)
