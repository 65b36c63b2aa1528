"""The OpenAPI document of a proxied API: version 3.0 or 3.1, JSON or YAML, read as operations in OpenAPI 3.1."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tollhouse.http.described import DescribedOperation
from tollhouse.proxy.openapi_schemas import OpenApiError, References, object_or_empty, objects_in

Json = dict[str, Any]

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
MAX_BYTES = 20_000_000
MAX_OPERATIONS = 2_000
MAX_NODES = 1_000_000
MAX_DEPTH = 200

_PARAMETER = re.compile(r"\{([^{}/]+)\}")
# OpenAPI describes these headers elsewhere, or this server reads them itself.
_OWN_HEADERS = frozenset({
    "accept", "content-type", "authorization", "host", "cookie", "connection", "content-length", "transfer-encoding",
    "payment-signature", "sign-in-with-x",
})  # fmt: skip
_OWN_PREFIXES = ("x-agent-", "x-payment", "x-forwarded-")


@dataclass(frozen=True, slots=True)
class DocumentedOperation:
    """One operation. `path` is its template, in which parameters have names of letters, digits and underscores."""

    method: str
    path: str
    id: str
    summary: str
    description: str
    tags: tuple[str, ...]
    described: DescribedOperation


@dataclass(frozen=True, slots=True)
class OpenApiDocument:
    """What is read of a document. `server_path` is the path of its first server, without a slash at the end."""

    title: str
    description: str
    version: str
    server_path: str
    operations: tuple[DocumentedOperation, ...]
    schemas: dict[str, Json]
    tags: dict[str, str]


@lru_cache(maxsize=8)
def read_document(raw: bytes) -> OpenApiDocument:
    """The document of a text in JSON or YAML; the same one for the same text. Raises OpenApiError."""
    whole = _decoded(raw)
    version = str(whole.get("openapi", ""))
    if "swagger" in whole:
        raise OpenApiError(f"Swagger {whole['swagger']} is not supported; convert the document to OpenAPI 3")
    if not re.match(r"3\.[01]\.", f"{version}."):
        raise OpenApiError(f"openapi is {version or 'missing'!r}; supported versions are 3.0 and 3.1")
    references = References(whole, is_version_30=version.startswith("3.0"))
    try:
        operations = tuple(_Reader(references).operations(object_or_empty(whole.get("paths"))))
        references.read_components()
    except RecursionError:
        raise OpenApiError("a schema of the document is nested too deeply") from None
    if not operations:
        raise OpenApiError("the document describes no operation")
    if len(operations) > MAX_OPERATIONS:
        raise OpenApiError(f"the document describes {len(operations)} operations; at most {MAX_OPERATIONS} are read")
    info = object_or_empty(whole.get("info"))
    return OpenApiDocument(
        title=str(info.get("title", "")).strip(),
        description=str(info.get("description", "")).strip(),
        version=str(info.get("version", "")) or "1",
        server_path=_server_path(whole),
        operations=operations,
        schemas=references.schemas,
        tags={
            str(tag["name"]): str(tag.get("description", ""))
            for tag in objects_in(whole.get("tags"))
            if "name" in tag and any(str(tag["name"]) in one.tags for one in operations)
        },
    )


def _decoded(raw: bytes) -> Json:
    if len(raw) > MAX_BYTES:
        raise OpenApiError(f"the document is larger than {MAX_BYTES} bytes")
    try:
        whole = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        whole = _from_yaml(raw)
    if not isinstance(whole, dict):
        raise OpenApiError("the document is not an object in JSON or YAML")
    return whole


def _from_yaml(raw: bytes) -> Any:
    import yaml

    try:
        # Through JSON: dates become texts, and keys such as the status 200 too.
        read = yaml.load(raw, _yaml_loader())  # noqa: S506 - it is the safe loader
        return msgspec.json.decode(msgspec.json.encode(_plain(read, iter(range(MAX_NODES)))))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, TypeError, ValueError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        where = f" (line {line + 1})" if isinstance(line, int) else ""
        raise OpenApiError(f"the document is neither JSON nor YAML{where}") from None


def _yaml_loader() -> Any:
    import yaml

    class Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
        """The safe loader, in C where there is one."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in Loader.yaml_implicit_resolvers.items()
    }
    return Loader


def _plain(node: Any, remaining: Iterator[int], depth: int = 0) -> Any:
    """YAML's values as JSON has them: every key is a text. Aliases may repeat a part only so often."""
    if depth > MAX_DEPTH or next(remaining, None) is None:
        raise ValueError("nested too deeply, or too large")
    if isinstance(node, dict):
        return {
            str(key).lower() if isinstance(key, bool) else str(key): _plain(one, remaining, depth + 1)
            for key, one in node.items()
        }
    return [_plain(one, remaining, depth + 1) for one in node] if isinstance(node, list) else node


def _server_path(whole: Json) -> str:
    servers = objects_in(whole.get("servers"))
    if not servers:
        return ""
    variables = object_or_empty(servers[0].get("variables"))
    url = re.sub(
        r"\{(\w+)\}",
        lambda match: str(object_or_empty(variables.get(match[1])).get("default", "")),
        str(servers[0].get("url", "")),
    )
    return urlsplit(url).path.rstrip("/")


class _Reader:
    def __init__(self, references: References) -> None:
        self._references = references
        self._ids: set[str] = set()

    def operations(self, paths: Json) -> Iterator[DocumentedOperation]:
        """Every operation, in the document's order, with an id of its own."""
        for path, given in paths.items():
            if not path.startswith("/"):
                raise OpenApiError(f"the path {path!r} does not begin with a slash")
            item = self._references.resolved(given)
            for method in METHODS:
                if isinstance(operation := item.get(method.lower()), dict):
                    shared = objects_in(item.get("parameters"))
                    yield self._operation(method, path, operation, shared)

    def _operation(self, method: str, path: str, operation: Json, shared: list[Json]) -> DocumentedOperation:
        names = _names(path)
        given_id = re.sub(r"[^A-Za-z0-9_.-]+", "_", str(operation.get("operationId") or "")).strip("_")[:64]
        template = _PARAMETER.sub(lambda match: f"{{{names[match[1]]}}}", path)
        parameters = [self._references.resolved(one) for one in [*shared, *objects_in(operation.get("parameters"))]]
        summary = str(operation.get("summary") or operation.get("operationId") or f"{method} {template}")
        tags = operation.get("tags")
        extras = {
            key: operation[key] for key in ("deprecated", "externalDocs") if isinstance(operation.get(key), bool | dict)
        }
        return DocumentedOperation(
            method=method,
            path=template,
            id=free_id(given_id or made_id(method, template), self._ids),
            summary=" ".join(summary.split()).removesuffix("."),
            description=str(operation.get("description", "")).strip(),
            tags=tuple(str(tag) for tag in tags) if isinstance(tags, list) else (),
            described=DescribedOperation(
                parameters=tuple(self._parameters(parameters, names)),
                request_body=self._body(operation.get("requestBody")),
                responses={
                    status: self._response(response)
                    for status, response in object_or_empty(operation.get("responses")).items()
                    if re.fullmatch(r"[1-5](\d\d|XX)|default", status)
                },
                extras=extras,
            ),
        )

    def _parameters(self, given: list[Json], names: dict[str, str]) -> Iterator[Json]:
        """Those of the path first and whole; the operation's own replace those of its path item."""
        by_place = {(str(one.get("in")), str(one.get("name"))): one for one in given}
        for name, written in names.items():
            described = self._parameter(by_place.get(("path", name), {"schema": {"type": "string"}}))
            yield {**described, "name": written, "in": "path", "required": True}
        for (place, name), one in by_place.items():
            is_own = name.lower() in _OWN_HEADERS or name.lower().startswith(_OWN_PREFIXES)
            if place == "query" or (place == "header" and not is_own):
                yield {"name": name, "in": place, **self._parameter(one)}

    def _parameter(self, given: Json) -> Json:
        """The members of a parameter besides its name and place."""
        members: Json = {
            key: given[key]
            for key in ("description", "required", "deprecated", "style", "explode", "allowReserved", "example")
            if given.get(key) is not None
        }
        if content := self._content(given.get("content")):
            return members | {"content": content}
        return members | {"schema": self._references.schema(given.get("schema", {}))} | self._examples(given)

    def _body(self, given: Any) -> Json | None:
        if not isinstance(given, dict):
            return None
        body = self._references.resolved(given)
        content = self._content(body.get("content"))
        if not content:
            return None
        described: Json = {"required": bool(body.get("required")), "content": content}
        return described | ({"description": body["description"]} if body.get("description") else {})

    def _response(self, given: Any) -> Json:
        response = self._references.resolved(given)
        described: Json = {"description": str(response.get("description") or "Answer")}
        headers = {
            name: self._parameter(self._references.resolved(header))
            for name, header in object_or_empty(response.get("headers")).items()
        }
        content = self._content(response.get("content"))
        return described | ({"headers": headers} if headers else {}) | ({"content": content} if content else {})

    def _content(self, given: Any) -> Json:
        return {
            media_type: {
                **({"schema": self._references.schema(media["schema"])} if "schema" in media else {}),
                **({"example": media["example"]} if "example" in media else {}),
                **self._examples(media),
                **({"encoding": media["encoding"]} if isinstance(media.get("encoding"), dict) else {}),
            }
            for media_type, media in object_or_empty(given).items()
            if isinstance(media, dict)
        }

    def _examples(self, given: Json) -> Json:
        examples = {
            name: self._references.resolved(one) for name, one in object_or_empty(given.get("examples")).items()
        }
        return {"examples": examples} if examples and "example" not in given else {}


def _names(path: str) -> dict[str, str]:
    """The parameters of a path, and the name of each as a route has it."""
    names: dict[str, str] = {}
    for name in _PARAMETER.findall(path):
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        written = plain if plain[:1].isalpha() else f"p_{plain}"
        while written in names.values():
            written += "_"
        names[name] = written
    return names


def made_id(method: str, path: str) -> str:
    """An id that says the method and the path."""
    words = re.findall(r"[A-Za-z0-9]+", path) or ["root"]
    return f"{method.lower()}{''.join(word[:1].upper() + word[1:] for word in words)}"[:64]


def free_id(name: str, ids: set[str]) -> str:
    """The name, with a number where an operation has it already; it is added to `ids`."""
    free, number = name, 1
    while free in ids:
        number += 1
        free = f"{name[:60]}_{number}"
    ids.add(free)
    return free
