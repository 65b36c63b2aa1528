"""Whatever a feed holds, it is read into rows or refused as unreadable: no other exception, and no half a product."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.catalogue.importers.feeding import FEEDS, rows_of_text
from tests.catalogue.importers.test_traps import FILES
from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.items import FeedItemError, UnreadableFeed
from tollhouse.catalogue.importers.values import feed_money, minor_units
from tollhouse.services.mattress.attributes.derive import derive
from tollhouse.services.mattress.attributes.lexicon import ProductTexts
from tollhouse.services.mattress.import_transaction import as_item
from tollhouse.services.mattress.retailers import Retailer

SHOP = Retailer("shop")
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
PRICES = st.sampled_from(["10.00", "-1", "", "1e5", 1000, 10.5, None, "9" * 30, "$5", "5 USD", {"amount": 1}])
NAMES = st.sampled_from(
    ["id", "title", "name", "products", "variants", "options", "option1", "price", "prices", "compare_at_price", "tags",
     "images", "src", "handle", "attributes", "terms", "type", "parent", "variation", "offers", "hasVariant", "@type",
     "@id", "@graph", "priceSpecification", "priceCurrency", "currency_minor_unit", "additionalProperty", "size", "sku",
     "brand", "url", "available", "inventory_quantity", "itemListElement", "item", "value", "description", "currency"]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS | PRICES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=25,
)


def read(text: str, format_name: str) -> None:
    """Every good row must be a product the catalogue takes."""
    try:
        rows = rows_of_text(text, format_name, currency="AUD")
    except UnreadableFeed:
        return
    for row in rows:
        assert (row.product is None) == bool(row.refused)
        assert row.line >= 1
        if row.product is not None:
            assert as_item(SHOP, row.id, row.product)["price"] > 0


def broken(raw: bytes, draw: Any) -> bytes:
    """A real feed with pieces cut out, doubled, or overwritten."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(raw)))
        end = draw(st.integers(start, min(len(raw), start + 60)))
        raw = raw[:start] + draw(st.binary(max_size=8) | st.just(raw[start:end] * 2)) + raw[end:]
    return raw


@pytest.mark.parametrize("format_name", FILES)
@QUICK
@given(data=st.data())
def test_broken_feed_is_read_or_refused(format_name, data):
    raw = broken((FEEDS / FILES[format_name]).read_bytes(), data.draw)
    try:
        text = Document(raw).text()
    except UnreadableFeed:
        return
    read(text, format_name)


@pytest.mark.parametrize("format_name", ["shopify", "shopify-admin", "shopify-js", "woocommerce", "jsonld", "jsonl"])
@QUICK
@given(value=VALUES)
def test_json_of_any_shape_is_read_or_refused(format_name, value):
    read(json.dumps(value), format_name)
    read(json.dumps([value]), format_name)
    read(json.dumps({"products": [value], "@type": "Product", "@graph": [value], "variants": [value]}), format_name)


@pytest.mark.parametrize("format_name", FILES)
@QUICK
@given(text=st.text(max_size=300))
def test_any_text_is_read_or_refused(format_name, text):
    read(text, format_name)
    read(f"id,title,price\n{text}", format_name)
    read(f"id\ttitle\tprice\n{text}", format_name)
    read(f"<rss><channel><item>{text}</item></channel></rss>", format_name)


@QUICK
@given(raw=st.binary(max_size=400))
def test_any_bytes_are_text_or_unreadable(raw):
    try:
        assert "\0" not in Document(raw).text()
    except UnreadableFeed:
        return


@QUICK
@given(value=SCALARS | PRICES | VALUES)
def test_any_sum_is_a_number_or_a_fault(value):
    for read_sum in (lambda: feed_money(value)[0], lambda: minor_units(value, 2)):
        with suppress(FeedItemError):
            assert read_sum().is_finite()


@QUICK
@given(
    texts=st.lists(
        st.sampled_from(["not too ", "firm", "soft", " to ", "medium", " mattress", ", ", "side", " sleepers", "queen",
                         "153", " x ", "203", "cm ", "cooling", "traps heat", "latex", "firmness 7", "/10", ". ", "-"]),
        max_size=25,
    ).map("".join)
)  # fmt: skip
def test_any_words_give_values_a_product_may_have(texts):
    for where in (ProductTexts(title=texts), ProductTexts(tags=(texts,)), ProductTexts(description=texts)):
        for name, finding in derive(where).items():
            assert finding.words, name
            if finding.value is not None:
                value = list(finding.value) if isinstance(finding.value, tuple) else finding.value
                product = {"title": "t", "price": 1.0, "affiliate_url": "https://s.example", name: value}
                assert as_item(SHOP, "1", product)[name] == value
