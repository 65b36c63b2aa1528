"""The infra service: its supply graph, endpoints and health."""

from functools import partial
from typing import Literal

from msgspec import Struct

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.http.endpoint import endpoints_of
from tollhouse.http.service import AnsweringOperation, Component, Service
from tollhouse.questions.conversation import open_conversations
from tollhouse.services.infra.assistant.assistant import Assistant, AssistantEndpoints, AssistantMemory
from tollhouse.services.infra.endpoints import GraphEndpoints
from tollhouse.services.infra.exports import export_endpoints
from tollhouse.services.infra.pages import declare_front_page, declare_pages
from tollhouse.services.infra.settings import InfraSettings
from tollhouse.services.infra.supply_graph import SupplyGraph, load_supply_graph

INTERFACE_VERSION = "1.0.0"

_DESCRIPTION = """Companies of the AI infrastructure value chain and who supplies whom, with the evidence of each edge.

Free, no key required. Errors are `application/problem+json` (RFC 9457). The catalogue contains public knowledge; a
missing edge does not mean that there is no relation."""

_TAGS = {
    "companies": "Companies and categories",
    "graph": "The supply graph",
    "exports": "Exports of the whole catalogue",
    "assistant": "Questions in plain words",
    "about": "This service",
}


class Health(Struct, frozen=True):
    """The response of `GET /health`. `revised` is the day of the catalogue's last revision."""

    status: Literal["ok"]
    version: str
    uptime_seconds: int
    company_count: int
    edge_count: int
    revised: str


async def open_infra(context: AppContext) -> Service:
    """Open the service. Raises CatalogueError if the bundled files are inconsistent."""
    graph = load_supply_graph()
    conversations = await open_conversations(context.database, "infra-conversation", AssistantMemory)
    limit = context.settings.section(InfraSettings).infra_chat_per_minute
    chat = AssistantEndpoints(Assistant(graph), conversations, context.meter, limit)
    return Service(
        name="infra",
        title="Tollhouse: AI infrastructure discovery",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        endpoints=[*endpoints_of(GraphEndpoints(graph)), *export_endpoints(graph), *endpoints_of(chat)],
        health=partial(_health, context, graph),
        health_schema=Health,
        assistant=AnsweringOperation(
            "askConcierge",
            "message",
            "reply",
            "conversation_id",
            examples=("Who supplies HBM to NVIDIA?", "Which companies depend on ASML?"),
        ),
        components=partial(_components, graph),
        tags=_TAGS,
        pages=declare_pages(graph),
        front_page=declare_front_page(graph),
    )


async def _health(context: AppContext, graph: SupplyGraph) -> Health:
    counts = len(graph.companies), len(graph.edges)
    return Health("ok", __version__, context.uptime_seconds(), *counts, graph.revised)


async def _components(graph: SupplyGraph) -> list[Component]:
    return [
        Component("catalogue", "Companies and links", "ok", len(graph.companies), as_of=f"{graph.revised}T00:00:00Z")
    ]
