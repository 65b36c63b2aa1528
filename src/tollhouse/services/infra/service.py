"""The infra service: its catalogue loaded, its desks put together, and its health."""

from functools import partial
from typing import Any

from tollhouse import __version__
from tollhouse.gate.rooms import Rooms
from tollhouse.gate.service import Service
from tollhouse.services.infra.chain import Chain, load_chain
from tollhouse.services.infra.companies_desk import CompaniesDesk
from tollhouse.services.infra.concierge.chat_desk import ChatDesk
from tollhouse.services.infra.concierge.concierge import Concierge
from tollhouse.services.infra.concierge.conversation import open_conversations
from tollhouse.services.infra.graph_desk import GraphDesk
from tollhouse.services.infra.operations import Desks, operations

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


async def open_infra(rooms: Rooms) -> Service:
    """The service over the rooms it is given. Raises CatalogueError when its files contradict themselves."""
    chain = load_chain()
    conversations = await open_conversations(rooms.database)
    chat = ChatDesk(Concierge(chain), conversations, rooms.meter, rooms.settings.infra_chat_per_minute)
    return Service(
        name="infra",
        title="Tollhouse: AI infrastructure discovery",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        operations=operations(chain, Desks(CompaniesDesk(chain), GraphDesk(chain), chat)),
        health=partial(_health, rooms, chain),
        health_schema=_HEALTH_SCHEMA,
        tags=_TAGS,
    )


async def _health(rooms: Rooms, chain: Chain) -> dict[str, Any]:
    return {
        "status": "ok",
        "version": __version__,
        "uptime_seconds": rooms.uptime_seconds(),
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
