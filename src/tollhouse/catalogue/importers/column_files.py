"""CSV and JSONL files whose columns a mapping, or their usual names, tells apart."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from tollhouse.catalogue.importers.amounts import minor_units, money, priced
from tollhouse.catalogue.importers.article import MAX_ARTICLES, Faulty, FeedItem, Price, Unreadable, description_text
from tollhouse.catalogue.importers.availability import availability, in_stock
from tollhouse.catalogue.importers.context import Context
from tollhouse.catalogue.importers.delimited import records_of
from tollhouse.catalogue.importers.json_text import decoded
from tollhouse.catalogue.importers.mapping import Mapping
from tollhouse.html_text import one_line

_NEEDED = ("id", "title", "price")
_DECLARED = ("firmness", "cooling", "sleep_positions", "material")
_DEEPEST = 6

Cells = dict[str, Any]


def read_csv(feed: str, context: Context) -> list[FeedItem]:
    """Every row under the header. Raises Unreadable when no column holds the id, the title or the price."""
    mapping = context.mapping
    rows = records_of(feed, mapping.delimiter, needed=lambda columns: _missing(columns, mapping))
    targets = mapping.fields(list(rows[0].values)) if rows else {}
    return [
        _article(
            row.line, {targets[name]: cell for name, cell in row.values.items() if name in targets}, context, row.fault
        )
        for row in rows
    ]


def read_jsonl(feed: str, context: Context) -> list[FeedItem]:
    """One object a line; members of members are columns too, named `price.amount`."""
    articles = list(_of_lines(feed, context))
    if not articles:
        raise Unreadable("the file is empty")
    if all(article.fault and not article.id for article in articles):
        raise Unreadable(f"no line is a product; line {articles[0].line}: {articles[0].fault}")
    return articles


def _missing(columns: list[str], mapping: Mapping) -> str:
    held = {*mapping.fields(columns).values(), *mapping.constants}
    absent = [name for name in _NEEDED if name not in held]
    return f"no column holds the {' or the '.join(absent)}: name it in a mapping file (--mapping)" if absent else ""


def _of_lines(feed: str, context: Context) -> Iterator[FeedItem]:
    found = 0
    for line, text in enumerate(feed.split("\n"), 1):
        if not text.strip():
            continue
        found += 1
        if found > MAX_ARTICLES:
            raise Unreadable(f"the file has more than {MAX_ARTICLES} lines")
        try:
            value = decoded(text)
        except Unreadable as fault:
            yield FeedItem(line=line, fault=str(fault))
            continue
        if not isinstance(value, dict):
            yield FeedItem(line=line, fault="the line is no JSON object")
            continue
        cells = dict(_flat(value))
        targets = context.mapping.fields(list(cells))
        yield _article(line, {targets[name]: cell for name, cell in cells.items() if name in targets}, context)


def _flat(value: Cells, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for name, member in value.items():
        if isinstance(member, dict) and depth < _DEEPEST:
            yield from _flat(member, f"{prefix}{name}.", depth + 1)
        else:
            yield f"{prefix}{name}", member


def _article(line: int, cells: Cells, context: Context, fault: str = "") -> FeedItem:
    cells = cells | {str(name): value for name, value in context.mapping.constants.items()}
    said = {name: _text(value) for name, value in cells.items()}
    common: dict[str, Any] = {
        "line": line,
        "id": said.get("id", ""),
        "group": said.get("group", ""),
        "title": one_line(said.get("title", "")),
        "brand": one_line(said.get("brand", "")),
        "description": description_text(said.get("description", "")),
        "tags": tuple(_several(cells.get("tags"))),
        "kind": one_line(said.get("type", "")),
        "size": one_line(said.get("size", "")),
        "declared": {name: tuple(_several(cells[name])) for name in _DECLARED if said.get(name)},
        "image_url": said.get("image_url", ""),
        "page_url": context.page(said.get("affiliate_url", "")),
    }
    try:
        if fault:
            raise Faulty(fault)  # noqa: TRY301 - told where every other fault is
        return FeedItem(**common, price=_price(cells, context.mapping), availability=_availability(cells))
    except Faulty as reason:
        return FeedItem(**common, fault=str(reason))


def _price(cells: Cells, mapping: Mapping) -> Price:
    """The list price, and the sale price where it is lower; a currency in a column of its own, or beside the sum."""
    if _text(cells.get("price")) == "":
        raise Faulty("has no price")
    listed, currency = _sum(cells["price"], mapping, "price")
    named = _text(cells.get("currency")).upper() or currency
    if currency and named != currency:
        raise Faulty(f"the price is in {currency} and the currency says {named[:20]}")
    if _text(cells.get("sale_price")) == "":
        return priced(listed, None, named)
    now, sale_currency = _sum(cells["sale_price"], mapping, "sale_price")
    if sale_currency and named and sale_currency != named:
        raise Faulty(f"the price is in {named[:20]} and the sale_price in {sale_currency}")
    return priced(min(now, listed), listed, named or sale_currency)


def _sum(value: Any, mapping: Mapping, name: str) -> tuple[Decimal, str]:
    return money(value, name) if mapping.minor_units is None else (minor_units(value, mapping.minor_units, name), "")


def _availability(cells: Cells) -> str:
    """A word, yes or no, or a number of pieces."""
    value = cells.get("availability")
    if isinstance(value, bool):
        return in_stock(is_available=value)
    said = _text(value)
    if said.removeprefix("-").isdecimal() and said.isascii():
        return in_stock(is_available=int(said[:9]) > 0)
    return availability(said)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ", ".join(map(_text, value)) if isinstance(value, list) else ""
    return str(value)


def _several(value: Any) -> list[str]:
    """A list, or a text in which commas, bars or semicolons divide."""
    parts = value if isinstance(value, list) else _text(value).replace("|", ",").replace(";", ",").split(",")
    return [found for found in map(_text, parts) if found]
