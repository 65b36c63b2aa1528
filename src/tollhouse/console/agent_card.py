"""The agent card (A2A 1.0) of a host or of one service: what agents can ask it, and where."""

from collections.abc import Sequence

import msgspec

from tollhouse import __version__
from tollhouse.config.settings import Settings
from tollhouse.console.discovery import base_url
from tollhouse.http.a2a import VERSION, A2aEndpoint, skills_of
from tollhouse.http.endpoint import JSON, Endpoint, Request, Response
from tollhouse.http.hosts import OwnHosts
from tollhouse.http.inner_calls import InnerCalls
from tollhouse.http.response import compute_etag
from tollhouse.http.service import Service
from tollhouse.http.service_endpoints import page_endpoint

TEXT = "text/plain"


def agent_pages(
    settings: Settings, calls: InnerCalls, mounted: Sequence[tuple[Service, str]], prefix: str
) -> list[Endpoint]:
    """`/.well-known/agent-card.json` and `/a2a` of these services, mounted at `prefix`; none where none answers."""
    skills = skills_of(mounted)
    if not skills:
        return []

    async def card(request: Request[None, None]) -> Response:
        root = base_url(settings, request)
        body = msgspec.json.encode({
            "name": "Tollhouse",
            "description": "; ".join(service.title for service, _ in mounted if service.assistant),
            "version": __version__,
            "supportedInterfaces": [
                {"url": f"{root}{prefix}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": VERSION}
            ],
            "provider": {"organization": "Tollhouse", "url": f"{root}/"},
            "documentationUrl": f"{root}/guide/discovery",
            "capabilities": {"streaming": False, "pushNotifications": False},
            "defaultInputModes": [TEXT],
            "defaultOutputModes": [TEXT, JSON],
            "skills": [skill.described() for skill in skills],
        })  # fmt: skip
        return Response(body, etag=compute_etag(body), cache_control="public, max-age=300")

    answering = A2aEndpoint(calls, OwnHosts(settings), skills)
    return [page_endpoint("/.well-known/agent-card.json", card, JSON), answering.endpoint()]
