"""`tollhouse new`: a table made into a service that the server offers from its next start on."""

import os
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table as Shown

from tollhouse.cli.options import HERE, Where
from tollhouse.money import MICROS_PER_USD, usd
from tollhouse.services import EVERY_SERVICE
from tollhouse.services.tables.declaration import UNKNOWN, Declaration, declaration_of
from tollhouse.services.tables.file_reader import Table, TableError, read_table, source_of
from tollhouse.services.tables.names import service_fault
from tollhouse.services.tables.rows import Fitted, fitted
from tollhouse.services.tables.toml_writer import Front, written
from tollhouse.services.tables.type_inference import Guess, guess

MOST_REFUSED_SHOWN = 5
_WIDTH = 110

From = Annotated[Path, Parameter(name="--from", help="The table: .csv, .tsv, .jsonl, .ndjson or .parquet")]
Licence = Annotated[str, Parameter(help="Under which licence the data may be passed on")]
Origin = Annotated[str, Parameter(help="Where the data comes from")]
Price = Annotated[Decimal | None, Parameter(help="USD for a request beyond the free ones (default: x402_price_usd)")]
Free = Annotated[int | None, Parameter(help="Free requests a day for an address (default: free_per_ip_per_day)")]


def new(
    service: Annotated[str, Parameter(help="What the service is called, and its prefix")],
    *,
    table: From,
    title: Annotated[str, Parameter(help="What people read (default: made of the name)")] = "",
    description: str = "",
    licence: Licence = UNKNOWN,
    source: Origin = UNKNOWN,
    price_usd: Price = None,
    free_per_day: Free = None,
    force: Annotated[bool, Parameter(negative=(), help="Replace the declaration that is there")] = False,
    where: Where = HERE,
) -> None:
    """Guess what a table's columns are and write that down as a service, to be looked over and then served."""
    settings = where.settings()
    if fault := service_fault(service, EVERY_SERVICE):
        raise ValueError(fault)
    path = Path(settings.services_dir) / f"{service}.toml"
    if path.exists() and not force:
        raise ValueError(f"{path} is there already; --force replaces it")
    price = settings.x402_price_usd if price_usd is None else price_usd
    if not price.is_finite() or price * MICROS_PER_USD % 1:
        raise ValueError("--price-usd must be whole millionths of a dollar")
    front = Front(
        title.strip() or service.replace("-", " ").capitalize(),
        description.strip(),
        licence.strip() or UNKNOWN,
        source.strip() or UNKNOWN,
        int(price * MICROS_PER_USD),
        settings.free_per_ip_per_day if free_per_day is None else free_per_day,
    )
    found, text, rows = _declared(table, path, front)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    _tell(declaration_of(text, path), found, rows, table)


def _declared(file: Path, path: Path, front: Front) -> tuple[Guess, str, Fitted]:
    """The guess, the declaration's text, and what it makes of the rows. Raises ValueError."""
    raw = file.read_bytes()
    try:
        source = source_of(file, raw)
        table: Table = read_table(source, raw)
        found = guess(table)
    except TableError as error:
        raise ValueError(f"{file}: {error}") from None
    kept = type(source)(
        _seen_from(path.parent, file), source.format, source.encoding, source.delimiter, found.id, found.title
    )
    text = written(front, kept, found.fields)
    return found, text, fitted(declaration_of(text, path), table)


def _seen_from(folder: Path, file: Path) -> str:
    """The table's place as the declaration names it: from its own folder, where both lie below this one."""
    whole, here = file.resolve(), Path.cwd()
    if not (whole.is_relative_to(here) and folder.resolve().is_relative_to(here)):
        return str(whole)
    return Path(os.path.relpath(whole, folder.resolve())).as_posix()


def _tell(declaration: Declaration, found: Guess, rows: Fitted, file: Path) -> None:
    out = Console(highlight=False, markup=False, width=None if Console().is_terminal else _WIDTH)
    out.print(f"{file}: {len(rows.items):,} rows to serve, {len(rows.refused):,} refused")
    for each in rows.refused[:MOST_REFUSED_SHOWN]:
        out.print(f"  line {each.line}: {each.reason}")
    out.print(_fields(declaration))
    out.print(f"id: {found.id or 'made of what each row says'}; an item is named by its {found.title}")
    for remark in found.remarks:
        out.print(f"note: {remark}")
    if UNKNOWN in (declaration.licence, declaration.source):
        out.print("note: callers are told that licence or source is unknown; --licence and --source say them")
    out.print(
        f"{usd(declaration.price_micros)} USD a request, after {declaration.free_per_day:,} free ones a day per address"
    )
    out.print(f"\nWritten to {declaration.path}: look it over. Then: tollhouse serve")


def _fields(declaration: Declaration) -> Shown:
    shown = Shown(box=None, pad_edge=False, header_style="bold")
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
        claims = [field.filtered, field.faceted, field.sorted]
        shown.add_row(
            name, field.column or "same", field.type, f"{field.searched:g}" if field.searched else "",
            *("yes" if claim else "" for claim in claims), "; ".join(filter(None, more)),
        )  # fmt: skip
    return shown
