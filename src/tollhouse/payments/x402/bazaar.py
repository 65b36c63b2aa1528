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

DEEPEST = 8
LONGEST_ENUM = 40

Json = dict[str, Any]

_TEXTS = frozenset({"title", "description", "examples", "example", "default", "deprecated"})
_BELOW = frozenset({"properties", "items", "prefixItems", "additionalProperties"})
_LIMITS = frozenset({
    "enum", "const", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "prefixItems", "additionalProperties",
})  # fmt: skip
_SHAPE = frozenset({"type", "properties", "items", "anyOf", "allOf", "required"})


class Detail(Struct, frozen=True):
    """How much of a schema is written: its texts, its limits, and objects and lists down to a depth."""

    texts: bool = True
    limits: bool = True
    depth: int = DEEPEST


def written(schema: Any, detail: Detail) -> Json:
    """The schema in this detail, with each reference to its `$defs` replaced; a recursive one permits anything."""
    definitions = schema.get("$defs", {}) if isinstance(schema, dict) else {}
    return _written(schema, detail, definitions, ())


def _written(schema: Any, detail: Detail, definitions: Json, within: tuple[str, ...]) -> Json:
    if not isinstance(schema, dict):
        return {}
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        named = definitions.get(name)
        if not isinstance(named, dict) or name in within or len(within) == DEEPEST:
            return {}
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _written({**named, **beside}, detail, definitions, (*within, name))
    below = Detail(detail.texts, detail.limits, detail.depth - 1)
    result: Json = {}
    for key, value in _keywords(schema, detail).items():
        if key in {"anyOf", "allOf"}:
            result[key] = [_written(one, detail, definitions, within) for one in value]
        elif key == "properties":
            result[key] = {name: _written(one, below, definitions, within) for name, one in value.items()}
        elif key == "prefixItems":
            result[key] = [_written(one, below, definitions, within) for one in value]
        else:
            is_schema = key in _BELOW and isinstance(value, dict)
            result[key] = _written(value, below, definitions, within) if is_schema else value
    return result


def _keywords(schema: Json, detail: Detail) -> Json:
    """The keywords that stay in this detail; what is left out only permitted less."""
    known = _SHAPE | (_TEXTS if detail.texts else frozenset()) | (_LIMITS if detail.limits else frozenset())
    if detail.depth == 0:
        known -= _BELOW | {"anyOf", "allOf", "required"}
    remaining = {key: value for key, value in schema.items() if key in known}
    if "oneOf" in schema and "anyOf" in known:
        # Schemas that permit more may overlap, which `oneOf` would refuse.
        remaining["anyOf"] = schema["oneOf"]
    if len(remaining.get("enum", ())) > LONGEST_ENUM:
        del remaining["enum"]
    if "prefixItems" in schema and "prefixItems" not in remaining:
        remaining.pop("items", None)
    if "properties" not in remaining:
        # Without the declared members, it would refuse those.
        remaining.pop("additionalProperties", None)
    return remaining


def example_of(schema: Json) -> Any:
    """A value made of the schema's examples, defaults and types. The schema may refuse it: see `accepts`."""
    for key in ("example", "default", "const"):
        if schema.get(key) is not None:
            return schema[key]
    for key in ("examples", "enum"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    branches = schema.get("anyOf")
    if branches:
        return example_of(next((one for one in branches if one.get("type") != "null"), branches[0]))
    return _made(schema)


def _made(schema: Json) -> Any:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object":
            known = schema.get("properties", {})
            return {name: example_of(known.get(name, {})) for name in schema.get("required", ())}
        case "array":
            return [example_of(schema.get("items") or {}) for _ in range(schema.get("minItems", 0))]
        case "integer" | "number":
            return schema.get("minimum", min(1, schema.get("maximum", 1)))
        case "boolean":
            return True
        case "string":
            return "text".ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]
    return None


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,),
    "object": (dict,), "null": (type(None),),
}  # fmt: skip


def accepts(schema: Any, value: Any) -> bool:
    """Whether a schema of `written` certainly accepts the value; False where that is not known."""
    if not isinstance(schema, dict):
        return schema is True
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is_kind(value, kind) for kind in kinds):
        return False
    is_listed = value in schema.get("enum", [value]) and value == schema.get("const", value)
    is_branch = "anyOf" not in schema or any(accepts(one, value) for one in schema["anyOf"])
    if not (is_listed and is_branch and all(accepts(one, value) for one in schema.get("allOf", ()))):
        return False
    if isinstance(value, list):
        return _accepts_items(schema, value)
    if isinstance(value, dict):
        return _accepts_members(schema, value)
    return _accepts_scalar(schema, value)


def _is_kind(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES.get(kind, ())) and (kind == "boolean" or not isinstance(value, bool))


def _accepts_scalar(schema: Json, value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, str):
        return _is_within(len(value), schema, "minLength", "maxLength") and _matches(schema.get("pattern"), value)
    is_evaluated = not {"exclusiveMinimum", "exclusiveMaximum", "multipleOf"} & schema.keys()
    return is_evaluated and _is_within(value, schema, "minimum", "maximum")


def _is_within(size: float, schema: Json, least: str, most: str) -> bool:
    return bool(schema.get(least, size) <= size <= schema.get(most, size))


def _matches(pattern: Any, text: str) -> bool:
    try:
        return pattern is None or re.search(pattern, text) is not None
    except (re.error, TypeError):
        return False


def _accepts_items(schema: Json, items: list[Any]) -> bool:
    if schema.get("uniqueItems") or not _is_within(len(items), schema, "minItems", "maxItems"):
        return False
    ahead = schema.get("prefixItems", [])
    return all(accepts(one, item) for one, item in zip(ahead, items, strict=False)) and all(
        accepts(schema.get("items", True), item) for item in items[len(ahead) :]
    )


def _accepts_members(schema: Json, members: Json) -> bool:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    return set(schema.get("required", ())) <= members.keys() and all(
        accepts(known.get(name, others), value) for name, value in members.items()
    )


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
