"""The mattress service: its catalogue opened, its desks put together, and its health."""

from functools import partial
from pathlib import Path
from typing import Any

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.http.service import Service
from tollhouse.http.terms import free_then_paid
from tollhouse.money import micros
from tollhouse.services.mattress.catalogue_view import Shop
from tollhouse.services.mattress.declarations import Desks, operations
from tollhouse.services.mattress.demonstration import load_demonstration
from tollhouse.services.mattress.export_endpoints import ExportEndpoints
from tollhouse.services.mattress.list_endpoints import ProductListEndpoints
from tollhouse.services.mattress.product import CATALOGUE, MATTRESSES, Storefront
from tollhouse.services.mattress.product_endpoints import ProductEndpoints
from tollhouse.services.mattress.retailers import load_retailers
from tollhouse.services.mattress.ucp.endpoints import UcpEndpoints
from tollhouse.storage.database import Database

INTERFACE_VERSION = "1.0.0"

_DESCRIPTION = """Mattresses of several Australian retailers: search, compare, and follow an affiliate link to buy.

No key is needed: a free allowance per client address, and beyond it each request is paid for (HTTP 402, x402).
Errors are `application/problem+json` (RFC 9457). Prices are in AUD. The bundled catalogue is demonstration data: its
retailers, brands and products are made up, and each is tagged `demo data`."""

_TAGS = {
    "products": "What there is",
    "retailers": "Who sells it",
    "exports": "The whole catalogue",
    "ucp": "The Universal Commerce Protocol",
    "about": "This service",
}


async def open_mattress(context: AppContext) -> Service:
    """The service over the rooms it is given; loads the demonstration where there is no catalogue yet.

    Raises RetailersError for a malformed file of retailers.
    """
    settings = context.settings
    catalogue = open_catalogue(context.database)
    if settings.recorded is not False:
        await load_demonstration(context.database, catalogue)
    await catalogue.refresh()
    shop = Shop(context.database, catalogue, load_retailers(Path(settings.data_dir)), Storefront.of(settings))
    desks = Desks(ProductListEndpoints(shop), ProductEndpoints(shop), ExportEndpoints(shop), UcpEndpoints(shop))
    return Service(
        name="mattress",
        title="Tollhouse: mattress search",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        endpoints=operations(desks, free_then_paid(micros(settings.x402_price_usd))),
        health=partial(_health, context, shop),
        health_schema=_HEALTH_SCHEMA,
        per_process_tasks=(catalogue.follow,),
        tags=_TAGS,
    )


def open_catalogue(database: Database) -> Catalogue:
    """The service's catalogue over a database; nothing of it shows before its first refresh."""
    return Catalogue(CATALOGUE, MATTRESSES, database)


async def _health(context: AppContext, shop: Shop) -> dict[str, Any]:
    return {
        "status": "ok",
        "product_count": len(shop.catalogue),
        "demo_product_count": await shop.demo_count(),
        "uptime_seconds": context.uptime_seconds(),
        "version": __version__,
    }


_HEALTH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["status", "product_count", "demo_product_count", "uptime_seconds", "version"],
    "properties": {
        "status": {"enum": ["ok"]},
        "product_count": {"type": "integer"},
        "demo_product_count": {"type": "integer", "description": "How many of them are made up"},
        "uptime_seconds": {"type": "integer"},
        "version": {"type": "string"},
    },
}
