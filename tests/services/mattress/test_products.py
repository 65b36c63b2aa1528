"""`GET /api/products`: filters, orders, counts and pages."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tollhouse.services.mattress.api_types import KEYWORDS
from tollhouse.services.mattress.product import AVAILABILITIES, MATERIALS, PRODUCT_FIELDS, SIZES, SLEEP_POSITIONS

DOCUMENTED = ("id", "title", "brand", "price", "sale_price", "currency", "size", "material", "firmness", "cooling",
              "sleep_positions", "tags", "image_url", "affiliate_url", "availability")  # fmt: skip

PASSES = {
    "brand": lambda p, value: (p["brand"] or "").casefold() == value.casefold(),
    "size": lambda p, value: p["size"].casefold() == value.casefold(),
    "material": lambda p, value: p["material"].casefold() == value.casefold(),
    "retailer": lambda p, value: p["retailer"] == value,
    "sleep_position": lambda p, value: value in p["sleep_positions"],
    "min_price": lambda p, value: p["sale_price"] >= value,
    "max_price": lambda p, value: p["sale_price"] <= value,
    "firmness_min": lambda p, value: p["firmness"] >= value,
    "firmness_max": lambda p, value: p["firmness"] <= value,
    "cooling_min": lambda p, value: p["cooling"] >= value,
    "cooling_max": lambda p, value: p["cooling"] <= value,
    "tag": lambda p, value: value in p["tags"],
    "availability": lambda p, value: p["availability"] == value,
    "brand_not": lambda p, value: (p["brand"] or "").casefold() != value.casefold(),
    "size_not": lambda p, value: p["size"].casefold() != value.casefold(),
    "material_not": lambda p, value: p["material"].casefold() != value.casefold(),
    "retailer_not": lambda p, value: p["retailer"] != value,
    "sleep_position_not": lambda p, value: value not in p["sleep_positions"],
    "tag_not": lambda p, value: value not in p["tags"],
    "availability_not": lambda p, value: p["availability"] != value,
    "sleep_position_all": lambda p, value: set(value) <= set(p["sleep_positions"]),
    "text": lambda p, value: value in f"{p['title']} {p['description']}".lower(),
    "text_not": lambda p, value: value not in f"{p['title']} {p['description']}".lower(),
    "on_sale": lambda p, value: (p["sale_price"] < p["price"]) == value,
    "in_stock": lambda p, value: (p["availability"] in ("in stock", "low stock")) == value,
}
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "brand": st.sampled_from(["Wattlerest", "tidewater", "YARRA CLOUD", "Nobody"]),
        "size": st.sampled_from([*SIZES, "queen"]),
        "material": st.sampled_from(MATERIALS),
        "retailer": st.sampled_from(["coastal-kip", "harbour-and-doona"]),
        "sleep_position": st.sampled_from(SLEEP_POSITIONS),
        "min_price": st.integers(0, 3000),
        "max_price": st.integers(0, 4000),
        "firmness_min": st.integers(1, 10),
        "firmness_max": st.integers(1, 10),
        "cooling_min": st.integers(1, 5),
        "cooling_max": st.integers(1, 5),
        "tag": st.sampled_from(["bed in a box", "cooling"]),
        "availability": st.sampled_from(AVAILABILITIES),
        "brand_not": st.sampled_from(["Tidewater", "Nobody"]),
        "size_not": st.sampled_from([*SIZES, "queen"]),
        "material_not": st.sampled_from(MATERIALS),
        "retailer_not": st.sampled_from(["coastal-kip", "harbour-and-doona"]),
        "sleep_position_not": st.sampled_from(SLEEP_POSITIONS),
        "tag_not": st.sampled_from(["bed in a box", "cooling"]),
        "availability_not": st.sampled_from(AVAILABILITIES),
        "sleep_position_all": st.lists(st.sampled_from(SLEEP_POSITIONS), min_size=1, max_size=2, unique=True),
        "text": st.sampled_from(["bamboo", "cumulus"]),
        "text_not": st.sampled_from(["wool", "bass"]),
        "in_stock": st.booleans(),
        "on_sale": st.booleans(),
    },
)


def passes(product, filters):
    return all(PASSES[name](product, value) for name, value in filters.items())


def sent(filters):
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in filters.items()}


def test_envelope_is_the_documents_with_the_filters_in_force(mattress):
    page = mattress.get("/api/products", size="Queen", max_price=1200, limit=2).json()
    assert set(page) == {"total", "count", "offset", "limit", "products", "applied_filters"}
    assert page["applied_filters"] == {"size": ["Queen"], "max_price": 1200}
    assert (page["count"], page["offset"], page["limit"]) == (2, 0, 2)


def test_every_product_has_every_documented_member_in_its_type(everything):
    for product in everything:
        assert set(DOCUMENTED) < set(product)
        assert isinstance(product["sale_price"], float)
        assert product["sale_price"] <= product["price"]
        assert product["currency"] == "AUD"
        assert product["size"] in SIZES
        assert product["material"] in MATERIALS
        assert 1 <= product["firmness"] <= 10
        assert 1 <= product["cooling"] <= 5
        assert product["image_url"] == f"http://test/images/{product['id']}.svg"
        assert product["affiliate_url"].startswith("https://")


def test_catalogue_has_165_demo_products_of_16_retailers(everything):
    assert len(everything) == len({product["id"] for product in everything}) == 165
    assert len({product["retailer"] for product in everything}) == 16
    assert all("demo data" in product["tags"] for product in everything)


# Each facet: the member that it counts, and the filters that are its own.
COUNTED = {
    **{name: (name, (name, f"{name}_not")) for name in ("brand", "size", "material", "retailer", "availability")},
    "sleep_position": ("sleep_positions", ("sleep_position", "sleep_position_not", "sleep_position_all")),
    "firmness": ("firmness", ("firmness_min", "firmness_max")),
    "cooling": ("cooling", ("cooling_min", "cooling_max")),
    "tags": ("tags", ("tag", "tag_not")),
}
PRICES = ("min_price", "max_price")


def without(products, filters, own):
    others = {name: value for name, value in filters.items() if name not in own}
    return [product for product in products if passes(product, others)]


def values_of(product, member):
    found = product[member] if isinstance(product[member], list) else [product[member]]
    return [str(each).casefold() for each in found]


@settings(max_examples=60, deadline=None)
@given(FILTERS)
def test_totals_pages_and_every_facet_agree_with_the_full_export(mattress, everything, filters):
    page = mattress.products(**sent(filters), facets=",".join([*COUNTED, "price"]))
    expected = [product for product in everything if passes(product, filters)]
    assert page["total"] == page["count"] == len(expected)
    assert [p["id"] for p in page["products"]] == sorted(p["id"] for p in expected)

    for name, (member, own) in COUNTED.items():
        counts = Counter(value for product in without(everything, filters, own) for value in values_of(product, member))
        chosen = {str(filters[own[0]]).casefold(): 0} if own[0] in filters and own[0] in KEYWORDS else {}
        values = {str(each["value"]).casefold(): each["count"] for each in page["facets"][name]}
        assert values == {**chosen, **counts}, name
    free = [product["sale_price"] for product in without(everything, filters, PRICES)]
    prices = page["facets"]["price"]
    assert (prices["min"], prices["max"]) == ((min(free), max(free)) if free else (None, None))
    for bar in prices["histogram"]:
        assert bar["count"] == sum(bar["from"] <= price < bar["to"] for price in free)
    assert sum(bar["count"] for bar in prices["histogram"]) == len(free)


@settings(max_examples=40, deadline=None)
@given(FILTERS, st.integers(1, 250), st.integers(0, 200))
def test_pages_of_any_size_make_up_the_whole(mattress, everything, filters, limit, offset):
    page = mattress.products(**sent(filters), limit=limit, offset=offset)
    expected = sorted(product["id"] for product in everything if passes(product, filters))
    assert page["total"] == len(expected)
    assert [p["id"] for p in page["products"]] == expected[offset : offset + limit]


@pytest.mark.parametrize(
    ("path", "given"),
    [("/api/products", {"sort": "-firmness"}), ("/api/search", {"q": "mattress under 1500", "sort": "price"})],
)
def test_cursors_lead_through_every_page(mattress, path, given):
    whole = mattress.get(path, limit=250, **given).json()["products"]
    walked, cursor = [], "*"
    while cursor:
        page = mattress.get(path, limit=9, cursor=cursor, **given).json()
        assert page["total"] == len(whole)
        assert "cursor" not in page["applied_filters"]
        walked, cursor = walked + page["products"], page["next_cursor"]
    assert walked == whole


def test_cursor_does_not_follow_relevance(mattress):
    assert mattress.get("/api/products", q="latex", cursor="*").json()["parameter"] == "cursor"


def test_repeated_values_mean_any_of_them_in_any_case(mattress, everything):
    page = mattress.products(size=["queen", "KING"], material=["Latex", "hybrid"])
    wanted = [p for p in everything if p["size"] in ("Queen", "King") and p["material"] in ("latex", "hybrid")]
    assert page["total"] == len(wanted) > 0


def test_brand_of_several_words_may_be_sent_with_plus_signs(mattress, everything):
    page = mattress.get("/api/products?brand=Yarra+Cloud&limit=250").json()
    assert page["total"] == sum(p["brand"] == "Yarra Cloud" for p in everything) > 0


def test_second_group_of_twenty_follows_the_first(mattress):
    whole = mattress.products()["products"]
    page = mattress.get("/api/products", limit=20, offset=20).json()
    assert page["products"] == whole[20:40]


def test_twenty_are_given_without_a_limit(mattress):
    assert mattress.get("/api/products").json()["count"] == 20


@pytest.mark.parametrize(
    ("sort", "key", "descending"),
    [
        ("price", lambda p: p["sale_price"], False),
        ("-price", lambda p: p["sale_price"], True),
        ("discount", lambda p: 1 - p["sale_price"] / p["price"], True),
        ("firmness", lambda p: p["firmness"], False),
        ("-firmness", lambda p: p["firmness"], True),
        ("newest", lambda p: p["created_at"], True),
    ],
)
def test_sort_orders_every_product(mattress, sort, key, descending):
    ordered = [key(p) for p in mattress.products(sort=sort)["products"]]
    pairs = [(b, a) if descending else (a, b) for a, b in pairwise(ordered)]
    assert all(a <= b + 1e-9 if isinstance(a, float) else a <= b for a, b in pairs)
    assert len(set(ordered)) > 1


def test_fields_choose_members_beside_the_id(mattress):
    page = mattress.products(fields="title,price", limit=3)
    assert all(set(p) == {"id", "title", "price"} for p in page["products"])
    repeated = mattress.get("/api/products?fields=title&fields=price&limit=3").json()
    assert repeated["products"] == page["products"]


def test_every_field_and_facet_can_be_requested(mattress):
    facets = "brand,size,material,retailer,firmness,cooling,sleep_position,availability,tags,price"
    page = mattress.products(fields=",".join(PRODUCT_FIELDS), facets=facets)
    assert set(page["facets"]) == set(facets.split(","))
    assert sum(each["count"] for each in page["facets"]["firmness"]) == 165


def test_selected_values_stay_in_their_facet(mattress, everything):
    page = mattress.products(size="Queen", facets="size")
    assert sum(each["count"] for each in page["facets"]["size"]) == len(everything)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("limit", "0"), ("limit", "251"), ("limit", "ten"), ("limit", "1.5"), ("offset", "-1"), ("offset", "10001"),
        ("max_price", "cheap"), ("max_price", "-1"), ("min_price", "-0.01"), ("min_price", "1e999"),
        ("firmness_min", "0"), ("firmness_min", "11"), ("firmness_max", "soft"), ("firmness_max", "11"),
        ("cooling_min", "6"), ("cooling_min", "x"), ("in_stock", "yes"), ("sort", "cheapest"), ("sort", ""),
        ("facets", "colour"), ("facets", ""), ("fields", "secret"), ("fields", "in_stock"), ("q", ""), ("q", " "),
        ("brand", ""), ("size", ""), ("material", ""), ("retailer", ""), ("sleep_position", ""),
        ("cursor", ""), ("cursor", "x70"), ("cursor", "1~x70"), ("brand", "x" * 201), ("colour", "red"), ("q", "\x00"),
    ],
)  # fmt: skip
def test_wrong_parameter_is_400_and_named(mattress, parameter, value):
    answer = mattress.get("/api/products", **{parameter: value})
    assert answer.status_code == 400
    problem = answer.json()
    assert (problem["code"], problem["parameter"]) == ("invalid-parameter", parameter)


@pytest.mark.parametrize("parameter", ["limit", "offset", "sort", "max_price", "q", "in_stock"])
def test_single_parameter_sent_twice_is_400(mattress, parameter):
    assert mattress.get(f"/api/products?{parameter}=1&{parameter}=1").status_code == 400


def test_more_than_a_hundred_values_are_400(mattress):
    assert mattress.get("/api/products", brand=["x"] * 101).status_code == 400


def test_unchanged_answer_is_304_without_a_body(mattress):
    first = mattress.get("/api/products", limit=20)
    again = mattress.get("/api/products", limit=20, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = mattress.get("/api/products", limit=21, headers={"If-None-Match": first.headers["ETag"]})
    assert other.status_code == 200


def test_post_is_405(mattress):
    answer = mattress.post("/api/products", {})
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")


def test_words_in_products_are_plain_words(mattress):
    page = mattress.products(q="latex")
    assert page["total"] > 0
    assert page["applied_filters"] == {"q": "latex"}
    assert all("latex" in f"{p['title']} {p['description']}".casefold() for p in page["products"])


def test_health_counts_products_and_demonstration_data(mattress):
    health = mattress.get("/health").json()
    assert set(health) == {"status", "product_count", "demo_product_count", "uptime_seconds", "version"}
    assert (health["status"], health["product_count"], health["demo_product_count"]) == ("ok", 165, 165)
