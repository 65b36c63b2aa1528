"""CAMEO codes: their categories and labels, and the row that decides among several."""

from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files

import msgspec

from tollhouse.services.defense.events.event import Category
from tollhouse.services.defense.ingest.export_parser import Row

_ECONOMIC = frozenset({"061", "071", "085", "162", "1621", "163", "1211", "1311", "1312"})


# A day has 200,000 rows and some 300 codes.
@lru_cache(maxsize=1024)
def cameo_category(code: str) -> Category | None:
    """The category of a CAMEO code; None for violent codes, of which few are battles."""
    if code.startswith("14"):
        return "Protests"
    if code in _ECONOMIC:
        return "Economic"
    return None if is_violence(code) else "Political"


def is_violence(code: str) -> bool:
    """Whether the code is assault (18), fighting (19) or mass violence (20). One such URL in nine is a battle."""
    return code.startswith(("18", "19", "20"))


def is_strike(code: str) -> bool:
    """Whether the code is one force using arms against another: fire, shelling, air strikes, broken truces."""
    return code.startswith(("190", "193", "194", "195", "196"))


def is_riot(code: str) -> bool:
    """Whether the code is a violent protest."""
    return code.startswith("145")


@lru_cache(maxsize=1024)
def cameo_label(code: str) -> str:
    """The label of a code, of its base code or of its root code; "Event" if all are unknown."""
    labels = _labels()
    return next((labels[code[:length]] for length in (4, 3, 2) if code[:length] in labels), "Event")


@cache
def _labels() -> dict[str, str]:
    table = files("tollhouse.services.defense").joinpath("data", "cameo_labels.json").read_bytes()
    return msgspec.json.decode(table, type=dict[str, str])


def heaviest_row(rows: Sequence[Row]) -> Row:
    """The most mentioned row of the code with most mentions; root events (early in their text) count double."""
    if len(rows) == 1:
        return rows[0]
    weights: dict[str, int] = {}
    for row in rows:
        weights[row.code] = weights.get(row.code, 0) + row.mentions * (1 + row.is_root)
    most = max(weights.values())
    heaviest = [row for row in rows if weights[row.code] == most]
    if len(heaviest) == 1:
        return heaviest[0]
    # Break ties by intensity, then by the more specific code.
    return max(heaviest, key=lambda row: (abs(row.goldstein), row.code[2:], row.mentions, row.id))
