"""Where a named place lies: by the bundled gazetteer, else by what the provider says of the articles that name it."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from tollhouse.services.defense.news.mentioned_place import Place


class Geocode(Struct, frozen=True, gc=False):
    """Decimal degrees; of a country or a region its middle."""

    latitude: float
    longitude: float


def geocode(names: Iterable[str], places: Iterable[Place]) -> Geocode | None:
    """The place of the first of these names that anybody knows, None where nobody says."""
    keys = [name.casefold() for name in names]
    known = next((_gazetteer()[key] for key in keys if key in _gazetteer()), None)
    if known:
        return Geocode(*known)
    return next((Geocode(p.latitude, p.longitude) for p in places if p.name.casefold() in keys), None)


@cache
def _gazetteer() -> dict[str, tuple[float, float]]:
    """By name in lower case: the most told place of each name in the bundled exports (tools/build_geocodes.py)."""
    table = files("tollhouse.services.defense").joinpath("data", "geocodes.json").read_bytes()
    return msgspec.json.decode(table, type=dict[str, tuple[float, float]])
