"""Tables: rows of cells under a header, as column files have them, and their conversion from and to products."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from heapq import merge
from typing import Any

from msgspec import Struct

from tollhouse.catalogue.importers import values
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
from tollhouse.catalogue.importers.mapping import Mapping, is_product_field
from tollhouse.html_text import one_line

_REQUIRED = ("id", "title", "price")
_MAX_DEPTH = 6
# So many refused rows are listed, even where they are the most.
_MANY_REFUSED = 100_000
_HASHTAG = re.compile(r"\s*#[a-z]")
_ITEM_COLUMNS = ("id", "product_id", "title", "brand", "category", "description", "tags", "size", "price",
                 "list_price", "availability", "image_url", "url")  # fmt: skip


# First and last line, and the cells.
Record = tuple[int, int, Sequence[Any]]


class Row(Struct, frozen=True, gc=False):
    """The cells of a row, one for each column. `line` counts from 1; without lines, it is the row's number.

    Rows and tuples of texts are not followed by the garbage collector, which would stop all threads for a large table.
    """

    line: int
    cells: Sequence[Any]


class RefusedRow(Struct, frozen=True):
    """A row that cannot be read, with the cells it has."""

    line: int
    reason: str
    cells: tuple[Any, ...] = ()


class Table(Struct, frozen=True):
    """The content of a file. No two `columns` have the same name. `is_open`: a column that is not there is empty."""

    columns: tuple[str, ...]
    rows: Collection[Row]
    refused: list[RefusedRow] = []
    is_open: bool = False

    def records(self) -> Iterator[Row | RefusedRow]:
        """Every row, the refused ones among them, by line."""
        return merge(self.rows, self.refused, key=lambda row: row.line)


class StreamedRows(Collection[Row]):
    """Rows that are read from their file in each iteration."""

    def __init__(self, count: int, read: Callable[[], Iterator[Row]]) -> None:
        self._count = count
        self._read = read

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        return self._read()

    def __contains__(self, row: object) -> bool:
        return any(each == row for each in self)


def build_table(header: Sequence[Any], records: Iterable[Record]) -> Table:
    """A table of records, each with its first and last line.

    Leaves out blank records, a second header of hashtags (https://hxlstandard.org), empty trailing cells, and columns
    with neither a header nor a cell. A record of another width is refused.
    """
    refused: list[RefusedRow] = []
    rows = list(_rows(records, len(header), refused))
    used = _used_columns(header, rows)
    if len(used) < len(header):
        rows = [_only(row, used) for row in rows]
    names = _unique_names(header)
    return Table(tuple(names[at] for at in used), rows, refused)


def stream_table(header: Sequence[Any], read: Callable[[], Iterator[Record]]) -> Table:
    """The same of records that can be read again: once to count them, and then for every iteration of the rows."""
    refused: list[RefusedRow] = []
    count = 0

    def counted() -> Iterator[Row]:
        nonlocal count
        for row in _rows(read(), len(header), refused):
            count += 1
            yield row

    used, names = _used_columns(header, counted()), _unique_names(header)
    rows = StreamedRows(count, lambda: (_only(row, used) for row in _rows(read(), len(header), [])))
    return Table(tuple(names[at] for at in used), rows, refused)


def check_refused(refused: list[RefusedRow], valid_count: int) -> None:
    """Raises UnreadableFeed where a large table is mostly refused: it is of another kind, and the list has no end."""
    if len(refused) > max(_MANY_REFUSED, valid_count):
        first = refused[0]
        raise UnreadableFeed(f"more than {_MANY_REFUSED:,} rows are refused; line {first.line}: {first.reason}")


def _rows(records: Iterable[Record], width: int, refused: list[RefusedRow]) -> Iterator[Row]:
    is_first, count = True, 0
    for line, last_line, record in records:
        cells = list(record)
        while len(cells) > width and _is_blank(cells[-1]):
            cells.pop()
        if all(map(_is_blank, cells)) or (is_first and all(_is_blank(c) or _HASHTAG.match(str(c)) for c in cells)):
            continue
        if len(cells) == width:
            is_first = False
            count += 1
            yield Row(line, tuple(cells))
            continue
        reason = f"the row has {len(cells)} cells and the header {width}"
        reason += f"; it continues to line {last_line}: is a quote not closed?" if last_line > line else ""
        refused.append(RefusedRow(line, reason, tuple(cells)))
        check_refused(refused, count)


def _used_columns(header: Sequence[Any], rows: Iterable[Row]) -> list[int]:
    """The columns with a header or a cell. Reads all rows."""
    used = [not _is_blank(cell) for cell in header]
    nameless = [at for at, is_used in enumerate(used) if not is_used]
    for row in rows:
        for at in nameless:
            used[at] = used[at] or not _is_blank(row.cells[at])
    return [at for at, is_used in enumerate(used) if is_used]


def _only(row: Row, columns: Sequence[int]) -> Row:
    return Row(row.line, tuple(row.cells[at] for at in columns))


def plain_cell(value: Any) -> Any:
    """A typed cell as JSON has it: days and times as text, decimals as numbers; bytes and the like are None."""
    if isinstance(value, dict):
        return {str(name): plain_cell(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_cell(each) for each in value]
    return next((convert(value) for types, convert in _CONVERSIONS if isinstance(value, types)), None)


def items_from_table(table: Table, context: Context) -> Iterable[FeedItem]:
    """The products in a table's rows, which are read anew in each iteration.

    Raises UnreadableFeed when no column holds the id, the title or the price.
    """
    names = dict.fromkeys(name for row in table.records() for name in _members(table, row))
    fields = context.mapping.fields(names if table.rows else {**names, **dict.fromkeys(table.columns)})
    held = {*fields.values(), *context.mapping.constants}
    if missing := [name for name in _REQUIRED if name not in held]:
        raise UnreadableFeed(f"no column holds the {' or the '.join(missing)}: name it in a mapping file (--mapping)")

    def item(row: Row | RefusedRow) -> FeedItem:
        cells = {fields[name]: cell for name, cell in _members(table, row).items() if name in fields}
        return _item(row.line, cells, row.reason if isinstance(row, RefusedRow) else "", context)

    return StreamedItems(lambda: map(item, table.records()))


def _members(table: Table, row: Row | RefusedRow) -> dict[str, Any]:
    """The cells by column; a refused row has more or fewer of them."""
    if isinstance(row, RefusedRow):
        return dict(zip(table.columns, row.cells, strict=False))
    return dict(_flat(dict(zip(table.columns, row.cells, strict=True))))


def table_from_items(items: Iterable[FeedItem], currency: str = "", *, is_streamed: bool = False) -> Table:
    """A table of products, a row each; options, choices and attributes have columns of their own.

    `is_streamed`: the items are read again in each iteration of the rows. Raises UnreadableFeed without a valid row.
    """
    refused: list[RefusedRow] = []
    names, count = dict.fromkeys(_ITEM_COLUMNS), 0
    for _, cells in _item_cells(items, currency, refused):
        names.update(dict.fromkeys(cells))
        count += 1
    if not count:
        raise UnreadableFeed(
            f"no item can be used; line {refused[0].line}: {refused[0].reason}" if refused else "empty"
        )

    def read() -> Iterator[Row]:
        return (Row(line, tuple(map(cells.get, names))) for line, cells in _item_cells(items, currency, []))

    rows = StreamedRows(count, read)
    return Table(tuple(names), rows if is_streamed else list(rows), refused, is_open=True)


def _item_cells(
    items: Iterable[FeedItem], currency: str, refused: list[RefusedRow]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line and cells by column of each valid item."""
    for number, item in enumerate(items):
        if item.fault or item.price is None:
            refused.append(RefusedRow(item.line, item.fault or "has no price"))
            check_refused(refused, number + 1 - len(refused))
            continue
        code = item.price.currency or currency
        cells: dict[str, Any] = {
            "id": item.variant or item.id,
            "product_id": item.group or item.id,
            "title": item.title,
            "brand": item.brand,
            "category": item.category,
            "description": item.description,
            "tags": list(item.tags),
            "size": item.size,
            "price": f"{item.price.now:f} {code}".strip(),
            "list_price": f"{item.price.listed or item.price.now:f} {code}".strip(),
            "availability": item.availability,
            "image_url": item.image_url,
            "url": item.variant_url or item.page_url,
        }
        properties: dict[str, list[str]] = {}
        single = [(heading, (value,)) for heading, value in (*item.attributes, *item.options)]
        for heading, values_ in (*item.choices, *single):
            properties.setdefault(heading or "variant", []).extend(values_)
        for heading, parts in properties.items():
            name = heading if heading not in cells else f"{heading} (attribute)"
            cells[name] = parts[0] if len(parts) == 1 else list(dict.fromkeys(parts))
        yield item.line, cells


def _is_blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _unique_names(header: Iterable[Any]) -> list[str]:
    """Column names on one line, empty ones by their number, repeated ones with a count."""
    names: dict[str, None] = {}
    for number, cell in enumerate(header, start=1):
        printable = "".join(sign if sign.isprintable() else " " for sign in str("" if cell is None else cell))
        base = " ".join(printable.split())
        name, count = base or f"column {number}", 1
        while name in names:
            count += 1
            name = f"{base} ({count})"
        names[name] = None
    return list(names)


def _flat(members: dict[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Members of members are columns too, named `price.amount`."""
    for name, member in members.items():
        if isinstance(member, dict) and depth < _MAX_DEPTH:
            yield from _flat(member, f"{prefix}{name}.", depth + 1)
        elif member is not None:
            yield f"{prefix}{name}", member


def _item(line: int, cells: dict[str, Any], fault: str, context: Context) -> FeedItem:
    cells = cells | context.mapping.constants
    texts = {name: _text(value) for name, value in cells.items()}
    common: dict[str, Any] = {
        "line": line,
        "id": texts.get("id", ""),
        "group": texts.get("group", ""),
        "title": one_line(texts.get("title", "")),
        "brand": one_line(texts.get("brand", "")),
        "description": description_text(texts.get("description", "")),
        "tags": tuple(_parts(cells.get("tags"))),
        "category": one_line(texts.get("type", "")),
        "size": one_line(texts.get("size", "")),
        "attributes": tuple(
            (name, part) for name, value in cells.items() if not is_product_field(name) for part in _parts(value)
        ),
        "image_url": texts.get("image_url", ""),
        "page_url": context.page(texts.get("affiliate_url", "")),
    }
    if fault:
        return FeedItem(**common, fault=fault)
    return item_or_fault(
        common,
        lambda: {
            "availability": values.availability(cells.get("availability")),
            "price": _price(cells, texts, context.mapping),
        },
    )


def _price(cells: dict[str, Any], texts: dict[str, str], mapping: Mapping) -> Price:
    """The list price and the sale price; the currency has a column of its own, or stands beside the amount."""

    def amount(name: str) -> tuple[Decimal, str]:
        if mapping.minor_units is not None:
            return values.minor_units(cells[name], mapping.minor_units, name), ""
        return values.feed_money(cells[name], name)

    if not texts.get("price"):
        raise FeedItemError("has no price")
    listed, currency = amount("price")
    named = texts.get("currency", "").upper() or currency
    if currency and named != currency:
        raise FeedItemError(f"the price is in {currency} and the currency column says {named[:20]}")
    if not texts.get("sale_price"):
        return Price(listed, None, named)
    sale, sale_currency = amount("sale_price")
    if sale_currency and named and sale_currency != named:
        raise FeedItemError(f"the price is in {named[:20]} and the sale_price in {sale_currency}")
    return sale_price(listed, sale, named or sale_currency)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ", ".join(map(_text, value)) if isinstance(value, list) else ""
    return str(value)


def _parts(value: Any) -> list[str]:
    """A list, or a text divided by commas, bars or semicolons."""
    parts = value if isinstance(value, list) else re.split(r"[,|;]", _text(value))
    return [text for text in map(_text, parts) if text]


def _plain_decimal(value: Decimal) -> int | float | None:
    if not value.is_finite():
        return None
    return int(value) if value == int(value) else float(value)


_CONVERSIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((str, bool, int), lambda value: value),
    (float, lambda value: value if math.isfinite(value) else None),
    (Decimal, _plain_decimal),
    ((date, time), lambda value: value.isoformat()),
    (timedelta, lambda value: value.total_seconds()),
)
