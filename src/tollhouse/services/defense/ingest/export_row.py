"""One row of a GDELT 2.0 event export: the columns we keep, as the provider wrote them."""

from msgspec import Struct


class Row(Struct, frozen=True, array_like=True):
    """Codes stay strings (leading zeros matter); coordinates are None where the provider gives no place.

    `day` is YYYYMMDD of the event, `added` YYYYMMDDHHMMSS of the export. `geo_type`: 1 country, 2 US state,
    3 US city, 4 world city, 5 world state, 0 none. Countries here are FIPS 10-4 (places) or CAMEO (actors).
    """

    id: str
    day: str
    actor1_name: str
    actor1_country: str
    actor1_group: str
    actor1_type: str
    actor2_name: str
    actor2_country: str
    actor2_group: str
    actor2_type: str
    is_root: bool
    code: str
    base_code: str
    root_code: str
    quad_class: int
    goldstein: float
    mentions: int
    sources: int
    articles: int
    tone: float
    geo_type: int
    geo_name: str
    geo_country: str
    geo_adm1: str
    latitude: float | None
    longitude: float | None
    added: str
    url: str
