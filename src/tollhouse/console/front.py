"""What stands at the host's root: the list of services, the pages about problems, and the operator's measurements."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from markdown_it import MarkdownIt

from tollhouse import __version__
from tollhouse.errors import CODES, Problem
from tollhouse.gate.answering import etag_of
from tollhouse.gate.observing import exposition
from tollhouse.gate.operation import Answer, Asked, Operation
from tollhouse.gate.service import Service
from tollhouse.gate.terms import FREE, OPERATOR, Terms
from tollhouse.settings import Settings

HTML = "text/html; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code,pre{font-family:ui-monospace,monospace}pre{overflow:auto}"
)
_POLICY = ((b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),)


def front_service(settings: Settings, services: Sequence[Service]) -> Service:
    """The operations at the root, beside the services'."""

    async def index(_asked: Asked[None, None]) -> Answer:
        return _json({"name": "tollhouse", "version": __version__, "services": listed})

    async def problem(asked: Asked[None, None]) -> Answer:
        return _page(asked.path["code"])

    async def metrics(_asked: Asked[None, None]) -> Answer:
        return Answer(exposition(), METRICS, cache_control="no-store")

    async def health() -> dict[str, Any]:
        return {"status": "ok"}

    listed = [_described(service, f"{settings.public_url.rstrip('/')}/{service.name}") for service in services]
    operations = [
        _plain("getMetrics", "/metrics", metrics, METRICS, OPERATOR),
        _plain("getProblem", "/problems/{code}", problem, HTML),
    ]
    if not settings.service:
        operations += [
            _plain("getServices", "/", index, "application/json"),
            _plain("getFrontHealth", "/health", _answering(health), "application/json"),
        ]
    return Service("front", "Tollhouse", __version__, "", operations, health, {"type": "object"})


def _plain(name: str, path: str, handler: Any, media_type: str, terms: Terms = FREE) -> Operation:
    return Operation(
        name, "GET", path, name, handler, terms, answers={media_type.partition(";")[0]: {}}, is_described=False
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
    async def answer(_asked: Asked[None, None]) -> Answer:
        return Answer(msgspec.json.encode(await health()), cache_control="no-store")

    return answer


def _json(members: dict[str, Any]) -> Answer:
    body = msgspec.json.encode(members)
    return Answer(body, etag=etag_of(body))


@cache
def _page(code: str) -> Answer:
    """The section of docs/problems.md about one code. Raises Problem `not-found`."""
    if code not in CODES:
        raise Problem("not-found", "There is no problem of this code.")
    status, title = CODES[code]
    html = MarkdownIt().render(f"# {title}\n\n`{code}`, status {status}\n\n{_sections().get(code, '')}")
    body = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{code}</title><style>{_STYLE}</style><main>{html}</main></html>"
    ).encode()
    return Answer(body, HTML, etag_of(body), _POLICY, cache_control="public, max-age=3600")


@cache
def _sections() -> dict[str, str]:
    """docs/problems.md by its second-level headings."""
    _, *parts = docs_file("problems.md").read_text("utf-8").split("\n## ")
    headed = [part.partition("\n") for part in parts]
    return {heading.strip().strip("`"): text.strip() for heading, _, text in headed}


def docs_file(name: str) -> Path:
    """A page of the documentation: in the package when installed, beside `src` in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "docs" / name
    return installed if installed.exists() else package.parents[1] / "docs" / name
