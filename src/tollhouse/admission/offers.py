"""What the challenges of priced operations say about them, from the OpenAPI documents of their services."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tollhouse.http.described import DEFINITION_REF, is_json_type, renamed
from tollhouse.http.endpoint import JSON, Endpoint
from tollhouse.http.mcp.tools import describe_tool
from tollhouse.http.openapi import described_path
from tollhouse.http.router import Route
from tollhouse.payments.x402.bazaar import BAZAAR, SoldOperation, SoldTool, http_extension, tool_extension

Json = dict[str, Any]
Extensions = Mapping[str, tuple[bytes, ...]]

_FORMS = frozenset({"multipart/form-data", "application/x-www-form-urlencoded"})


class Offers:
    """The extensions of the challenges of every priced operation. Each is written once, when it is first needed."""

    def __init__(self) -> None:
        self._documents: dict[str, Json] = {}
        self._extensions: dict[tuple[str, str, str, str], Extensions] = {}

    def describe(self, service: str, document: Json) -> None:
        """Take the OpenAPI document of a service, whose operations may be sold."""
        self._documents[service] = document

    def document(self, service: str) -> Json:
        return self._documents[service]

    def extensions(self, route: Route, root: str, tool: str) -> Extensions:
        """The extensions of a challenge for a call over HTTP, or of the tool; none for what no document describes.

        `root` is the URL of the host's root, which may have a path.
        """
        endpoint, mounted_at = route.endpoint, urlsplit(root).path
        key = (route.service.name, endpoint.id, f"{mounted_at}{route.prefix}", tool)
        known = self._extensions.get(key)
        if known is None:
            known = self._extensions[key] = self._written(route, mounted_at, tool)
        return known

    def _written(self, route: Route, mounted_at: str, tool: str) -> Extensions:
        endpoint, document = route.endpoint, self._documents.get(route.service.name, {})
        path = described_path(endpoint).removeprefix(endpoint.paid_prefix)
        operation: Json | None = document.get("paths", {}).get(path, {}).get(endpoint.method.lower())
        if operation is None:
            return {}
        definitions = renamed(document["components"].get("schemas", {}), {}, DEFINITION_REF)
        whole = _resolved(operation, document["components"])
        sold = _sold(endpoint, whole, definitions, f"{mounted_at}{route.prefix}{endpoint.path}")
        if not tool:
            return {BAZAAR: http_extension(sold)}
        described = describe_tool(endpoint, route.service.schemas)
        input_schema = described["inputSchema"]
        return {BAZAAR: tool_extension(
            SoldTool(name=tool, description=endpoint.summary, input=input_schema, output=sold.output)
        )}  # fmt: skip


def _sold(endpoint: Endpoint, operation: Json, definitions: Json, path: str) -> SoldOperation:
    sample = endpoint.sample
    content = operation.get("requestBody", {}).get("content", {})
    empty: tuple[str, Json] = (JSON, {})
    body_type, body = next(iter(content.items()), empty)
    answer_type, answer = _answer(operation.get("responses", {}))
    is_json = is_json_type(answer_type)
    return SoldOperation(
        method=endpoint.method,
        path=path,
        path_parameters=_parameters(operation, "path", definitions),
        query=_parameters(operation, "query", definitions),
        body=_whole(body["schema"], definitions) if "schema" in body else None,
        body_type="json" if is_json_type(body_type) else "form-data" if body_type in _FORMS else "text",
        output=_whole(answer.get("schema", {}), definitions) if is_json else {"type": "string"},
        output_type="json" if is_json else "text",
        path_example={**_examples(operation, "path"), **_constants(sample.path)},
        query_example={**_examples(operation, "query"), **_constants(sample.query)},
        body_example=body.get("example", sample.body),
        output_example=answer.get("example") if is_json else None,
    )


def _parameters(operation: Json, place: str, definitions: Json) -> Json:
    """One object with the parameters in the path or the query as its members."""
    parameters = [one for one in operation.get("parameters", []) if one.get("in") == place]
    properties = {
        one["name"]: {
            **({"description": one["description"]} if one.get("description") else {}),
            **one.get("schema", {}),
            **({"examples": [one["example"]]} if "example" in one else {}),
        }
        for one in parameters
    }
    required = [one["name"] for one in parameters if one.get("required")]
    schema = {"type": "object", "properties": properties} | ({"required": required} if required else {})
    return _whole(schema, definitions)


def _examples(operation: Json, place: str) -> Json:
    """The examples of the parameters that a call must have."""
    return {
        one["name"]: one["example"]
        for one in operation.get("parameters", [])
        if one.get("in") == place and one.get("required") and "example" in one
    }


def _constants(sample: Mapping[str, Any]) -> Json:
    """The sample's values, without those that stand for variables of the environment."""
    return {name: value for name, value in sample.items() if not (isinstance(value, str) and value.startswith("$"))}


def _answer(responses: Json) -> tuple[str, Json]:
    """The media type of the answer of a successful call, JSON if it is offered, and its description."""
    for status in sorted(responses):
        content = responses[status].get("content", {}) if status.startswith("2") else {}
        for media_type in sorted(content, key=lambda name: not is_json_type(name)):
            return media_type, content[media_type]
    return "", {}


def _whole(schema: Json, definitions: Json) -> Json:
    """The schema with the definitions that its references need beside it."""
    return {**renamed(schema, {}, DEFINITION_REF), "$defs": definitions}


def _resolved(operation: Json, components: Json) -> Json:
    """The operation with the parameters, body and responses that it refers to."""
    responses = {status: _component(one, components) for status, one in operation.get("responses", {}).items()}
    parameters = [_component(one, components) for one in operation.get("parameters", [])]
    body = _component(operation.get("requestBody", {}), components)
    return {**operation, "responses": responses, "parameters": parameters, "requestBody": body}


def _component(part: Json, components: Json) -> Json:
    reference = part.get("$ref", "")
    if not reference.startswith("#/components/"):
        return part
    kind, _, name = reference.removeprefix("#/components/").partition("/")
    resolved: Json = components.get(kind, {}).get(name, {})
    return resolved
