"""One product, what is like it, what typed words become, the retailers, and the pictures."""

from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest

from tollhouse.services.mattress.product import PRODUCT_FIELDS, SIZES

UNKNOWN = ("/api/products/nobody.nothing", "/api/products/nobody.nothing/similar", "/images/nobody.nothing.svg",
           "/api/products/%00", "/api/products/%ED%A0%80")  # fmt: skip


def test_product_is_that_of_the_list_with_its_prices(mattress, everything):
    for product in everything[:30]:
        detail = mattress.get(f"/api/products/{product['id']}").json()
        assert {name: detail[name] for name in product} == product
        history = detail["price_history"]
        assert [point["at"] for point in history] == sorted(point["at"] for point in history)
        assert (history[-1]["price"], history[-1]["sale_price"]) == (product["price"], product["sale_price"])
        assert detail.keys() == {
            *PRODUCT_FIELDS,
            "price_history",
            "lowest_30_days",
            "lowest_90_days",
            "offers",
            "attribute_sources",
        }
        # The demonstration states every attribute itself.
        assert set(detail["attribute_sources"]) == {
            name for name in ("size", "material", "firmness", "cooling", "sleep_positions") if product[name]
        }
        assert all(source == {"place": "declared", "words": []} for source in detail["attribute_sources"].values())


def test_lists_compare_named_products_and_have_their_prices_on_request(mattress, everything):
    named = [everything[3]["id"], everything[90]["id"]]
    listed = mattress.products(id=named, include="price_history")["products"]
    assert [each["id"] for each in listed] == sorted(named)
    for each in listed:
        assert each["price_history"] == mattress.get(f"/api/products/{each['id']}").json()["price_history"]
    assert mattress.products(id=["nobody.nothing", named[0]])["total"] == 1
    short = mattress.products("/api/search", q="latex", include="price_history", fields="title")["products"][0]
    assert short.keys() == {"id", "title", "price_history"}
    assert "price_history" not in mattress.products(limit=1)["products"][0]
    answer = mattress.get("/api/products", include="reviews")
    assert (answer.status_code, answer.json()["parameter"], answer.json()["allowed"]) == (
        400,
        "include",
        ["price_history"],
    )


def test_offers_are_the_sizes_of_one_model_at_every_retailer(mattress, everything):
    def model(product: dict) -> tuple:
        return product["brand"], product["title"].removesuffix(f", {product['size']}")

    for product in everything[::9]:
        offers = mattress.get(f"/api/products/{product['id']}").json()["offers"]
        same = [each for each in everything if model(each) == model(product)]
        assert {offer["id"] for offer in offers} == {each["id"] for each in same}
        places = [(SIZES.index(offer["size"]), offer["sale_price"]) for offer in offers]
        assert places == sorted(places)


def test_lowest_prices_count_what_was_in_force_at_their_start(mattress, everything):
    seen = set()
    for product in everything:
        detail = mattress.get(f"/api/products/{product['id']}").json()
        for days in (30, 90):
            start = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
            before = [p["sale_price"] for p in detail["price_history"] if p["at"] <= start][-1:]
            after = [p["sale_price"] for p in detail["price_history"] if p["at"] > start]
            assert detail[f"lowest_{days}_days"] == min(before + after)
        seen.add(detail["lowest_30_days"] < product["sale_price"])
    assert seen == {True, False}


@pytest.mark.parametrize("path", UNKNOWN)
def test_unknown_product_is_404(mattress, path):
    answer = mattress.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


def test_query_parameters_of_one_product_are_400(mattress, everything):
    assert mattress.get(f"/api/products/{everything[0]['id']}", fields="title").status_code == 400


def test_similar_products_are_others_of_the_size(mattress, everything):
    product = next(p for p in everything if p["size"] == "Queen" and p["material"] == "latex")
    answer = mattress.get(f"/api/products/{product['id']}/similar", limit=5).json()
    assert answer["count"] == len(answer["products"]) == 5
    assert product["id"] not in {p["id"] for p in answer["products"]}
    assert {p["size"] for p in answer["products"]} == {"Queen"}


@pytest.mark.parametrize("limit", ["0", "51", "x"])
def test_wrong_limit_of_similar_is_400(mattress, everything, limit):
    answer = mattress.get(f"/api/products/{everything[0]['id']}/similar", limit=limit)
    assert (answer.status_code, answer.json()["parameter"]) == (400, "limit")


def test_typed_beginnings_become_brands_and_titles(mattress):
    answer = mattress.get("/api/suggest", q="wat", limit=3).json()
    assert answer["query"] == "wat"
    assert answer["suggestions"][0] == {"text": "Wattlerest", "field": "brand", "count": 18}
    assert all("id" in each for each in answer["suggestions"][1:])


@pytest.mark.parametrize(
    ("parameters", "wrong"),
    [({}, "q"), ({"q": ""}, "q"), ({"q": "a", "limit": "21"}, "limit"), ({"q": "a", "x": 1}, "x")],
)
def test_wrong_suggestion_is_400(mattress, parameters, wrong):
    answer = mattress.get("/api/suggest", **parameters)
    assert (answer.status_code, answer.json()["parameter"]) == (400, wrong)


def test_retailers_have_counts_and_every_domain_of_their_links(mattress, everything):
    answer = mattress.get("/api/retailers").json()
    assert answer["total"] == len(answer["retailers"]) == 16
    for retailer in answer["retailers"]:
        own = [p for p in everything if p["retailer"] == retailer["id"]]
        assert retailer["product_count"] == len(own)
        assert {urlsplit(p["affiliate_url"]).hostname for p in own} <= set(retailer["affiliate_domains"])
        assert all(domain.endswith(".example") for domain in retailer["affiliate_domains"])
    assert sum(retailer["product_count"] for retailer in answer["retailers"]) == 165


def test_picture_is_an_image_of_the_product(mattress, everything):
    for product in everything:
        answer = mattress.get(f"/images/{product['id']}.svg")
        assert answer.headers["Content-Type"] == "image/svg+xml"
        assert ET.fromstring(answer.content).get("aria-label") == product["title"]  # noqa: S314 - our own


def test_image_url_leads_to_the_picture(mattress, everything):
    assert mattress.get(everything[0]["image_url"]).status_code == 200
