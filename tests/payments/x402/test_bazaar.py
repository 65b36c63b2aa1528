"""The schemas of a challenge, made of whatever schemas an API's own description has."""

import json
from base64 import b64decode
from typing import Any

import jsonschema
import msgspec
import pytest

from tollhouse.payments.x402.bazaar import Detail, SoldOperation, accepts, http_extension, written
from tollhouse.payments.x402.headers import MAX_CHALLENGE, REQUIRED_HEADER, challenge
from tollhouse.payments.x402.types import Requirement, Resource

TREE = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
}
SCHEMAS: dict[str, Any] = {
    "recursive": {"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}},
    "elsewhere": {"type": "object", "properties": {"a": {"$ref": "https://example.org/a.json"}}, "$id": "urn:x"},
    "no example possible": {"type": "object", "required": ["a"], "properties": {"a": {"pattern": "^[0-9]{9}$"}}},
    "one of": {"oneOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}]},
    "closed": {"type": "object", "properties": {"a": {"type": "integer", "exclusiveMinimum": 3}},
               "required": ["a"], "additionalProperties": False},
    "nothing": {},
    "not an object": {"type": "array", "items": {"type": "string"}, "minItems": 2},
    "many values": {"type": "object", "properties": {"a": {"enum": [f"value {n}" for n in range(500)]}}},
    "wide": {"type": "object", "properties": {f"member_{n}": {"type": "string", "description": "x" * 90}
                                              for n in range(150)}},
    "tuple": {"type": "object", "required": ["box"], "properties": {"box": {
        "type": "array", "prefixItems": [{"type": "number"}] * 4, "items": False, "minItems": 4, "maxItems": 4}}},
    "unknown words": {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]},
                      "not": {"type": "null"}},
}  # fmt: skip
REQUIREMENT = Requirement(8453, 1_000, "0x" + "22" * 20, "0x" + "11" * 20, 300)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_every_size_of_an_extension_is_valid(name: str, method: str) -> None:
    sizes = http_extension(sold(SCHEMAS[name], method))
    assert [len(one) for one in sizes] == sorted((len(one) for one in sizes), reverse=True)
    for size in sizes:
        extension = json.loads(size)
        jsonschema.Draft202012Validator.check_schema(extension["schema"])
        jsonschema.validate(extension["info"], extension["schema"])
        assert b"$ref" not in size
        assert b"$id" not in size
        assert ("bodyType" in extension["info"]["input"]) == (method == "POST")
        assert extension["routeTemplate"] == "/api/things/:id"


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("length", [10, 3_000, 8_000])
def test_challenge_never_exceeds_its_header(name: str, length: int) -> None:
    sizes = http_extension(sold(SCHEMAS[name], "GET"))
    one_size = msgspec.json.encode({"info": {"nonce": "x" * 600}})
    for separator in ("?q=", "/"):
        url = f"https://shop.example.org/api/things/1{separator}{'x' * length}"
        made = challenge(Resource(url, "Things", "text/csv"), [REQUIREMENT, REQUIREMENT], "Payment required.",
                         {"bazaar": sizes, "sign-in": [one_size]})  # fmt: skip
        assert "sign-in" in decoded(made)["extensions"]
        assert len(made.headers[REQUIRED_HEADER]) <= MAX_CHALLENGE
        assert made.members["accepts"][0]["resource"] == url


def test_extension_that_fits_is_whole() -> None:
    sizes = http_extension(sold(TREE | {"$defs": {"Tree": TREE}}, "GET"))
    resource = Resource("https://shop.example.org/api/things/1", "Things", "application/json")
    made = challenge(resource, [REQUIREMENT], "Payment required.", {"bazaar": sizes})
    jsonschema.validate(decoded(made)["extensions"]["bazaar"]["info"], json.loads(sizes[0])["schema"])
    assert decoded(made)["extensions"]["bazaar"] == json.loads(sizes[0])


def test_example_that_the_schema_refuses_is_left_out() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    for example, is_sent in (({"n": 1}, True), ({"n": "one"}, False)):
        info = json.loads(http_extension(sold(schema, "GET", output_example=example))[0])["info"]
        assert ("example" in info["output"]) == is_sent


# What the schema of another place says is unknown.
@pytest.mark.parametrize("name", sorted(SCHEMAS.keys() - {"elsewhere"}))
def test_smaller_schema_accepts_whatever_the_whole_one_accepts(name: str) -> None:
    values: list[Any] = [{}, {"a": 1}, {"a": "123456789"}, {"name": "x", "parts": []}, {"box": [1, 2, 3, 4]},
                         ["a", "b"], {"a": 5}, {"b": 1}, {"a": "value 3"}]  # fmt: skip
    details = [
        Detail(texts, limits, depth) for texts in (True, False) for limits in (True, False) for depth in (8, 2, 0)
    ]
    accepted = [one for one in values if jsonschema.Draft202012Validator(SCHEMAS[name]).is_valid(one)]
    for detail in details:
        smaller = written(SCHEMAS[name], detail)
        for value in values:
            if value in accepted:
                jsonschema.validate(value, smaller)
            if accepts(smaller, value):
                jsonschema.validate(value, smaller)


def sold(schema: dict[str, Any], method: str, **members: Any) -> SoldOperation:
    path = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    body = schema if method == "POST" else None
    query = schema if method != "POST" else {"type": "object", "properties": {}}
    return SoldOperation(method=method, path="/api/things/{id}", path_parameters=path, query=query, body=body,
                         output=schema, **members)  # fmt: skip


def decoded(made: Any) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(b64decode(made.headers[REQUIRED_HEADER]))
    return result
