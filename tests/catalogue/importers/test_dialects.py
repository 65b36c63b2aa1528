"""Each format as shops really write it: prices, sales, sizes, colours, availability, links and faults."""

import json

import msgspec
import pytest

from tests.catalogue.importers.feeding import FEEDS, mattress, rows_of_file, rows_of_text, shopify
from tollhouse.catalogue.importers.items import UnreadableFeed
from tollhouse.catalogue.importers.mapping import Mapping, load_mapping
from tollhouse.catalogue.schema import Field
from tollhouse.services.mattress import import_rows as rows_module
from tollhouse.services.mattress.product import MATTRESSES


def prices(row):
    return row.product["price"], row.product["sale_price"]


def test_shopify_product_becomes_one_product_per_size():
    rows = rows_of_file("shopify.json", "shopify")
    assert [*rows] == ["7001-queen", "7001-king", "7001-king-single", "7002", "7003"]
    assert [rows[name].product["size"] for name in ("7001-queen", "7001-king", "7002")] == ["Queen", "King", "Double"]


def test_shopify_colours_collapse_to_the_cheapest_that_can_be_had():
    queen = rows_of_file("shopify.json", "shopify")["7001-queen"].product
    assert (queen["sale_price"], queen["availability"]) == (1349.0, "in stock")
    assert queen["affiliate_url"] == "https://shop.example/products/dunlin-cloud?variant=2"


def test_compare_at_price_below_the_price_is_no_sale():
    assert prices(rows_of_file("shopify.json", "shopify")["7001-king"]) == (1499.0, 1499.0)


def test_html_becomes_plain_text():
    queen = rows_of_file("shopify.json", "shopify")["7001-queen"].product
    assert queen["description"] == "A medium-firm feel for side & back sleepers.\nCooling gel foam"
    assert queen["image_url"] == "https://cdn.dunlin.example/cloud.jpg"


def test_attributes_are_derived_from_the_feed():
    queen = rows_of_file("shopify.json", "shopify")["7001-queen"].product
    assert (queen["material"], queen["firmness"], queen["cooling"]) == ("hybrid", 6, 4)
    assert queen["sleep_positions"] == ["side", "back"]


def test_deciding_words_are_kept_with_the_product_where_the_schema_has_a_place(monkeypatch):
    others = tuple(field for field in MATTRESSES.fields if field.name != "derived")
    fields = (*others, Field("derived", "json", exported=False))
    monkeypatch.setattr(rows_module, "MATTRESSES", msgspec.structs.replace(MATTRESSES, fields=fields))
    (row,) = rows_of_text(shopify(mattress(title="Cloud Firm", body_html="Firm on one side")), "shopify")
    assert row.product["derived"] == {
        "firmness": {"value": 7, "words": ["firm"], "place": "title"},
        "size": {"value": "Queen", "words": ["queen"], "place": "declared"},
    }


def test_bad_rows_are_refused_with_line_and_reason_and_good_ones_stay():
    rows = rows_of_file("shopify.json", "shopify")
    refused = {name: (row.line, row.refused) for name, row in rows.items() if row.refused}
    assert refused == {
        "7001-king-single": (1, "the price must be above zero, not -5.00"),
        "7003": (3, "has no title"),
    }


def test_admin_tags_are_one_string_stock_is_counted_and_drafts_are_left_out():
    rows = rows_of_file("shopify-admin.json", "shopify-admin")
    assert [*rows] == ["81-queen", "81-double"]
    assert rows["81-queen"].product["tags"] == ["Latex", "Firm", "natural"]
    assert [row.product["availability"] for row in rows.values()] == ["out of stock", "backorder"]


def test_js_prices_are_cents():
    assert prices(rows_of_file("shopify-js.json", "shopify-js")["91-single"]) == (799.0, 599.0)


@pytest.mark.parametrize(("format_name", "price"), [("shopify", 129900), ("shopify-js", "1299.00")])
def test_prices_of_the_other_dialect_are_refused(format_name, price):
    (row,) = rows_of_text(shopify(mattress(price=price)), format_name)
    assert "price" in row.refused


def test_shopify_size_is_found_under_another_name():
    product = mattress(sizes=("Queen", "K/Single"), options=[{"name": "Choose yours"}])
    assert [row.id for row in rows_of_text(shopify(product), "shopify")] == ["1-queen", "1-king-single"]


def test_shopify_size_that_is_none_of_the_six_is_a_product_without_a_size():
    rows = rows_of_text(shopify(mattress(sizes=("Queen", "Cot"), title="Queen Cloud")), "shopify")
    assert [(row.id, row.product.get("size")) for row in rows] == [("1-queen", "Queen"), ("1-cot", None)]


def test_shopify_names_its_own_currency_where_prices_are_shown_in_several():
    product = mattress()
    product["variants"][0]["presentment_prices"] = [{"price": {"amount": "999.00", "currency_code": "USD"}}]
    (row,) = rows_of_text(shopify(product), "shopify")
    assert row.refused == "is priced in USD, and this catalogue is in AUD"


def test_woocommerce_variations_have_the_price_of_each_size():
    rows = rows_of_file("woocommerce.json", "woocommerce")
    assert prices(rows["301-queen"]) == (1299.0, 1199.0)
    assert (prices(rows["301-king"]), rows["301-king"].product["availability"]) == ((1499.0, 1499.0), "out of stock")
    assert "301" not in rows
    assert rows["301-queen"].product["title"] == "Heron \u2013 Rest"
    assert rows["301-queen"].product["brand"] == "Heron"


def test_woocommerce_minor_units_are_the_currencys():
    rows = rows_of_file("woocommerce.json", "woocommerce")
    assert prices(rows["304"]) == (800.0, 650.0)
    assert "minor units" in rows["306"].refused
    assert rows["305"].refused == "is priced in NZD, and this catalogue is in AUD"


def test_woocommerce_sizes_at_one_price_need_no_variations():
    rows = rows_of_file("woocommerce.json", "woocommerce")
    assert [rows[name].product["size"] for name in ("307-single", "307-double")] == ["Single", "Double"]


def test_woocommerce_sizes_at_unknown_prices_stay_one_product():
    entries = json.loads((FEEDS / "woocommerce.json").read_text("utf-8"))[:1]
    (row,) = rows_of_text(json.dumps(entries), "woocommerce")
    assert (row.id, row.product.get("size"), row.product["sale_price"]) == ("301", None, 1299.0)


def test_merchant_xml_items_have_their_line():
    rows = rows_of_file("merchant.xml", "merchant-xml")
    assert {name: row.line for name, row in rows.items()} == {"IB-1-queen": 4, "IB-2": 17, "IB-3": 21, "IB-4": 22}


def test_merchant_sale_price_is_what_is_to_be_paid_and_shipping_is_no_price():
    queen = rows_of_file("merchant.xml", "merchant-xml")["IB-1-queen"]
    assert prices(queen) == (1490.0, 1290.0)
    assert queen.product["title"] == "Ibis Nest & Rest"


def test_merchant_members_without_prefix_count_and_those_of_other_vocabularies_do_not():
    loft = rows_of_file("merchant.xml", "merchant-xml")["IB-2"].product
    assert (loft["title"], loft["availability"], loft["size"]) == ("Ibis Loft King Single", "preorder", "King Single")


def test_merchant_atom_feed_is_read():
    feed = """<feed xmlns="http://www.w3.org/2005/Atom" xmlns:x="http://base.google.com/ns/1.0"><entry>
    <x:id>A1</x:id><title>Atom Queen</title>
    <link href="https://ibis.example/a"/><x:price>10 AUD</x:price></entry></feed>"""
    (row,) = rows_of_text(feed, "merchant-xml")
    assert (row.id, row.product["affiliate_url"], row.product["size"]) == ("A1", "https://ibis.example/a", "Queen")


def test_missing_currency_is_refused_unless_the_operator_names_it():
    assert "names no currency" in rows_of_file("merchant.xml", "merchant-xml")["IB-4"].refused
    rows = rows_of_file("merchant.xml", "merchant-xml", currency="AUD")
    assert prices(rows["IB-4"]) == (999.0, 999.0)
    assert rows["IB-3"].refused == "is priced in USD, and this catalogue is in AUD"


def test_merchant_tsv_rows_have_the_line_they_start_on():
    rows = rows_of_text((FEEDS / "merchant.tsv").read_text("utf-8"), "merchant-tsv")
    assert [(row.line, row.id, row.refused) for row in rows] == [
        (2, "T1", ""),
        (4, "T2", ""),
        (5, "T3", "the availability 'sometimes' is unknown"),
        (6, "T1", ""),
        (7, "T5", "the row has 3 cells and the header 10"),
    ]
    assert rows[0].product["description"] == "Two lines,\nof text"
    assert prices(rows[1]) == (900.0, 900.0)


def test_jsonld_group_references_and_struck_through_prices_are_followed():
    rows = rows_of_file("page.html", "jsonld")
    assert [*rows] == ["AV-queen", "AV-king", "LIST-1", "LIST-2"]
    assert prices(rows["AV-queen"]) == (1500.0, 1200.0)
    assert (prices(rows["AV-king"]), rows["AV-king"].product["availability"]) == ((1700.0, 1700.0), "low stock")
    assert (rows["AV-queen"].product["cooling"], rows["AV-queen"].product["brand"]) == (4, "Avocet")


def test_jsonld_aggregate_offer_costs_its_lowest_price():
    rows = rows_of_file("page.html", "jsonld")
    assert prices(rows["LIST-1"]) == (700.0, 700.0)
    assert rows["LIST-1"].product["affiliate_url"] == "https://shop.example/curlew"
    assert rows["LIST-2"].refused == "has no offer, so no price"


def test_jsonld_offers_of_several_sizes_are_several_products():
    offers = [{"name": name, "price": price, "priceCurrency": "AUD"} for name, price in (("Queen", 9), ("King", 11))]
    page = json.dumps({"@type": "Product", "sku": "S", "name": "Stint", "offers": offers, "url": "https://s.example"})
    assert [(row.id, *prices(row)) for row in rows_of_text(page, "jsonld")] == [("S-queen", 9, 9), ("S-king", 11, 11)]


def test_jsonld_product_that_is_repeated_is_one_product():
    product = {"@type": "Product", "sku": "S", "name": "Stint", "url": "https://s.example",
               "offers": {"price": "9", "priceCurrency": "AUD"}}  # fmt: skip
    assert len(rows_of_text(json.dumps([product, {"@graph": [product]}]), "jsonld")) == 1


def test_csv_columns_go_by_their_usual_names():
    rows = rows_of_file("products.csv", "csv")
    assert prices(rows["G1"]) == (1399.0, 1199.0)
    assert (rows["G1"].product["size"], rows["G1"].product["firmness"]) == ("Queen", 5)
    assert prices(rows["G2"]) == (499.0, 499.0)
    assert (rows["G2"].product["availability"], rows["G2"].product["firmness"]) == ("out of stock", 4)
    assert {row.line: row.refused for row in rows.values() if row.refused} == {
        5: "the firmness 11 must be between 1 and 10",
        6: "has no price",
        7: "has no id",
    }


def test_mapping_names_columns_constants_and_units():
    rows = rows_of_file("products.jsonl", "jsonl", mapping=load_mapping(FEEDS / "knot.toml"))
    assert prices(rows["K1"]) == (1199.0, 999.0)
    assert (rows["K1"].product["brand"], rows["K2"].product["availability"]) == ("Knot", "out of stock")
    assert {row.line for row in rows.values() if row.refused} == {3, 4}


@pytest.mark.parametrize(
    "mapping",
    ["[columns]\na = 'price'\nb = 'price'", "[columns]\na = 'prize'", "[colums]\n", "not toml", "delimiter = ';;'"],
)
def test_mapping_that_contradicts_itself_is_refused(tmp_path, mapping):
    (tmp_path / "mapping.toml").write_text(mapping, "utf-8")
    with pytest.raises(ValueError, match=r"the mapping mapping\.toml cannot be read"):
        load_mapping(tmp_path / "mapping.toml")


def test_csv_without_a_needed_column_is_unreadable():
    with pytest.raises(UnreadableFeed, match="no column holds the price"):
        rows_of_text("id,title\n1,Cloud\n", "csv")
    assert (
        rows_of_text("id,title\n1,Cloud\n", "csv", mapping=Mapping(constants={"price": "5"}))[0].product["price"] == 5
    )


def test_group_and_size_of_a_csv_collapse_colours():
    feed = "id,item_group_id,title,price,size,link\n" + "".join(
        f"{name},G,Gull,{price},{size},https://g.example/{name}\n"
        for name, price, size in (("a", 20, "Queen"), ("b", 10, "Q"), ("c", 30, "King"))
    )
    rows = rows_of_text(feed, "csv")
    assert [(row.id, row.product["price"]) for row in rows] == [("G-queen", 10), ("G-king", 30)]
