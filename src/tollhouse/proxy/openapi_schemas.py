"""Schemas and references of somebody else's OpenAPI document, as OpenAPI 3.1 has them (JSON Schema 2020-12)."""

import re
from typing import Any
from urllib.parse import unquote

from tollhouse.http.described import SCHEMA_REF

Json = dict[str, Any]

# Members of a schema that hold schemas: one, a list, or an object of them.
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems",
        "unevaluatedProperties", "contentSchema")  # fmt: skip
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_OBJECTS = ("properties", "patternProperties", "$defs", "dependentSchemas")
# They change what references are relative to.
_LEFT_OUT = frozenset({"$schema", "$id", "$vocabulary", "nullable", "example", "definitions"})


class OpenApiError(ValueError):
    """The document cannot be used; the message says why, in one line."""


def object_or_empty(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def objects_in(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


class References:
    """Resolves references and converts schemas. `schemas` are the components that this refers to, once read."""

    def __init__(self, whole: Json, *, is_version_30: bool) -> None:
        self._whole = whole
        self._is_30 = is_version_30
        self._hoisted: dict[str, str] = {}
        self._unread: list[tuple[str, Any]] = []
        self.schemas: dict[str, Json] = {}

    def resolved(self, node: Any) -> Json:
        """The object, or what it refers to."""
        for _ in range(20):
            if not isinstance(node, dict):
                return {}
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            node = self._target(reference)
        raise OpenApiError(f"the reference {reference!r} leads back to itself")

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise OpenApiError(f"the reference {reference!r} leads out of the document; bundle it into one file first")
        node: Any = self._whole
        for part in reference[2:].split("/"):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            elif isinstance(node, dict) and key in node:
                node = node[key]
            else:
                raise OpenApiError(f"the reference {reference!r} leads to nothing")
        return node

    def schema(self, given: Any) -> Any:
        """The schema in JSON Schema 2020-12, as OpenAPI 3.1 has it. Whatever is not a schema accepts anything."""
        if isinstance(given, bool):
            return given
        if not isinstance(given, dict):
            return {}
        reference = given.get("$ref")
        if isinstance(reference, str):
            own = {} if self._is_30 else self._members({key: one for key, one in given.items() if key != "$ref"})
            return {"$ref": self._component(reference), **own}
        return self._members(given)

    def _members(self, given: Json) -> Json:
        made: Json = {}
        for key, value in given.items():
            if key in _LEFT_OUT:
                continue
            if key in _ONE:
                made[key] = self.schema(value)
            elif key in _LISTS and isinstance(value, list):
                made[key] = [self.schema(one) for one in value]
            elif key in _OBJECTS and isinstance(value, dict):
                made[key] = {name: self.schema(one) for name, one in value.items()}
            else:
                made[key] = value
        self._use_mapped(made.get("discriminator"))
        return _with_null(_with_examples(_with_bounds(made), given), is_nullable=given.get("nullable") is True)

    def _use_mapped(self, discriminator: Any) -> None:
        for target in object_or_empty(object_or_empty(discriminator).get("mapping")).values():
            if isinstance(target, str) and target.startswith(SCHEMA_REF):
                self._component(target)

    def _component(self, reference: str) -> str:
        """The reference in the document that is made; what it leads to is read once."""
        if reference in self._hoisted:
            return self._hoisted[reference]
        target = self._target(reference)
        if reference.startswith(SCHEMA_REF):
            name, _, within = reference.removeprefix(SCHEMA_REF).partition("/")
            made = reference
            if within:
                self._component(f"{SCHEMA_REF}{name}")
                self._hoisted[reference] = made
                return made
        else:
            name = re.sub(r"[^A-Za-z0-9]+", "_", unquote(reference).replace("~1", "_")).strip("_")
            made = f"{SCHEMA_REF}{name}"
        self._hoisted[reference] = made
        self.schemas[name] = {}
        self._unread.append((name, target))
        return made

    def read_components(self) -> None:
        """Read the components that were referred to, and those that these refer to."""
        while self._unread:
            name, target = self._unread.pop()
            self.schemas[name] = self.schema(target) or {}


def _with_bounds(schema: Json) -> Json:
    """Exclusive bounds as numbers, and no members that JSON Schema does not allow."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and bound in schema:
            schema[exclusive] = schema.pop(bound)
    if not isinstance(schema.get("required", []), list):
        del schema["required"]
    if schema.get("type") == "file":
        schema = {key: value for key, value in schema.items() if key != "type"}
    return schema


def _with_examples(schema: Json, given: Json) -> Json:
    examples = schema.get("examples")
    if isinstance(examples, dict):
        schema["examples"] = list(examples.values())
    elif examples is not None and not isinstance(examples, list):
        del schema["examples"]
    if "example" in given and "examples" not in schema:
        schema["examples"] = [given["example"]]
    return schema


def _with_null(schema: Json, *, is_nullable: bool) -> Json:
    if not is_nullable:
        return schema
    if isinstance(schema.get("type"), str):
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
        return {**schema, "type": [schema["type"], "null"]}
    kinds = schema.get("type")
    return schema if isinstance(kinds, list) or not schema else {"anyOf": [schema, {"type": "null"}]}
