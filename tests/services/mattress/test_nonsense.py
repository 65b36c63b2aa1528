"""Whatever stands in a parameter, the answer is one that a caller can understand."""

from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = ("q", "brand", "size", "material", "retailer", "sleep_position", "min_price", "max_price", "firmness_min",
         "firmness_max", "cooling_min", "in_stock", "brand_not", "text", "text_not",
         "on_sale", "tag_not", "sort", "facets", "fields", "limit", "offset",
         "anything")  # fmt: skip
PATHS = ("/api/products", "/api/search", "/api/suggest", "/api/retailers", "/api/products.jsonld", "/api/products.csv")
ODD_NUMBERS = st.sampled_from(["1e308", "-0", "NaN", "0x10", "\uff11", "1_0", "+1"])
NUMBERS = st.integers().map(str) | st.floats().map(str) | ODD_NUMBERS
SYNTAX = st.sampled_from(["*", "%", "' OR 1=1 --", "a AND", '"', "price:[* TO 5]", "\\", "(", "~1"])
VALUES = st.text(max_size=40) | NUMBERS | SYNTAX


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(PATHS), st.dictionaries(st.sampled_from(NAMES), VALUES | st.lists(VALUES, max_size=3), max_size=5)
)
def test_no_parameter_makes_an_operation_fail(mattress, path, parameters):
    answer = mattress.get(path, **parameters)
    assert answer.status_code in (200, 400, 414)
    assert answer.headers["Content-Type"].startswith("application/problem+json") == (answer.status_code != 200)


@settings(max_examples=150, deadline=None)
@given(st.text(min_size=1, max_size=80))
def test_any_words_can_be_searched_for(mattress, words):
    for path in ("/api/search", "/api/products", "/api/suggest"):
        answer = mattress.get(path, q=words)
        assert answer.status_code == 200 or not words.strip() or "\x00" in words


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_in_a_query_string_are_answered(mattress, raw):
    quoted = "".join(f"%{byte:02X}" for byte in raw)
    for path in (f"/api/search?q={quoted}", f"/api/products?{quoted}={quoted}", f"/api/products/{quoted}"):
        assert mattress.get(path).status_code in (200, 400, 404)
