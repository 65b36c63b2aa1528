"""The schemas of a description have forms that generators of clients read, and one name each."""

import re
from typing import Literal

import jsonschema_rs
import pytest
from msgspec import UNSET as LEFT_OUT
from msgspec import Struct, UnsetType, defstruct

from tollhouse.http.openapi_schemas import Components, portable

MOST_CHOICES = 40
NAME = re.compile(r"[A-Z][A-Za-z0-9]*")


class Filter(Struct, frozen=True, tag="filter"):
    corner: tuple[float, float] = (0.0, 0.0)


class Order(Struct, frozen=True, tag="order"):
    by: Literal["name", "price"] = "name"
    then: "Filter | Order | None" = None


class Search(Struct, frozen=True):
    part: Filter | Order = Filter()
    mixed: tuple[int, str] | None = None
    only: Literal["all"] | None = None
    cursor: str | UnsetType = LEFT_OUT


def schemas(accepted=(), returned=()):
    return Components(accepted, returned).schemas


def nodes(node):
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from nodes(value)
    elif isinstance(node, list):
        for value in node:
            yield from nodes(value)


def test_lists_of_fixed_length_say_what_their_items_are():
    properties = schemas([Search])["Filter"]["properties"]
    assert properties["corner"]["items"] == {"type": "number"}
    assert (properties["corner"]["minItems"], properties["corner"]["maxItems"]) == (2, 2)
    mixed = schemas([Search])["Search"]["properties"]["mixed"]["anyOf"][0]
    assert mixed["items"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}


def test_one_allowed_value_is_a_constant_and_every_choice_has_a_type():
    found = schemas([Search])
    assert {"const": "all", "type": "string"} in found["Search"]["properties"]["only"]["anyOf"]
    assert found["Order"]["properties"]["by"]["type"] == "string"
    assert found["Order"]["properties"]["type"] == {"const": "order", "type": "string"}


def test_members_may_be_named_like_keywords():
    properties = {"default": {"type": "object"}, "enum": {"enum": ["a"]}, "items": {"type": "integer"}}
    made = portable({"type": "object", "properties": properties, "default": {"enum": [1]}})
    assert made["properties"] == {**properties, "enum": {"type": "string", "const": "a"}}
    assert "default" not in made
    assert portable({"type": "string", "default": "a", "examples": [{"enum": [1]}]})["examples"] == [{"enum": [1]}]


def test_tagged_types_exclude_each_other_and_no_default_is_an_object():
    part = schemas([Search])["Search"]["properties"]["part"]
    assert {one["$ref"].rpartition("/")[2] for one in part["oneOf"]} == {"Filter", "Order"}
    assert "default" not in part


def test_server_sends_every_member_but_a_caller_may_leave_those_with_a_default():
    assert not schemas([Search])["Search"].get("required")
    assert schemas([], [Search])["Search"]["required"] == ["part", "mixed", "only"]
    assert not schemas([Search], [Search])["Search"].get("required")


def test_types_of_one_name_get_the_name_of_their_module_whatever_their_order():
    one = defstruct("Usage", [("day", int)], module="shop.key_endpoints")
    two = defstruct("Usage", [("tokens", int)], module="shop.chat")
    outer = defstruct("Outer", [("usage", two)], module="shop.chat")
    for kinds in ([one, outer], [outer, one]):
        components = Components([], kinds)
        assert set(components.schemas) == {"ChatUsage", "KeyEndpointsUsage", "Outer"}
        assert components.schemas["Outer"]["properties"]["usage"] == {"$ref": "#/components/schemas/ChatUsage"}
        assert components.reference(one) == {"$ref": "#/components/schemas/KeyEndpointsUsage"}


@pytest.mark.parametrize("name", ["List", "Not", "Date", "Promise", "int"])
def test_name_that_a_language_needs_gets_the_module_in_front(name):
    kind = defstruct(name, [("x", int)], module="shop.query")
    assert list(schemas([], [kind])) == [f"Query{name}"]


def test_portable_schema_accepts_what_the_type_accepts():
    components = Components([Search], [])
    validator = jsonschema_rs.Draft202012Validator(
        {**components.reference(Search), "components": {"schemas": components.schemas}}
    )
    for value in ({}, {"part": {"type": "filter", "corner": [1, 2.5]}, "mixed": [1, "a"], "only": "all"},
                  {"part": {"type": "order", "by": "price", "then": {"type": "filter"}}}):  # fmt: skip
        validator.validate(value)
    for value in ({"only": "some"}, {"part": {"type": "order", "by": "size"}}, {"mixed": [1, "a", 2]}):
        assert not validator.is_valid(value)


def test_no_form_that_a_generator_refuses_is_in_the_description(description):
    assert all(NAME.fullmatch(name) for name in description["components"]["schemas"])
    for node in nodes(description["paths"]):
        assert node.get("items", {}) is not False
    for node in nodes(description):
        if isinstance(choices := node.get("enum"), list):
            assert 1 < len(choices) <= MOST_CHOICES
            assert len({str(choice).casefold() for choice in choices}) == len(choices)
            assert "type" in node
