"""Endpoints as MCP tools: path, query and body parameters become the arguments, in one object."""

from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from tollhouse.http.endpoint import Endpoint
from tollhouse.http.openapi import price_sentence

Json = dict[str, Any]


class ToolRequest(Struct, frozen=True):
    """The HTTP request that a tool call stands for."""

    path: str
    path_parameters: dict[str, str]
    query: bytes
    body: bytes


def describe_tool(operation: Endpoint) -> Json:
    """The tool for `tools/list`, with its price in the description."""
    text = f"{operation.summary}. {operation.description} {price_sentence(operation.terms)}"
    return {
        "name": operation.id,
        "title": operation.summary,
        "description": " ".join(text.split()),
        "inputSchema": _input_schema(operation),
        "annotations": {"readOnlyHint": operation.method == "GET", "openWorldHint": False},
    }


def build_request(operation: Endpoint, arguments: Mapping[str, Any]) -> ToolRequest:
    """Build the request. Unknown arguments become query parameters, which are rejected by name.

    Raises ValueError for a path parameter that is missing or malformed.
    """
    remaining = dict(arguments)
    in_path = {name: _plain(name, remaining.pop(name, None)) for name in operation.path_parameters}
    path = operation.path
    for name, value in in_path.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    in_body = {name: remaining.pop(name) for name in _properties(operation.body) if name in remaining}
    body = msgspec.json.encode(in_body) if operation.body else b""
    return ToolRequest(path, in_path, _query(operation, remaining), body)


def _query(operation: Endpoint, arguments: Mapping[str, Any]) -> bytes:
    known = _properties(operation.query)
    pairs: list[tuple[str, str]] = []
    for name, value in arguments.items():
        several = value if isinstance(value, list) else [value] if value is not None else []
        is_one = "prefixItems" in known.get(name, {})
        pairs += [(name, ",".join(map(_text, several)))] if is_one else [(name, _text(each)) for each in several]
    return urlencode(pairs).encode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _plain(name: str, value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 200 or "/" in value or not value.isprintable():
        raise ValueError(f"`{name}` must be a string of 1 to 200 characters without a slash")
    return value


def _input_schema(operation: Endpoint) -> Json:
    required = list(operation.path_parameters)
    properties: Json = {
        name: {"description": parameter.get("description", ""), **parameter.get("schema", {"type": "string"})}
        for name, parameter in operation.path_parameters.items()
    }
    for kind in (operation.query, operation.body):
        properties |= _properties(kind)
        required += _shape(kind).get("required", []) if kind else []
    schema: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    definitions = {
        name: each
        for kind in (operation.query, operation.body)
        if kind
        for name, each in _document(kind).get("$defs", {}).items()
        if name != kind.__name__
    }
    return schema | ({"required": required} if required else {}) | ({"$defs": definitions} if definitions else {})


def _properties(kind: type[Struct] | None) -> Json:
    properties: Json = _shape(kind)["properties"] if kind else {}
    return properties


def _shape(kind: type[Struct]) -> Json:
    document = _document(kind)
    shape: Json = document["$defs"][kind.__name__] if "$ref" in document else document
    return shape


@cache
def _document(kind: type[Struct]) -> Json:
    return msgspec.json.schema(kind)
