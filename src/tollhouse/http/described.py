"""Operations that somebody else's OpenAPI document describes: their parts, and JSON Schemas made of its components."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

JSON = "application/json"
SCHEMA_REF = "#/components/schemas/"
DEFINITION_REF = "#/$defs/"
_MAX_DEPTH = 8

_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "email": "name@example.com",
    "uri": "https://example.com/",
}


@dataclass(frozen=True, slots=True)
class DescribedOperation:
    """OpenAPI 3.1 parts of an operation. Only schemas may be references, to `#/components/schemas/` of its service.

    `parameters` are parameter objects, `request_body` is a request body object, `responses` are response objects by
    status, and `extras` other members of the operation, such as `deprecated`.
    """

    parameters: tuple[Json, ...] = ()
    request_body: Json | None = None
    responses: Json = field(default_factory=dict)
    extras: Json = field(default_factory=dict)

    def parameters_in(self, *places: str) -> list[Json]:
        """The parameters in `path`, `query` or `header`."""
        return [one for one in self.parameters if one["in"] in places]

    @property
    def json_body(self) -> Json | None:
        """The media type object of the JSON body, if the operation takes one."""
        return _json_media((self.request_body or {}).get("content", {}))


def schema_of(part: Mapping[str, Any]) -> Json:
    """The schema of a parameter, which may be in its `content`."""
    content = part.get("content")
    media = next(iter(content.values()), {}) if content else part
    schema = media.get("schema", {})
    return schema if isinstance(schema, dict) else {}


def self_contained(schema: Json, schemas: Mapping[str, Json]) -> Json:
    """The schema with the components it refers to in `$defs`."""
    names = list(reached(schema, schemas))
    whole = renamed(schema, {}, DEFINITION_REF)
    definitions = {name: renamed(schemas[name], {}, DEFINITION_REF) for name in names}
    return {**whole, "$defs": {**whole.get("$defs", {}), **definitions}} if definitions else whole


def renamed(node: Any, names: Mapping[str, str], prefix: str = SCHEMA_REF) -> Any:
    """The document part with references to the components of these names changed, and all of them to this prefix."""

    def rename(reference: str) -> str:
        name, slash, rest = reference.removeprefix(SCHEMA_REF).partition("/")
        return f"{prefix}{names.get(name, name)}{slash}{rest}"

    return with_references(node, rename)


def example_of(schema: Any, schemas: Mapping[str, Json], depth: int = 0) -> Any:
    """A value the schema suggests: its example, its default, or one made of its type; None where it says nothing."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return None
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    for key in ("const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    inner = _referred(schema, schemas) or _choice(schema)
    if inner is not None:
        return example_of(inner, schemas, depth + 1)
    if parts := schema.get("allOf"):
        made = [example_of(part, schemas, depth + 1) for part in parts]
        objects = [one for one in made if isinstance(one, dict)]
        return {name: value for one in objects for name, value in one.items()} if objects else made[0]
    return _made(schema, schemas, depth)


def _referred(schema: Json, schemas: Mapping[str, Json]) -> Json | None:
    """The component that a schema refers to."""
    reference = schema.get("$ref", "")
    return schemas.get(reference.removeprefix(SCHEMA_REF)) if reference.startswith(SCHEMA_REF) else None


def _choice(schema: Json) -> Json | None:
    choices = schema.get("anyOf") or schema.get("oneOf") or ()
    return next((one for one in choices if one != {"type": "null"}), None)


def _made(schema: Json, schemas: Mapping[str, Json], depth: int) -> Any:
    kinds = schema.get("type", "object" if "properties" in schema else None)
    kind = next((one for one in kinds if one != "null"), None) if isinstance(kinds, list) else kinds
    match kind:
        case "string":
            text = _FORMATS.get(schema.get("format", ""), "text")
            return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength", len(text) + 100)]
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return True
        case "array":
            return [example_of(schema.get("items"), schemas, depth + 1)] if schema.get("items") else []
        case "object":
            members = schema.get("properties", {})
            needed = [name for name in members if name in schema.get("required", ())]
            return {name: example_of(members[name], schemas, depth + 1) for name in needed}
    return None


def _number(schema: Json) -> Any:
    step = 1 if schema.get("type") == "integer" else 0.5
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    if least is None:
        most = schema.get("maximum", schema.get("exclusiveMaximum"))
        return 1 if most is None or most > 1 else most - (step if "exclusiveMaximum" in schema else 0)
    return least + step if "exclusiveMinimum" in schema else least


def _json_media(content: Mapping[str, Any]) -> Json | None:
    for media_type, media in content.items():
        if is_json_type(media_type) or media_type.partition(";")[0].strip() == "*/*":
            return dict(media)
    return None


def is_json_type(media_type: str) -> bool:
    plain = media_type.partition(";")[0].strip().lower()
    return plain == JSON or plain.endswith("+json")


def reached(node: Any, schemas: Mapping[str, Json]) -> dict[str, None]:
    """The names of the components that a part of a document refers to, and those that these refer to."""
    names: dict[str, None] = {}
    unread = [node]
    while unread:
        for reference in references(unread.pop()):
            name = reference.removeprefix(SCHEMA_REF).partition("/")[0]
            if name in schemas and name not in names:
                names[name] = None
                unread.append(schemas[name])
    return names


def references(node: Any, start: str = SCHEMA_REF) -> Iterator[str]:
    """Every reference within a part of a document that begins so, by default to a component schema."""
    if isinstance(node, str):
        if node.startswith(start):
            yield node
    elif isinstance(node, dict | list):
        for one in node.values() if isinstance(node, dict) else node:
            yield from references(one, start)


def with_references(node: Any, change: Callable[[str], str], start: str = SCHEMA_REF) -> Any:
    """The part of a document with each reference that begins so changed."""
    if isinstance(node, str):
        return change(node) if node.startswith(start) else node
    if isinstance(node, list):
        return [with_references(one, change, start) for one in node]
    return {key: with_references(one, change, start) for key, one in node.items()} if isinstance(node, dict) else node
