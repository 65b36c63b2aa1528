"""Descriptions of rows: every condition where it stands, negations with their reach, amounts, and words left over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.questions.description import read_description
from tollhouse.questions.linking import Linker
from tollhouse.questions.query import AnyOf, Not, Test
from tollhouse.questions.vocabulary import Attribute, Declaration, Kind, Named

BOATS = Declaration(
    kinds=(
        Kind(
            name="boat",
            nouns=("boat",),
            attributes=(
                Attribute(
                    name="hull", type="keyword", nouns=("hull",), values={"steel": (), "wood": ("timber",), "glass": ()}
                ),
                Attribute(name="use", type="keyword", several=True, values={"racing": (), "fishing": ()}),
                Attribute(name="price", type="money", preferred=True, units={"dollars": 1.0}, least=("cheapest",)),
                Attribute(
                    name="speed", type="number", nouns=("speed",), most=("faster", "fastest"),
                    units={"knots": 1.0}, ranges={"slow": (0, 8), "fast": (20, 50)}, scale=(0, 50),
                ),
                Attribute(name="cabins", type="number", nouns=("cabins", "cabin")),
                Attribute(name="maker", type="keyword"),
            ),
        ),
    ),
    unavailable={"mooring": ("mooring",)},
)  # fmt: skip
LINKER = Linker(BOATS, [Named("Tern", "boat", "maker", "Tern"), Named("Skua & Sons", "boat", "maker", "Skua & Sons")])


def read(text):
    return read_description(text, LINKER, "boat")


def shown(condition):
    if isinstance(condition, Test):
        return (
            f"{condition.attribute} {condition.comparison} {','.join(f'{value}' for value in condition.values)}".strip()
        )
    if isinstance(condition, Not):
        return f"not ({shown(condition.of)})"
    return "; ".join(map(shown, condition.of))


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("steel boat", "hull is steel"),
        ("not steel", "not (hull is steel)"),
        ("no steel, no wood", "not (hull is steel); not (hull is wood)"),
        ("neither steel nor wood", "not (hull is steel,wood)"),
        ("anything but steel or wood, by Tern", "not (hull is steel,wood); maker is Tern"),
        ("racing, excluding Tern and Skua & Sons", "use is racing; not (maker is Tern); not (maker is Skua & Sons)"),
        ("nothing but timber", "hull is wood"),
        ("don't show me anything that isn't wood", "hull is wood"),
        ("steel or glass", "hull is steel,glass"),
        ("racing and fishing", "use is racing; use is fishing"),
        ("under 5000", "price below 5000.0"),
        ("5k max", "price at_most 5000.0"),
        ("nothing over $5,000", "not (price above 5000.0)"),
        ("one and a half grand or less", "price at_most 1500.0"),
        ("between one and two thousand dollars", "price at_least 1000.0; price at_most 2000.0"),
        ("from 500 to 700", "price at_least 500.0; price at_most 700.0"),
        ("around 1000 dollars", "price at_least 850.0; price at_most 1150.0"),
        ("wood for $900", "hull is wood; price at_most 900.0"),
        ("at least 3 cabins", "cabins at_least 3.0"),
        ("with 2 cabins", "cabins is 2.0"),
        ("with a cabin", "cabins known"),
        ("no cabin", "not (cabins known)"),
        ("faster than 12 knots", "speed above 12.0"),
        ("not faster than 12 knots", "not (speed above 12.0)"),
        ("speed 10 to 12 knots", "speed at_least 10.0; speed at_most 12.0"),
        ("slow", "speed at_least 0; speed at_most 8"),
        ("steel or not, by Tern", "maker is Tern"),
        ("the hull does not matter, wood doesn't matter, but fishing", "use is fishing"),
        ("after an old steel boat something else", "not (hull is steel)"),
        ("wood is fine, steel isn't", "hull is wood; not (hull is steel)"),
        ("I don't mind the hull as long as it is fishing", "use is fishing"),
        ("at least speed 8", "speed at_least 8.0"),
        ("the hull doesn't matter as long as it is fishing", "use is fishing"),
        ("wood-free", "not (hull is wood)"),
        ("speed not 8", "not (speed is 8.0)"),
        ("2 or 3 cabins", "cabins is 2.0,3.0"),
        ("not made of steel", "not (hull is steel)"),
        ("not wanted: steel, wood", "not (hull is steel); not (hull is wood)"),
        ("600 dollars or so", "price at_least 510.0; price at_most 690.0"),
        ("any hull but steel", "not (hull is steel)"),
        ("from anyone but Tern and Skua & Sons", "not (maker is Tern); not (maker is Skua & Sons)"),
        ("no wood that isn't fishing", "hull is wood; use is fishing"),
        ("max $5,000 speed over 8", "price at_most 5000.0; speed above 8.0"),
        ("speed 8+", "speed at_least 8.0"),
        ("within 5 days", ""),
        ("a boat at least 5 zebras", ""),
    ],
)  # fmt: skip
def test_conditions_are_read_where_they_stand(text, conditions):
    assert shown(read(text).query.rows.where) == conditions


@pytest.mark.parametrize(
    ("text", "branches"),
    [
        ("wood fishing or steel racing", [{"wood", "fishing"}, {"steel", "racing"}]),
        ("racing wood, or else a fishing one", [{"racing", "wood"}, {"fishing", "wood"}]),
    ],
)
def test_or_between_whole_descriptions_joins_them(text, branches):
    where = read(text).query.rows.where
    assert isinstance(where, AnyOf)
    said = [{test.values[0] for test in one.of} for one in where.of]
    assert said == branches


def test_superlative_orders():
    order = read("fastest steel boat").query.rows.order
    assert (order.by, order.descending) == ("speed", True)
    assert read("cheapest").query.rows.order.descending is False


def test_unknown_words_are_left_and_denied_ones_exclude_texts():
    reading = read("steel boat with a teak deck, no varnish, mooring")
    assert shown(reading.query.rows.where) == "hull is steel; not (text contains varnish)"
    assert reading.query.words == ("teak deck",)
    assert reading.ignored == ("mooring",)


def test_corrections_are_those_that_were_used():
    assert read("stel").corrected == (("stel", "steel"),)


@given(st.text(max_size=300))
def test_any_text_can_be_read(text):
    read(text)
