"""The items of a Merchant feed's XML, read by expat with every declaration refused: no entity can expand."""

import re
from collections.abc import Iterator
from html import unescape
from xml.parsers import expat

from msgspec import Struct, field

from tollhouse.catalogue.importers.article import MAX_ARTICLES, Unreadable

_GOOGLE = "http://base.google.com/ns/1.0"
_ROOTS = frozenset({"rss", "feed", "rdf", "channel"})
_ITEMS = frozenset({"item", "entry"})
_DEEPEST = 50
_LONGEST = 400_000
_REPEATED = frozenset({"product_detail"})
_DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,300}\?>")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Members = dict[str, str]


def items_of(feed: str) -> list[tuple[int, Members]]:
    """Each item's own members by name without prefix, and the line it starts on. Raises Unreadable.

    A member in Google's namespace counts before one of RSS or Atom with the same name; members of members, such as
    the price of shipping, are not the item's.
    """
    declaration = _DECLARATION.match(feed)
    # The lines that the declaration stood on stay, so that errors name the right one.
    text = "\n" * (declaration[0].count("\n") if declaration else 0) + feed[declaration.end() if declaration else 0 :]
    reader = _Reader()
    try:
        reader.read(_FORBIDDEN.sub("", text).lstrip(" \t\r") if not declaration else _FORBIDDEN.sub("", text))
    except expat.ExpatError as error:
        raise Unreadable(f"the XML is not well-formed: {error}") from None
    return [(item.line, {**item.plain, **item.google}) for item in reader.items]


class _Item(Struct):
    line: int
    plain: Members = field(default_factory=dict)
    google: Members = field(default_factory=dict)


class _Reader:
    """Collects items while expat walks through one document. For one use."""

    def __init__(self) -> None:
        self.items: list[_Item] = []
        self._prefixes = {"g": _GOOGLE}
        self._depth = 0
        self._item_depth = 0
        self._pieces: list[str] = []
        self._length = 0
        self._parser = expat.ParserCreate("utf-8")

    def read(self, feed: str) -> None:
        """ExpatError when the text is not well-formed, Unreadable when it is no feed or declares entities."""
        parser = self._parser
        parser.buffer_text = True
        # Pretending that a DTD lies elsewhere, &nbsp; and its like are handed to us instead of ending the parse.
        parser.UseForeignDTD(True)  # noqa: FBT003 - the only way to say it
        parser.EntityDeclHandler = _refuse
        parser.AttlistDeclHandler = _refuse
        parser.SkippedEntityHandler = lambda name, _: self._text(unescape(f"&{name};"))
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.Parse(feed.encode("utf-8", "replace"), True)  # noqa: FBT003 - as above

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unreadable(f"the feed nests deeper than {_DEEPEST} elements")
        for attribute, namespace in attributes.items():
            if attribute.startswith("xmlns:"):
                self._prefixes[attribute.removeprefix("xmlns:")] = namespace
        local = name.rpartition(":")[2].lower()
        if self._depth == 1 and local not in _ROOTS:
            raise Unreadable(f"this is no Merchant feed: its outermost element is {local[:40]!r}")
        if not self._item_depth and local in _ITEMS:
            if len(self.items) >= MAX_ARTICLES:
                raise Unreadable(f"the feed has more than {MAX_ARTICLES} items")
            self.items.append(_Item(self._parser.CurrentLineNumber))
            self._item_depth = self._depth
        elif self._is_member():
            self._pieces, self._length = [], 0
            if local == "link" and attributes.get("href") and attributes.get("rel", "alternate") == "alternate":
                # Atom's way to write a link.
                self.items[-1].plain.setdefault("link", attributes["href"])

    def _is_member(self) -> bool:
        return bool(self._item_depth) and self._depth == self._item_depth + 1

    def _text(self, text: str) -> None:
        if self._item_depth and self._length < _LONGEST:
            self._pieces.append(text)
            self._length += len(text)

    def _end(self, name: str) -> None:
        if self._is_member():
            self._keep(name, "".join(self._pieces).strip())
        elif self._depth == self._item_depth:
            self._item_depth = 0
        self._depth -= 1

    def _keep(self, name: str, text: str) -> None:
        prefix, _, local = name.rpartition(":")
        if prefix and self._prefixes.get(prefix) != _GOOGLE:
            return
        members, local = self.items[-1].google if prefix else self.items[-1].plain, local.lower()
        if local in _REPEATED and local in members:
            members[local] += f",{text}"
        elif text:
            members.setdefault(local, text)


def _refuse(*_: object) -> Iterator[None]:
    raise Unreadable("the XML declares entities or attributes, which no feed needs")
