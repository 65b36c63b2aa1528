"""What an agent finds by itself: llms.txt, the API catalogue (RFC 9727), an agent card and security.txt (RFC 9116).

At the host's root they tell of every service, under a service's prefix of that one alone.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from tollhouse import __version__, clock
from tollhouse.gate.answering import etag_of
from tollhouse.gate.openapi import price_sentence
from tollhouse.gate.operation import Answer, Asked, Operation
from tollhouse.gate.service import Service
from tollhouse.gate.terms import FREE
from tollhouse.settings import Settings

LINKSET = "application/linkset+json"
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
SECURITY_VALID = timedelta(days=180)


def discovery_pages(settings: Settings, services: Sequence[Service], prefixes: Sequence[str]) -> list[Operation]:
    """The well-known files about `services`, each mounted under its prefix, for the place that serves them."""
    root = settings.public_url.rstrip("/")
    bases = [f"{root}{prefix}" for prefix in prefixes]
    described = list(zip(services, bases, strict=True))
    made = {
        "/llms.txt": (_llms(described), TEXT),
        "/.well-known/api-catalog": (_catalog(described), LINKSET),
        "/.well-known/agent-card.json": (_card(root, described), JSON),
    }
    fixed = [_page(path, body, media_type) for path, (body, media_type) in made.items()]
    return [*fixed, _security(settings)]


def _llms(described: Sequence[tuple[Service, str]]) -> bytes:
    """The services in the form of llmstxt.org: what each does, how to call it, what it costs."""
    lines = [
        "# Tollhouse",
        "",
        "> Data feeds and catalogues for people and software agents, metered and paid per call.",
        "",
    ]
    for service, base in described:
        lines += [f"## {service.title}", "", service.description, ""]
        lines += [f"- [Description]({base}/api/openapi.json): OpenAPI 3.1, with the price of every operation"]
        lines += [
            f"- `{operation.method} {base}{operation.path}`: {operation.summary}. {price_sentence(operation.terms)}"
            for operation in service.operations
            if operation.is_described
        ]
        lines += [""]
    return "\n".join(lines).encode()


def _catalog(described: Sequence[tuple[Service, str]]) -> bytes:
    linkset = [
        {
            "anchor": f"{base}/",
            "service-desc": [
                {"href": f"{base}/api/openapi.json", "type": "application/vnd.oai.openapi+json;version=3.1"},
                {"href": f"{base}/api/openapi.yaml", "type": "application/yaml"},
            ],
            "service-doc": [{"href": f"{base}/docs", "type": "text/html"}],
            "status": [{"href": f"{base}/health", "type": JSON}],
        }
        for _, base in described
    ]
    return msgspec.json.encode({"linkset": linkset})


def _card(root: str, described: Sequence[tuple[Service, str]]) -> bytes:
    """What this host offers to agents, as a static A2A agent card."""
    skills = [
        {
            "id": f"{service.name}.{operation.id}",
            "name": operation.summary,
            "description": f"{operation.method} {base}{operation.path}. {price_sentence(operation.terms)}",
            "tags": [service.name, *([operation.tag] if operation.tag else [])],
        }
        for service, base in described
        for operation in service.operations
        if operation.is_described and operation.tag != "about"
    ]
    card: dict[str, Any] = {
        "name": "Tollhouse",
        "description": "; ".join(service.title for service, _ in described),
        "url": f"{root}/",
        "version": __version__,
        "capabilities": {"streaming": False},
        "defaultInputModes": [JSON],
        "defaultOutputModes": [JSON],
        "skills": skills,
    }
    return msgspec.json.encode(card)


def _security(settings: Settings) -> Operation:
    contact = settings.contact or f"{settings.public_url.rstrip('/')}/"

    async def security(_asked: Asked[None, None]) -> Answer:
        expires = clock.iso(clock.now() + SECURITY_VALID)
        return Answer(f"Contact: {contact}\nExpires: {expires}\nPreferred-Languages: en\n".encode(), TEXT)

    return _operation("/.well-known/security.txt", security, TEXT)


def _page(path: str, body: bytes, media_type: str) -> Operation:
    answer = Answer(body, media_type, etag_of(body), cache_control="public, max-age=300")

    async def page(_asked: Asked[None, None]) -> Answer:
        return answer

    return _operation(path, page, media_type)


def _operation(path: str, handler: Any, media_type: str) -> Operation:
    answers: dict[str, Any] = {media_type.partition(";")[0]: {}}
    return Operation(f"page {path}", "GET", path, path, handler, FREE, answers=answers, is_described=False)
