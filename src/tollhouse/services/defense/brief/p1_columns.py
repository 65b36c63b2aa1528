"""Which column of a P-1 exhibit means what, told by the header's text, since order and wording change every year."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from tollhouse.services.defense.brief.p1_sheet import NumberedRow

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
        _refuse_other_units(row)
        found = Columns(number, _places(row), _years(row))
        lacking = _lacking(found)
        if not lacking:
            return found
        if "account" in found.places:
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


def _places(row: Sequence[str]) -> dict[str, int]:
    headers = [_plain(cell) for cell in row]
    return {name: headers.index(text) for name, texts in WORDINGS.items() for text in texts[::-1] if text in headers}


def _years(row: Sequence[str]) -> dict[YearColumn, int]:
    years: dict[YearColumn, int] = {}
    for place, cell in enumerate(row):
        column = _year_column(cell)
        if column is None:
            continue
        if column in years:
            raise ValueError(f"The column {cell!r} is there twice.")
        years[column] = place
    return years


def _year_column(cell: str) -> YearColumn | None:
    header = _MONEY.fullmatch(_UNIT.sub("", _plain(cell)).strip())
    # A percentage or a difference of years is no amount.
    if header is None or any(word in header["stage"] for word in ("%", "percent", "change")):
        return None
    kind: Kind = "quantity" if header["kind"] in {"quantity", "qty"} else "amount"
    return YearColumn(int(header["year"]), header["stage"].strip(), kind)


def _lacking(found: Columns) -> list[str]:
    lacking = [WORDINGS[name][0] for name in REQUIRED if name not in found.places]
    if not {"add", "toa"} & found.places.keys():
        # Memo rows repeat money of other rows: where they cannot be told, no sum is right.
        lacking.append("add/non-add")
    if not any(column.kind == "amount" for column in found.years):
        lacking.append("an amount of a fiscal year")
    return lacking


def _refuse_other_units(row: Sequence[str]) -> None:
    if any(re.search(r"\bin (?:m|b)illions\b|\$ ?m\b", _plain(cell)) for cell in row):
        raise ValueError("The exhibit's amounts are not in thousands of dollars.")


def _plain(cell: str) -> str:
    return _SPACES.sub(" ", cell).replace(" / ", "/").replace("/ ", "/").replace(" /", "/").strip().casefold()
