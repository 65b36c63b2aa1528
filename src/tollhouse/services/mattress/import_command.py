"""`tollhouse import mattress`: a shop's feed read, and landed as one retailer's products."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tollhouse.catalogue.importers.feed import Wanted, is_address, read_feed
from tollhouse.catalogue.importers.formats import FORMAT_NAMES, FORMATS, FormatName
from tollhouse.catalogue.importers.mapping import Mapping, load_mapping
from tollhouse.config.settings import Settings
from tollhouse.services.mattress.import_transaction import ImportReport, import_products
from tollhouse.services.mattress.product import CURRENCY, Storefront
from tollhouse.services.mattress.retailers import Retailer, load_retailers
from tollhouse.services.mattress.service import open_catalogue
from tollhouse.storage.database import Database

SERVICE = "mattress"

Tell = Callable[[str], None]


async def import_feed(  # noqa: PLR0913 - what the operator may say
    settings: Settings,
    database: Database,
    tell: Tell,
    *,
    source: str,
    format_name: str,
    retailer_id: str,
    is_partial: bool = False,
    allow_shrink: bool = False,
    strict: bool = False,
    currency: str = "",
    site: str = "",
    mapping: Path | None = None,
) -> dict[str, Any]:
    """Read a file or an address and land its rows; the report, with `landed` false where nothing has changed.

    Raises ValueError for a feed that is unreadable, and for what the operator cannot mean; OSError for a file that
    cannot be opened.
    """
    named = _format(format_name)
    retailer = load_retailers(Path(settings.data_dir)).get(retailer_id)
    wanted = Wanted(
        source,
        named,
        currency=_currency(currency),
        site=_site(site, retailer, source, tell),
        mapping=_mapping(mapping, named),
        allow_loopback=settings.webhook_allow_loopback,
    )
    if not (wanted.currency or FORMATS[named].names_currency):
        tell(f"prices that name no currency are taken to be in {CURRENCY}")
    rows = await read_feed(wanted, tell)
    catalogue = open_catalogue(database)
    try:
        report = await import_products(
            database,
            catalogue,
            retailer,
            rows,
            is_partial=is_partial,
            allow_shrink=allow_shrink,
            strict=strict,
            storefront=Storefront.from_settings(settings),
        )
    finally:
        catalogue.close()
    return _told(report, named)


def _told(report: ImportReport, format_name: FormatName) -> dict[str, Any]:
    counts = {
        name: getattr(report, name) for name in ("rows", "created", "changed", "price_changed", "removed", "unchanged")
    }
    refused = [msgspec.to_builtins(row) for row in report.refused]
    outcome = {"landed": report.has_landed} | ({"reason": report.reason} if report.reason else {})
    return {
        "service": SERVICE,
        "retailer": report.retailer,
        "format": format_name,
        **counts,
        "refused": refused,
        **outcome,
    }


def _format(name: str) -> FormatName:
    for known in FORMATS:
        if known == name:
            return known
    raise ValueError(f"there is no format {name!r}; there are {', '.join(FORMAT_NAMES)}")


def _currency(code: str) -> str:
    if code.strip().upper() not in {"", CURRENCY}:
        raise ValueError(f"--currency {code}: this catalogue is in {CURRENCY} and converts nothing")
    return code.strip().upper()


def _mapping(path: Path | None, format_name: FormatName) -> Mapping:
    if path is None:
        return Mapping()
    if not FORMATS[format_name].is_mapped:
        mapped = [name for name, known in FORMATS.items() if known.is_mapped]
        raise ValueError(f"--mapping is for {' and '.join(mapped)}; {format_name} says itself what is what")
    return load_mapping(path)


def _site(site: str, retailer: Retailer, source: str, tell: Tell) -> str:
    """Where links lead that the feed gives without a host: as told, or the retailer's own domain.

    Without either they lead to a name that can never exist (RFC 2606), and the operator is told so.
    """
    if site:
        if not is_address(site):
            raise ValueError("--site must be the shop's http or https address")
        return f"{site.rstrip('/')}/"
    if is_address(source):
        return ""
    if retailer.domains:
        return f"https://{retailer.domains[0]}/"
    tell(f"{retailer.id} has no domain: links without a host lead to {retailer.id}.invalid; give --site https://…")
    return f"https://{retailer.id}.invalid/"
