"""Imports a P-1 procurement exhibit: reads its sheet, finds its columns and gives the known lines its amounts."""

import csv
import importlib
import io
import re
import zipfile
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.brief.production import Line

SHEET = "Exhibit P-1"
NO_OPENPYXL = (
    "Reading XLSX needs the package openpyxl, which is not installed here; install it, or save the sheet as CSV."
)

NumberedRow = tuple[int, list[str]]


def read_sheet(raw: bytes) -> list[NumberedRow]:
    """Every row with its number, counted from 1, as in the file. ValueError says what is wrong with it.

    Raises ModuleNotFoundError for XLSX where openpyxl is missing.
    """
    if raw.startswith(b"PK\x03\x04"):
        sheet = _sheet(raw).iter_rows(values_only=True)
        return [
            (number, ["" if cell is None else str(cell).strip() for cell in row]) for number, row in enumerate(sheet, 1)
        ]
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        # What spreadsheet programs on Windows write as plain CSV.
        text = raw.decode("cp1252", "replace")
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        # A quoted cell may span lines; the number is that of the row's last.
        return [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as cause:
        raise ValueError(f"The file is not readable as CSV: {cause}.") from cause


def _sheet(raw: bytes) -> Any:
    """The sheet named `SHEET`, else the first one: the others repeat parts of it."""
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ModuleNotFoundError as cause:
        raise ModuleNotFoundError(NO_OPENPYXL, name="openpyxl") from cause
    try:
        book = openpyxl.load_workbook(io.BytesIO(raw), read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as cause:
        raise ValueError(f"The file is not a readable XLSX workbook: {cause}.") from cause
    return book[SHEET] if SHEET in book.sheetnames else book.worksheets[0]


DEEPEST_HEADER = 20

# Wordings of the budgets of FY2017 to FY2027, as `_plain` makes them.
WORDINGS = {
    "account": ("account",),
    "account_title": ("account title",),
    "organization": ("organization",),
    "code": ("budget line item", "line item", "pe/bli", "bli"),
    "title": (
        "budget line item (bli) title",
        "program element/budget line item (bli) title",
        "line item title",
    ),
    "add": ("add/non-add",),
    "toa": ("include in toa",),
}
REQUIRED = ("account", "code", "title")

_SPACES = re.compile(r"\s+")
_MONEY = re.compile(r"fy ?(?P<year>20\d\d)\b(?P<stage>.*?)(?P<kind>quantity|qty|amount)?")
_UNIT = re.compile(r"\(.*?\)|\$ ?k\b")

Kind = Literal["amount", "quantity"]


class YearColumn(NamedTuple):
    """A column of one fiscal year. `stage` is the header's own word, such as `enacted`, `total` or nothing."""

    fiscal_year: int
    stage: str
    kind: Kind


class Columns(Struct, frozen=True):
    """Where things stand, as places in a row from 0. `line` is the header's own row number."""

    line: int
    places: dict[str, int]
    years: dict[YearColumn, int]


def find_columns(rows: Iterable[NumberedRow]) -> Columns:
    """The columns of the first row that reads like a header. ValueError says what is missing or stated twice."""
    missing = "it is empty"
    for number, row in list(rows)[:DEEPEST_HEADER]:
        headers = [_plain(cell) for cell in row]
        if any(re.search(r"\bin (?:m|b)illions\b|\$ ?m\b", header) for header in headers):
            raise ValueError("The exhibit's amounts are not in thousands of dollars.")
        places = {
            name: headers.index(text) for name, texts in WORDINGS.items() for text in texts[::-1] if text in headers
        }
        result = Columns(number, places, _years(row))
        lacking = _lacking(result)
        if not lacking:
            return result
        if "account" in result.places:
            missing = f"row {number} lacks {', '.join(lacking)}"
        elif missing == "it is empty":
            missing = f"none of the first {DEEPEST_HEADER} rows has a column Account"
    raise ValueError(f"The file has no header of a P-1 exhibit: {missing}.")


def chosen(columns: Columns, fiscal_year: int, kind: Kind) -> YearColumn:
    """The column that holds a year's whole: its total, else the one without a stage, else the only one.

    ValueError where there is none, or where several stages have no total.
    """
    of_year = [column for column in columns.years if column.fiscal_year == fiscal_year and column.kind == kind]
    whole = [column for stage in ("total", "") for column in of_year if column.stage == stage] or of_year
    if not whole:
        raise ValueError(f"The exhibit has no {kind} column for FY{fiscal_year}.")
    if len(whole) > 1 and whole[0].stage not in {"total", ""}:
        stages = ", ".join(column.stage for column in whole)
        raise ValueError(f"FY{fiscal_year} has several {kind} columns and no total: {stages}.")
    return whole[0]


def _years(row: Sequence[str]) -> dict[YearColumn, int]:
    years: dict[YearColumn, int] = {}
    for place, cell in enumerate(row):
        header = _MONEY.fullmatch(_UNIT.sub("", _plain(cell)).strip())
        # A percentage or a difference of years is no amount.
        if header is None or any(word in header["stage"] for word in ("%", "percent", "change")):
            continue
        kind: Kind = "quantity" if header["kind"] in {"quantity", "qty"} else "amount"
        column = YearColumn(int(header["year"]), header["stage"].strip(), kind)
        if column in years:
            raise ValueError(f"The column {cell!r} is there twice.")
        years[column] = place
    return years


def _lacking(result: Columns) -> list[str]:
    lacking = [WORDINGS[name][0] for name in REQUIRED if name not in result.places]
    if not {"add", "toa"} & result.places.keys():
        # Memo rows repeat money of other rows: without a mark for them, every sum would be wrong.
        lacking.append("add/non-add")
    if not any(column.kind == "amount" for column in result.years):
        lacking.append("an amount of a fiscal year")
    return lacking


def _plain(cell: str) -> str:
    return _SPACES.sub(" ", cell).replace(" / ", "/").replace("/ ", "/").replace(" /", "/").strip().casefold()


LARGEST = 10**10

_TOTAL = re.compile(r"(?:grand |sub-? ?)?totals?\b", re.IGNORECASE)
_NO_NUMBER = frozenset({"", "-", "–", "—"})  # noqa: RUF001 - exhibits print dashes of every length for "none"
_ADD_MARKS = frozenset({"add", "y", "yes"})
_MEMO_MARKS = frozenset({"non-add", "nonadd", "non add", "n", "no"})


class BadRow(Struct, frozen=True):
    """A row that was skipped, counted from 1, and why."""

    line: int
    reason: str


class ExhibitLine(Struct, frozen=True):
    """One line, its rows netted. `values` are thousands of dollars or pieces; a column that no row fills is absent.

    `rows` are the numbers of the file's rows that were added up.
    """

    account: str
    account_title: str
    organization: str
    code: str
    title: str
    rows: list[int]
    values: dict[YearColumn, int]


class Exhibit(Struct, frozen=True):
    """What a file said. `memo_rows` (Non-Add) and `total_rows` are counted and left out, `bad` rows are reported."""

    columns: Columns
    lines: list[ExhibitLine]
    bad: list[BadRow]
    memo_rows: int
    total_rows: int

    def amounts_k(self, fiscal_year: int) -> dict[tuple[str, str], int]:
        """Thousands of dollars of a year by account and code. ValueError where the year has no one column."""
        return self._values(fiscal_year, "amount")

    def quantities(self, fiscal_year: int) -> dict[tuple[str, str], int]:
        """Pieces of a year by account and code, for the lines that state them. Raises as `amounts_k`."""
        return self._values(fiscal_year, "quantity")

    def _values(self, fiscal_year: int, kind: Kind) -> dict[tuple[str, str], int]:
        column = chosen(self.columns, fiscal_year, kind)
        return {(line.account, line.code): line.values[column] for line in self.lines if column in line.values}


class _Row(Struct, frozen=True):
    """A data row that counts."""

    number: int
    texts: dict[str, str]
    values: dict[YearColumn, int]


def read_exhibit(raw: bytes) -> Exhibit:
    """The exhibit in a CSV or XLSX file. ValueError where it is none; a single bad row does not stop it."""
    sheet = read_sheet(raw)
    columns = find_columns(sheet)
    judged = [_judged(number, cells, columns) for number, cells in sheet if number > columns.line and any(cells)]
    return Exhibit(
        columns=columns,
        lines=_netted(row for row in judged if isinstance(row, _Row)),
        bad=[row for row in judged if isinstance(row, BadRow)],
        memo_rows=judged.count("memo"),
        total_rows=judged.count("total"),
    )


def _judged(number: int, cells: Sequence[str], columns: Columns) -> _Row | BadRow | Literal["memo", "total"]:
    texts = {name: _cell(cells, place) for name, place in columns.places.items()}
    # A sum of other rows has no line of its own, and some cell says so.
    if not texts["code"] and any(_TOTAL.match(text) for text in texts.values()):
        return "total"
    try:
        return "memo" if _is_memo(texts) else _row(number, texts, cells, columns)
    except ValueError as fault:
        return BadRow(number, str(fault))


def _is_memo(texts: dict[str, str]) -> bool:
    """Whether the row does not add to the exhibit's total. Where both columns stand, a memo in either is one."""
    stated = {name: texts[name] for name in ("add", "toa") if name in texts}
    for name, text in stated.items():
        if text.casefold() not in _ADD_MARKS | _MEMO_MARKS:
            raise ValueError(f"{text[:20]!r} is neither Add nor Non-Add, in the column {name}")
    return any(text.casefold() in _MEMO_MARKS for text in stated.values())


def _row(number: int, texts: dict[str, str], cells: Sequence[str], columns: Columns) -> _Row:
    for name in ("account", "code", "title"):
        if not texts[name]:
            raise ValueError(f"the {name} is missing")
    numbers = {column: _number(_cell(cells, place), column) for column, place in columns.years.items()}
    return _Row(number, texts, {column: value for column, value in numbers.items() if value is not None})


def _number(text: str, column: YearColumn) -> int | None:
    """A whole number; parentheses or a minus mean less than zero; None for an empty cell, which is not a zero."""
    if text in _NO_NUMBER:
        return None
    digits = text.replace(",", "").replace("$", "").strip()
    if digits.startswith("(") and digits.endswith(")"):
        digits = f"-{digits[1:-1]}"
    try:
        value = Decimal(digits)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or value != value.to_integral_value() or abs(value) > LARGEST:
        raise ValueError(f"{text[:20]!r} is not a whole number, in the {column.kind} of FY{column.fiscal_year}")
    return int(value)


def _netted(rows: Iterable[_Row]) -> list[ExhibitLine]:
    """One line per account and code, in the file's order: its cost less advance procurement, each a row of its own."""
    lines: dict[tuple[str, str], list[_Row]] = {}
    for row in rows:
        lines.setdefault((row.texts["account"], row.texts["code"]), []).append(row)
    return [_line(parts) for parts in lines.values()]


def _line(parts: Sequence[_Row]) -> ExhibitLine:
    texts = parts[0].texts
    columns = {column: None for part in parts for column in part.values}
    return ExhibitLine(
        account=texts["account"],
        account_title=texts.get("account_title", ""),
        organization=texts.get("organization", ""),
        code=texts["code"],
        title=texts["title"],
        rows=[part.number for part in parts],
        values={column: sum(part.values.get(column, 0) for part in parts) for column in columns},
    )


def _cell(cells: Sequence[str], place: int) -> str:
    return cells[place] if place < len(cells) else ""


YEARS = (2025, 2026, 2027)


class Imported(Struct, frozen=True):
    """`lines` are all known lines, `matched` of them with the exhibit's amounts."""

    lines: list[Line]
    matched: int


def imported(exhibit: Exhibit, name: str, lines: Sequence[Line]) -> Imported:
    """The known lines with the exhibit's amounts where it has the same account and code.

    A code that the exhibit uses for something else cannot be detected, so read the report. ValueError where the exhibit
    lacks one of YEARS or has none of the lines.
    """
    amounts = [exhibit.amounts_k(year) for year in YEARS]
    result = [_read_in(line, [of_year.get((line.account, line.code)) for of_year in amounts], name) for line in lines]
    matched = sum(line is not None for line in result)
    if not matched:
        raise ValueError("the exhibit holds none of the known lines: are its account and code columns the P-1's?")
    return Imported([new or old for new, old in zip(result, lines, strict=True)], matched)


def _read_in(line: Line, amounts: Sequence[int | None], name: str) -> Line | None:
    first, second, third = amounts
    if first is None or second is None or third is None:
        return None
    return replace(
        line,
        fy2025_k=first,
        fy2026_k=second,
        fy2027_k=third,
        is_net_complete=True,
        basis="read from the operator's copy of the exhibit, Non-Add rows left out",
        source=f"{name}, account {line.account}, line {line.code}",
    )
