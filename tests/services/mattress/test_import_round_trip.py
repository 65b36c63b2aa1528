"""What this service exports is what its importers read: the bundled products, out and in again."""

import pytest

from tests.catalogue.importers.feeding import rows_of_text
from tollhouse.services.mattress.import_transaction import as_item
from tollhouse.services.mattress.retailers import Retailer

SAME = ("title", "brand", "price", "sale_price", "affiliate_url", "size", "material", "firmness")


@pytest.mark.parametrize(
    ("path", "format_name", "beyond"),
    [
        ("/api/products.ndjson", "jsonl", ("availability", "cooling", "description", "sleep_positions")),
        ("/api/products.csv", "csv", ("availability", "cooling", "description", "sleep_positions")),
        ("/api/products.jsonld", "jsonld", ("availability", "cooling")),
        # Google knows no "low stock", and has no place for how cool a mattress sleeps.
        ("/api/products.merchant.xml", "merchant-xml", ()),
    ],
)
def test_exported_products_are_imported_as_they_were(mattress, path, format_name, beyond):
    shown = {product["title"]: product for product in mattress.products()["products"]}
    rows = rows_of_text(mattress.get(path).text, format_name)
    assert [row.refused for row in rows if row.refused] == []
    taken = {row.product["title"]: as_item(Retailer("copy"), row.id, row.product) for row in rows}
    differing = [
        (title, name, product[name], taken[title].get(name))
        for title, product in shown.items()
        for name in (*SAME, *beyond)
        if taken[title].get(name) != product[name]
    ]
    assert differing == []
