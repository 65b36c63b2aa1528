"""Where the bundled production tables are, and how their rows are read."""

import csv
import tomllib
from importlib.resources import files
from typing import TypeVar

import msgspec

Row = TypeVar("Row", bound=msgspec.Struct)

_FOLDER = files("tollhouse.services.defense").joinpath("data", "production")


def read_rows(name: str, row: type[Row]) -> tuple[Row, ...]:
    """Every row of a CSV table; an empty cell counts as absent, so the field's default stands for it."""
    records = csv.DictReader(_FOLDER.joinpath(name).read_text("utf-8").splitlines())
    filled = ({column: cell for column, cell in record.items() if cell} for record in records)
    return tuple(msgspec.convert(cells, row, strict=False) for cells in filled)


def read_words(name: str) -> dict[str, str]:
    """The `[words]` table of a TOML file: comma-separated phrases by area."""
    table = tomllib.loads(_FOLDER.joinpath(name).read_text("utf-8"))
    return msgspec.convert(table["words"], dict[str, str])
