"""Shoppers' descriptions, and the filters that they become."""

import pytest

from tollhouse.questions.description import read_description
from tollhouse.services.mattress.described_filters import Translator, merged
from tollhouse.services.mattress.search import read_search_words
from tollhouse.services.mattress.vocabulary import model_words, names_of

NAMES = names_of(
    ["Wattlerest", "Yarra Cloud", "Banksia & Down"],
    {"paddock": "The Mattress Paddock", "coastal-kip": "Coastal Kip"},
    model_words("Yarra Cloud Cumulus Hybrid Mattress, Queen", "Yarra Cloud"),
)
WORDS = read_search_words(NAMES, ["100 night trial", "200 night trial", "cooling"])


def filters(text):
    where = read_description(text, WORDS.linker, "product").query.rows.where
    parameters, groups = merged(Translator(WORDS.trials).parts(where))
    assert not groups, groups
    return parameters


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "firm queen mattress for hot side sleepers under 1500",
            {"size": ["Queen"], "firmness_min": 7, "cooling_min": 4, "sleep_position": ["side"], "max_price": 1499.99},
        ),
        ("queen bed", {"size": ["Queen"]}),
        ("king single mattress", {"size": ["King Single"]}),
        ("twin", {"size": ["Single"]}),
        ("not a king", {"size_not": ["King"]}),
        ("bigger than a queen", {"size": ["Super King", "King"]}),
        ("not smaller than a king", {"size_not": ["King Single", "Queen", "Double", "Single"]}),
        ("107 cm wide", {"size": ["King Single"]}),
        ("rubber mattress", {"material": ["latex"]}),
        ("mattress with coils", {"material": ["pocket spring", "innerspring"]}),
        ("foam queen", {"material": ["memory foam", "foam"], "size": ["Queen"]}),
        ("neither foam nor springs", {"material_not": ["memory foam", "foam", "pocket spring", "innerspring"]}),
        ("plain foam", {"material": ["foam"]}),
        ("900 or less", {"max_price": 900.0}),
        ("between $800 and $1200", {"min_price": 800.0, "max_price": 1200.0}),
        ("king $900", {"size": ["King"], "max_price": 900.0}),
        ("more than 2 grand", {"min_price": 2000.01}),
        ("not too firm", {"firmness_max": 6}),
        ("isn't too soft", {"firmness_min": 5}),
        ("neither soft nor firm", {"firmness_min": 5, "firmness_max": 6}),
        ("extra firm", {"firmness_min": 8}),
        ("firm but not extra firm", {"firmness_min": 7, "firmness_max": 7}),
        ("softer than 5", {"firmness_max": 4}),
        ("firmness 6-8", {"firmness_min": 6, "firmness_max": 8}),
        ("king 7/10", {"size": ["King"], "firmness_min": 7, "firmness_max": 7}),
        ("for back and stomach sleepers", {"sleep_position_all": ["back", "stomach"]}),
        ("for back or stomach sleepers", {"sleep_position": ["back", "stomach"]}),
        ("I sleep on my side and get hot", {"sleep_position": ["side"], "cooling_min": 4}),
        ("Yarra Cloud but not the Cumulus", {"brand": ["Yarra Cloud"], "text_not": ["Cumulus"]}),
        ("banksia and down at coastal kip", {"brand": ["Banksia & Down"], "retailer": ["coastal-kip"]}),
        ("excluding Wattlerest and Yarra Cloud", {"brand_not": ["Wattlerest", "Yarra Cloud"]}),
        ("not from the Mattress Paddock", {"retailer_not": ["paddock"]}),
        ("in stock and not on sale", {"in_stock": True, "on_sale": False}),
        ("sold out", {"availability": ["out of stock"]}),
        ("except preorder", {"availability_not": ["preorder"]}),
        ("trial of at least three months", {"tag": ["100 night trial", "200 night trial"]}),
        ("with a trial", {"tag": ["100 night trial", "200 night trial"]}),
        ("latex-free queen", {"material_not": ["latex"], "size": ["Queen"]}),
        ("Matratze ohne Federkern, Single", {"material_not": ["pocket spring", "innerspring"], "size": ["Single"]}),
        ("je ne veux pas de mousse", {"material_not": ["memory foam", "foam"]}),
        ("matelas qui n'est pas en latex", {"material_not": ["latex"]}),
        ("un colchón que no sea ni firme ni blando", {"firmness_min": 5, "firmness_max": 6}),
        ("all positions", {"sleep_position_all": ["side", "back", "stomach"]}),
        ("cooling 5", {"cooling_min": 5, "cooling_max": 5}),
        ("cooling, under 500", {"cooling_min": 4, "max_price": 499.99}),
        ("at most a double", {"size": ["King Single", "Double", "Single"]}),
        ("no wool", {"text_not": ["wool"]}),
        ("Queen-Matratze ohne Latex", {"size": ["Queen"], "material_not": ["latex"]}),
        ("höchstens 1.000 Dollar", {"max_price": 1000.0}),
        ("colchón firme que no sea de látex", {"firmness_min": 7, "material_not": ["latex"]}),
        ("matelas double sans latex", {"size": ["Double"], "material_not": ["latex"]}),
        ("moins de 500 dollars", {"max_price": 499.99}),
        ("certified, free delivery, for my dog, 30 cm thick, ten year warranty", {}),
    ],
)  # fmt: skip
def test_description_becomes_filters(words, expected):
    assert filters(words) == expected


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        ("cheapest king", 1),
        ("the least firm bed", 1),
        ("cheapest mattresses", None),
        ("cheap king", None),
        ("two cheapest kings", 2),
        ("the three dearest king mattresses", 3),
    ],
)
def test_superlative_of_one_thing_has_a_limit(words, limit):
    assert read_description(words, WORDS.linker, "product").query.rows.limit == limit


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("which mattress will be on sale next week", "prediction"),
        ("will a latex bed cure my back", "advice"),
        ("is Wattlerest overrated", "opinion"),
        ("should I buy shares in Wattlerest", "advice"),
        ("how many customers gave it five stars", "not_in_data"),
        ("a bed that will suit side sleepers", None),
        ("I will need a queen", None),
        ("can you recommend a good firm queen", None),
        ("how many latex queens are there", None),
    ],
)
def test_text_that_asks_for_no_product_is_refused(words, reason):
    reading = read_description(words, WORDS.linker, "product")
    assert getattr(reading, "reason", None) == reason


def test_alternatives_on_several_fields_are_one_group():
    where = read_description("latex or under 500", WORDS.linker, "product").query.rows.where
    (part,) = Translator(WORDS.trials).parts(where)
    assert [[clause.field for clause in group] for group in part.where] == [["material", "current_price"]]
