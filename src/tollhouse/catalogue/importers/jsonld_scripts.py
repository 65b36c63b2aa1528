"""The JSON-LD in an HTML page, or in a file of its own, as a list of values."""

import re
from typing import Any

from tollhouse.catalogue.importers.article import Unreadable
from tollhouse.catalogue.importers.json_text import lenient

_OPENING = re.compile(r"<!--|<script\b", re.IGNORECASE)
_CLOSING = re.compile(r"</script", re.IGNORECASE)
_TYPE = re.compile(r"""type\s*=\s*["']?\s*application/ld\+json""", re.IGNORECASE)
# What old pages wrap scripts in.
_BEFORE = ("//", "<!--", "<![CDATA[")
_AFTER = ("//", "-->", "]]>", ";")
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


def values_of(page: str) -> list[Any]:
    """Every block that is JSON. Raises Unreadable when there is none."""
    stripped = page.strip()
    if stripped[:1] in {"{", "["}:
        return [_value(stripped, "the JSON-LD is malformed")]
    blocks = _blocks(page)
    if not blocks:
        raise Unreadable("the page has no JSON-LD in it")
    found, faults = [], []
    for block in blocks:
        try:
            found.append(_value(block, "a JSON-LD block is malformed"))
        except Unreadable as fault:
            faults.append(fault)
    if faults:
        # Which products it held nobody knows: a full import without them would take them away.
        raise faults[0]
    return found


def _blocks(page: str) -> list[str]:
    found, position = [], 0
    while opening := _OPENING.search(page, position):
        if opening[0] == "<!--":
            position = _after(page, "-->", opening.end())
            continue
        position = _after(page, ">", opening.end())
        closing = _CLOSING.search(page, position)
        end = closing.start() if closing else len(page)
        if _TYPE.search(page, opening.end(), position):
            found.append(page[position:end])
        position = end
    return [block for block in found if block.strip()]


def _after(page: str, mark: str, position: int) -> int:
    """Where the page goes on behind the next mark; its end where there is none."""
    found = page.find(mark, position)
    return len(page) if found < 0 else found + len(mark)


def _value(block: str, fault: str) -> Any:
    bare = block.strip()
    for mark in _BEFORE:
        bare = bare.removeprefix(mark).lstrip()
    for mark in (*_AFTER, *_AFTER):
        bare = bare.removesuffix(mark).rstrip()
    try:
        return lenient(bare)
    except ValueError:
        pass
    try:
        return lenient(_TRAILING_COMMA.sub(r"\1", bare))
    except ValueError as error:
        raise Unreadable(f"{fault}: {str(error)[:120]}") from None
