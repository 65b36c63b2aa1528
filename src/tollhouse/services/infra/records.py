"""The files of the catalogue, and their validation."""

import csv
import re
import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Struct

from tollhouse.questions.places import countries, normalize, split_list
from tollhouse.services.infra.company import CONFIDENCE, Kind, Listing

Row = TypeVar("Row", bound=Struct)

KINDS: frozenset[str] = frozenset(get_args(Kind))
DERIVED_KINDS = frozenset({"competes_with"})
DERIVED_CLASSES = frozenset({"same_category"})
_ID = re.compile(r"[a-z][a-z0-9_]{1,39}")
_DATE = re.compile(r"20\d\d(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")


class CatalogueError(Exception):
    """The files are invalid. The message lists every error with its place, one per line."""


class CategoryRow(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[category]]`."""

    id: str
    name: str
    aliases: tuple[str, ...] = ()


class CompanyRow(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[company]]`."""

    id: str
    name: str
    category: str
    country: str
    listing: Listing
    ticker: str | None = None
    exchange: str | None = None
    website: str | None = None
    description: str | None = None
    products: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    note: str | None = None


class EdgeRow(Struct, frozen=True):
    """One row of edges.csv, with its line number."""

    line: int
    source: str
    target: str
    kind: str
    product: str | None
    slots: tuple[str, ...]
    evidence_class: str
    evidence_url: str | None = None
    evidence_date: str | None = None


_COLUMNS = {*EdgeRow.__struct_fields__} - {"line"}


class Records(Struct, frozen=True):
    """The contents of the files. `revised` is the day of the last revision."""

    revised: str
    categories: tuple[CategoryRow, ...]
    companies: tuple[CompanyRow, ...]
    edges: tuple[EdgeRow, ...]


def bundled() -> Traversable:
    return files("tollhouse.services.infra").joinpath("data")


def read_records(folder: Traversable) -> Records:
    """Read and validate the three files of a folder. Raises CatalogueError with all errors."""
    categories = _toml(folder, "categories.toml")
    records = Records(
        revised=str(categories.get("revised", "")),
        categories=_rows(categories, "category", CategoryRow, "categories.toml"),
        companies=_rows(_toml(folder, "companies.toml"), "company", CompanyRow, "companies.toml"),
        edges=tuple(_edges(folder)),
    )
    errors = find_errors(records)
    if errors:
        raise CatalogueError("\n".join(errors))
    return records


def find_errors(records: Records) -> list[str]:
    """All errors in the records, each with its row. Empty if they are valid."""
    return [
        *([] if _DATE.fullmatch(records.revised) else ["categories.toml: `revised` must be a date such as 2026-11-21"]),
        *_category_errors(records.categories),
        *_company_errors(records),
        *_name_errors(records.companies),
        *_edge_errors(records),
    ]


def _category_errors(categories: Sequence[CategoryRow]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for row in categories:
        if not _ID.fullmatch(row.id):
            yield f"categories.toml: {row.id!r} is not a valid id"
        for name in {normalize(text) for text in (row.id, row.name, *row.aliases)}:
            if seen.setdefault(name, row.id) != row.id:
                yield f"categories.toml: {row.id}: {name!r} already names {seen[name]}"
    ids = [row.id for row in categories]
    yield from (f"categories.toml: duplicate id {name}" for name in sorted({i for i in ids if ids.count(i) > 1}))


def _company_errors(records: Records) -> Iterator[str]:
    categories = {row.id for row in records.categories}
    for row in records.companies:
        where = f"companies.toml: {row.id}"
        if not _ID.fullmatch(row.id):
            yield f"{where}: an id must have 2 to 40 lower-case letters, digits and underscores"
        if row.category not in categories:
            yield f"{where}: category {row.category!r} does not exist"
        if row.country not in countries():
            yield f"{where}: {row.country!r} is not an ISO 3166-1 alpha-2 code"
        if (row.ticker is not None) != (row.listing == "public"):
            yield f"{where}: a company must have a ticker exactly if its listing is public"
        if row.website is not None and not row.website.startswith("https://"):
            yield f"{where}: a website must start with https://"


def _name_errors(companies: Sequence[CompanyRow]) -> Iterator[str]:
    """Every id, name, ticker and alias must belong to one company."""
    ids: set[str] = set()
    seen: dict[str, str] = {}
    for row in companies:
        if row.id in ids:
            yield f"companies.toml: duplicate id {row.id}"
        ids.add(row.id)
        for text in (row.id, row.name, row.ticker or "", *row.aliases):
            name = normalize(text)
            if name and seen.setdefault(name, row.id) != row.id:
                yield f"companies.toml: {row.id}: {text!r} already names {seen[name]}"


def _edge_errors(records: Records) -> Iterator[str]:
    ids = {row.id for row in records.companies}
    seen: dict[tuple[str, str, str], int] = {}
    for row in records.edges:
        where = f"edges.csv:{row.line}"
        yield from (f"{where}: company {end!r} does not exist" for end in (row.source, row.target) if end not in ids)
        if row.source == row.target:
            yield f"{where}: an edge must have two different companies"
        if row.kind not in KINDS - DERIVED_KINDS:
            yield f"{where}: {row.kind!r} is not a stored kind of edge"
        if row.evidence_class not in set(CONFIDENCE) - DERIVED_CLASSES:
            yield f"{where}: {row.evidence_class!r} is not a class of evidence"
        if row.evidence_url is not None and not row.evidence_url.startswith("https://"):
            yield f"{where}: evidence_url must start with https://"
        if row.evidence_date is not None and not _DATE.fullmatch(row.evidence_date):
            yield f"{where}: evidence_date must be a year, a month or a day: 2025, 2025-10, 2025-10-31"
        first = seen.setdefault((row.source, row.kind, row.target), row.line)
        if first != row.line:
            yield f"{where}: duplicate of line {first}"


def _toml(folder: Traversable, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(folder.joinpath(name).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CatalogueError(f"{name}: {error}") from None


def _rows(document: dict[str, Any], table: str, shape: type[Row], name: str) -> tuple[Row, ...]:
    try:
        return msgspec.convert(document.get(table, []), tuple[shape, ...])  # type: ignore[valid-type]
    except msgspec.ValidationError as error:
        raise CatalogueError(f"{name}: [[{table}]]: {error}") from None


def _edges(folder: Traversable) -> Iterator[EdgeRow]:
    reader = csv.DictReader(folder.joinpath("edges.csv").read_text("utf-8").splitlines())
    for cells in reader:
        if cells.keys() != _COLUMNS or None in cells.values():
            raise CatalogueError(f"edges.csv:{reader.line_num}: the line must have the eight columns of the header")
        optional = {name: cells[name] or None for name in ("product", "evidence_url", "evidence_date")}
        yield EdgeRow(line=reader.line_num, **(cells | optional | {"slots": split_list(cells["slots"])}))
