"""How a spreadsheet of a budget exhibit becomes rows of text: CSV natively, XLSX through an optional library."""

import csv
import importlib
import io
import zipfile
from collections.abc import Iterator
from typing import Any

SHEET = "Exhibit P-1"
NO_OPENPYXL = (
    "Reading XLSX needs the package openpyxl, which is not installed here; install it, or save the sheet as CSV."
)

_ZIP_MARK = b"PK\x03\x04"

NumberedRow = tuple[int, list[str]]


def read_sheet(raw: bytes) -> list[NumberedRow]:
    """Every row with its number, counted from 1, as in the file. ValueError says what is wrong with it.

    Raises ModuleNotFoundError for XLSX where openpyxl is missing.
    """
    return list(_xlsx_rows(raw) if raw.startswith(_ZIP_MARK) else _csv_rows(raw))


def _csv_rows(raw: bytes) -> Iterator[NumberedRow]:
    reader = csv.reader(io.StringIO(_decoded(raw), newline=""))
    try:
        # A quoted cell may span lines; the number is that of the row's last.
        yield from ((reader.line_num, [cell.strip() for cell in row]) for row in reader)
    except csv.Error as cause:
        raise ValueError(f"The file is not readable as CSV: {cause}.") from cause


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        # What spreadsheet programs on Windows write when asked for plain CSV.
        return raw.decode("cp1252", "replace")


def _xlsx_rows(raw: bytes) -> Iterator[NumberedRow]:
    sheet = _sheet(raw)
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        yield number, [_text(cell) for cell in row]


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


def _text(cell: object) -> str:
    return "" if cell is None else str(cell).strip()
