"""Google Merchant feeds, as RSS or Atom with `g:` members and as tab-separated text: the same attributes in both.

XML is read by expat with every declaration refused: no entity can expand.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from decimal import Decimal
from html import unescape
from typing import Any
from xml.parsers import expat

from msgspec import Struct, field
from msgspec.structs import replace

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.formats.csv import read_csv
from tollhouse.catalogue.importers.items import (
    Context,
    FeedItem,
    FeedItemError,
    Price,
    StreamedItems,
    UnreadableFeed,
    description_text,
    item_or_fault,
    sale_price,
)
from tollhouse.catalogue.importers.mapping import plain_name
from tollhouse.catalogue.importers.registry import Format, register
from tollhouse.catalogue.importers.tables import RefusedRow, Row
from tollhouse.catalogue.importers.values import availability, feed_money
from tollhouse.html_text import one_line

_REQUIRED = ("id", "title")
_GOOGLE = "http://base.google.com/ns/1.0"
_ROOTS = frozenset({"rss", "feed", "rdf", "channel"})
_ITEMS = frozenset({"item", "entry"})
_MAX_DEPTH = 50
_MAX_TEXT = 400_000
_MAX_ITEM = 4_000_000
_MAX_TAG = 16 * 1024 * 1024
_REPEATED = frozenset({"product_detail"})
_DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,300}\?>")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Members = dict[str, str]


def read_merchant_xml(documents: list[Document], context: Context) -> Iterable[FeedItem]:
    """Every `item` or `entry`, by the line it starts on, read anew in each iteration."""
    pieces = documents[0].pieces()
    return StreamedItems(lambda: (_item(line, members, context) for line, members in _xml_items(pieces())))


def read_merchant_tsv(documents: list[Document], context: Context) -> Iterable[FeedItem]:
    """Every row under the header, by the line it starts on; those of a large file are read anew in each iteration."""
    table = read_csv(documents, replace(context, mapping=replace(context.mapping, delimiter="\t")))
    columns = [plain_name(column).replace(" ", "_") for column in table.columns]
    if missing := next((name for name in _REQUIRED if name not in columns), ""):
        raise UnreadableFeed(f"the header has no column {missing!r}")

    def item(row: Row | RefusedRow) -> FeedItem:
        if isinstance(row, RefusedRow):
            return FeedItem(line=row.line, id=str(row.cells[0]).strip(), fault=row.reason)
        return _item(row.line, dict(zip(columns, row.cells, strict=True)), context)

    return StreamedItems(lambda: map(item, table.records()))


def _item(line: int, members: Members, context: Context) -> FeedItem:
    texts = {name: value.strip() for name, value in members.items()}
    # `product_detail` is "Comfort:Firmness:Medium", several divided by commas.
    details = [detail.split(":") for detail in texts.get("product_detail", "").split(",")]
    pairs = [("material", texts.get("material", "")), *((part[-2], part[-1]) for part in details if len(part) > 1)]
    common: dict[str, Any] = {
        "line": line,
        "id": texts.get("id", ""),
        "group": texts.get("item_group_id", ""),
        "variant": texts.get("id", ""),
        "title": one_line(texts.get("title", "")),
        "brand": one_line(texts.get("brand", "")),
        "description": description_text(texts.get("description", "")),
        "category": one_line(texts.get("product_type", "")),
        "size": one_line(texts.get("size", "")),
        "attributes": tuple((name.strip(), value.strip()) for name, value in pairs if value.strip()),
        "image_url": texts.get("image_link", ""),
        "page_url": context.page(texts.get("link", "")),
    }
    return item_or_fault(
        common, lambda: {"price": _price(texts), "availability": availability(texts.get("availability", ""))}
    )


def _price(texts: Members) -> Price:
    """`price` is the list price, `sale_price` what is to be paid in a sale; both must be in one currency."""
    if not texts.get("price"):
        raise FeedItemError("has no price")
    listed, currency = feed_money(texts["price"])
    sale: Decimal | None = None
    if texts.get("sale_price"):
        sale, sale_currency = feed_money(texts["sale_price"], "sale_price")
        if currency and sale_currency and currency != sale_currency:
            raise FeedItemError(f"the price is in {currency} and the sale_price in {sale_currency}")
        currency = currency or sale_currency
    return sale_price(listed, sale, currency)


def _xml_items(pieces: Iterable[str]) -> Iterator[tuple[int, Members]]:
    """Each item's own members by name without prefix, and the line it starts on. Raises UnreadableFeed.

    A member in Google's namespace counts before one of RSS or Atom with the same name; members of members, such as
    the price of shipping, are not the item's.
    """
    reader = _XmlReader()
    try:
        for number, piece in enumerate(pieces):
            reader.read(_FORBIDDEN.sub("", piece if number else _without_declaration(piece)))
            while reader.finished:
                item = reader.finished.popleft()
                yield item.line, {**item.plain, **item.google}
        reader.end()
    except expat.ExpatError as error:
        raise UnreadableFeed(f"the XML is not well-formed: {error}") from None


def _without_declaration(beginning: str) -> str:
    """The lines that the declaration stood on stay, so that errors name the right one."""
    declaration = _DECLARATION.match(beginning)
    if declaration is None:
        return beginning.lstrip(" \t\r")
    return "\n" * declaration[0].count("\n") + beginning[declaration.end() :]


class _Item(Struct):
    line: int
    plain: Members = field(default_factory=dict)
    google: Members = field(default_factory=dict)


class _XmlReader:
    """Collects items while expat walks through one document. For one use."""

    def __init__(self) -> None:
        self.finished: deque[_Item] = deque()
        self._item = _Item(0)
        self._prefixes = {"g": _GOOGLE}
        self._depth = 0
        self._item_depth = 0
        self._pieces: list[str] = []
        self._length = 0
        self._item_length = 0
        self._size = 0
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        # Pretending that a DTD lies elsewhere, &nbsp; and its like are reported instead of ending the parse.
        parser.UseForeignDTD(True)  # noqa: FBT003 - the only way to say it
        parser.EntityDeclHandler = _refuse
        parser.AttlistDeclHandler = _refuse
        parser.SkippedEntityHandler = lambda name, _: self._text(unescape(f"&{name};"))
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text

    def read(self, piece: str) -> None:
        """ExpatError when the text is not well-formed, UnreadableFeed when it is not a feed or declares entities."""
        encoded = piece.encode("utf-8", "replace")
        self._parser.Parse(encoded, False)  # noqa: FBT003 - as above
        self._size += len(encoded)
        if self._size - self._parser.CurrentByteIndex > _MAX_TAG:
            raise UnreadableFeed(f"a tag or a comment has more than {_MAX_TAG} bytes")

    def end(self) -> None:
        """ExpatError when something is missing."""
        self._parser.Parse(b"", True)  # noqa: FBT003 - as above

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise UnreadableFeed(f"the feed nests deeper than {_MAX_DEPTH} elements")
        for attribute, namespace in attributes.items():
            if attribute.startswith("xmlns:"):
                self._prefixes[attribute.removeprefix("xmlns:")] = namespace
        local = name.rpartition(":")[2].lower()
        if self._depth == 1 and local not in _ROOTS:
            raise UnreadableFeed(f"this is not a Merchant feed: its outermost element is {local[:40]!r}")
        if not self._item_depth and local in _ITEMS:
            self._item = _Item(self._parser.CurrentLineNumber)
            self._item_depth, self._item_length = self._depth, 0
        elif self._is_member():
            self._pieces, self._length = [], 0
            if local == "link" and attributes.get("href") and attributes.get("rel", "alternate") == "alternate":
                # Atom's way to write a link.
                self._item.plain.setdefault("link", attributes["href"])

    def _is_member(self) -> bool:
        return bool(self._item_depth) and self._depth == self._item_depth + 1

    def _text(self, text: str) -> None:
        if self._item_depth and self._length < _MAX_TEXT:
            self._pieces.append(text)
            self._length += len(text)
            self._item_length += len(text)
            if self._item_length > _MAX_ITEM:
                raise UnreadableFeed(f"line {self._item.line}: the item has more than {_MAX_ITEM} characters")

    def _end(self, name: str) -> None:
        if self._is_member():
            self._keep(name, "".join(self._pieces).strip())
        elif self._depth == self._item_depth:
            self._item_depth = 0
            self.finished.append(self._item)
        self._depth -= 1

    def _keep(self, name: str, text: str) -> None:
        prefix, _, local = name.rpartition(":")
        if prefix and self._prefixes.get(prefix) != _GOOGLE:
            return
        members, local = self._item.google if prefix else self._item.plain, local.lower()
        if local in _REPEATED and local in members:
            members[local] += f",{text}"
        elif text:
            members.setdefault(local, text)


def _refuse(*_: object) -> Iterator[None]:
    raise UnreadableFeed("the XML declares entities or attributes, which no feed needs")


register(
    Format(
        name="merchant-xml",
        help="a Google Merchant feed, RSS or Atom with `g:` members",
        prices="`1490.00 AUD`; `sale_price`",
        read_items=read_merchant_xml,
    ),
    Format(
        name="merchant-tsv",
        help="a Google Merchant feed as tab-separated text",
        prices="`1490.00 AUD`; `sale_price`",
        read_items=read_merchant_tsv,
    ),
)
