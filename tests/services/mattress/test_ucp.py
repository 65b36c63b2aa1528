"""The Universal Commerce Protocol's catalogue, checked against its own schemas (tests/data/ucp)."""

from base64 import b64decode
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.services.mattress.conftest import serving
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings

SCHEMAS = Path(__file__).parents[2] / "data" / "ucp"
BASE = "https://ucp.dev/schemas/"


def validator(reference):
    resources = [(f"{BASE}{file.relative_to(SCHEMAS).as_posix()}", msgspec.json.decode(file.read_bytes()))
                 for file in SCHEMAS.rglob("*.json")]  # fmt: skip
    registry = jsonschema_rs.Registry(resources)
    return jsonschema_rs.Draft202012Validator({"$ref": f"{BASE}{reference}"}, registry=registry, validate_formats=True)


SEARCH = validator("shopping/catalog_search.json#/$defs/search_response")
LOOKUP = validator("shopping/catalog_lookup.json#/$defs/lookup_response")
PRODUCT = validator("shopping/catalog_lookup.json#/$defs/get_product_response")
ERROR = validator("common/types/error_response.json")
PROFILE = validator("profile.json#/$defs/business_schema")
NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def asked(mattress, path, body, schema, status=200):
    answer = mattress.post(path, body)
    assert answer.status_code == status, answer.text
    schema.validate(answer.json())
    return answer.json()


def test_schemas_can_refuse():
    assert not SEARCH.is_valid({"ucp": {"version": "2026-04-08"}, "products": [{"id": "x"}]})
    assert not ERROR.is_valid({"ucp": {"version": "2026-04-08", "status": "error"}, "messages": []})


def test_profile_leads_to_this_service(mattress):
    answer = mattress.get("/.well-known/ucp")
    PROFILE.validate(answer.json())
    [service] = answer.json()["ucp"]["services"]["dev.ucp.shopping"]
    assert (service["transport"], service["endpoint"]) == ("rest", "http://test")
    assert "dev.ucp.shopping.catalog.search" in answer.json()["ucp"]["capabilities"]


def test_search_without_a_query_returns_the_first_ten(mattress, everything):
    page = asked(mattress, "/catalog/search", {}, SEARCH)
    assert [p["id"] for p in page["products"]] == [p["id"] for p in everything[:10]]
    assert page["pagination"]["total_count"] == 165


def test_every_product_is_valid_and_has_its_price(mattress, everything):
    page = asked(mattress, "/catalog/search", {"pagination": {"limit": 250}}, SEARCH)
    assert len(page["products"]) == 165
    for ucp, product in zip(page["products"], everything, strict=True):
        [variant] = ucp["variants"]
        assert variant["price"] == {"amount": round(product["sale_price"] * 100), "currency": "AUD"}
        is_reduced = product["sale_price"] < product["price"]
        assert ("list_price" in variant, "list_price_range" in ucp) == (is_reduced, is_reduced)
        assert ucp["metadata"]["firmness"] == product["firmness"]


def test_cursors_lead_through_every_product_once(mattress, everything):
    seen, cursor = [], {}
    while True:
        page = asked(mattress, "/catalog/search", {"pagination": {"limit": 40, **cursor}}, SEARCH)
        seen += [product["id"] for product in page["products"]]
        if not page["pagination"]["has_next_page"]:
            break
        cursor = {"cursor": page["pagination"]["cursor"]}
    assert seen == [product["id"] for product in everything]


def test_filters_are_read_from_the_query(mattress):
    words = "firm queen mattress for hot side sleepers under 1500"
    page = asked(mattress, "/catalog/search", {"query": words, "pagination": {"limit": 250}}, SEARCH)
    assert [p["id"] for p in page["products"]] == [
        p["id"] for p in mattress.products("/api/search", q=words)["products"]
    ]


def test_price_filters_are_in_cents_and_all_filters_apply(mattress, everything):
    filters = {"price": {"min": 50000, "max": 100000}, "categories": ["hybrid", "latex"], "size": "Queen"}
    page = asked(mattress, "/catalog/search", {"filters": filters, "pagination": {"limit": 250}}, SEARCH)
    wanted = [p["id"] for p in everything if 500 <= p["sale_price"] <= 1000 and p["size"] == "Queen"
              and p["material"] in ("hybrid", "latex")]  # fmt: skip
    assert [p["id"] for p in page["products"]] == wanted
    assert wanted


@pytest.mark.parametrize(("categories", "total"), [(["Mattresses"], 165), (["2696", "x"], 165), (["Sofas"], 0)])
def test_categories_are_any_of(mattress, categories, total):
    page = asked(mattress, "/catalog/search", {"filters": {"categories": categories}}, SEARCH)
    assert page["pagination"]["total_count"] == total


def test_category_and_material_must_both_hold(mattress):
    page = asked(mattress, "/catalog/search", {"filters": {"categories": ["latex"], "material": ["foam"]}}, SEARCH)
    assert page["pagination"] == {"has_next_page": False, "total_count": 0}


def test_price_filter_in_another_currency_is_ignored_with_a_message(mattress):
    body = {"filters": {"price": {"max": 1}}, "context": {"currency": "USD"}}
    page = asked(mattress, "/catalog/search", body, SEARCH)
    assert page["pagination"]["total_count"] == 165
    assert page["messages"][0]["code"] == "price_filter_ignored"


def test_unknown_filters_and_members_are_left_aside(mattress):
    body = {
        "filters": {"com.example.colour": "red"},
        "context": {"language": "en"},
        "signals": {"dev.ucp.buyer_ip": "1.2.3.4"},
    }
    assert asked(mattress, "/catalog/search", body, SEARCH)["pagination"]["total_count"] == 165


def test_lookup_maps_ids_of_products_and_variants(mattress, everything):
    first, second = everything[0]["id"], everything[1]["id"]
    page = asked(mattress, "/catalog/search", {"pagination": {"limit": 2}}, SEARCH)
    variant = page["products"][1]["variants"][0]["id"]
    answer = asked(mattress, "/catalog/lookup", {"ids": [first, variant, second, first, "nothing"]}, LOOKUP)
    assert [p["id"] for p in answer["products"]] == [first, second]
    assert answer["products"][0]["variants"][0]["inputs"] == [{"id": first, "match": "featured"}]
    assert answer["products"][1]["variants"][0]["inputs"] == [
        {"id": variant, "match": "exact"},
        {"id": second, "match": "featured"},
    ]
    assert [message["code"] for message in answer["messages"]] == ["not_found"]


def test_lookup_can_be_narrowed(mattress, everything):
    body = {"ids": [everything[0]["id"]], "filters": {"price": {"max": 1}}}
    assert asked(mattress, "/catalog/lookup", body, LOOKUP)["products"] == []


def test_ids_are_case_sensitive(mattress, everything):
    assert asked(mattress, "/catalog/lookup", {"ids": [everything[0]["id"].upper()]}, LOOKUP)["products"] == []


def test_product_is_detailed_by_its_own_or_its_variants_id(mattress, everything):
    own = everything[0]["id"]
    detail = asked(mattress, "/catalog/product", {"id": own}, PRODUCT)["product"]
    assert detail["selected"] == [{"name": "Size", "label": everything[0]["size"]}]
    assert detail["options"][0]["values"][0]["exists"] is True
    again = asked(mattress, "/catalog/product", {"id": detail["variants"][0]["id"]}, PRODUCT)["product"]
    assert again == detail


def test_unknown_product_is_an_outcome_and_not_a_failure(mattress):
    answer = asked(mattress, "/catalog/product", {"id": "nothing"}, ERROR)
    assert answer["messages"][0]["code"] == "not_found"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/catalog/search", {"query": 1}), ("/catalog/search", {"query": "x" * 501}),
        ("/catalog/search", {"filters": []}),
        ("/catalog/search", {"filters": {"price": {"min": -1}}}), ("/catalog/search", {"filters": {"categories": "x"}}),
        ("/catalog/search", {"pagination": {"limit": 0}}), ("/catalog/search", {"pagination": {"cursor": "?"}}),
        ("/catalog/search", {"pagination": {"cursor": "bzk5OTk5"}}), ("/catalog/search", {"context": 1}),
        ("/catalog/lookup", {}), ("/catalog/lookup", {"ids": []}), ("/catalog/lookup", {"ids": "x"}),
        ("/catalog/lookup", {"ids": ["x"] * 101}), ("/catalog/product", {}), ("/catalog/product", {"id": 1}),
        ("/catalog/product", {"id": "x", "selected": [{"name": "Size"}]}),
    ],
)  # fmt: skip
def test_wrong_body_is_400_in_the_protocols_form(mattress, path, body):
    answer = asked(mattress, path, body, ERROR, status=400)
    assert answer["messages"][0]["code"] == "invalid_request"


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["/catalog/search", "/catalog/lookup", "/catalog/product"]),
    st.dictionaries(
        st.sampled_from(["query", "ids", "id", "filters", "pagination", "context", "signals", "selected"]), NONSENSE
    ),
)
def test_no_body_makes_it_fail(mattress, path, body):
    answer = mattress.post(path, body)
    assert answer.status_code in (200, 400), answer.text


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), NONSENSE)
def test_no_words_or_filter_make_a_search_fail(mattress, words, value):
    for name in ("size", "price", "categories", "in_stock"):
        answer = mattress.post("/catalog/search", {"query": words, "filters": {name: value}})
        assert answer.status_code in (200, 400)
        (SEARCH if answer.status_code == 200 else ERROR).validate(answer.json())


@pytest.mark.parametrize("path", ["/catalog/search", "/catalog/lookup", "/catalog/product"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff"])
def test_body_that_is_no_object_is_400(mattress, path, content):
    answer = mattress.send(path, content)
    assert answer.status_code == 400


def told(answer, status, code):
    """The one message of an error in the protocol's form."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json"), answer.text
    ERROR.validate(answer.json())
    [message] = answer.json()["messages"]
    assert message["code"] == code
    return message


ENDPOINTS = pytest.mark.parametrize(
    ("path", "body"), [("/catalog/search", {}), ("/catalog/lookup", {"ids": ["x"]}), ("/catalog/product", {"id": "x"})]
)


@ENDPOINTS
async def test_payment_required_has_the_protocols_form(data_dir, path, body):
    async with serving(data_dir=str(data_dir), recorded=False, free_per_ip_per_day=1) as client:
        assert (await client.post(path, json=body)).headers["X-RateLimit-Remaining"] == "0"
        refused = await client.post(path, json=body)
        message = told(refused, 402, "payment_required")
        assert (message["x402"]["x402Version"], message["x402"]["accepts"]) == (1, [])
        assert msgspec.json.decode(b64decode(refused.headers["PAYMENT-REQUIRED"]))["x402Version"] == 2
        assert refused.headers["X-RateLimit-Remaining"] == "0"


@ENDPOINTS
def test_invalid_key_has_the_protocols_form(mattress, path, body):
    refused = mattress.post(path, body, headers={"Authorization": "Bearer th_live_nobody"})
    told(refused, 401, "invalid_key")
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")


async def test_limits_and_tiers_of_keys_have_the_protocols_form(data_dir):
    settings = {"data_dir": str(data_dir), "recorded": False}
    async with serving(**settings) as client:
        async with open_context(Settings(**settings), answers_calls=False) as context:
            free = (await context.keys.create("ada@example.org", "free")).text
            limited = (await context.keys.create("ada@example.org", "pro", per_minute=1)).text
        unlimited, first, second = [
            await client.post("/catalog/search", json={}, headers={"Authorization": f"Bearer {key}"})
            for key in (free, limited, limited)
        ]
        assert unlimited.status_code == 200
        SEARCH.validate(first.json())
        wait = told(second, 429, "rate_limited")["retry_after_seconds"]
        assert int(second.headers["Retry-After"]) == wait > 0


def test_too_large_body_has_the_protocols_form(mattress):
    told(mattress.send("/catalog/search", b"{" + b" " * 2_000_000), 413, "payload_too_large")
    told(mattress.send("/catalog/search", b"{}", "text/plain"), 415, "unsupported_media_type")


def test_openapi_description_has_the_protocols_error_form(mattress):
    document = mattress.get("/api/openapi.json").json()
    paths, shared = document["paths"], document["components"]["responses"]
    for path, problem in (("/catalog/search", "application/json"), ("/api/search", "application/problem+json")):
        [operation] = paths[path].values()
        refused = operation["responses"]["402"]
        refused = shared[refused["$ref"].rpartition("/")[2]] if "$ref" in refused else refused
        assert list(refused["content"]) == [problem]
