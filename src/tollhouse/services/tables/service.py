"""A table as a service: its declaration read, its catalogue filled, its operations put together, and its health."""

from functools import partial
from pathlib import Path
from typing import Any

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.http.service import Service
from tollhouse.http.terms import free_then_paid
from tollhouse.services.tables.declaration import Declaration
from tollhouse.services.tables.declarations import operations
from tollhouse.services.tables.endpoints import TableEndpoints
from tollhouse.services.tables.loader import Filler, open_filler, refused_of
from tollhouse.services.tables.pages import build_front_page, build_page
from tollhouse.services.tables.queries import Asking
from tollhouse.services.tables.schema import shown

INTERFACE_VERSION = "1.0.0"

_TAGS = {"items": "What there is", "exports": "The whole table", "about": "This service"}


async def open_table(declaration: Declaration, context: AppContext) -> Service:
    """The service over the rooms it is given, with the file as it is now taken in."""
    filler, catalogue = open_filler(declaration, context.database)
    await filler.fill()
    await catalogue.refresh()
    asking = Asking(declaration)
    first = await catalogue.search(CatalogueQuery(limit=1))
    example = shown(declaration, first.items[0]) if first.items else {}
    metered = free_then_paid(declaration.price_micros, declaration.free_per_day, declaration.name)
    return Service(
        name=declaration.name,
        title=declaration.title,
        version=INTERFACE_VERSION,
        description=_description(declaration),
        endpoints=operations(declaration, TableEndpoints(declaration, catalogue, asking), asking, metered, example),
        health=partial(_health, declaration, context, filler, catalogue),
        health_schema=_HEALTH_SCHEMA,
        leader_tasks=(filler.follow,),
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
    declaration: Declaration, context: AppContext, filler: Filler, catalogue: Catalogue
) -> dict[str, Any]:
    load = await filler.standing()
    return {
        "status": "degraded" if load.fault else "ok",
        "item_count": len(catalogue),
        "table": Path(declaration.table.file).name,
        "loaded_at": load.loaded_at or None,
        "fault": {"seen_at": load.seen_at, "reason": load.fault} if load.fault else None,
        "refused_count": load.refused_count,
        "refused": refused_of(load),
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
        "loaded_at": {"type": ["string", "null"], "description": "When the edit that is served was taken in"},
        "fault": {
            "type": ["object", "null"],
            "description": "Why the newest edit is not served",
            "properties": {"seen_at": {"type": "string"}, "reason": {"type": "string"}},
        },
        "refused_count": {"type": "integer", "description": "Rows of the table that are left out"},
        "refused": {
            "type": "array",
            "description": "The first of them",
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
