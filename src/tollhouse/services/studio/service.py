"""The studio service: one document, served as it was last right."""

from dataclasses import dataclass
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import msgspec

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.config.section import Section, setting
from tollhouse.http.endpoint import JSON, Endpoint, Request, Response
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE
from tollhouse.services.studio.document import StudioCatalogue
from tollhouse.services.studio.document_source import Shelf
from tollhouse.services.studio.pages import FRONT_PAGE, PAGES

INTERFACE_VERSION = "1.0.0"

_DESCRIPTION = """A studio's catalogue for personal and consumer agents: operating layers, indicative products, and the
path to a first engagement, Block 0. Prices are indicative and are not a quote. This service is read-only: it takes no
payment, books no work and sends nothing."""

_TAGS = {"catalogue": "The studio's document", "about": "This service"}


@dataclass(frozen=True, kw_only=True)
class StudioSettings(Section):
    """Studio service."""

    studio_file: str = setting("", "File with the studio's catalogue; empty: the bundled demo studio")


async def open_studio(context: AppContext) -> Service:
    """The service over the rooms it is given. Raises NoDocumentError when there is nothing it could serve."""
    settings = context.settings
    file = settings.section(StudioSettings).studio_file
    shelf = Shelf(Path(file) if file else bundled(), Path(settings.data_dir))
    return Service(
        name="studio",
        title="Tollhouse: studio catalogue",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        endpoints=[_catalogue(shelf)],
        health=partial(_health, context, shelf),
        health_schema=_HEALTH_SCHEMA,
        per_process_tasks=(shelf.follow,),
        tags=_TAGS,
        pages=PAGES,
        front_page=FRONT_PAGE,
    )


def bundled() -> Path:
    """The fictional studio that comes with the server."""
    with as_file(files("tollhouse.services.studio").joinpath("data", "demo-studio.yaml")) as path:
        return path


def _catalogue(shelf: Shelf) -> Endpoint:
    async def catalogue(_asked: Request[None, None]) -> Response:
        return shelf.answer

    return Endpoint(
        id="getStudioCatalogue",
        method="GET",
        path="/api/catalogue",
        summary="The studio's catalogue",
        description="Prices are indicative and are not a quote.",
        handler=catalogue,
        terms=FREE,
        responses={JSON: StudioCatalogue},
        tag="catalogue",
        is_tool=True,
    )


async def _health(context: AppContext, shelf: Shelf) -> dict[str, Any]:
    standing = shelf.standing()
    return {
        "status": "degraded" if standing.problem else "ok",
        "version": __version__,
        "uptime_seconds": context.uptime_seconds(),
        "document": msgspec.to_builtins(standing),
    }


_HEALTH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["status", "version", "uptime_seconds", "document"],
    "properties": {
        "status": {"enum": ["ok", "degraded"], "description": "Degraded: the newest edit of the document was refused"},
        "version": {"type": "string"},
        "uptime_seconds": {"type": "integer"},
        "document": {
            "type": "object",
            "description": "Which document is served, since when, and line and reason of a refused edit",
        },
    },
}
