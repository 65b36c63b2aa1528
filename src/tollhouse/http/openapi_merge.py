"""The parts that a proxied API's own OpenAPI document describes, in the description of its service."""

from collections.abc import Sequence
from typing import Any

from tollhouse.http.described import DescribedOperation, renamed
from tollhouse.http.endpoint import Endpoint
from tollhouse.http.openapi_schemas import portable, untitled
from tollhouse.http.service import Service

Json = dict[str, Any]


def merge_described(document: Json, operations: Sequence[Endpoint], service: Service) -> None:
    """Put what other documents say of the operations into this one, beside the prices and refusals of this server.

    A schema of theirs has its own name unless that is taken: then the service's name is put in front.
    """
    components = document["components"]
    prefix = service.name.title().replace("-", "")
    names = {name: f"{prefix}{name}" for name in service.schemas if name in components["schemas"]}
    for operation in operations:
        if operation.passes_through:
            item = document["paths"][operation.path.replace(":path}", "}")]
            method = operation.method.lower()
            without_own = _as_passed_on(item[method])
            theirs = operation.described
            item[method] = _merged(without_own, theirs, names, components["responses"]) if theirs else without_own
    for name, schema in service.schemas.items():
        made = portable(renamed(schema, names))
        components["schemas"][names.get(name, name)] = untitled(made) if name in names else made


def _as_passed_on(described: Json) -> Json:
    """The operation without what this server says only of its own answers: their ETags."""
    responses = {status: one for status, one in described["responses"].items() if status != "304"}
    success = responses["200"]
    headers = {name: one for name, one in success["headers"].items() if name != "ETag"}
    return {**described, "responses": {**responses, "200": {**success, "headers": headers}}}


def _merged(described: Json, theirs: DescribedOperation, names: dict[str, str], shared: Json) -> Json:
    """An answer that both describe, such as 404, has the content of both."""
    own = described["responses"]
    has_success = any(status.startswith(("2", "default")) for status in theirs.responses)
    responses = {status: one for status, one in own.items() if status != "200" or not has_success}
    for status, response in theirs.responses.items():
        added = portable(renamed(response, names))
        refusal = {} if status.startswith("2") else _resolved(own.get(status, {}), shared)
        responses[status] = {
            "description": "; ".join(filter(None, (added["description"], refusal.get("description", "")))),
            "headers": {**added.get("headers", {}), **(refusal or own["200"]).get("headers", {})},
            "content": {**added.get("content", {}), **refusal.get("content", {})},
        }
    whole = {
        **described,
        **theirs.extras,
        "parameters": portable(renamed(list(theirs.parameters), names)),
        "responses": dict(sorted(responses.items())),
    }
    return (
        whole
        if theirs.request_body is None
        else {**whole, "requestBody": portable(renamed(theirs.request_body, names))}
    )


def _resolved(response: Json, shared: Json) -> Json:
    name = response.get("$ref", "").rpartition("/")[2]
    resolved: Json = shared[name] if name else response
    return resolved
