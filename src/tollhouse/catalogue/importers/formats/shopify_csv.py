"""The product CSV that Shopify's admin exports: a product's first row, then rows for its other variants and images.

https://help.shopify.com/en/manual/products/import-export/using-csv
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.formats.csv import read_csv
from tollhouse.catalogue.importers.formats.shopify import product_items
from tollhouse.catalogue.importers.items import Context, FeedItem, StreamedItems, UnreadableFeed
from tollhouse.catalogue.importers.mapping import plain_name
from tollhouse.catalogue.importers.registry import Format, register
from tollhouse.catalogue.importers.tables import RefusedRow
from tollhouse.storage.spool import Spool

# By column, the other names it has had.
_COLUMNS = {
    "handle": ("url handle",),
    "title": (),
    "body html": ("description",),
    "vendor": (),
    "type": (),
    "tags": (),
    "status": (),
    "published": ("published on online store",),
    **{f"option{place} {part}": () for place in (1, 2, 3) for part in ("name", "value")},
    "variant sku": ("sku",),
    "variant price": ("price",),
    "variant compare at price": ("compare at price",),
    "variant inventory tracker": ("inventory tracker",),
    "variant inventory qty": ("inventory quantity",),
    "variant inventory policy": ("continue selling when out of stock",),
    "image src": ("product image url",),
    "variant image": ("variant image url",),
}
_CANONICAL = {alias: column for column, aliases in _COLUMNS.items() for alias in (column, *aliases)}
_REQUIRED = ("handle", "title", "variant price")

Cells = dict[str, str]


class _Row(Struct, frozen=True):
    line: int
    cells: Cells
    fault: str


def read_shopify_csv(documents: list[Document], context: Context) -> Iterable[FeedItem]:
    """The variants of every product that is active and published, wherever its rows are. Raises UnreadableFeed."""
    table = read_csv(documents, context)
    columns = [_CANONICAL.get(plain_name(column), "") for column in table.columns]
    if missing := [name for name in _REQUIRED if name not in columns]:
        raise UnreadableFeed(f"this is not Shopify's product CSV: it has no column for the {' or the '.join(missing)}")
    # In the exports the rows of a product follow each other. In an edited file they may not.
    products = Spool(_Row)
    for row in table.records():
        cells = {name: value.strip() for name, value in zip(columns, row.cells, strict=False) if name}
        fault = row.reason if isinstance(row, RefusedRow) else ""
        products.add(cells.get("handle") or f"\n{row.line}", _Row(row.line, cells, fault))
    return StreamedItems(lambda: chain.from_iterable(_product_items(rows, context) for rows in products.groups()))


def _product_items(rows: list[_Row], context: Context) -> Iterator[FeedItem]:
    """The items of the rows with one handle, or of a row without one."""
    first = rows[0]
    handle = first.cells.get("handle", "")
    if not handle:
        yield FeedItem(line=first.line, fault=first.fault or "has no handle")
        return
    for row in rows:
        if row.fault:
            yield FeedItem(line=row.line, id=handle, group=handle, fault=row.fault)
    rows = [row for row in rows if not row.fault]
    if not _is_sold(first.cells):
        return
    variants = [
        row
        for row in rows
        if row.cells.get("variant price") or row.cells.get("option1 value") or row.line == first.line
    ]
    images = [row.cells["image src"] for row in rows if row.cells.get("image src")]
    product = _as_admin_json(first.cells, [row.cells for row in variants], images)
    for item in product_items(product, [row.line for row in variants] or [first.line], context, "admin"):
        # The export has no ids of variants, and their SKUs may be missing or alike.
        yield replace(item, id=f"{item.group}:{item.line}")


def _is_sold(first: Cells) -> bool:
    is_published = first.get("published", "").lower() not in {"false", "no", "0"}
    return is_published and first.get("status", "").lower() not in {"draft", "archived", "unlisted"}


def _as_admin_json(first: Cells, variants: list[Cells], images: list[str]) -> dict[str, Any]:
    """The product as the Admin API has it."""
    return {
        "handle": first["handle"],
        "title": first.get("title", ""),
        "body_html": first.get("body html", ""),
        "vendor": first.get("vendor", ""),
        "product_type": first.get("type", ""),
        "tags": first.get("tags", ""),
        "images": images,
        "options": [first.get(f"option{place} name", "") for place in (1, 2, 3)],
        "variants": [_variant(cells) for cells in variants],
    }


def _variant(cells: Cells) -> dict[str, Any]:
    quantity = cells.get("variant inventory qty", "")
    is_counted = bool(cells.get("variant inventory tracker")) and quantity.removeprefix("-").isdecimal()
    sells_on = cells.get("variant inventory policy", "").lower() in {"continue", "true"}
    return {
        **{f"option{place}": cells.get(f"option{place} value", "") for place in (1, 2, 3)},
        "sku": cells.get("variant sku", "").removeprefix("'"),
        "price": cells.get("variant price", ""),
        "compare_at_price": cells.get("variant compare at price", ""),
        "inventory_quantity": int(quantity[:9]) if is_counted else None,
        "inventory_policy": "continue" if sells_on else "deny",
        "featured_image": cells.get("variant image", ""),
    }


register(
    Format(
        name="shopify-csv",
        help="the product CSV that Shopify's admin exports; drafts and unpublished products are left out",
        prices="decimals with a point",
        read_items=read_shopify_csv,
        names_currency=False,
    )
)
