"""The mattress service: its catalogue, endpoints and health."""

from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.http.endpoint import endpoints_of
from tollhouse.http.service import AnsweringOperation, Component, Service
from tollhouse.http.terms import by_row, free_then_paid
from tollhouse.money import micros
from tollhouse.services.mattress.catalogue_view import CatalogueView
from tollhouse.services.mattress.demonstration import load_demonstration
from tollhouse.services.mattress.exports import ExportEndpoints
from tollhouse.services.mattress.pages import FRONT_PAGE, PAGES
from tollhouse.services.mattress.product import CATALOGUE, MATTRESSES, Storefront
from tollhouse.services.mattress.product_endpoints import ProductEndpoints
from tollhouse.services.mattress.retailers import load_retailers
from tollhouse.services.mattress.ucp.endpoints import UcpEndpoints
from tollhouse.storage.database import Database

INTERFACE_VERSION = "1.0.0"

_DESCRIPTION = """Search and compare mattresses of several Australian retailers, with affiliate links to buy.

No key is required: every client address has a daily free allowance. Beyond it, each request is paid for (HTTP 402,
x402). Errors are `application/problem+json` (RFC 9457). Prices are in AUD. The bundled catalogue is demonstration data:
its retailers, brands and products are made up, and each product is tagged `demo data`."""

_TAGS = {
    "products": "Products",
    "retailers": "Retailers",
    "exports": "Exports of the whole catalogue",
    "ucp": "The Universal Commerce Protocol",
    "about": "This service",
}


class Health(Struct, frozen=True):
    """The response of `GET /health`. `demo_product_count` counts products that are demonstration data."""

    status: Literal["ok"]
    product_count: int
    demo_product_count: int
    uptime_seconds: int
    version: str


async def open_mattress(context: AppContext) -> Service:
    """Open the service. Loads the demonstration if the catalogue never held a product.

    Raises RetailersError if the file of retailers is malformed.
    """
    settings = context.settings
    folder = Path(context.settings.data_dir) / "search" / CATALOGUE
    catalogue = open_catalogue(context.database, folder, context.settings.index_snapshots)
    if settings.recorded is not False:
        await load_demonstration(context.database, catalogue)
    await catalogue.refresh()
    retailers = load_retailers(Path(settings.data_dir))
    view = CatalogueView(context.database, catalogue, retailers, Storefront.from_settings(settings))
    metered, exports = free_then_paid(micros(settings.x402_price_usd)), ExportEndpoints(view)
    exported = {"terms": by_row(metered), "count_units": exports.count}
    return Service(
        name="mattress",
        title="Tollhouse: mattress search",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        endpoints=[
            one
            for handlers in (ProductEndpoints(view), exports, UcpEndpoints(view))
            for one in endpoints_of(handlers, **(exported if handlers is exports else {"terms": metered}))
        ],
        health=partial(_health, context, view),
        health_schema=Health,
        assistant=AnsweringOperation(
            "searchProducts", "q", examples=("firm queen mattress for hot side sleepers under 1500",)
        ),
        components=partial(_components, view),
        per_process_tasks=(catalogue.follow,),
        tags=_TAGS,
        pages=PAGES,
        front_page=FRONT_PAGE,
    )


def open_catalogue(database: Database, folder: Path | None = None, snapshots: str = "") -> Catalogue:
    """The service's catalogue, its index in `folder` or in memory. It is empty until its first `refresh`."""
    return Catalogue(CATALOGUE, MATTRESSES, database, folder, snapshots)


async def _health(context: AppContext, view: CatalogueView) -> Health:
    demo_count = (await view.counts()).demo_count
    return Health("ok", len(view.catalogue), demo_count, context.uptime_seconds(), __version__)


async def _components(view: CatalogueView) -> list[Component]:
    return [Component("products", "Products", "ok", len(view.catalogue))]
