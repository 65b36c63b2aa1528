"""The studio service: one endpoint that serves the studio's document in its last valid version."""

from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.http.endpoint import JSON, Endpoint, Request, Response
from tollhouse.http.service import AnsweringOperation, Component, Service
from tollhouse.http.terms import FREE
from tollhouse.services.studio.document import DocumentSource, DocumentStatus, StudioCatalogue
from tollhouse.services.studio.pages import FRONT_PAGE, PAGES
from tollhouse.services.studio.settings import StudioSettings

INTERFACE_VERSION = "1.0.0"

_DESCRIPTION = """A studio's catalogue for personal and consumer agents: operating layers, indicative products, and the
path to a first engagement, Block 0. Prices are indicative and are not a quote. This service is read-only: it takes no
payment, books no work and sends nothing."""

_TAGS = {"catalogue": "The studio's document", "about": "This service"}


class Health(Struct, frozen=True):
    """The response of `GET /health`. `degraded`: the newest edit of the document was rejected."""

    status: Literal["ok", "degraded"]
    version: str
    uptime_seconds: int
    document: DocumentStatus


async def open_studio(context: AppContext) -> Service:
    """Open the service. Raises NoDocumentError if there is no valid document."""
    settings = context.settings
    file = settings.section(StudioSettings).studio_file
    source = DocumentSource(Path(file) if file else bundled(), Path(settings.data_dir))
    return Service(
        name="studio",
        title="Tollhouse: studio catalogue",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        endpoints=[_catalogue(source)],
        health=partial(_health, context, source),
        health_schema=Health,
        assistant=AnsweringOperation(
            "getStudioCatalogue", "", examples=("What does the studio offer, and at which price?",)
        ),
        components=partial(_components, source),
        per_process_tasks=(source.watch,),
        tags=_TAGS,
        pages=PAGES,
        front_page=FRONT_PAGE,
    )


def bundled() -> Path:
    with as_file(files("tollhouse.services.studio").joinpath("data", "demo-studio.yaml")) as path:
        return path


def _catalogue(source: DocumentSource) -> Endpoint:
    async def catalogue(_request: Request[None, None]) -> Response:
        return source.response

    return Endpoint(
        id="getStudioCatalogue",
        method="GET",
        path="/api/catalogue",
        summary="Get the studio's catalogue",
        description="Prices are indicative and are not a quote.",
        handler=catalogue,
        terms=FREE,
        responses={JSON: StudioCatalogue},
        tag="catalogue",
        is_tool=True,
    )


async def _health(context: AppContext, source: DocumentSource) -> Health:
    status = source.status()
    return Health("degraded" if status.problem else "ok", __version__, context.uptime_seconds(), status)


async def _components(source: DocumentSource) -> list[Component]:
    status = source.status()
    if status.problem is None:
        return [Component("document", "Catalogue document", "ok", updated_at=status.loaded_at)]
    rejected = "The newest edit of the document was rejected. The version before it is served."
    return [Component("document", "Catalogue document", "failing", updated_at=status.loaded_at, detail=rejected)]
