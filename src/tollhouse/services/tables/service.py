"""A declared table as a service."""

from functools import partial
from typing import Any

import msgspec

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.http.service import Service
from tollhouse.http.terms import free_then_paid
from tollhouse.services.tables.declaration import Declaration
from tollhouse.services.tables.endpoints import TableEndpoints
from tollhouse.services.tables.loader import TableLoader, open_loader
from tollhouse.services.tables.pages import build_front_page, build_page

INTERFACE_VERSION = "1.0.0"

_TAGS = {"items": "Items", "exports": "The whole table", "about": "This service"}


async def open_table(declaration: Declaration, context: AppContext) -> Service:
    """The service of a table, loaded from its file or address."""
    loader, catalogue = open_loader(
        declaration, context.database, allow_loopback=context.settings.webhook_allow_loopback
    )
    await loader.open()
    await catalogue.refresh()
    first = await catalogue.search(CatalogueQuery(limit=1))
    terms = free_then_paid(declaration.price_micros, declaration.free_per_day, declaration.name)
    return Service(
        name=declaration.name,
        title=declaration.title,
        version=INTERFACE_VERSION,
        description=_description(declaration),
        endpoints=TableEndpoints(declaration, catalogue).endpoints(terms, first.items[0] if first.items else None),
        health=partial(_health, declaration, context, loader, catalogue),
        health_schema=_HEALTH_SCHEMA,
        leader_tasks=(loader.run,),
        per_process_tasks=(catalogue.follow,),
        tags=_TAGS,
        pages=(build_page(declaration),),
        front_page=build_front_page(declaration),
    )


def _description(declaration: Declaration) -> str:
    about = declaration.description.strip() or f"{declaration.title.strip().rstrip('.')}: a table to search and filter."
    return (
        f"{about}\n\nSource: {declaration.source}. Licence: {declaration.licence}. No key is needed: "
        f"{declaration.free_per_day:,} free requests a day for each address, and beyond them each request is paid for "
        "(HTTP 402, x402). Errors are `application/problem+json` (RFC 9457)."
    )


async def _health(
    declaration: Declaration, context: AppContext, loader: TableLoader, catalogue: Catalogue
) -> dict[str, Any]:
    status = await loader.status()
    return {
        "status": "degraded" if status.fault else "ok",
        "item_count": len(catalogue),
        "table": declaration.table.file.rstrip("/").rsplit("/", 1)[-1],
        "loaded_at": status.loaded_at or None,
        "fault": {"seen_at": status.seen_at, "reason": status.fault} if status.fault else None,
        "refused_count": status.refused_count,
        "refused": msgspec.json.decode(status.refused),
        "licence": declaration.licence,
        "source": declaration.source,
        "uptime_seconds": context.uptime_seconds(),
        "version": __version__,
    }


_HEALTH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["status", "item_count", "table", "loaded_at", "fault", "refused_count", "refused", "version"],
    "properties": {
        "status": {"enum": ["ok", "degraded"], "description": "`degraded`: the newest edit of the table is not served"},
        "item_count": {"type": "integer"},
        "table": {"type": "string", "description": "The table's file"},
        "loaded_at": {"type": ["string", "null"], "description": "When the served edit was loaded"},
        "fault": {
            "type": ["object", "null"],
            "description": "Why the newest edit is not served",
            "properties": {"seen_at": {"type": "string"}, "reason": {"type": "string"}},
        },
        "refused_count": {"type": "integer", "description": "Rows of the table that are refused"},
        "refused": {
            "type": "array",
            "description": "The first refused rows",
            "items": {
                "type": "object",
                "properties": {name: {"type": kind} for name, kind in (("line", "integer"), ("reason", "string"))},
            },
        },
        "licence": {"type": "string"},
        "source": {"type": "string"},
        "uptime_seconds": {"type": "integer"},
        "version": {"type": "string"},
    },
}
