"""`tollhouse new`: generate the definition of a service from a table or a product feed."""

import asyncio
import os
from decimal import Decimal
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table as RichTable

from tollhouse.catalogue.importers.feed import is_address, open_feed
from tollhouse.catalogue.importers.fetcher import FetchRules
from tollhouse.catalogue.importers.formats import FORMATS, find_format
from tollhouse.catalogue.importers.formats.csv import delimiter_of
from tollhouse.catalogue.importers.items import UnreadableFeed
from tollhouse.catalogue.importers.registry import Format
from tollhouse.cli.options import DEFAULTS, CommonOptions
from tollhouse.cli.progress import TerminalProgress
from tollhouse.config.declaration import service_fault
from tollhouse.config.settings import Settings
from tollhouse.money import MICROS_PER_USD, usd
from tollhouse.services import EVERY_SERVICE
from tollhouse.services.plugins import plugin_services
from tollhouse.services.tables.declaration import (
    UNKNOWN,
    Declaration,
    Head,
    Source,
    declaration_toml,
    parse_declaration,
)
from tollhouse.services.tables.inference import InferredTable, infer_table
from tollhouse.services.tables.loader import parse_table
from tollhouse.services.tables.rows import TableItems, items_from_rows

MAX_REFUSED_SHOWN = 5
_WIDTH = 110

_ENDINGS = ", ".join(ending for form in FORMATS.values() for ending in form.endings)


def new(
    service: Annotated[str, Parameter(help="Name of the service, and its prefix")],
    *,
    table: Annotated[
        str, Parameter(name="--from", help=f"Path or URL of the table: {_ENDINGS}; other formats with --format")
    ],
    format_name: Annotated[
        str, Parameter(name="--format", help=f"One of {', '.join(FORMATS)} (default: by the file extension)")
    ] = "",
    title: Annotated[str, Parameter(help="Title of the service (default: its name)")] = "",
    description: Annotated[str, Parameter(help="One sentence about the data")] = "",
    licence: Annotated[str, Parameter(help="Licence under which the data may be used")] = UNKNOWN,
    source: Annotated[str, Parameter(help="Origin of the data")] = UNKNOWN,
    price_usd: Annotated[
        Decimal | None, Parameter(help="Price in USD of a request after the free ones (default: x402_price_usd)")
    ] = None,
    free_per_day: Annotated[
        int | None, Parameter(help="Free requests per client address and day (default: free_per_ip_per_day)")
    ] = None,
    currency: Annotated[str, Parameter(help="Currency of prices without a currency, in product feeds")] = "",
    site: Annotated[str, Parameter(help="URL of the shop, to complete relative links in product feeds")] = "",
    force: Annotated[bool, Parameter(negative=(), help="Replace an existing definition")] = False,
    common: CommonOptions = DEFAULTS,
) -> None:
    """Generate a service definition from a table or a product feed. Review it, then run `tollhouse serve`."""
    settings = common.settings()
    if fault := service_fault(service, {**EVERY_SERVICE, **plugin_services(EVERY_SERVICE)}):
        raise ValueError(fault)
    path = Path(settings.services_dir) / f"{service}.toml"
    if path.exists() and not force:
        raise ValueError(f"{path} already exists; --force replaces it")
    price = settings.x402_price_usd if price_usd is None else price_usd
    if not price.is_finite() or price * MICROS_PER_USD % 1:
        raise ValueError("--price-usd must be whole millionths of a dollar")
    form = find_format(format_name) if format_name else format_by_ending(table)
    head = Head(
        title=title.strip() or service.replace("-", " ").capitalize(),
        description=description.strip(),
        licence=licence.strip() or UNKNOWN,
        source=source.strip() or UNKNOWN,
        price_usd=price,
        free_per_day=settings.free_per_ip_per_day if free_per_day is None else free_per_day,
        table=Source(table, form.name, currency=currency.strip().upper(), site=site.strip()),
        fields={},
    )
    try:
        with TerminalProgress() as progress:
            inferred, text, items = asyncio.run(_define(head, form, path, settings, progress))
    except UnreadableFeed as error:
        raise ValueError(f"{table}: {error}") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    _print_summary(parse_declaration(text, path), inferred, items, table)


def format_by_ending(table: str) -> Format:
    """The format of a path or URL by its file extension. Raises ValueError for an unknown extension."""
    ending = Path(urlsplit(table).path if is_address(table) else table).suffix.lower()
    for form in FORMATS.values():
        if ending in form.endings:
            return form
    raise ValueError(f"{table}: unknown format. Use --format, or one of the file extensions {_ENDINGS}")


async def _define(
    head: Head, form: Format, path: Path, settings: Settings, progress: TerminalProgress
) -> tuple[InferredTable, str, TableItems]:
    """Infer the table; return it with the text of the definition and the items. Raises ValueError."""
    source = head.table
    progress.phase("Loading the table")
    async with open_feed(source.file, form, progress.note, FetchRules.from_settings(settings)) as documents:
        if form.name == "csv":
            source = msgspec.structs.replace(source, delimiter=delimiter_of(documents[0]))
        table = parse_table(source, documents)
        progress.phase("Inferring the columns")
        inferred = infer_table(table, progress)
        location = source.file if is_address(source.file) else _relative_to(path.parent, Path(source.file))
        source = msgspec.structs.replace(source, file=location, id=inferred.id, title=inferred.title)
        text = declaration_toml(msgspec.structs.replace(head, table=source, fields=inferred.fields))
        progress.phase("Reading the rows")
        return inferred, text, items_from_rows(parse_declaration(text, path), table, progress)


def _relative_to(folder: Path, file: Path) -> str:
    """The path relative to the folder if both are below the working directory, else the absolute path."""
    whole, here = file.resolve(), Path.cwd()
    if not (whole.is_relative_to(here) and folder.resolve().is_relative_to(here)):
        return str(whole)
    return Path(os.path.relpath(whole, folder.resolve())).as_posix()


def _print_summary(declaration: Declaration, inferred: InferredTable, items: TableItems, table: str) -> None:
    out = Console(highlight=False, markup=False, width=None if Console().is_terminal else _WIDTH)
    out.print(f"{table}: {len(items.items):,} rows to serve, {len(items.refused):,} refused")
    for each in items.refused[:MAX_REFUSED_SHOWN]:
        out.print(f"  line {each.line}: {each.reason}")
    out.print(_field_table(declaration))
    out.print(f"id: {inferred.id or 'a hash of each row'}; title: {inferred.title}")
    for remark in inferred.remarks:
        out.print(f"note: {remark}")
    if UNKNOWN in (declaration.licence, declaration.source):
        out.print("note: the licence or the source is unknown to callers; set --licence and --source")
    out.print(f"{usd(declaration.price_micros)} USD per request after {declaration.free_per_day:,} free per day")
    out.print(f"\nWritten to {declaration.path}. Review it, then run: tollhouse serve")


def _field_table(declaration: Declaration) -> RichTable:
    shown = RichTable(box=None, pad_edge=False, header_style="bold")
    for heading in ("field", "column", "type", "searched", "filter", "facet", "sort", "more"):
        shown.add_column(heading, overflow="fold")
    for name, field in declaration.fields.items():
        more = [
            field.currency,
            field.format if field.type in ("date", "moment") and field.format != "YYYY-MM-DD" else "",
            f"decimals after {field.decimal!r}" if field.decimal != "." else "",
            f"separated by {field.separator!r}" if field.type == "list" else "",
            f"empty: {', '.join(field.empty)}" if field.empty else "",
        ]
        abilities = [field.filtered, field.faceted, field.sorted]
        shown.add_row(
            name, field.column or "same", field.type, f"{field.searched:g}" if field.searched else "",
            *("yes" if able else "" for able in abilities), "; ".join(filter(None, more)),
        )  # fmt: skip
    return shown
