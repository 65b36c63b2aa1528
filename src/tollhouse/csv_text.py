"""The CSV (RFC 4180) that this server writes: the one writer of every export, and its inverse for the importers.

A spreadsheet runs text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return as a formula. Such a text gets a
leading apostrophe (OWASP, "CSV Injection"), and so does one that begins with apostrophes before such a character, so
that `read_cell` restores every text. Numbers, also negative ones, are written as they are.
"""

import re
from collections.abc import Iterable

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_WRITTEN_FORMULA = re.compile(r"''*[=+\-@\t\r]")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
# Quoted although RFC 4180 does not ask for it: spreadsheets of some countries split cells at a semicolon or a tab.
_QUOTED = re.compile(r'[",;\t\r\n]')


def write_rows(rows: Iterable[Iterable[object]]) -> bytes:
    """Rows of text, numbers and None (an empty cell), each ended by CR LF."""
    return "".join(",".join(map(_cell, row)) + "\r\n" for row in rows).encode()


def read_cell(text: str) -> str:
    """The text that `write_rows` wrote as this cell."""
    return text[1:] if _WRITTEN_FORMULA.match(text) else text


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = str(value)
    if isinstance(value, str) and _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        text = f"'{text}"
    if not _QUOTED.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'
