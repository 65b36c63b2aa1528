"""The x402 extension `bazaar`: how a sold operation is called and what it returns, as JSON Schemas in its challenge.

A challenge is a header of limited size, so an extension is written in several sizes. Each next one leaves more out, in
this order: texts of the output; the output's example; limits and lists of values of the output; its inner objects; the
texts of the input; limits and lists of values of the input; all but the type of the output, then of the input.
Leaving out only ever permits more, so that what one schema accepts, each smaller one accepts, too.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tollhouse.payments.x402.json_schema import Detail, Json, accepts, example_of, written

BAZAAR = "bazaar"
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})

PATH_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")

BodyType = Literal["json", "form-data", "text"]


class SoldOperation(Struct, frozen=True, kw_only=True):
    """An operation over HTTP. Schemas are JSON Schemas (2020-12) of objects, whose references are within themselves.

    `path` is a template with `{name}` for each of `path_parameters`. Examples that do not match are not used.
    """

    method: str
    path: str
    path_parameters: Json
    query: Json
    body: Json | None = None
    body_type: BodyType = "json"
    output: Json
    output_type: str = "json"
    path_example: Mapping[str, Any] = {}
    query_example: Mapping[str, Any] = {}
    body_example: Any = None
    output_example: Any = None


class SoldTool(Struct, frozen=True, kw_only=True):
    """The same operation as a tool of MCP."""

    name: str
    description: str
    input: Json
    output: Json


_WHOLE = Detail()
_SIZES = (
    (_WHOLE, _WHOLE, True),
    (_WHOLE, Detail(texts=False), True),
    (_WHOLE, Detail(texts=False), False),
    (_WHOLE, Detail(texts=False, limits=False), False),
    (_WHOLE, Detail(texts=False, limits=False, depth=3), False),
    (_WHOLE, Detail(texts=False, limits=False, depth=1), False),
    (Detail(texts=False, limits=False), Detail(texts=False, limits=False, depth=3), False),
    (Detail(texts=False), Detail(texts=False, limits=False, depth=1), False),
    (Detail(texts=False, limits=False), Detail(texts=False, limits=False, depth=1), False),
    (Detail(texts=False, limits=False), Detail(texts=False, limits=False, depth=0), False),
    (Detail(texts=False, limits=False, depth=0), Detail(texts=False, limits=False, depth=0), False),
)


def http_extension(sold: SoldOperation) -> tuple[bytes, ...]:
    """The extension for a call over HTTP as JSON, from the largest size to the smallest."""
    return _distinct([_http(sold, *size) for size in _SIZES])


def tool_extension(sold: SoldTool) -> tuple[bytes, ...]:
    """The extension for a call over MCP as JSON, from the largest size to the smallest."""
    return _distinct([_tool(sold, *size) for size in _SIZES])


def _distinct(extensions: list[Json]) -> tuple[bytes, ...]:
    sizes = dict.fromkeys(msgspec.json.encode(each) for each in extensions)
    return tuple(sorted(sizes, key=len, reverse=True))


def _http(sold: SoldOperation, given: Detail, returned: Detail, with_example: bool) -> Json:  # noqa: FBT001
    has_body = sold.method in BODY_METHODS
    members: Json = {"type": "http", "method": sold.method}
    schemas: Json = {"type": {"const": "http"}, "method": {"enum": [sold.method]}}
    required = ["type", "method"]
    parts: list[tuple[str, Json, Any]] = []
    if sold.path_parameters.get("properties"):
        parts.append(("pathParams", sold.path_parameters, dict(sold.path_example)))
    if sold.query.get("properties") or not has_body:
        parts.append(("queryParams", sold.query, dict(sold.query_example)))
    if has_body:
        members["bodyType"], schemas["bodyType"] = sold.body_type, {"enum": [sold.body_type]}
        parts.append(("body", sold.body or {"type": "object"}, sold.body_example))
        required += ["bodyType", "body"]
    for name, schema, example in parts:
        schemas[name], members[name] = _with_example(written(schema, given), example)
    extension = _extension(members, schemas, required, written(sold.output, returned), sold.output_type)
    if with_example and sold.output_example is not None and accepts(written(sold.output, _WHOLE), sold.output_example):
        extension["info"]["output"]["example"] = sold.output_example
    if sold.path_parameters.get("properties"):
        extension["routeTemplate"] = PATH_PARAMETER.sub(r":\1", sold.path)
    return extension


def _tool(sold: SoldTool, given: Detail, returned: Detail, with_example: bool) -> Json:  # noqa: FBT001, ARG001
    members: Json = {"type": "mcp", "toolName": sold.name, "transport": "streamable-http"}
    if given.texts:
        members["description"] = sold.description
    members["inputSchema"] = written(sold.input, given)
    schemas: Json = {
        "type": {"const": "mcp"},
        "toolName": {"const": sold.name},
        "transport": {"enum": ["streamable-http"]},
        "inputSchema": {"type": "object"},
    }
    return _extension(members, schemas, ["type", "toolName", "inputSchema"], written(sold.output, returned), "json")


def _extension(members: Json, schemas: Json, required: list[str], output: Json, output_type: str) -> Json:
    properties = {
        "input": {"type": "object", "properties": schemas, "required": required},
        "output": {"type": "object", "properties": {"type": {"const": output_type}, "example": output}},
    }
    schema = {"$schema": SCHEMA_DIALECT, "type": "object", "properties": properties, "required": ["input"]}
    return {"info": {"input": members, "output": {"type": output_type}}, "schema": schema}


def _with_example(schema: Json, example: Any) -> tuple[Json, Any]:
    """The schema and a value that it accepts: the example if it is one, or one that is made of the schema.

    Where neither is known to be accepted, the schema is of any object.
    """
    for value in (example, example_of(schema)):
        if value is not None and accepts(schema, value):
            return schema, value
    members = written(schema, Detail(limits=False)).get("properties", {})
    return ({"type": "object", "properties": members} if members else {}), {}
