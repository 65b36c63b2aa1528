"""JSON from untrusted sources: decoding, and access that trusts no member's type."""

import json
from typing import Any

import msgspec

from tollhouse.catalogue.importers.items import UnreadableFeed

Object = dict[str, Any]


def decode_json(text: str) -> Any:
    """The value. Raises UnreadableFeed when it is not JSON, or nests too deeply."""
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableFeed(str(error)[:200] or "the JSON nests too deeply") from None


def decode_lenient_json(text: str) -> Any:
    """The value, where strings may contain line ends, as in many pages. Raises ValueError when it is not JSON."""
    try:
        return json.loads(text, strict=False, parse_constant=lambda _: None)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def objects(value: Any) -> list[Object]:
    """The objects in a list, a single object as a list, or none."""
    entries = value if isinstance(value, list) else [value]
    return [each for each in entries if isinstance(each, dict)]


def text(value: Any) -> str:
    """A text, a whole number as text, or "" for anything else."""
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def texts(value: Any) -> tuple[str, ...]:
    """The texts of a list, or of one string divided by commas."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(part for part in map(text, parts) if part)
