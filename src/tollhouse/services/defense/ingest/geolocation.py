"""Where the event of a URL took place, out of the places its rows name."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from tollhouse.services.defense.countries import Country, country_by_fips
from tollhouse.services.defense.events.event import Geo
from tollhouse.services.defense.ingest.export_row import Row

_COUNTRY, _US_STATE, _US_CITY, _CITY, _STATE = 1, 2, 3, 4, 5
# What GDELT's gazetteer put for letters that it lost.
_LOST = frozenset("¿?\ufffd")
# Towns of Gaza and the West Bank that GDELT's gazetteer files under Israel, too.
_IN_PALESTINE = ("Gaza", "Khan Yunis", "Khan Younis", "Rafah", "West Bank", "Ramallah", "Hebron", "Nablus", "Jenin")
_CITIES = frozenset({_CITY, _US_CITY})
# "New Mexico" and "Papua New Guinea" name neither Mexico nor Guinea; "Nigeria" does not name Niger.
_OPENING = re.compile(r"(?<!new )\b")
_CLOSING = re.compile(r"(?:n|i|s|'s|ns|is)?\b")
_PRECISION = {_COUNTRY: "country", _US_STATE: "state", _US_CITY: "city", _CITY: "city", _STATE: "state"}


class Whereabouts(Struct, frozen=True):
    """`name` is how a person would say it: the city, else the region, else the country."""

    geo: Geo
    country_code: str
    name: str
    why: str


def whereabouts(supporting: Sequence[Row], everything: Sequence[Row], title: str) -> Whereabouts | None:
    """The place of the rows that support the category, else of all the URL's rows; None when none has one.

    First the country: one that the title places the event in, else one that it names, else the most mentioned. Then
    the place in it: one that the title names, else the most exact, a city before a region before the country's middle.
    """
    elsewhere = _placed(everything)
    rows = elsewhere if len(supporting) == len(everything) else _placed(supporting)
    named: Mapping[str, int] = {}
    if len({row.geo_name for row in elsewhere}) > 1:
        named = _named(elsewhere, title.lower())
        if not any(named[row.geo_name] for row in rows):
            # GDELT often ties the deed to a bystander's place; the headline knows better.
            rows = [row for row in elsewhere if named[row.geo_name]] or rows
    rows = rows or elsewhere
    if not rows:
        return None
    row = rows[0] if len({row.geo_name for row in rows}) == 1 else _chosen(rows, named)
    assert row.latitude is not None
    assert row.longitude is not None
    place = row.geo_type, row.geo_name, row.geo_country, row.latitude, row.longitude
    return _described(place, is_supporting=row in supporting)


def _placed(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.latitude is not None and country_by_fips(row.geo_country)]


def _named(rows: list[Row], headline: str) -> dict[str, int]:
    """How plainly the headline, in lower case, names each place of the rows."""
    named: dict[str, int] = {}
    for row in rows:
        if row.geo_name not in named:
            named[row.geo_name] = _naming(row.geo_name, row.geo_country, headline)
    return named


def _chosen(rows: list[Row], named: Mapping[str, int]) -> Row:
    countries: dict[str, int] = {}
    points: dict[str, int] = {}
    for row in rows:
        country, point = row.geo_country, row.geo_name
        countries[country] = countries.get(country, 0) + row.mentions
        points[point] = points.get(point, 0) + row.mentions

    def rank(row: Row) -> tuple[int, int, int, int, str]:
        exactness = 2 if row.geo_type in _CITIES else row.geo_type != _COUNTRY
        return named[row.geo_name], countries[row.geo_country], exactness, points[row.geo_name], row.id

    return max(rows, key=rank)


def _naming(geo_name: str, fips: str, title: str) -> int:
    """How plainly the headline, in lower case, names the place or its country: 2 after "in", 1 elsewhere, 0 never."""
    found = [name for name in _names(geo_name, fips) if name in title and _is_word(name, title)]
    if not found:
        return 0
    return 2 if any(f"in {name}" in title for name in found) else 1


@lru_cache(maxsize=8192)
def _names(geo_name: str, fips: str) -> tuple[str, ...]:
    country = country_by_fips(fips)
    spot = geo_name.partition(",")[0].lower()
    names = {spot, spot.removesuffix(" city").removesuffix(" strip")}
    if country:
        names |= {name.lower() for name in (country.name, *country.aliases) if len(name) > 3}
    return tuple(names)


def _is_word(name: str, title: str) -> bool:
    # One pattern for every name: to compile one for each costs more than the rest of an event.
    at = title.find(name)
    while at >= 0:
        if _OPENING.match(title, at) and _CLOSING.match(title, at + len(name)):
            return True
        at = title.find(name, at + 1)
    return False


@lru_cache(maxsize=8192)
def _described(place: tuple[int, str, str, float, float], *, is_supporting: bool) -> Whereabouts:
    geo_type, geo_name, fips, latitude, longitude = place
    country = country_by_fips("WE" if _is_misplaced(geo_name, fips) else fips)
    assert country is not None
    name, region = _spoken(geo_type, geo_name, country)
    geo = Geo(country.name, region, latitude, longitude)
    source = "rows of its category" if is_supporting else "its other rows"
    return Whereabouts(geo, country.alpha2, name, f"{_PRECISION[geo_type]} {geo_name!r}, from {source}")


def _is_misplaced(geo_name: str, fips: str) -> bool:
    return fips == "IS" and geo_name.startswith(_IN_PALESTINE)


def _spoken(geo_type: int, geo_name: str, country: Country) -> tuple[str, str]:
    """The place's spoken name and its region, out of GDELT's "City, Region, Country" and its shorter forms."""
    parts = [part.strip() for part in geo_name.split(",")]
    if geo_type == _COUNTRY:
        return country.name, ""
    division = parts[0] if geo_type in {_STATE, _US_STATE} else ""
    region = parts[1].rstrip("*") if len(parts) > 2 else division
    # "Belarus (general)" is GDELT's word for an unknown region; _LOST shows a broken name.
    if region.endswith(")") or region == country.name or not _LOST.isdisjoint(region):
        region = ""
    spot = parts[0] or country.name
    return (f"{spot}, {country.name}" if spot != country.name else spot), region
