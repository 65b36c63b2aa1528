"""What stands at the host's root: the services' list, the console's pages, problems, the operator's measurements."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.config.settings import Settings
from tollhouse.console import guide_contents
from tollhouse.console.guide import guide_operations
from tollhouse.console.markdown import leads_from, rendered
from tollhouse.console.operator import operator_operations
from tollhouse.console.page_shell import HTML, Frame
from tollhouse.console.pages import console_pages, frame_of, front_page
from tollhouse.errors import CODES, Problem
from tollhouse.http.endpoint import JSON, Endpoint, Request, Response
from tollhouse.http.metrics import exposition
from tollhouse.http.response_writer import etag_of
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE, OPERATOR, Terms

METRICS = "text/plain; version=0.0.4; charset=utf-8"


def front_service(
    settings: Settings, context: AppContext, services: Sequence[Service], prefixes: Sequence[str]
) -> Service:
    """The operations at the root, beside those of the services mounted under `prefixes`."""
    frame = frame_of(services, prefixes)

    async def problem(request: Request[None, None]) -> Response:
        return _page(request.path["code"], frame)

    async def metrics(_asked: Request[None, None]) -> Response:
        return Response(exposition(), METRICS, cache_control="no-store")

    async def health() -> dict[str, Any]:
        return {"status": "ok"}

    operations = [
        _index(settings, services, frame),
        _plain("getMetrics", "/metrics", metrics, METRICS, OPERATOR),
        _plain("getProblem", "/problems/{code}", problem, HTML),
        *console_pages(settings, services, frame),
        *guide_operations(settings, services, frame),
        *operator_operations(context, services),
    ]
    if all(prefixes):
        operations += [_plain("getFrontHealth", "/health", _answering(health), "application/json")]
    return Service("front", "Tollhouse", __version__, "", operations, health, {"type": "object"})


def _index(settings: Settings, services: Sequence[Service], frame: Frame) -> Endpoint:
    """`/`: the list of services for a program, the front page for a browser, which asks for HTML by name."""
    page = front_page(settings, services, frame)
    root = settings.public_url.rstrip("/")
    listed = [_described(service, f"{root}{frame.prefixes[service.name]}") for service in services]
    listing = _json({"name": "tollhouse", "version": __version__, "services": listed})

    async def index(request: Request[None, None]) -> Response:
        return listing if request.media_type == JSON else page

    answers: dict[str, Any] = {JSON: {}, "text/html": {}}
    return Endpoint("getServices", "GET", "/", "The services", index, FREE, responses=answers, is_described=False)


def _plain(name: str, path: str, handler: Any, media_type: str, terms: Terms = FREE) -> Endpoint:
    return Endpoint(
        name, "GET", path, name, handler, terms, responses={media_type.partition(";")[0]: {}}, is_described=False
    )


def _described(service: Service, base: str) -> dict[str, str]:
    return {
        "name": service.name,
        "title": service.title,
        "base_url": base,
        "docs": f"{base}/docs",
        "openapi": f"{base}/api/openapi.yaml",
        "health": f"{base}/health",
    }


def _answering(health: Any) -> Any:
    async def answer(_asked: Request[None, None]) -> Response:
        return Response(msgspec.json.encode(await health()), cache_control="no-store")

    return answer


def _json(members: dict[str, Any]) -> Response:
    body = msgspec.json.encode(members)
    return Response(body, etag=etag_of(body))


def _page(code: str, frame: Frame) -> Response:
    """The section of docs/problems.md about one code. Raises Problem `not-found`."""
    if code not in CODES:
        raise Problem("not-found", "There is no problem of this code.")
    status, title = CODES[code]
    section = f"# {title}\n\n`{code}`, status {status}\n\n{_sections().get(code, '')}"
    text = rendered(section, leads_from("problems", guide_contents.pages().__contains__)).body
    all_codes = f'<p class="small"><a href="{guide_contents.address("problems")}">All problems</a></p>'
    return frame.page(f"/problems/{code}", f"{code} · Tollhouse", f'<div class="prose">{all_codes}{text}</div>')


@cache
def _sections() -> dict[str, str]:
    """docs/problems.md by its second-level headings."""
    _, *parts = guide_contents.source("problems").split("\n## ")
    headed = [part.partition("\n") for part in parts]
    return {heading.strip().strip("`"): text.strip() for heading, _, text in headed}
