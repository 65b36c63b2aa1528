"""The product CSV of Shopify's admin and WooCommerce's product export, for mattresses and for tables."""

import csv
import io
from pathlib import Path

import pytest

from tests.catalogue.importers.feeding import FEEDS, SITE, rows_of_file, rows_of_text
from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.feed import read_table
from tollhouse.catalogue.importers.formats import FORMATS
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.services.tables.inference import infer_table

SHOPIFY, WOOCOMMERCE = FEEDS / "shopify-export.csv", FEEDS / "woocommerce-export.csv"
# Columns as the admin has named them since 2025.
RENAMED = {
    "Handle": "URL handle", "Body (HTML)": "Description", "Published": "Published on online store",
    "Option1 Name": "Option1 name", "Option1 Value": "Option1 value", "Variant SKU": "SKU", "Variant Price": "Price",
    "Variant Compare At Price": "Compare-at price", "Variant Inventory Tracker": "Inventory tracker",
    "Variant Inventory Qty": "Inventory quantity", "Variant Inventory Policy": "Continue selling when out of stock",
    "Image Src": "Product image URL", "Variant Image": "Variant image URL",
}  # fmt: skip


def prices(row):
    return row.product["price"], row.product["sale_price"]


def table_of(path: Path, format_name: str, **context: object):
    return read_table([Document(path.read_bytes())], FORMATS[format_name], Context(SITE, **context), "EUR")


def edited(path: Path, change) -> str:
    """The file with its rows changed."""
    rows = list(csv.reader(io.StringIO(path.read_text("utf-8"))))
    out = io.StringIO()
    csv.writer(out).writerows(change(rows))
    return out.getvalue()


def test_shopify_rows_of_one_handle_are_the_variants_of_one_product():
    rows = rows_of_file(SHOPIFY.name, "shopify-csv")
    valid = {identity: row.line for identity, row in rows.items() if row.product}
    assert valid == {"tern-cloud-queen": 2, "tern-cloud-king": 5, "tern-nest": 8, "tern-last-king-single": 12}
    queen = rows["tern-cloud-queen"].product
    assert (queen["title"], queen["brand"], queen["size"], *prices(rows["tern-cloud-queen"])) == (
        "Tern Cloud", "Tern", "Queen", 1249.0, 1249.0,
    )  # fmt: skip
    assert queen["image_url"] == "https://cdn.tern.example/grey.jpg"
    assert queen["description"] == "A medium-firm hybrid & cool.\nFor side sleepers"
    assert queen["affiliate_url"] == "https://shop.example/products/tern-cloud"
    assert queen["tags"] == ["hybrid", "cooling"]


def test_shopify_rows_of_one_handle_are_joined_wherever_they_are():
    def interleave(rows: list[list[str]]) -> list[list[str]]:
        """The first row of each product, then the second of each, and so on."""
        header, *others = rows
        nth = [sum(before[0] == row[0] for before in others[:at]) for at, row in enumerate(others)]
        return [header, *(row for _, row in sorted(zip(nth, others, strict=True), key=lambda pair: pair[0]))]

    text = edited(SHOPIFY, interleave)
    assert text != edited(SHOPIFY, lambda rows: rows)
    products = {row.id: row.product for row in rows_of_text(text, "shopify-csv") if row.product}
    assert products == {
        identity: row.product for identity, row in rows_of_file(SHOPIFY.name, "shopify-csv").items() if row.product
    }


def test_shopify_stock_is_counted_where_it_is_tracked():
    rows = rows_of_file(SHOPIFY.name, "shopify-csv")
    assert rows["tern-cloud-king"].product["availability"] == "out of stock"
    assert rows["tern-nest"].product["availability"] == "in stock"


def test_shopify_variant_without_a_price_and_row_without_a_handle_are_refused():
    rows = rows_of_file(SHOPIFY.name, "shopify-csv")
    refused = {(row.line, row.id): row.refused for row in rows.values() if row.refused}
    assert refused == {(6, "tern-cloud-double"): "has no price", (11, ""): "has no handle"}


def test_shopify_drafts_and_hidden_products_are_left_out():
    assert not {"tern-draft", "tern-hidden"} & {*rows_of_file(SHOPIFY.name, "shopify-csv")}


def test_shopify_columns_go_by_their_new_names_too():
    text = edited(SHOPIFY, lambda rows: [[RENAMED.get(name, name) for name in rows[0]], *rows[1:]])
    assert rows_of_text(text, "shopify-csv") == rows_of_text(SHOPIFY.read_text("utf-8"), "shopify-csv")


def test_woocommerce_variations_name_their_parent_by_id_or_sku():
    rows = rows_of_file(WOOCOMMERCE.name, "woocommerce-csv")
    assert {"100-queen", "100-king"} <= {*rows}
    assert not {"100", "100-double", "300", "400", "500"} & {*rows}
    queen = rows["100-queen"].product
    assert (queen["title"], queen["brand"], queen["size"]) == ("Rail Rest", "Rail", "Queen")
    assert queen["description"] == "Firm & cool.\nFirst line.\nFor back sleepers."
    assert (queen["image_url"], rows["100-king"].product["image_url"]) == (
        "https://rail.example/q.jpg",
        "https://rail.example/a.jpg",
    )
    assert queen["affiliate_url"] == "https://shop.example/?p=100"


def test_woocommerce_prices_have_the_decimal_mark_of_the_shop_and_sales_their_dates():
    rows = rows_of_file(WOOCOMMERCE.name, "woocommerce-csv")
    assert prices(rows["100-queen"]) == (1299.0, 1199.5)
    assert prices(rows["100-king"]) == (1499.0, 1499.0)
    assert prices(rows["200"]) == (899.9, 899.9)
    assert rows["700"].refused == "the price has more than 2 decimals: 1.499"
    assert rows["701"].refused == "the regular price is not a number: 'POA'"


def test_woocommerce_stock_formulas_and_lists_are_unescaped():
    rows = rows_of_file(WOOCOMMERCE.name, "woocommerce-csv")
    assert rows["100-king"].product["availability"] == "backorder"
    reed = rows["200"].product
    assert (reed["title"], reed["availability"], reed["material"]) == ("=Reed Nest", "out of stock", "memory foam")
    assert reed["tags"] == ["soft", "comma, inside"]


def test_woocommerce_variation_of_any_size_is_sold_in_every_size_of_its_product():
    rows = rows_of_file(WOOCOMMERCE.name, "woocommerce-csv")
    assert [rows[f"500-{size}"].product["size"] for size in ("single", "king-single")] == ["Single", "King Single"]


def test_woocommerce_variation_without_its_parent_is_refused():
    rows = rows_of_file(WOOCOMMERCE.name, "woocommerce-csv")
    (lost,) = [row for row in rows.values() if row.line == 11]
    assert lost.refused == "its parent 'id:999' is not in the file"


@pytest.mark.parametrize(
    ("path", "format_name", "columns"),
    [(SHOPIFY, "shopify-csv", {"Size", "Colour"}), (WOOCOMMERCE, "woocommerce-csv", {"Size", "Brand", "Material"})],
)
def test_product_csv_is_a_table_with_a_row_for_each_variant(path, format_name, columns):
    table = table_of(path, format_name)
    assert columns <= {*table.columns}
    inferred = infer_table(table)
    assert (inferred.id, inferred.title) == ("id", "title")
    assert (inferred.fields["price"].type, inferred.fields["price"].currency) == ("money", "EUR")
    assert inferred.fields["list_price"].type == "money"
    assert all(refused.reason for refused in table.refused)


@pytest.mark.parametrize(("path", "format_name"), [(SHOPIFY, "shopify-csv"), (WOOCOMMERCE, "woocommerce-csv")])
@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[:1],
        lambda rows: [rows[0], *([cell * 50 for cell in row] for row in rows[1:])],
        lambda rows: [rows[0], *([""] * len(row) for row in rows[1:])],
        lambda rows: [rows[0], *(row[::-1] for row in rows[1:])],
        lambda rows: [rows[0], *(row[:3] for row in rows[1:])],
        lambda rows: [rows[0], *(["<script>x</script>\u202e=1+1"] * len(row) for row in rows[1:])],
    ],
)
def test_hostile_cells_are_refused_or_cleaned(path, format_name, change):
    try:
        rows = rows_of_text(edited(path, change), format_name)
    except UnreadableFeed:
        return
    for row in rows:
        assert (row.product is None) == bool(row.refused)
        assert row.product is None or "<script" not in row.product["title"]


@pytest.mark.parametrize(
    ("format_name", "header", "reason"),
    [
        ("shopify-csv", "Handle,Title\n", "no column for the variant price"),
        ("woocommerce-csv", "ID,Typ,Artikelnummer,Name\n", "export in English: it has no column 'type'"),
    ],
)
def test_other_csv_is_unreadable_and_the_missing_column_is_named(format_name, header, reason):
    with pytest.raises(UnreadableFeed, match=reason):
        rows_of_text(header, format_name)
