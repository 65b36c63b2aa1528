"""What an item may be, and how its values compare."""

import math
import tomllib
from decimal import Decimal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.catalogue.shop import SHOP, item
from tollhouse.catalogue.items import InvalidItem, bound, comparable, comparable_values, key, prepare_item
from tollhouse.catalogue.schema import Field, Schema


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"id": ""}, "id"),
        ({"id": 7}, "id"),
        ({"id": "x" * 201}, "id"),
        ({"id": "a\x00b"}, "id"),
        ({"id": "a\nb"}, "id"),
        ({"title": None}, "title"),
        ({"title": 7}, "title"),
        ({"title": "\ud800"}, "title"),
        ({"title": "x" * 100_001}, "title"),
        ({"brand": " "}, "brand"),
        ({"brand": ["Koala"]}, "brand"),
        ({"tags": "cooling"}, "tags"),
        ({"tags": ["cooling", None]}, "tags"),
        ({"price": "12.50"}, "price"),
        ({"price": math.nan}, "price"),
        ({"price": 1e10}, "price"),
        ({"price": 0.1234567}, "price"),
        ({"price": True}, "price"),
        ({"firmness": 5.5}, "firmness"),
        ({"firmness": 2**60}, "firmness"),
        ({"rating": math.inf}, "rating"),
        ({"in_stock": "true"}, "in_stock"),
        ({"in_stock": 1}, "in_stock"),
        ({"listed_at": "2026-01-31"}, "listed_at"),
        ({"listed_at": "soon"}, "listed_at"),
        ({"colour": "red"}, "colour"),
        ({"current_price": 5}, "current_price"),
        ({"specs": object()}, "specs"),
    ],
)
def test_item_that_does_not_fit_is_refused_with_the_field_named(members, field):
    with pytest.raises(InvalidItem) as refused:
        prepare_item(SHOP, {"id": "a", "title": "Cloud", **members})
    assert refused.value.field == field
    assert field in str(refused.value)


def test_keywords_are_distinct_in_any_case():
    assert item("a", tags=["Cooling", "cooling", "COOLING ", "soft"])["tags"] == ["Cooling", "soft"]


def test_null_members_and_stamps_are_left_out():
    assert item("a", "Cloud", brand=None, created_at="2020-01-01T00:00:00Z") == {"id": "a", "title": "Cloud"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Sleeping Duck", " sleeping\u00a0 DUCK"),
        ("Straße", "STRASSE"),
        ("\uff2b\uff2f\uff21\uff2c\uff21", "koala"),
        ("Ärger", "a\u0308rger"),
    ],
)
def test_spellings_of_one_value_have_one_key(one, other):
    assert key(one) == key(other)


def test_price_to_pay_and_share_off():
    both = item("a", price=1000, sale_price=750.5)
    assert comparable_values(SHOP, both, "current_price") == [750_500_000]
    assert comparable_values(SHOP, both, "discount") == [1 - 0.7505]
    assert comparable_values(SHOP, item("b", price=0), "discount") == [0.0]
    assert comparable_values(SHOP, item("c", sale_price=5), "current_price") == []


def test_ends_of_a_range_are_rounded_inwards():
    assert bound("integer", 4.2, is_minimum=True) == 5
    assert bound("integer", 4.8, is_minimum=False) == 4
    assert bound("money", "0.1", is_minimum=True) == comparable("money", 0.1) == 100_000


@given(st.integers(-(10**15), 9 * 10**15))
@example(8_687_894_675_685_000)
def test_money_is_exact_to_the_millionth(micros):
    written = str(Decimal(micros).scaleb(-6))
    assert comparable("money", written) == micros
    if Decimal(repr(float(written))) == Decimal(written):
        assert comparable("money", float(written)) == micros
    cents = round(micros / 1e6, 2)
    assert comparable("money", cents) == comparable("money", repr(cents))


@pytest.mark.parametrize(
    "hostile", ["1e999999999", "9" * 100_000, "nan", "inf", "", "0x10", "\u0661e", None, [], "1_0e400"]
)
def test_hostile_numbers_are_refused_quickly(hostile):
    with pytest.raises(ValueError, match="is"):
        bound("money", hostile, is_minimum=True)


@pytest.mark.parametrize(
    "broken",
    [
        {"fields": (Field("title", "text"), Field("title", "text"))},
        {"fields": (Field("Title", "text"),)},
        {"fields": (Field("title", "text"), Field("id", "keyword"))},
        {"fields": (Field("title", "text", filtered=True),)},
        {"fields": (Field("title", "text", sorted=True),)},
        {"fields": (Field("title", "text"), Field("n", "integer", weight=1))},
        {"fields": (Field("title", "text", weight=-1),)},
        {"fields": (Field("name", "text"),)},
        {"fields": (Field("title", "text"),), "price": "price"},
        {"fields": (Field("title", "text"), Field("sale", "money")), "sale_price": "sale"},
        {"fields": (Field("title", "text"),), "alike": {"title": 1.0}},
    ],
)
def test_declaration_that_contradicts_itself_is_refused(broken):
    with pytest.raises(ValueError, match=r"\w"):
        Schema(**broken)


def test_declaration_is_read_from_toml():
    text = """
    title = "name"
    price = "cost"
    synonyms = [["latex", "rubber"]]
    alike = { cost = 5 }
    fields = [
        { name = "name", type = "text", weight = 10, required = true },
        { name = "cost", type = "money", filtered = true, faceted = true, sorted = true },
    ]
    """
    schema = msgspec.convert(tomllib.loads(text), Schema)
    assert [field.name for field in schema.searched] == ["name"]
    assert schema.exported == ("id", "name", "cost")
    assert {"id", "current_price", "discount"} <= set(schema.by_name)
    with pytest.raises(msgspec.ValidationError, match="colour"):
        msgspec.convert({"fields": [], "title": "colour"}, Schema)
