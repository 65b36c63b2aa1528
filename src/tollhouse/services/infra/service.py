"""The infra service: its catalogue loaded, its desks put together, and its health."""

from functools import partial
from typing import Any

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.http.service import Service
from tollhouse.services.infra.assistant.assistant import Assistant
from tollhouse.services.infra.assistant.conversation import open_conversations
from tollhouse.services.infra.assistant.endpoints import AssistantEndpoints
from tollhouse.services.infra.company_endpoints import CompanyEndpoints
from tollhouse.services.infra.declarations import Desks, operations
from tollhouse.services.infra.graph_endpoints import GraphEndpoints
from tollhouse.services.infra.pages import FRONT_PAGE, PAGES
from tollhouse.services.infra.supply_graph import Chain, load_chain

INTERFACE_VERSION = "1.0.0"

_DESCRIPTION = """Companies of the AI infrastructure value chain and who supplies whom, with the evidence of each edge.

Free, without a key. Errors are `application/problem+json` (RFC 9457). The catalogue holds public knowledge; an edge
that is not in it may exist all the same."""

_TAGS = {
    "companies": "Who is in the chain",
    "graph": "Who depends on whom",
    "exports": "The whole catalogue",
    "concierge": "Questions in plain words",
    "about": "This service",
}


async def open_infra(context: AppContext) -> Service:
    """The service over the rooms it is given. Raises CatalogueError when its files contradict themselves."""
    chain = load_chain()
    conversations = await open_conversations(context.database)
    chat = AssistantEndpoints(Assistant(chain), conversations, context.meter, context.settings.infra_chat_per_minute)
    return Service(
        name="infra",
        title="Tollhouse: AI infrastructure discovery",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        endpoints=operations(chain, Desks(CompanyEndpoints(chain), GraphEndpoints(chain), chat)),
        health=partial(_health, context, chain),
        health_schema=_HEALTH_SCHEMA,
        tags=_TAGS,
        pages=PAGES,
        front_page=FRONT_PAGE,
    )


async def _health(context: AppContext, chain: Chain) -> dict[str, Any]:
    return {
        "status": "ok",
        "version": __version__,
        "uptime_seconds": context.uptime_seconds(),
        "company_count": len(chain.companies),
        "edge_count": len(chain.edges),
        "revised": chain.revised,
    }


_HEALTH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["status", "version", "uptime_seconds", "company_count", "edge_count", "revised"],
    "properties": {
        "status": {"enum": ["ok"]},
        "version": {"type": "string"},
        "uptime_seconds": {"type": "integer"},
        "company_count": {"type": "integer"},
        "edge_count": {"type": "integer"},
        "revised": {"type": "string", "description": "The day the catalogue was last changed"},
    },
}
