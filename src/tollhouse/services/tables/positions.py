"""Positions of a table's rows: which columns have them, and a compact list for maps."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from tollhouse.catalogue.items import Item
from tollhouse.services.tables.declaration import Declaration

# A map of more points shows an even sample of them.
MAX_POINTS = 20_000
_DECIMALS = 5
_PAIRS = (("latitude", "longitude"), ("lat", "lon"), ("lat", "lng"), ("lat", "long"))


class PositionFields(Struct, frozen=True):
    """The fields of latitude and longitude; the same name twice for one field of type `point`."""

    latitude: str
    longitude: str

    def of(self, item: Item) -> tuple[float, float] | None:
        """The position of an item; None without one, or where it is not on Earth."""
        if self.latitude == self.longitude:
            point = item.get(self.latitude)
            return (point["latitude"], point["longitude"]) if point else None
        latitude, longitude = item.get(self.latitude), item.get(self.longitude)
        if latitude is None or longitude is None or abs(latitude) > 90 or abs(longitude) > 180:
            return None
        return latitude, longitude


def find_position_fields(declaration: Declaration) -> PositionFields | None:
    """The first field of type `point`, else the first pair of numbers named alike (`start_lat` and `start_lng`)."""
    shown = {name: field.type for name, field in declaration.fields.items() if field.exported}
    for name, kind in shown.items():
        if kind == "point":
            return PositionFields(name, name)
    numbers = {name for name, kind in shown.items() if kind in ("number", "integer")}
    for latitude, longitude in _PAIRS:
        for name in shown:
            words = name.split("_")
            other = "_".join(longitude if word == latitude else word for word in words)
            if latitude in words and {name, other} <= numbers:
                return PositionFields(name, other)
    return None


def list_points(fields: PositionFields, items: Iterable[Item]) -> dict[str, Any]:
    """Ids, latitudes and longitudes of the items that have a position, each in one list.

    `located` is the number of those items; above MAX_POINTS every n-th of them is listed, and `is_sample` is true.
    """
    points = [(item["id"], *position) for item in items if (position := fields.of(item))]
    listed = points[:: -(-len(points) // MAX_POINTS) or 1]
    return {
        "located": len(points),
        "count": len(listed),
        "is_sample": len(listed) < len(points),
        "id": [identity for identity, _, _ in listed],
        "latitude": [round(latitude, _DECIMALS) for _, latitude, _ in listed],
        "longitude": [round(longitude, _DECIMALS) for _, _, longitude in listed],
    }
