"""The schemas of an OpenAPI description, in forms that generators of clients read."""

import builtins
import typing
from collections import Counter
from collections.abc import Collection
from keyword import iskeyword
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct, inspect

from tollhouse.http.described import SCHEMA_REF, reached, renamed

Json = dict[str, Any]

# A model of such a name hides a type that generated Python or TypeScript needs.
_TAKEN = {*typing.__all__, *dir(builtins), "Array", "Blob", "Date", "Error", "File", "Headers", "Map", "Object",
          "Promise", "Record", "Request", "Response", "String"}  # fmt: skip
# Their members are names of the document, not keywords of JSON Schema.
_BY_NAME = {"properties", "patternProperties", "$defs", "headers", "content"}
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


class Components:
    """The named schemas of one description. `query` gives the properties of a type that no component shows.

    `accepted` are types that callers send, `returned` types that the server sends: it always sends every member, so
    each is required. One type has one component. Types of the same name get the name of their module in front, as do
    those named like a type of Python or TypeScript.
    """

    def __init__(self, accepted: Collection[type[Struct]], returned: Collection[type[Struct]]) -> None:
        kinds = sorted({*accepted, *returned}, key=lambda kind: (kind.__name__, kind.__module__))
        refs, schemas = msgspec.json.schema_components(kinds, ref_template=f"{SCHEMA_REF}{{name}}")
        described = _structs(kinds)
        names = _names(described, schemas)
        self._names = {kind: names[ref["$ref"].removeprefix(SCHEMA_REF)] for kind, ref in zip(kinds, refs, strict=True)}
        self.schemas: Json = {
            names.get(name, name): untitled(portable(renamed(schemas[name], names))) for name in schemas
        }
        sent = reached([self.reference(kind) for kind in accepted], self.schemas)
        only_returned = reached([self.reference(kind) for kind in returned], self.schemas).keys() - sent.keys()
        for name, one in described.items():
            if names[name] in only_returned:
                _require_all(self.schemas[names[name]], one)

    def reference(self, kind: type[Struct]) -> Json:
        return {"$ref": f"{SCHEMA_REF}{self._names[kind]}"}

    def query(self, kind: type[Struct]) -> Json:
        """The schema of a query type, whose members become parameters."""
        schema: Json = self.schemas[self._names[kind]]
        return schema

    def used_by(self, described: Any) -> Json:
        """The components that the described operations refer to."""
        return {name: self.schemas[name] for name in sorted(reached(described, self.schemas))}


def _names(described: dict[str, inspect.StructType], schemas: Collection[str]) -> dict[str, str]:
    """The component of each schema: `Usage`, or `KeyEndpointsUsage` where others have that name."""
    return {
        name: _component_name(described[name].cls, is_shared="." in name) if name in described else name
        for name in schemas
    }


def _component_name(kind: type[Struct], *, is_shared: bool) -> str:
    name = kind.__name__
    if not is_shared and name not in _TAKEN and not iskeyword(name.lower()):
        return name
    return "".join(word.capitalize() for word in kind.__module__.rpartition(".")[2].split("_")) + name


def portable(node: Any) -> Any:
    """The schema without the forms that generators refuse; it accepts the same values, or more."""
    if isinstance(node, list):
        return [portable(value) for value in node]
    if not isinstance(node, dict):
        return node
    schema = {name: _portable_member(name, value) for name, value in node.items()}
    if "prefixItems" in schema and schema.get("items") is False:
        choices: list[Json] = []
        for item in schema.pop("prefixItems"):
            choices += [item] if item not in choices else []
        schema["items"] = choices[0] if len(choices) == 1 else {"anyOf": choices}
    if isinstance(values := schema.get("enum"), list) and values:
        kinds = list(dict.fromkeys(_JSON_TYPES.get(type(value), "object") for value in values))
        schema.setdefault("type", kinds[0] if len(kinds) == 1 else kinds)
        if len(values) == 1:
            schema["const"] = schema.pop("enum")[0]
    if "discriminator" in schema and "anyOf" in schema:
        schema["oneOf"] = schema.pop("anyOf")
    if isinstance(schema.get("default"), dict):
        # Generators cannot build an object of a model from it.
        del schema["default"]
    return schema


def _portable_member(name: str, value: Any) -> Any:
    if name in {"default", "example", "examples"}:
        return value
    if name in _BY_NAME and isinstance(value, dict):
        return {key: portable(each) for key, each in value.items()}
    return portable(value)


def untitled(schema: Json) -> Json:
    """A component without its title, which some generators take for the name of the model."""
    return {name: value for name, value in schema.items() if name != "title"}


def _structs(kinds: Collection[type[Struct]]) -> dict[str, inspect.StructType]:
    """The types and those inside, by the names that msgspec gives their schemas."""
    known: dict[type, inspect.StructType] = {}
    for described in inspect.multi_type_info(kinds):
        _collect(described, known)
    count = Counter(kind.__name__ for kind in known)
    return {
        kind.__name__ if count[kind.__name__] == 1 else f"{kind.__module__}.{kind.__qualname__}": described
        for kind, described in known.items()
    }


def _collect(described: Any, known: dict[type, inspect.StructType]) -> None:
    if isinstance(described, inspect.StructType):
        if described.cls not in known:
            known[described.cls] = described
            for field in described.fields:
                _collect(field.type, known)
        return
    inside = [getattr(described, one, None) for one in ("type", "item_type", "key_type", "value_type")]
    for part in [*inside, *getattr(described, "types", ()), *getattr(described, "item_types", ())]:
        if isinstance(part, inspect.Type):
            _collect(part, known)


def _require_all(schema: Json, described: inspect.StructType) -> None:
    """Require every member of a type that the server sends, but those it leaves out."""
    if described.cls.__struct_config__.omit_defaults:
        return
    left_out = {
        field.encode_name
        for field in described.fields
        if not field.required and field.default is NODEFAULT and field.default_factory is NODEFAULT
    }
    schema["required"] = [name for name in schema.get("properties", {}) if name not in left_out]
    if not schema["required"]:
        del schema["required"]
    for member in schema.get("properties", {}).values():
        member.pop("default", None)
