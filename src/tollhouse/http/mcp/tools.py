"""Endpoints as MCP tools: path, query and body parameters become the arguments, in one object."""

import contextlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from tollhouse.http.described import DescribedOperation, schema_of, self_contained
from tollhouse.http.endpoint import Endpoint
from tollhouse.http.openapi import price_sentence

Json = dict[str, Any]


class ToolRequest(Struct, frozen=True):
    """The HTTP request that a tool call stands for."""

    path: str
    path_parameters: dict[str, str]
    query: bytes
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def describe_tool(operation: Endpoint, schemas: Mapping[str, Json]) -> Json:
    """The tool for `tools/list`, with its price in the description. `schemas` are those of its service."""
    text = f"{operation.summary}. {operation.description} {price_sentence(operation.terms)}"
    return {
        "name": operation.id,
        "title": operation.summary,
        "description": " ".join(text.split()),
        "inputSchema": _input_schema(operation)
        if operation.described is None
        else _described_schema(operation.described, schemas),
        "annotations": {"readOnlyHint": operation.method == "GET", "openWorldHint": False},
    }


def build_request(operation: Endpoint, arguments: Mapping[str, Any]) -> ToolRequest:
    """Build the request. Unknown arguments become query parameters, which are rejected by name.

    Raises ValueError for a path parameter that is missing or malformed.
    """
    remaining = dict(arguments)
    if operation.described is not None:
        return _described_request(operation.path, operation.described, remaining)
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
    if operation.described is not None:
        known = {one["name"]: schema_of(one) for one in operation.described.parameters_in("query")}
        body = {body_argument(operation.described): body} if body else {}
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


def body_argument(described: DescribedOperation) -> str:
    """The argument that has the body of an operation as its document describes it."""
    return "request_body" if any(one["name"] == "body" for one in described.parameters) else "body"


def _described_schema(described: DescribedOperation, schemas: Mapping[str, Json]) -> Json:
    properties: Json = {}
    for one in described.parameters:
        about = {"description": one["description"]} if one.get("description") else {}
        properties[one["name"]] = {**schema_of(one), **about}
    required = [one["name"] for one in described.parameters if one.get("required")]
    if described.json_body is not None and described.request_body is not None:
        name = body_argument(described)
        properties[name] = described.json_body.get("schema", {})
        required += [name] if described.request_body.get("required") else []
    schema: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    return self_contained(schema | ({"required": required} if required else {}), schemas)


def _described_request(path: str, described: DescribedOperation, arguments: Json) -> ToolRequest:
    """The request of a proxied operation: each argument where its parameter belongs. Raises ValueError."""
    body = arguments.pop(body_argument(described), None) if described.json_body is not None else None
    in_path: dict[str, str] = {}
    pairs: list[tuple[str, str]] = []
    headers: list[tuple[str, str]] = []
    for one in described.parameters:
        name, value = one["name"], arguments.pop(one["name"], None)
        if one["in"] == "path":
            in_path[name] = _plain(name, None if value is None else _text(value))
            path = path.replace(f"{{{name}}}", quote(in_path[name], safe=""))
        elif value is None:
            continue
        elif one["in"] == "query":
            pairs += _styled(one, value)
        else:
            headers.append((name, _header_value(name, _text(value))))
    if arguments:
        raise ValueError(f"`{next(iter(arguments))}` is not an argument of this tool")
    text = b"" if body is None else msgspec.json.encode(body)
    return ToolRequest(path, in_path, urlencode(pairs).encode(), text, tuple(headers))


def _header_value(name: str, text: str) -> str:
    if not text or len(text) > 1_000 or not text.isprintable() or text != text.strip() or not text.isascii():
        raise ValueError(f"`{name}` must be a string of 1 to 1000 printable ASCII characters")
    return text


def _styled(parameter: Json, value: Any) -> list[tuple[str, str]]:
    """The pairs of a query parameter, in the style that the document states (OpenAPI 3.1, 4.8.12)."""
    name, style = parameter["name"], parameter.get("style", "form")
    explodes = parameter.get("explode", style == "form")
    if isinstance(value, dict):
        members = [(key, _text(one)) for key, one in value.items()]
        if style == "deepObject":
            return [(f"{name}[{key}]", text) for key, text in members]
        return members if explodes else [(name, ",".join(text for member in members for text in member))]
    if isinstance(value, list) and not explodes:
        separator = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(style, ",")
        return [(name, separator.join(map(_text, value)))]
    return [(name, _text(one)) for one in (value if isinstance(value, list) else [value])]


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
