"""The whole catalogue as JSON-LD, CSV, NDJSON and a merchant feed."""

import csv
import io
from xml.etree import ElementTree as ET

import pytest
from pyld import jsonld

from tests.services.mattress.vocabulary import PROPERTIES, S
from tollhouse.services.mattress.exports import as_linked_product, merchant_feed, merchant_id

G = "{http://base.google.com/ns/1.0}"


def vocabulary(_url, _options):
    """schema.org's context as far as it matters: every term is in its vocabulary, and these hold addresses."""
    links = {
        name: {"@type": "@id"}
        for name in ("availability", "itemCondition", "priceType", "itemListOrder", "url", "image")
    }
    return {"contextUrl": None, "documentUrl": "https://schema.org",
            "document": {"@context": {"@vocab": S, **links}}}  # fmt: skip


@pytest.fixture(scope="module")
def item_list(mattress):
    return mattress.get("/api/products.jsonld").json()


def nodes(value):
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from nodes(each)
    elif isinstance(value, list):
        for each in value:
            yield from nodes(each)


def test_item_list_numbers_every_product(item_list, everything):
    assert item_list["@type"] == "ItemList"
    assert item_list["numberOfItems"] == len(item_list["itemListElement"]) == 165
    assert [each["position"] for each in item_list["itemListElement"]] == list(range(1, 166))
    assert [each["item"]["productID"] for each in item_list["itemListElement"]] == [p["id"] for p in everything]
    assert "Demonstration data" in item_list["description"]


def test_only_properties_that_schema_org_knows_are_used(item_list):
    for node in nodes(item_list):
        assert set(node) - {"@type", "@context"} <= PROPERTIES[node["@type"]]


def test_discounted_offer_follows_schema_org(item_list, everything):
    for listed, product in zip(item_list["itemListElement"], everything, strict=True):
        offer = listed["item"]["offers"]
        assert offer["price"] == product["sale_price"]
        assert (offer["priceCurrency"], offer["itemCondition"]) == ("AUD", f"{S}NewCondition")
        assert offer["url"] == product["affiliate_url"]
        if product["sale_price"] == product["price"]:
            assert "priceSpecification" not in offer
            continue
        now, before = offer["priceSpecification"]
        assert (now["price"], before["price"]) == (product["sale_price"], product["price"])
        assert "priceType" not in now
        assert before["priceType"] == f"{S}StrikethroughPrice"
    assert sum("priceSpecification" in each["item"]["offers"] for each in item_list["itemListElement"]) > 50


def test_availability_is_one_of_schema_orgs(item_list, everything):
    expected = {"in stock": "InStock", "low stock": "LimitedAvailability", "out of stock": "OutOfStock",
            "preorder": "PreOrder", "backorder": "BackOrder"}  # fmt: skip
    for listed, product in zip(item_list["itemListElement"], everything, strict=True):
        assert listed["item"]["offers"]["availability"] == S + expected[product["availability"]]


def test_firmness_carries_its_scale(item_list, everything):
    first = {each["propertyID"]: each for each in item_list["itemListElement"][0]["item"]["additionalProperty"]}
    assert (first["firmness"]["value"], first["firmness"]["minValue"], first["firmness"]["maxValue"]) == (
        everything[0]["firmness"],
        1,
        10,
    )


def test_every_term_expands_into_the_vocabulary(item_list):
    expanded = jsonld.expand(item_list, {"documentLoader": vocabulary})
    graph = jsonld.to_rdf(item_list, {"documentLoader": vocabulary})["@default"]
    assert expanded[0]["@type"] == [f"{S}ItemList"]
    predicates = {triple["predicate"]["value"] for triple in graph}
    assert f"{S}priceSpecification" in predicates
    assert all(each.startswith((S, "http://www.w3.org/")) for each in predicates)
    kinds = [triple for triple in graph if triple["object"]["value"] == f"{S}Product"]
    assert len(kinds) == 165


def test_a_crawler_reads_the_same_off_a_page(mattress, item_list):
    import extruct

    script = mattress.get("/api/products.jsonld").text.replace("</", "<\\/")
    page = f'<html><head><script type="application/ld+json">{script}</script></head><body></body></html>'
    assert extruct.extract(page, syntaxes=["json-ld"])["json-ld"] == [item_list]


@pytest.mark.parametrize("accept", ["application/ld+json", "*/*", "application/json"])
def test_linked_data_comes_as_what_is_accepted(mattress, accept):
    answer = mattress.get("/api/products.jsonld", headers={"Accept": accept})
    assert answer.status_code == 200
    wanted = "application/ld+json" if accept == "*/*" else accept
    assert answer.headers["Content-Type"] == wanted


def test_what_is_not_known_is_left_out():
    product = {"id": "a.b", "title": "T", "brand": None, "price": 2.0, "sale_price": 1.5, "size": None,
               "material": None, "firmness": None, "cooling": None, "sleep_positions": [], "tags": [], "image_url": "https://a.example/i",
               "affiliate_url": "https://a.example", "availability": "in stock", "description": None,
               "retailer_name": "A"}  # fmt: skip
    assert set(as_linked_product(product)) == {
        "@type",
        "productID",
        "sku",
        "name",
        "category",
        "image",
        "url",
        "offers",
    }
    feed = merchant_feed([{**product, "title": "a < b & \x00c \ud7ff"}], "t", "l", "a")
    entry = ET.fromstring(feed).find("channel/item")  # noqa: S314 - our own
    assert entry.findtext(f"{G}title") == "a < b & c \ud7ff"
    assert (entry.findtext(f"{G}price"), entry.findtext(f"{G}sale_price")) == ("2.00 AUD", "1.50 AUD")
    assert entry.findtext(f"{G}identifier_exists") == "no"


def test_csv_has_a_row_for_each_product(mattress, everything):
    answer = mattress.get("/api/products.csv")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["id"] for row in rows] == [p["id"] for p in everything]
    assert rows[0]["sleep_positions"].split("|") == everything[0]["sleep_positions"]
    assert [float(row["sale_price"]) for row in rows] == [p["sale_price"] for p in everything]


def test_ndjson_has_the_products_of_the_list(mattress, everything):
    assert mattress.products()["products"] == everything


def test_merchant_feed_has_the_required_attributes(mattress, everything):
    answer = mattress.get("/api/products.merchant.xml")
    assert answer.headers["Content-Type"] == "application/xml; charset=utf-8"
    entries = ET.fromstring(answer.content).findall("channel/item")  # noqa: S314 - our own
    assert len(entries) == len({entry.findtext(f"{G}id") for entry in entries}) == 165
    for entry, product in zip(entries, everything, strict=True):
        assert entry.findtext(f"{G}id") == merchant_id(product["id"])
        assert len(entry.findtext(f"{G}id")) <= 50
        assert entry.findtext(f"{G}price") == f"{product['price']:.2f} AUD"
        sale = entry.findtext(f"{G}sale_price")
        assert sale == (f"{product['sale_price']:.2f} AUD" if product["sale_price"] < product["price"] else None)
        assert entry.findtext(f"{G}availability") in ("in_stock", "out_of_stock", "preorder", "backorder")
        assert entry.findtext(f"{G}link") == product["affiliate_url"]
        assert (entry.findtext(f"{G}brand"), entry.findtext(f"{G}condition")) == (product["brand"], "new")


@pytest.mark.parametrize("path", ["jsonld", "csv", "ndjson", "merchant.xml"])
def test_unchanged_export_is_304_and_takes_no_parameters(mattress, path):
    first = mattress.get(f"/api/products.{path}")
    assert mattress.get(f"/api/products.{path}", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    assert mattress.get(f"/api/products.{path}", size="Queen").status_code == 400
