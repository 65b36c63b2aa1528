"""A declared table as a service."""

from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.importers.fetcher import FetchRules
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.http.service import AnsweringOperation, Component, ComponentState, Service
from tollhouse.http.terms import free_then_paid
from tollhouse.services.tables.declaration import UNKNOWN, Declaration
from tollhouse.services.tables.endpoints import TableEndpoints
from tollhouse.services.tables.loader import TableLoader, open_loader
from tollhouse.services.tables.pages import build_front_page, build_pages
from tollhouse.services.tables.questions import TableQuestions
from tollhouse.services.tables.readiness import Indexing, Readiness

INTERFACE_VERSION = "1.0.0"

_TAGS = {"items": "Items", "exports": "The whole table", "about": "This service"}


class Fault(Struct, frozen=True):
    """Why the newest edit is not served."""

    seen_at: str
    reason: str


class RefusedLine(Struct, frozen=True):
    """A row that is refused, and why."""

    line: int
    reason: str


class Health(Struct, frozen=True):
    """The response of `GET /health`. `degraded`: the newest edit of the table is not served.

    `indexing`: rows of it are missing still, and the member of that name says how many are ready.
    `table` is the table's file, and `loaded_at` when the served edit was loaded. `refused` are the first of the
    `refused_count` refused rows.
    """

    status: Literal["ok", "indexing", "degraded"]
    item_count: int
    indexing: Indexing | None
    table: str
    loaded_at: str | None
    fault: Fault | None
    refused_count: int
    refused: list[RefusedLine]
    licence: str
    source: str
    uptime_seconds: int
    version: str


async def open_table(declaration: Declaration, context: AppContext) -> Service:
    """The service of a table. What of a large table is not in the index yet follows while it serves."""
    folder = Path(context.settings.data_dir) / "search"
    folder.mkdir(parents=True, exist_ok=True)
    loader, catalogue = open_loader(
        declaration,
        context.database,
        folder,
        snapshots=context.settings.index_snapshots,
        rules=FetchRules.from_settings(context.settings),
    )
    questions = TableQuestions(declaration, catalogue)
    readiness = Readiness(loader, catalogue, questions)
    await loader.open()
    await readiness.start()
    first = await catalogue.search(CatalogueQuery(limit=1))
    terms = free_then_paid(declaration.price_micros, declaration.free_per_day, declaration.name)
    endpoints = TableEndpoints(declaration, catalogue, readiness, questions)
    return Service(
        name=declaration.name,
        title=declaration.title,
        version=INTERFACE_VERSION,
        description=_description(declaration),
        endpoints=endpoints.endpoints(terms, first.items[0] if first.items else None),
        health=partial(_health, declaration, context, loader, catalogue, readiness),
        health_schema=Health,
        assistant=AnsweringOperation("ask", "q", "answer"),
        components=partial(_components, loader, catalogue, readiness),
        leader_tasks=(loader.run,),
        per_process_tasks=(readiness.follow,),
        tags=_TAGS,
        pages=build_pages(declaration),
        front_page=build_front_page(declaration),
        licence="" if declaration.licence == UNKNOWN else declaration.licence,
    )


def _description(declaration: Declaration) -> str:
    about = declaration.description.strip() or f"{declaration.title.strip().rstrip('.')}: a table to search and filter."
    return (
        f"{about}\n\nSource: {declaration.source}. Licence: {declaration.licence}. No key is needed: "
        f"{declaration.free_per_day:,} free requests a day for each address, and beyond them each request is paid for "
        "(HTTP 402, x402). Errors are `application/problem+json` (RFC 9457)."
    )


async def _health(
    declaration: Declaration, context: AppContext, loader: TableLoader, catalogue: Catalogue, readiness: Readiness
) -> Health:
    status = await loader.status()
    indexing = readiness.indexing
    return Health(
        status="degraded" if status.fault else "indexing" if indexing else "ok",
        item_count=len(catalogue),
        indexing=indexing,
        table=declaration.table.file.rstrip("/").rsplit("/", 1)[-1],
        loaded_at=status.loaded_at or None,
        fault=Fault(status.seen_at, status.fault) if status.fault else None,
        refused_count=status.refused_count,
        refused=msgspec.json.decode(status.refused, type=list[RefusedLine]),
        licence=declaration.licence,
        source=declaration.source,
        uptime_seconds=context.uptime_seconds(),
        version=__version__,
    )


async def _components(loader: TableLoader, catalogue: Catalogue, readiness: Readiness) -> list[Component]:
    status = await loader.status()
    state: ComponentState = "failing" if status.fault else "indexing" if readiness.indexing else "ok"
    detail = "The newest edit of the table was rejected. The version before it is served." if status.fault else ""
    return [Component("rows", "Rows", state, len(catalogue), updated_at=status.loaded_at or None, detail=detail)]
