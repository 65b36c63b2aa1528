"""The application's own OpenAPI document, with the prices of its tolled routes."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import msgspec

from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint, Example
from tollhouse.http.host_openapi import with_renamed_references
from tollhouse.http.openapi import described_path, description
from tollhouse.http.request import Receive, Scope, Send
from tollhouse.http.service import Service
from tollhouse.logs import logger
from tollhouse.middleware.exchange import App
from tollhouse.middleware.routes import METHODS

log = logger("middleware")

Json = dict[str, Any]
EndpointOf = Callable[[str, str], Endpoint | None]
"""The endpoint of a method and path, if it has a toll."""

_PARAMETER = re.compile(r"\{[^}]*\}")
# A parameter of a template stands for one of these: which one decides what a route's own pattern accepts.
_SAMPLES = ("{0}", "1", "a", "00000000-0000-0000-0000-000000000000", "2026-01-01", "1.5")
_REFUSALS = ("401", "402", "403", "429", "503")
_JSON_TYPE = re.compile(rb"application/([\w.+-]+\+)?json", re.IGNORECASE)
# The document is read whole here, and answered as it is now.
_NOT_REQUESTED = frozenset({b"accept-encoding", b"if-none-match", b"if-modified-since", b"range"})
_NOT_PASSED = frozenset({b"content-length", b"etag", b"last-modified"})


async def answer_document(app: App, endpoint_of: EndpointOf, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the application's document and the prices; with what it answers, where that is not a document."""
    messages: list[Any] = []

    async def collect(message: Any) -> None:
        messages.append(message)

    headers = [one for one in scope["headers"] if one[0] not in _NOT_REQUESTED]
    await app({**scope, "headers": headers, "extensions": {}}, receive, collect)
    starts = [one for one in messages if one["type"] == "http.response.start"]
    body = b"".join(one.get("body", b"") for one in messages if one["type"] == "http.response.body")
    fields = {name.lower(): value for name, value in starts[0]["headers"]} if starts else {}
    document = None
    if starts and starts[0]["status"] == 200 and _JSON_TYPE.match(fields.get(b"content-type", b"")):
        document = _document(body)
    if document is None:
        for message in messages:
            await send(message)
        return
    body = msgspec.json.encode(priced(document, endpoint_of))
    passed = [one for one in starts[0]["headers"] if one[0].lower() not in _NOT_PASSED]
    await send({**starts[0], "headers": [*passed, (b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def read_document(app: App, endpoint_of: EndpointOf, scope: Scope, path: str) -> Json:
    """The application's document with the prices; empty where it has none."""
    pieces: list[bytes] = []
    whole = scope.get("root_path", "").rstrip("/") + path
    headers = [one for one in scope["headers"] if one[0] == b"host"]
    inner = {**scope, "method": "GET", "path": whole, "raw_path": quote(whole).encode(), "query_string": b""}

    async def collect(message: Any) -> None:
        pieces.append(message.get("body", b""))

    try:
        await answer_document(app, endpoint_of, {**inner, "headers": headers}, _no_body, collect)
    except Exception as error:  # noqa: BLE001 - the document only adds to what challenges say
        log.warning("the application's OpenAPI document cannot be read", cause=repr(error))
        return {}
    return _document(b"".join(pieces)) or {}


async def _no_body() -> Any:
    return {"type": "http.request", "body": b"", "more_body": False}


def with_operation(document: Json, endpoint: Endpoint) -> Json:
    """The document with a tolled operation, which is added if it is not there."""
    path, method = described_path(endpoint), endpoint.method.lower()
    paths = document.get("paths", {})
    if method in paths.get(path, {}):
        return document
    parameters = [
        {"name": name, "in": "path", "required": True, **one} for name, one in endpoint.path_parameters.items()
    ]
    operation = {"operationId": endpoint.id, "summary": endpoint.summary, "parameters": parameters, "responses": {
        "200": {"description": "Success", "content": {"application/json": {"schema": {}}}}
    }}  # fmt: skip
    whole = {**document, "paths": {**paths, path: {**paths.get(path, {}), method: operation}}}
    return {
        "components": {},
        **priced(whole, lambda other, at: endpoint if (other.lower(), at) == (method, path) else None),
    }


def priced(document: Json, endpoint_of: EndpointOf) -> Json:
    """The document with the price, the refusals and the credentials of each operation with a toll."""
    tolled = {(path, method): one for path, method, one in _tolled(document, endpoint_of)}
    if not tolled:
        return document

    service = Service("toll", "toll", "1", "", list(tolled.values()))
    ours = _renamed(description(service, "/"), document.get("components") or {})
    paths = {path: dict(item) if isinstance(item, dict) else item for path, item in document["paths"].items()}
    for path, method in tolled:
        paths[path][method] = _merged(paths[path][method], ours["paths"][path][method])
    components = {**(document.get("components") or {})}
    for section, members in ours["components"].items():
        components[section] = {**members, **(components.get(section) or {})}
    return {**document, "paths": paths, "components": components}


def _document(body: bytes) -> Json | None:
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    is_openapi = isinstance(document, dict) and str(document.get("openapi", "")).startswith("3.")
    return document if is_openapi and isinstance(document.get("paths"), dict) else None


def _tolled(document: Json, endpoint_of: EndpointOf) -> Iterator[tuple[str, str, Endpoint]]:
    for path, item in document["paths"].items():
        for method, operation in item.items() if isinstance(item, dict) else ():
            if method.upper() in METHODS and isinstance(operation, dict):
                endpoint = _first(path, method.upper(), endpoint_of)
                if endpoint is not None:
                    name = str(operation.get("operationId") or f"{method} {path}")
                    sample = {one[0][1:-1]: "example" for one in _PARAMETER.finditer(path)}
                    yield path, method, replace(endpoint, id=name, path=path, sample=Example(path=sample))


def _first(path: str, method: str, endpoint_of: EndpointOf) -> Endpoint | None:
    for sample in _SAMPLES if "{" in path else ("",):
        try:
            endpoint = endpoint_of(method, _PARAMETER.sub(sample, path))
        except Problem:
            continue
        if endpoint is not None:
            return endpoint
    return None


def _merged(theirs: Json, ours: Json) -> Json:
    refusals = {status: ours["responses"][status] for status in _REFUSALS if status in ours["responses"]}
    members = ("security", "x-price", "x-payment-info")
    added: Json = {name: ours[name] for name in members if name in ours}
    return {
        **theirs,
        "description": f"{theirs.get('description') or ''}\n\n{ours['description']}".strip(),
        "responses": {**refusals, **(theirs.get("responses") or {})},
        **added,
    }


def _renamed(ours: Json, theirs: Mapping[str, Any]) -> Json:
    """Our document with another name for each component whose name is theirs for something else."""
    names = {
        kind: {
            name: f"Tollhouse{name}" for name, one in members.items() if (theirs.get(kind) or {}).get(name, one) != one
        }
        for kind, members in ours["components"].items()
    }
    components = {
        kind: {names[kind].get(name, name): one for name, one in members.items()}
        for kind, members in ours["components"].items()
    }
    schemes = names.get("securitySchemes", {})
    for item in ours["paths"].values():
        for operation in item.values():
            operation["security"] = [
                {schemes.get(name, name): one[name] for name in one} for one in operation["security"]
            ]
    renamed: Json = with_renamed_references({**ours, "components": components}, names)
    return renamed
