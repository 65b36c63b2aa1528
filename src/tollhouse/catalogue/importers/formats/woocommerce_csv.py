"""The CSV of WooCommerce's product export: a row for each product, and one for each variation of a variable product.

https://github.com/woocommerce/woocommerce/wiki/Product-CSV-Import-Schema
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from msgspec import Struct

from tollhouse import clock
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
from tollhouse.catalogue.importers.tables import RefusedRow, Table
from tollhouse.catalogue.importers.values import availability, feed_money
from tollhouse.html_text import one_line
from tollhouse.storage.spool import Spool

_REQUIRED = ("type", "name", "regular price")
_ATTRIBUTE = re.compile(r"attribute (\d+) name")
# The export writes an apostrophe before what a spreadsheet would take for a formula.
_FORMULA = re.compile(r"'(?=[=+\-@\t\r])")

Cells = dict[str, str]


class _Row(Struct, frozen=True):
    line: int
    cells: Cells
    fault: str = ""


def read_woocommerce_csv(documents: list[Document], context: Context) -> Iterable[FeedItem]:
    """Published products; a variable one as its variations. Raises UnreadableFeed."""
    table = read_csv(documents, context)
    columns = [plain_name(column) for column in table.columns]
    if missing := [name for name in _REQUIRED if name not in columns]:
        raise UnreadableFeed(
            f"this is not WooCommerce's product export in English: it has no column {' or '.join(map(repr, missing))}"
        )

    # A variation may stand before its product.
    products = Spool(_Row)
    variations = Spool(str)
    for row in _rows(table, columns):
        if _is(row.cells, "variation"):
            variations.add(row.cells.get("parent", ""), "")
        else:
            for key in _keys(row.cells):
                products.add(key, row)

    def has_variations(row: _Row) -> bool:
        return any(products.get(key) == row for key in _keys(row.cells) if variations.has(key))

    def read() -> Iterator[FeedItem]:
        for row in _rows(table, columns):
            parent = products.get(row.cells.get("parent", ""))
            if row.fault or (_is_for_sale(row.cells, parent) and not has_variations(row)):
                yield _item(row, parent.cells if parent else None, context)

    return StreamedItems(read)


def _rows(table: Table, columns: list[str]) -> Iterator[_Row]:
    for row in table.records():
        cells = zip(columns, row.cells, strict=False)
        fault = row.reason if isinstance(row, RefusedRow) else ""
        yield _Row(row.line, {name: _FORMULA.sub("", cell.strip(), 1) for name, cell in cells}, fault)


def _keys(cells: Cells) -> Iterator[str]:
    """What the `Parent` of a variation can be."""
    if identity := cells.get("id"):
        yield f"id:{identity}"
    if sku := cells.get("sku"):
        yield sku


def _is(cells: Cells, kind: str) -> bool:
    return kind in re.split(r"\s*,\s*", cells.get("type", "").lower())


def _is_for_sale(cells: Cells, parent: _Row | None) -> bool:
    """Whether a row is no group of products, and neither it nor the product that it varies is a draft."""
    drafts = {"0", "-1"}
    if _is(cells, "variation") and parent and parent.cells.get("published", "1") in drafts:
        return False
    return cells.get("published", "1") not in drafts and not _is(cells, "grouped")


def _item(row: _Row, parent: Cells | None, context: Context) -> FeedItem:
    cells, fault = row.cells, row.fault
    product = parent or cells
    identity = cells.get("id") or cells.get("sku", "")
    group = (product.get("id") or product.get("sku", "")) if parent else identity
    attributes = dict(_attributes(cells))
    offered = dict(_attributes(product)) if parent else attributes
    # A variation without a value for an attribute is sold in all of the product's values.
    choices = {name: parts for name, parts in offered.items() if parent and len(parts) > 1 and not attributes.get(name)}
    brand = cells.get("brands") or product.get("brands") or ", ".join(offered.get("Brand", ()))
    page = cells.get("external url") or (f"/?p={product['id']}" if context.site and product.get("id") else "")
    descriptions = (product.get(name, "").replace("\\n", "\n") for name in ("short description", "description"))
    common: dict[str, Any] = {
        "line": row.line,
        "id": identity,
        "group": group,
        "variant": identity,
        "title": one_line(product.get("name", "") or cells.get("name", "")),
        "brand": one_line(brand),
        "description": description_text("\n".join(filter(None, descriptions))),
        "tags": tuple(_parts(product.get("tags", ""))),
        "category": one_line(product.get("categories", "")),
        "options": tuple((name, parts[0]) for name, parts in attributes.items() if parent and parts),
        "choices": tuple(choices.items()),
        "attributes": tuple(
            (name, part)
            for name, parts in offered.items()
            if name not in choices and not (parent and attributes.get(name))
            for part in parts
        ),
        "image_url": next(iter(_parts(cells.get("images") or product.get("images", ""))), ""),
        "page_url": context.page(page),
    }
    if _is(cells, "variation") and parent is None and not fault:
        fault = f"its parent {cells.get('parent', '')[:60]!r} is not in the file"
    if fault:
        return FeedItem(**common, fault=fault)
    return item_or_fault(common, lambda: {"price": _price(cells), "availability": _availability(cells)})


def _attributes(cells: Cells) -> Iterator[tuple[str, list[str]]]:
    for column, name in cells.items():
        if name and (match := _ATTRIBUTE.fullmatch(column)):
            yield one_line(name), _parts(cells.get(f"attribute {match[1]} value s", ""))


def _parts(text: str) -> list[str]:
    r"""The values of a list; a comma inside of a value is written `\,`."""
    parts = re.split(r"(?<!\\),", text)
    return [value for part in parts if (value := one_line(part.replace("\\,", ",")))]


def _price(cells: Cells) -> Price:
    if not cells.get("regular price"):
        raise FeedItemError("has no price")
    listed = _amount(cells["regular price"], "regular price")
    return sale_price(listed, _amount(cells["sale price"], "sale price") if _is_on_sale(cells) else None)


def _amount(text: str, name: str) -> Decimal:
    """Prices have the decimal mark of the shop's language, and nothing between thousands."""
    return feed_money(text, name, "," if "," in text and "." not in text else ".")[0]


def _is_on_sale(cells: Cells) -> bool:
    """Whether there is a sale price, and today lies within its dates."""
    today = clock.now().date().isoformat()
    starts, ends = (cells.get(f"date sale price {word}", "")[:10] for word in ("starts", "ends"))
    return bool(cells.get("sale price")) and starts <= today and (not ends or today <= ends)


def _availability(cells: Cells) -> str:
    stock = cells.get("in stock", "")
    return "backorder" if stock.lower() == "backorder" else availability(stock)


register(
    Format(
        name="woocommerce-csv",
        help="the CSV of WooCommerce's product export in English; unpublished and grouped products are left out",
        prices="decimals with a point or a comma",
        read_items=read_woocommerce_csv,
        names_currency=False,
    )
)
