"""The product CSV that Shopify's admin exports: a product's first row, then rows for its other variants and images.

https://help.shopify.com/en/manual/products/import-export/using-csv
"""

from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.formats.csv import read_delimited
from tollhouse.catalogue.importers.formats.shopify import product_items
from tollhouse.catalogue.importers.items import Context, FeedItem, UnreadableFeed
from tollhouse.catalogue.importers.mapping import plain_name
from tollhouse.catalogue.importers.registry import Format, register

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


class _Product(Struct):
    first: Cells
    line: int
    variants: list[Cells] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    fault: str = ""


def read_shopify_csv(documents: list[Document], context: Context) -> list[FeedItem]:
    """The variants of every product that is active and published. Raises UnreadableFeed."""
    table = read_delimited(documents[0].text())
    columns = [_CANONICAL.get(plain_name(column), "") for column in table.columns]
    if missing := [name for name in _REQUIRED if name not in columns]:
        raise UnreadableFeed(f"this is not Shopify's product CSV: it has no column for the {' or the '.join(missing)}")
    products: dict[str, _Product] = {}
    items: list[FeedItem] = []
    for line, values, fault in table.records():
        cells = {name: value.strip() for name, value in zip(columns, values, strict=False) if name}
        handle = cells.get("handle", "")
        if not handle:
            items.append(FeedItem(line=line, fault=fault or "has no handle"))
            continue
        product = products.setdefault(handle, _Product(cells, line))
        if fault:
            items.append(FeedItem(line=line, id=handle, group=handle, fault=fault))
            continue
        if image := cells.get("image src"):
            product.images.append(image)
        if cells.get("variant price") or cells.get("option1 value") or product.line == line:
            product.variants.append(cells)
            product.lines.append(line)
    for product in products.values():
        if _is_sold(product.first):
            variants = product_items(_as_admin_json(product), product.lines or [product.line], context, "admin")
            # The export has no ids of variants, and their SKUs may be missing or alike.
            items += [replace(item, id=f"{item.group}:{item.line}") for item in variants]
    return items


def _is_sold(first: Cells) -> bool:
    is_published = first.get("published", "").lower() not in {"false", "no", "0"}
    return is_published and first.get("status", "").lower() not in {"draft", "archived", "unlisted"}


def _as_admin_json(product: _Product) -> dict[str, Any]:
    """The product as the Admin API has it."""
    first = product.first
    return {
        "handle": first["handle"],
        "title": first.get("title", ""),
        "body_html": first.get("body html", ""),
        "vendor": first.get("vendor", ""),
        "product_type": first.get("type", ""),
        "tags": first.get("tags", ""),
        "images": product.images,
        "options": [first.get(f"option{place} name", "") for place in (1, 2, 3)],
        "variants": [_variant(cells) for cells in product.variants],
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
