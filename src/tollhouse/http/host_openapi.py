"""The OpenAPI document of a whole host, merged from the documents of its services."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.http.described import references, with_references
from tollhouse.http.openapi_schemas import untitled

Json = dict[str, Any]

# The kinds of components whose names two documents may share.
_KINDS = ("schemas", "securitySchemes", "parameters", "responses", "requestBodies", "headers", "examples", "links")
_COMPONENTS = "#/components/"


class ServiceDocument(Struct, frozen=True):
    """The document of a service, and the prefix under which the host serves it; empty at the root."""

    name: str
    prefix: str
    document: Json


def operation_name(service: str, prefix: str, operation_id: str) -> str:
    """The name of an operation among those of all services: of its operation in the document, and of its MCP tool."""
    return f"{service}_{operation_id}" if prefix else operation_id


def merge(parts: Sequence[ServiceDocument], info: Json, servers: Sequence[Json]) -> Json:
    """One document with every operation of the services, at its path on the host.

    A component that differs between services has the service's name before its own. Samples are left out: they are for
    the address of one service.
    """
    merged: Json = {
        "openapi": "3.1.0",
        "info": info,
        "servers": list(servers),
        "tags": [],
        "paths": {},
        "components": {},
        "x-plans": next((part.document["x-plans"] for part in parts if "x-plans" in part.document), []),
    }
    for part, names in zip(parts, _component_names(parts), strict=True):
        renamed = with_renamed_references(part.document, names)
        for kind in _KINDS:
            components = renamed.get("components", {}).get(kind, {})
            own = {
                names[kind][name]: value if names[kind][name] == name else untitled(value)
                for name, value in components.items()
            }
            if own:
                merged["components"].setdefault(kind, {}).update(own)
        merged["tags"] += [{**tag, "name": _tag(part, tag["name"])} for tag in renamed.get("tags", [])]
        for path, item in renamed["paths"].items():
            merged["paths"][f"{part.prefix}{path}"] = {
                method: _operation(one, part, names["securitySchemes"]) if isinstance(one, dict) else one
                for method, one in item.items()
            }
    return merged


def _operation(operation: Json, part: ServiceDocument, schemes: Mapping[str, str]) -> Json:
    described = {key: value for key, value in operation.items() if key != "x-codeSamples"}
    described["operationId"] = operation_name(part.name, part.prefix, operation["operationId"])
    described["tags"] = [_tag(part, name) for name in operation.get("tags", [])] or [part.name]
    if "security" in operation:
        described["security"] = [
            {schemes.get(name, name): scopes for name, scopes in one.items()} for one in operation["security"]
        ]
    return described


def _tag(part: ServiceDocument, name: str) -> str:
    return f"{part.name}: {name}" if part.prefix else name


def _component_names(parts: Sequence[ServiceDocument]) -> list[dict[str, dict[str, str]]]:
    """For each part the names of its components in the merged document, by kind.

    Parts share a component that is the same in all of them, and so are those it refers to.
    """
    everything = [part.document.get("components", {}) for part in parts]
    differing = {
        (kind, name)
        for kind in _KINDS
        for name in {name for one in everything for name in one.get(kind, {})}
        if len({msgspec.json.encode(one[kind][name]) for one in everything if name in one.get(kind, {})}) > 1
    }
    while grown := {
        (kind, name)
        for one in everything
        for kind in _KINDS
        for name, component in one.get(kind, {}).items()
        if (kind, name) not in differing
        and not differing.isdisjoint(_parts(one)[:2] for one in references(component, _COMPONENTS))
    }:
        differing |= grown
    used = {name for one in everything for kind in _KINDS for name in one.get(kind, {})}
    return [
        {
            kind: {
                name: _unused(part.name, name, used) if (kind, name) in differing else name
                for name in one.get(kind, {})
            }
            for kind in _KINDS
        }
        for part, one in zip(parts, everything, strict=True)
    ]


def _unused(service: str, name: str, used: set[str]) -> str:
    """The component's name with the service's before it, and more where that is taken."""
    made = "".join(word.capitalize() for word in service.replace("_", "-").split("-")) + name
    while made in used:
        made += "_"
    used.add(made)
    return made


def _parts(reference: str) -> tuple[str, str, str]:
    """The kind and the name of the component that a reference leads to, and what follows."""
    kind, _, path = reference.removeprefix(_COMPONENTS).partition("/")
    name, slash, rest = path.partition("/")
    return kind, name, f"{slash}{rest}"


def with_renamed_references(node: Any, names: Mapping[str, Mapping[str, str]]) -> Any:
    """A part of a document whose references have the new names of components, given by kind."""

    def rename(reference: str) -> str:
        kind, name, rest = _parts(reference)
        return f"{_COMPONENTS}{kind}/{names.get(kind, {}).get(name, name)}{rest}"

    return with_references(node, rename, _COMPONENTS)
