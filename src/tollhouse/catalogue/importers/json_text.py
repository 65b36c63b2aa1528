"""JSON from untrusted sources: decoding, and access that trusts no member's type."""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.items import UnreadableFeed

Object = dict[str, Any]

# The parts of a document may not be larger.
_LONGEST_PART = 16 * 1024 * 1024
_NO_SPACE = re.compile(r"[^ \t\n\r]")
# Finds where a value ends, and nothing else: `decode_json` says whether it is one, and what it is.
_SCANNER = json.JSONDecoder(strict=False, parse_float=str, parse_int=str, parse_constant=str)
# A fault so close to the end of a text may be nothing but its end: a word or an escape sequence that is cut.
_LONGEST_WORD = 16
_ENDS = (*" \t\n\r,:]}",)
_UNTERMINATED = "Unterminated string"


class JsonPart(Struct, frozen=True):
    """The text of one value of a document: an element of a list, or a member of the outermost object.

    `member` is the name of the member; None where the outermost value is no object. A list is given as "[]", and then
    by its elements.
    """

    member: str | None
    text: str
    is_element: bool = False


def json_parts(pieces: Iterable[str], lists: Collection[str] = ()) -> Iterator[JsonPart]:
    """The parts of a document that comes in pieces. Of the members, `lists` are those given by their elements.

    Raises UnreadableFeed where the text is not JSON between its parts, and for a part that is too large.
    """
    document = _JsonText(iter(pieces))
    match document.next_sign():
        case "{":
            document.skip("{")
            while document.next_sign() == '"':
                name = decode_json(document.value())
                document.skip(":")
                if name in lists and document.next_sign() == "[":
                    yield from _elements(document, name)
                else:
                    yield JsonPart(name, document.value())
                if document.next_sign() != ",":
                    break
                document.skip(",", before='"')
            document.skip("}")
        case "[":
            yield from _elements(document, None)
        case _:
            yield JsonPart(None, document.value())
    document.skip("")


def document_parts(document: Document, lists: Collection[str] = ()) -> Iterator[JsonPart]:
    """The same of a document, which is read piece by piece."""
    return json_parts(document.pieces()(), lists)


def _elements(document: "_JsonText", member: str | None) -> Iterator[JsonPart]:
    yield JsonPart(member, "[]")
    document.skip("[")
    while document.next_sign() != "]":
        yield JsonPart(member, document.value(), is_element=True)
        if document.next_sign() != ",":
            break
        document.skip(",")
        if document.next_sign() == "]":
            raise document.fault("a value is missing")
    document.skip("]")


class _JsonText:
    """A text of which the part that is being read is in memory. For one use."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._text = ""
        self._at = 0
        self._passed = 0

    def next_sign(self) -> str:
        """The next sign that is no space, "" at the end."""
        while True:
            if sign := _NO_SPACE.search(self._text, self._at):
                self._at = sign.start()
                return sign[0]
            self._at = len(self._text)
            if not self._read_on():
                return ""

    def skip(self, sign: str, before: str = "") -> None:
        """Go on behind this sign, which is the next one; "" is the end. Raises UnreadableFeed."""
        if self.next_sign() != sign:
            raise self.fault(f"{sign!r} is missing" if sign else "something follows the end")
        self._at += len(sign)
        if before and self.next_sign() != before:
            raise self.fault(f"{before!r} is missing")

    def value(self) -> str:
        """The text of the next value, and go on behind it. Raises UnreadableFeed."""
        while True:
            self.next_sign()
            start, end, fault = self._at, 0, None
            try:
                _, end = _SCANNER.raw_decode(self._text, start)
            except json.JSONDecodeError as error:
                fault = error
            except RecursionError:
                raise self.fault("it nests too deeply") from None
            # A number goes on up to a sign that ends it.
            if fault is None:
                is_cut = self._text[end : end + 1] not in _ENDS and self._is_at_end(end)
            else:
                is_cut = fault.msg.startswith(_UNTERMINATED) or self._is_at_end(fault.pos)
            if is_cut and len(self._text) - start <= _LONGEST_PART and self._read_on():
                continue
            if (end or len(self._text)) - start > _LONGEST_PART:
                raise UnreadableFeed(f"a part of the JSON has more than {_LONGEST_PART} characters")
            if fault is not None:
                self._at = fault.pos
                raise self.fault(fault.msg)
            self._at = end
            return self._text[start:end]

    def fault(self, reason: str) -> UnreadableFeed:
        """What is wrong at this place."""
        return UnreadableFeed(f"JSON is malformed: {reason} (character {self._passed + self._at + 1})")

    def _is_at_end(self, position: int) -> bool:
        return position >= len(self._text.rstrip(" \t\n\r")) - _LONGEST_WORD

    def _read_on(self) -> bool:
        """Read as much again as there is to be read. False at the end of the document."""
        parts, length = [self._text[self._at :]], 0
        while length <= len(parts[0]) and (piece := next(self._pieces, "")):
            parts.append(piece)
            length += len(piece)
        if length:
            self._passed += self._at
            self._text, self._at = "".join(parts), 0
        return length > 0


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
