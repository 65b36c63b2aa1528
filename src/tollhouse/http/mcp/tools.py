"""Endpoints as MCP tools: path, query and body parameters become the arguments, in one object."""

import contextlib
from collections.abc import Iterable, Mapping
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


def arguments_of(operation: Endpoint, path: Mapping[str, str], query: Iterable[tuple[str, str]], body: Json) -> Json:
    """The arguments of the tool call that stands for an HTTP request: the opposite of `build_request`."""
    known, arguments = _properties(operation.query), dict[str, Any](path)
    for name, text in query:
        schema = known.get(name, {})
        if "array" in _kinds(schema) and not _is_one(schema):
            items: Json = next((each["items"] for each in _choices(schema) if isinstance(each.get("items"), dict)), {})
            arguments.setdefault(name, []).append(_value(text, items))
        else:
            arguments[name] = (
                [_value(part, {"type": "number"}) for part in text.split(",")]
                if _is_one(schema)
                else (_value(text, schema))
            )
    return arguments | body


def _choices(schema: Json) -> list[Json]:
    return [schema, *schema.get("anyOf", [])]


def _kinds(schema: Json) -> set[str]:
    return {each.get("type", "string") for each in _choices(schema)}


def _is_one(schema: Json) -> bool:
    """Whether the parameter is one text with commas, such as a box."""
    return any("prefixItems" in each for each in _choices(schema))


def _value(text: str, schema: Json) -> Any:
    """The argument that the text of a parameter stands for."""
    if _kinds(schema) & {"integer", "number", "boolean"}:
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(text)
    return text


def _query(operation: Endpoint, arguments: Mapping[str, Any]) -> bytes:
    known = _properties(operation.query)
    pairs: list[tuple[str, str]] = []
    for name, value in arguments.items():
        several = value if isinstance(value, list) else [value] if value is not None else []
        pairs += (
            [(name, ",".join(map(_text, several)))]
            if _is_one(known.get(name, {}))
            else [(name, _text(each)) for each in several]
        )
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
