"""`tollhouse import mattress`: read a shop's feed and import it as one retailer's products."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from msgspec import Struct

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.feed import is_address, open_feed, read_items, site_of
from tollhouse.catalogue.importers.fetcher import FetchRules
from tollhouse.catalogue.importers.formats import FORMATS, find_format
from tollhouse.catalogue.importers.items import Context
from tollhouse.catalogue.importers.mapping import Mapping, load_mapping
from tollhouse.catalogue.importers.registry import Format
from tollhouse.config.settings import Settings
from tollhouse.services.mattress.import_rows import ATTRIBUTES, ImportedRow, Terms, rows_from_items
from tollhouse.services.mattress.import_transaction import SERVICE, OnRows, import_products
from tollhouse.services.mattress.product import CURRENCY, Storefront
from tollhouse.services.mattress.retailers import Retailer, load_retailers
from tollhouse.services.mattress.service import open_catalogue
from tollhouse.storage.database import Database
from tollhouse.storage.spool import Spool

Progress = Callable[[str], None]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    format_name: Annotated[str, Parameter(name="--format", help=f"Format of the feed: {', '.join(FORMATS)}")]
    retailer_id: Annotated[str, Parameter(name="--retailer", help="Id of the retailer that sells the products")]
    is_partial: Annotated[
        bool, Parameter(name="--partial", help="Keep the retailer's products that the feed does not have")
    ] = False
    allow_shrink: Annotated[
        bool, Parameter(help="Allow the import to remove more than half of the retailer's products")
    ] = False
    strict: Annotated[bool, Parameter(help="Import nothing when a row is refused")] = False
    currency: Annotated[str, Parameter(help="Currency of prices that name none")] = ""
    site: Annotated[str, Parameter(help="Address of the shop, for relative links in the feed")] = ""
    mapping: Annotated[Path | None, Parameter(name="--mapping", help="TOML file that assigns columns to fields")] = None


class FeedRequest(Struct, frozen=True):
    """A feed to read: a file or an address, its format, and what the feed itself does not say.

    `currency` is that of prices which name none, `site` the address that relative links start from.
    """

    source: str
    format: Format
    currency: str = ""
    site: str = ""
    mapping: Mapping = Mapping()
    rules: FetchRules = FetchRules()


async def import_feed(  # noqa: PLR0913 - what a command has
    settings: Settings,
    database: Database,
    progress: Progress,
    source: str,
    options: ImportOptions,
    *,
    on_rows: OnRows = lambda *_: None,
) -> dict[str, Any]:
    """Import a file or an address; the report has `landed` false where nothing has changed.

    Raises ValueError for an unreadable feed and for invalid options; OSError for a file that cannot be opened.
    """
    form = find_format(options.format_name)
    retailer = load_retailers(Path(settings.data_dir)).get(options.retailer_id)
    currency = options.currency.strip().upper()
    if currency not in {"", CURRENCY}:
        raise ValueError(f"--currency {options.currency}: this catalogue is in {CURRENCY} and converts nothing")
    if options.mapping and not form.read_table:
        mapped = [known.name for known in FORMATS.values() if known.read_table]
        raise ValueError(f"--mapping is for the formats {', '.join(mapped)}; {form.name} defines its columns itself")
    request = FeedRequest(
        source,
        form,
        currency=currency,
        site=_site(options.site, retailer, source, progress),
        mapping=load_mapping(options.mapping, ATTRIBUTES) if options.mapping else Mapping(),
        rules=FetchRules.from_settings(settings),
    )
    if not (request.currency or form.names_currency):
        progress(f"prices without a currency are taken to be in {CURRENCY}")
    rows = await read_feed(request, progress)
    catalogue = open_catalogue(database)
    try:
        report = await import_products(
            database,
            catalogue,
            retailer,
            rows,
            is_partial=options.is_partial,
            allow_shrink=options.allow_shrink,
            strict=options.strict,
            storefront=Storefront.from_settings(settings),
            on_rows=on_rows,
        )
    finally:
        catalogue.close()
    counts = ("rows", "created", "changed", "price_changed", "removed", "unchanged")
    return {
        "service": SERVICE,
        "retailer": report.retailer,
        "format": form.name,
        **{name: getattr(report, name) for name in counts},
        "refused": [msgspec.to_builtins(row) for row in report.refused],
        "landed": report.has_landed,
        **({"reason": report.reason} if report.reason else {}),
    }


async def read_feed(request: FeedRequest, progress: Progress) -> Spool[ImportedRow]:
    """The rows of a feed, valid and refused, in a temporary file.

    Raises UnreadableFeed, and OSError for a file that cannot be opened.
    """
    rows, refused_count = Spool(ImportedRow), 0

    def read(documents: list[Document]) -> None:
        nonlocal refused_count
        for row in rows_from_documents(documents, request):
            rows.add(row.id, row)
            refused_count += bool(row.refused)

    async with open_feed(request.source, request.format, progress, request.rules) as documents:
        await asyncio.to_thread(read, documents)
    progress(f"{len(rows)} rows read, {refused_count} of them refused")
    return rows


def rows_from_documents(documents: list[Document], request: FeedRequest) -> Iterator[ImportedRow]:
    """The rows of a feed's documents. Raises UnreadableFeed, and nothing else whatever they contain."""
    site = request.site or site_of(documents)
    items = read_items(documents, request.format, Context(site, request.mapping))
    currency = request.currency or ("" if request.format.names_currency else CURRENCY)
    # A shop that changes while its pages are read shows one product on two of them.
    merges_repeats = request.format.repeats or len(documents) > 1
    return rows_from_items(items, Terms(currency, site), merges_repeats=merges_repeats)


def _site(site: str, retailer: Retailer, source: str, progress: Progress) -> str:
    """The address that relative links start from: the given one, or the retailer's own domain.

    Without either, they lead to a name that can never exist (RFC 2606).
    """
    if site:
        if not is_address(site):
            raise ValueError("--site must be the shop's http or https address")
        return f"{site.rstrip('/')}/"
    if is_address(source):
        return ""
    if retailer.domains:
        return f"https://{retailer.domains[0]}/"
    progress(f"{retailer.id} has no domain: relative links lead to {retailer.id}.invalid; give --site https://…")
    return f"https://{retailer.id}.invalid/"
