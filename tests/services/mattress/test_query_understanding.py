"""Shoppers' words, and the filters they mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.services.mattress.query_understanding import parse_query

BRANDS = ("Wattlerest", "Yarra Cloud")


@pytest.mark.parametrize(
    ("words", "filters"),
    [
        (
            "cheap firm queen mattress for hot side sleepers under 1500",
            {"size": ["Queen"], "firmness_min": 7, "cooling_min": 4, "sleep_position": ["side"], "max_price": 1500},
        ),
        ("queen bed", {"size": ["Queen"]}),
        ("king size", {"size": ["King"]}),
        ("king single mattress", {"size": ["King Single"]}),
        ("super king bed", {"size": ["Super King"]}),
        ("rubber mattress", {"material": ["latex"]}),
        ("mattress with coils", {"material": ["pocket spring", "innerspring"]}),
        ("pocket spring bed", {"material": ["pocket spring"]}),
        ("foam queen", {"material": ["foam", "memory foam"], "size": ["Queen"]}),
        ("queen under $1,200", {"size": ["Queen"], "max_price": 1200}),
        ("queen below 1.5k", {"size": ["Queen"], "max_price": 1500}),
        ("queen 900 or less", {"size": ["Queen"], "max_price": 900}),
        ("between $800 and $1200 hybrid", {"min_price": 800, "max_price": 1200, "material": ["hybrid"]}),
        ("$1200-800 hybrid", {"min_price": 800, "max_price": 1200, "material": ["hybrid"]}),
        ("around 1000 dollars double", {"min_price": 850, "max_price": 1150, "size": ["Double"]}),
        ("king over $2000", {"size": ["King"], "min_price": 2000}),
        ("king $900", {"size": ["King"], "max_price": 900}),
        ("not too firm single bed", {"firmness_max": 6, "size": ["Single"]}),
        ("mattress that isn't too soft", {"firmness_min": 5}),
        ("extra firm king", {"firmness_min": 8, "size": ["King"]}),
        ("medium firm mattress", {"firmness_min": 6, "firmness_max": 7}),
        ("plush queen", {"firmness_max": 4, "size": ["Queen"]}),
        ("firmness 6-8 queen", {"firmness_min": 6, "firmness_max": 8, "size": ["Queen"]}),
        ("king 7/10", {"firmness_min": 7, "firmness_max": 7, "size": ["King"]}),
        ("bed for back and stomach sleepers", {"sleep_position": ["back", "stomach"]}),
        ("I sleep on my side and get hot", {"sleep_position": ["side"], "cooling_min": 4}),
        ("mattress for night sweats", {"cooling_min": 4}),
        ("Yarra Cloud queen", {"brand": ["Yarra Cloud"], "size": ["Queen"]}),
        ("queen in stock", {"size": ["Queen"], "in_stock": True}),
    ],
)
def test_text_is_parsed_into_filters(words, filters):
    assert parse_query(words, BRANDS).filters == filters


@pytest.mark.parametrize(
    "words",
    ["latex", "queen", "firm", "cooling gel", "firm support", "soft knitted cover", "100 night trial",
     "10 year warranty", "mattress for back pain", "mattress under 30 cm", "gel memory foam", "", "  ", "under"],
)  # fmt: skip
def test_plain_words_have_no_filters(words):
    wish = parse_query(words, BRANDS)
    assert wish.is_empty
    assert wish.text == words


def test_words_of_filters_are_not_matched():
    wish = parse_query("a firm queen mattress with organic wool for me please", BRANDS)
    assert wish.text == "organic wool"
    assert wish.words == {"size": "queen", "firmness_min": "firm"}


@pytest.mark.parametrize(
    ("words", "sort"), [("cheap queen bed", "price"), ("luxury queen bed", "-price"), ("queen bed on sale", "discount")]
)
def test_order_is_parsed(words, sort):
    assert parse_query(words).sort == sort


def test_firmness_of_the_cover_is_ignored():
    assert "firmness_max" not in parse_query("queen mattress with soft cover").filters


@given(st.text(max_size=300))
def test_any_text_can_be_parsed(text):
    parse_query(text, BRANDS)
