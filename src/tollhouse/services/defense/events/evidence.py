"""Evidence of place and category in one page and its provider rows, and the decision over several pages."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from tollhouse.services.defense.countries import Country, country_by_fips, find_country
from tollhouse.services.defense.events.event import Category, Geo
from tollhouse.services.defense.ingest.classification import classify, relevance, words_relevance
from tollhouse.services.defense.ingest.export_parser import Row

_COUNTRY, _US_STATE, _US_CITY, _CITY, _STATE = 1, 2, 3, 4, 5
# Characters that GDELT's gazetteer has in place of letters it could not decode.
_LOST = frozenset("¿?\ufffd")
# Towns of Gaza and the West Bank that GDELT's gazetteer also lists under Israel.
_IN_PALESTINE = ("Gaza", "Khan Yunis", "Khan Younis", "Rafah", "West Bank", "Ramallah", "Hebron", "Nablus", "Jenin")
_CITIES = frozenset({_CITY, _US_CITY})
# "New Mexico" and "Papua New Guinea" name neither Mexico nor Guinea; "Nigeria" does not name Niger.
_OPENING = re.compile(r"(?<!new )\b")
_CLOSING = re.compile(r"(?:n|i|s|'s|ns|is)?\b")
_PRECISION = {_COUNTRY: "country", _US_STATE: "state", _US_CITY: "city", _CITY: "city", _STATE: "state"}


class Location(Struct, frozen=True):
    """`name` is for readers: the city, else the region, else the country. `why` explains the choice."""

    geo: Geo
    country_code: str
    name: str
    why: str


def locate(supporting: Sequence[Row], everything: Sequence[Row], title: str) -> Location | None:
    """Choose the event's location among the supporting rows, else among all rows; None if no row has a place.

    Prefer a country that the title names after "in", then one that it names elsewhere, then the most mentioned. Within
    the country prefer a place that the title names, then a city over a region over the country's centre.
    """
    elsewhere = _placed(everything)
    rows = elsewhere if len(supporting) == len(everything) else _placed(supporting)
    named: Mapping[str, int] = {}
    if len({row.geo_name for row in elsewhere}) > 1:
        named = _named(elsewhere, title.lower())
        if not any(named[row.geo_name] for row in rows):
            # GDELT often attaches the action to another actor's place; prefer the headline.
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
    """The rank by which a lower-case headline names each place of the rows: see `_naming`."""
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
    """2 if a lower-case headline names the place or its country after "in", 1 if it names it elsewhere, else 0."""
    named = [name for name in _names(geo_name, fips) if name in title and _is_word(name, title)]
    return 2 if any(f"in {name}" in title for name in named) else int(bool(named))


@lru_cache(maxsize=8192)
def _names(geo_name: str, fips: str) -> tuple[str, ...]:
    country = country_by_fips(fips)
    spot = geo_name.partition(",")[0].lower()
    names = {spot, spot.removesuffix(" city").removesuffix(" strip")}
    if country:
        names |= {name.lower() for name in (country.name, *country.aliases) if len(name) > 3}
    return tuple(names)


def _is_word(name: str, title: str) -> bool:
    # Match fixed patterns at the position: compiling one pattern per name costs more than the rest of an event.
    at = title.find(name)
    while at >= 0:
        if _OPENING.match(title, at) and _CLOSING.match(title, at + len(name)):
            return True
        at = title.find(name, at + 1)
    return False


@lru_cache(maxsize=8192)
def _described(place: tuple[int, str, str, float, float], *, is_supporting: bool) -> Location:
    geo_type, geo_name, fips, latitude, longitude = place
    country = country_by_fips("WE" if fips == "IS" and geo_name.startswith(_IN_PALESTINE) else fips)
    assert country is not None
    name, region = _spoken(geo_type, geo_name, country)
    geo = Geo(country.name, region, latitude, longitude)
    source = "rows of the category" if is_supporting else "other rows"
    return Location(geo, country.alpha2, name, f"{_PRECISION[geo_type]} {geo_name!r}, from {source}")


def _spoken(geo_type: int, geo_name: str, country: Country) -> tuple[str, str]:
    """Name for readers and region, from GDELT's "City, Region, Country" and its shorter forms."""
    parts = [part.strip() for part in geo_name.split(",")]
    if geo_type == _COUNTRY:
        return country.name, ""
    division = parts[0] if geo_type in {_STATE, _US_STATE} else ""
    region = parts[1].rstrip("*") if len(parts) > 2 else division
    # GDELT writes "Belarus (general)" for an unknown region; _LOST marks a damaged name.
    if region.endswith(")") or region == country.name or not _LOST.isdisjoint(region):
        region = ""
    spot = parts[0] or country.name
    return (f"{spot}, {country.name}" if spot != country.name else spot), region


# Events of less relevance are served only on request.
RELEVANT = 0.0


class PlaceEvidence(Struct, frozen=True, gc=False):
    """Where one page puts its event; `location` is None if it says nothing. `countries` are weights by alpha-2 code."""

    location: Location | None
    countries: dict[str, float]

    @property
    def places(self) -> tuple[str, ...]:
        """The names below the level of countries."""
        return (self.location.name,) if self.location and self.location.geo.region else ()


def read_place(title: str, rows: Sequence[Row], url: str) -> PlaceEvidence:
    """The evidence of a page's title and rows."""
    supporting = classify(url, rows).supporting if rows else ()
    return PlaceEvidence(locate(supporting, rows, title), _countries(title, rows))


_WORD = re.compile(r"[^\W_]+(?:['.][^\W_]+)*")


def _countries(title: str, rows: Sequence[Row]) -> dict[str, float]:
    words = [word.removesuffix("'s") for word in _WORD.findall(title)]
    named: Counter[str] = Counter()
    for size in (1, 2, 3):
        for start in range(len(words) - size + 1):
            phrase = " ".join(words[start : start + size])
            country = find_country(phrase) if phrase[:1].isupper() and len(phrase) > 3 else None
            if country:
                named[country.alpha2] += 1
    if named:
        return {code: 0.9 * number / named.total() for code, number in sorted(named.items())}
    places = Counter(country.alpha2 for row in rows if (country := country_by_fips(row.geo_country)))
    return {code: 0.5 * number / places.total() for code, number in sorted(places.items())}


def decide_place(reports: Sequence[PlaceEvidence]) -> Location | None:
    """The location that most reports give; among equals the first."""
    located = [report.location for report in reports if report.location]
    countries = Counter(location.country_code for location in located)
    return max(located, key=lambda location: countries[location.country_code]) if located else None


class ClassifierInput(Struct, frozen=True):
    """One page as the classifier reads it."""

    title: str
    url: str
    rows: Sequence[Row]
    has_headline: bool


class Classified(Struct, frozen=True, gc=False):
    """The probability of each category, the relevance to defense, security or politics, and why."""

    probabilities: dict[Category, float]
    relevance: float
    is_retrospective: bool
    why: str

    @property
    def category(self) -> Category:
        """The most probable category."""
        return max(self.probabilities, key=lambda category: self.probabilities[category])

    @property
    def confidence(self) -> float:
        """The probability of `category`."""
        return max(self.probabilities.values())


def classify_reports(inputs: Sequence[ClassifierInput]) -> list[Classified]:
    """Classify pages, in their order."""
    return list(map(_classified, inputs))


def combine(classified: Sequence[Classified]) -> Classified:
    """The classification of an event of several reports (at least one): that of the surest for its category."""
    weights: Counter[Category] = Counter()
    for one in classified:
        weights[one.category] += round(1_000 * one.confidence)
    category = weights.most_common(1)[0][0]
    return max((one for one in classified if one.category == category), key=lambda one: one.confidence)


def _classified(page: ClassifierInput) -> Classified:
    if not page.rows:
        why = "no provider rows, and the title alone is not classified"
        return Classified({"Political": 0.0}, words_relevance(page.title), is_retrospective=False, why=why)
    decision = classify(page.url, page.rows)
    weight = relevance(decision.category, page.rows, page.title)
    return Classified({decision.category: decision.confidence}, weight, is_retrospective=False, why=decision.why)
