"""How a P-1 procurement exhibit becomes lines with one net amount each, and which of its rows do not count."""

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Literal

from msgspec import Struct

from tollhouse.services.defense.brief.p1_columns import Columns, Kind, YearColumn, chosen, find_columns
from tollhouse.services.defense.brief.p1_sheet import read_sheet

LARGEST = 10**10

Mark = Literal["add", "memo"]

_TOTAL = re.compile(r"(?:grand |sub-? ?)?totals?\b", re.IGNORECASE)
_NO_NUMBER = frozenset({"", "-", "–", "—"})  # noqa: RUF001 - exhibits print dashes of every length for "none"
_MARKS: dict[str, Mark] = {
    "add": "add",
    "y": "add",
    "yes": "add",
    "non-add": "memo",
    "nonadd": "memo",
    "non add": "memo",
    "n": "memo",
    "no": "memo",
}


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
    if _is_total(texts):
        return "total"
    try:
        return "memo" if _mark(texts) == "memo" else _row(number, texts, cells, columns)
    except ValueError as fault:
        return BadRow(number, str(fault))


def _is_total(texts: dict[str, str]) -> bool:
    """A sum of other rows: it has no line of its own, and some cell says so."""
    return not texts["code"] and any(_TOTAL.match(text) for text in texts.values())


def _mark(texts: dict[str, str]) -> Mark:
    """Whether the row adds to the exhibit's total. Where both columns stand, a memo in either is one."""
    stated = {name: texts[name] for name in ("add", "toa") if name in texts}
    for name, text in stated.items():
        if text.casefold() not in _MARKS:
            raise ValueError(f"{text[:20]!r} is neither Add nor Non-Add, in the column {name}")
    return "memo" if any(_MARKS[text.casefold()] == "memo" for text in stated.values()) else "add"


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
