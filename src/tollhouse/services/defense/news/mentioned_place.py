"""A place that an article names, as the provider's gazetteer has it."""

from msgspec import Struct


class Place(Struct, frozen=True, gc=False):
    """Decimal degrees."""

    name: str
    latitude: float
    longitude: float
