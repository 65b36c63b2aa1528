"""Endpoints that every service has: health, OpenAPI description and documentation pages."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tollhouse.http.endpoint import Endpoint, Handler, Request, Response
from tollhouse.http.openapi import description
from tollhouse.http.response import compute_etag, fresh_json, json_response
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE

YAML = "application/yaml"


def with_housekeeping(
    service: Service, base_url: str, pages: Sequence[Endpoint], plans: Sequence[dict[str, Any]]
) -> tuple[Service, dict[str, Any]]:
    """The service with `/health`, `/api/openapi.yaml`, `/api/openapi.json` and its pages; and its OpenAPI document."""
    whole = replace(service, endpoints=[*service.endpoints, *about(service), *pages])
    document = description(whole, base_url, plans)
    as_json, as_yaml = serve_document(document)
    given = {"getOpenApiJson": as_json, "getOpenApiYaml": as_yaml}
    endpoints = [replace(one, handler=given.get(one.id, one.handler)) for one in whole.endpoints]
    return replace(whole, endpoints=endpoints), document


def serve_document(document: dict[str, Any]) -> tuple[Handler, Handler]:
    """Handlers that return an OpenAPI document as JSON and as YAML."""
    as_json = serve(json_response(document, "public, max-age=300"))
    # Writing YAML takes longer than the rest of start-up.
    return as_json, lazy(partial(as_yaml_text, document), YAML, "public, max-age=300")


def about(service: Service) -> list[Endpoint]:
    """`/health` and the description, which every service has."""

    async def health(_request: Request[None, None]) -> Response:
        return fresh_json(await service.health())

    async def unbuilt(_request: Request[None, None]) -> Response:
        raise AssertionError("the description is filled in once every endpoint is known")

    return [
        Endpoint("getHealth", "GET", "/health", "Health of the service and age of its data", health, FREE,
                  responses={"application/json": service.health_schema}, tag="about"),
        Endpoint("getOpenApiYaml", "GET", "/api/openapi.yaml", "This description as YAML", unbuilt, FREE,
                  responses={YAML: {"type": "object"}}, tag="about"),
        Endpoint("getOpenApiJson", "GET", "/api/openapi.json", "This description as JSON", unbuilt, FREE,
                  responses={"application/json": {"type": "object"}}, tag="about"),
    ]  # fmt: skip


def as_yaml_text(document: dict[str, Any]) -> bytes:
    import yaml

    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()


def serve(response: Response) -> Handler:

    async def handle(_request: Request[Any, Any]) -> Response:
        return response

    return handle


def page_endpoint(path: str, handler: Handler, media_type: str) -> Endpoint:
    """A free endpoint outside the description."""
    responses: dict[str, Any] = {media_type.partition(";")[0]: {}}
    return Endpoint(f"page {path}", "GET", path, path, handler, FREE, responses=responses, is_described=False)


def file_operation(path: str, file: Path, media_type: str) -> Endpoint:
    """An endpoint outside the description that serves one file of the package."""
    return page_endpoint(path, lazy(file.read_bytes, media_type, "public, max-age=3600"), media_type)


def lazy(make: Callable[[], bytes], media_type: str, cache_control: str) -> Handler:
    """A handler whose response is built on its first request."""
    built: list[Response] = []

    async def serve(_request: Request[Any, Any]) -> Response:
        if not built:
            body = await asyncio.to_thread(make)
            built.append(Response(body, media_type, compute_etag(body), cache_control=cache_control))
        return built[0]

    return serve
