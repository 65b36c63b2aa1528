"""An upstream's OpenAPI document, in any of the forms that frameworks write, is read as OpenAPI 3.1."""

import json

import jsonschema_rs
import pytest

from tollhouse.http.described import example_of, self_contained
from tollhouse.proxy.openapi_document import read_document
from tollhouse.proxy.openapi_schemas import OpenApiError

YAML_30 = """
openapi: 3.0.3
info: {title: Shop, version: 2024-01-31}
servers: [{url: "https://api.example.com/{version}/", variables: {version: {default: v2}}}]
tags: [{name: items, description: What is sold}, {name: unused}]
paths:
  /items/{item-id}:
    parameters:
      - {name: item-id, in: path, required: true, schema: {type: integer, minimum: 0, exclusiveMinimum: true}}
      - {$ref: "#/components/parameters/Lang"}
    get:
      operationId: read item
      tags: [items, more]
      parameters:
        - {name: lang, in: query, required: true, schema: {type: string, enum: [de, en]}}
        - {name: Authorization, in: header, schema: {type: string}}
        - {name: X-Trace, in: header, schema: {type: string}}
      responses:
        200:
          description: One item
          content: {application/json: {schema: {$ref: "#/components/schemas/Item", description: dropped}}}
        404: {$ref: "#/components/responses/Missing"}
    delete: {responses: {204: {description: Gone}}}
  /items:
    post:
      summary: Add an item.
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Item"}}}}
      responses: {default: {description: Whatever}}
components:
  parameters: {Lang: {name: lang, in: query, schema: {type: string}}}
  responses: {Missing: {description: No such item, content: {text/plain: {}}}}
  schemas:
    Unused: {type: string}
    Item:
      type: object
      required: [name]
      properties:
        name: {type: string, example: Chair}
        since: {type: string, format: date, nullable: true}
        kind: {type: string, enum: [a, b], nullable: true}
        parent: {nullable: true, allOf: [{$ref: "#/components/schemas/Item"}]}
        tags: {type: array, items: {type: string}, uniqueItems: true}
"""


def test_yaml_of_version_30_becomes_31():
    document = read_document(YAML_30.encode())
    assert (document.title, document.version, document.server_path) == ("Shop", "2024-01-31", "/v2")
    assert document.tags == {"items": "What is sold"}
    read, delete, add = document.operations
    assert (read.method, read.path, read.id, read.tags) == ("GET", "/items/{item_id}", "read_item", ("items", "more"))
    assert (delete.id, add.id, add.summary) == ("deleteItemsItemId", "postItems", "Add an item")
    names = [(one["in"], one["name"]) for one in read.described.parameters]
    assert names == [("path", "item_id"), ("query", "lang"), ("header", "X-Trace")]
    assert read.described.parameters[0]["schema"] == {"type": "integer", "exclusiveMinimum": 0}
    assert read.described.parameters[1]["required"] is True
    answer = read.described.responses["200"]["content"]["application/json"]
    assert answer == {"schema": {"$ref": "#/components/schemas/Item"}}
    assert read.described.responses["404"]["description"] == "No such item"
    item = document.schemas["Item"]["properties"]
    assert set(document.schemas) == {"Item"}
    assert item["since"] == {"type": ["string", "null"], "format": "date"}
    assert item["kind"]["enum"] == ["a", "b", None]
    assert item["parent"]["anyOf"][1] == {"type": "null"}
    assert item["name"]["examples"] == ["Chair"]


def test_schema_stands_alone_and_its_example_fits():
    document = read_document(YAML_30.encode())
    body = document.operations[2].described.json_body
    whole = self_contained(body["schema"], document.schemas)
    jsonschema_rs.meta.validate(whole)
    validator = jsonschema_rs.Draft202012Validator(whole)
    assert example_of(body["schema"], document.schemas) == {"name": "Chair"}
    assert validator.is_valid({"name": "Chair", "parent": {"name": "Set", "parent": None}})
    assert not validator.is_valid({"name": 5})


def changed(**members: object) -> bytes:
    good = {"openapi": "3.1.0", "info": {}, "paths": {"/a": {"get": {"responses": {}}}}}
    return json.dumps({**good, **members}).encode()


def with_schema(reference):
    content = {"application/json": {"schema": {"$ref": reference}}}
    return changed(paths={"/a": {"get": {"responses": {"200": {"description": "", "content": content}}}}})


# Each line repeats the one before ten times.
BOMB = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))]).encode()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (json.dumps({"swagger": "2.0", "paths": {}}).encode(), "Swagger 2.0 is not supported; convert the document to"),
        (changed(openapi="4.0.0"), "supported versions are 3.0 and 3.1"),
        (changed(paths={}), "describes no operation"),
        (changed(paths={"a": {"get": {}}}), "the path 'a' does not begin with a slash"),
        (with_schema("other.yaml#/Item"), "leads out of the document"),
        (with_schema("#/components/schemas/Missing"), "leads to nothing"),
        (b"a: [1, 2", "neither JSON nor YAML (line 2)"),
        (BOMB, "neither JSON nor YAML"),
        (b"\xff\xfe\x00", "neither JSON nor YAML"),
        (b"[]", "is not an object"),
    ],
)
def test_unusable_document_is_refused_with_the_reason(raw, message):
    with pytest.raises(OpenApiError) as raised:
        read_document(raw)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_long_chain_of_references_is_read():
    chain = {f"S{at}": {"properties": {"next": {"$ref": f"#/components/schemas/S{at + 1}"}}} for at in range(3_000)}
    components = {"schemas": {**chain, "S3000": {"type": "string"}}}
    given = {**json.loads(with_schema("#/components/schemas/S0")), "components": components}
    document = read_document(json.dumps(given).encode())
    assert len(document.schemas) == 3_001
    assert len(self_contained({"$ref": "#/components/schemas/S0"}, document.schemas)["$defs"]) == 3_001


def test_reference_into_a_path_becomes_a_component():
    item = {"type": "object", "properties": {"next": {"$ref": "#/paths/~1a/get/responses/200/content/x/schema"}}}
    paths = {"/a": {"get": {"responses": {"200": {"description": "", "content": {"x": {"schema": item}}}}}}}
    document = read_document(changed(paths=paths))
    (name,) = document.schemas
    assert document.schemas[name]["properties"]["next"] == {"$ref": f"#/components/schemas/{name}"}
