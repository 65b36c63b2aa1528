"""Countries, names of places in text, and the countries of news outlets.

The table of places is an extract from GeoNames and other open sources: see data/gazetteers/README.md.
"""

import difflib
import re
import unicodedata
from functools import cache, lru_cache
from importlib.resources import files
from math import cos, hypot, radians
from typing import Literal

import msgspec
import zstandard
from msgspec import Struct


class Country(msgspec.Struct, frozen=True):
    """`alpha2`, `alpha3` and `numeric` are ISO 3166-1 (XK, XKX and "" for Kosovo); `region` is a part of the world.

    `fips` are the FIPS 10-4 codes in GDELT's places, main code first. `cameo` are actor codes other than `alpha3`.
    """

    alpha2: str
    alpha3: str
    numeric: str
    name: str
    region: str
    fips: tuple[str, ...]
    cameo: tuple[str, ...]
    aliases: tuple[str, ...]


COUNTRIES = msgspec.json.decode(
    files("tollhouse.services.defense").joinpath("data", "countries.json").read_bytes(), type=tuple[Country, ...]
)

# FIPS codes without one country: seas, undersea features, disputed islands, no man's land.
NOWHERE = frozenset({"OS", "UF", "UU", "PF", "PG", "PJ", "NM"})

_BY_FIPS = {code: country for country in COUNTRIES for code in country.fips}
_BY_CAMEO = {code: country for country in COUNTRIES for code in (country.alpha3, *country.cameo)}
_POINTS = re.compile(r"[.'\u2019`\u02bc]")
_COUNTRY_BREAKS = re.compile(r"[\W_]+")


def country_by_fips(code: str) -> Country | None:
    """The country of a FIPS 10-4 code; None for `NOWHERE` and for unknown codes."""
    return _BY_FIPS.get(code)


def country_by_cameo(code: str) -> Country | None:
    """The country of a CAMEO actor code; None for regions such as AFR and for blocs such as EUR."""
    return _BY_CAMEO.get(code)


@lru_cache(maxsize=4096)
def find_country(text: str) -> Country | None:
    """The country for an English name, code or alias, ignoring case, accents and "the"."""
    return _by_key().get(_country_key(text))


def near_matches(text: str, limit: int = 5) -> list[str]:
    """Names of countries spelled like `text`, closest first."""
    names = [key for key in _by_key() if len(key) > 3]
    keys = difflib.get_close_matches(_country_key(text), names, n=limit * 4, cutoff=0.6)
    return list(dict.fromkeys(_by_key()[key].name for key in keys))[:limit]


@cache
def _by_key() -> dict[str, Country]:
    # Names come last so that no alias or code of another country replaces them.
    index = {_country_key(alias): country for country in COUNTRIES for alias in country.aliases}
    index |= {_country_key(code): country for country in COUNTRIES for code in (country.alpha3, country.alpha2)}
    return index | {_country_key(country.name): country for country in COUNTRIES}


def _country_key(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text[:100]).casefold()
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    words = _COUNTRY_BREAKS.sub(" ", _POINTS.sub("", plain.replace("&", " and "))).split()
    if len(words) > 1 and words[0] == "the":
        del words[0]
    return " ".join("st" if word == "saint" else word for word in words)


# Flags of a name: an everyday English word; a person's name; the capital of its country.
WORD, PERSON, CAPITAL = 1, 2, 4


class Region(Struct, frozen=True, array_like=True, gc=False):
    """A first-level division, or another part of a country with a name of its own; its centre in degrees."""

    country: str
    name: str
    keys: list[str]
    latitude: float
    longitude: float
    population: int
    flags: int


class City(Struct, frozen=True, array_like=True, gc=False):
    """A town of 15,000 people or more, in degrees. `region` is its index in `Table.regions`, -1 if unknown."""

    country: str
    region: int
    names: list[str]
    latitude: float
    longitude: float
    population: int
    flags: int


class Name(Struct, frozen=True, gc=False):
    """A country's own name, the adjective of a people, or a name for a government such as "Kremlin".

    `country` is empty for seas and continents, whose names hold those of countries.
    """

    country: str
    kind: Literal["country", "people", "government"]


Sense = City | Region | Name


class Table(Struct):
    """The bundled file. Names are `name_key`s, countries ISO 3166-1 alpha-2.

    `counties` are the first words of a US county's name with its states; `outlets` are hosts, separated by spaces, of
    which most articles concern the country, and under "" hosts whose top-level domain says little of what they report.
    """

    regions: list[Region]
    cities: list[City]
    counties: dict[str, list[str]]
    peoples: dict[str, str]
    governments: dict[str, str]
    seas: list[str]
    given: list[str]
    centres: dict[str, tuple[float, float]]
    outlets: dict[str, str]


_LETTERS = str.maketrans({
    "ł": "l", "ø": "o", "đ": "d", "\u0131": "i", "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d", "ə": "e",
})  # fmt: skip
_APOSTROPHES = re.compile(r"['\u2018\u2019`\u02bb\u02bc\u02be\u02bf]")
_BREAKS = re.compile(r"[\W_]+")


@lru_cache(maxsize=16384)
def name_key(name: str) -> str:
    """A name as lower-case words without accents and punctuation: "Sana'a" is "sanaa"."""
    lower = _APOSTROPHES.sub("", name.lower())
    if not lower.isascii():
        parts = unicodedata.normalize("NFKD", lower.translate(_LETTERS))
        lower = "".join(letter for letter in parts if not unicodedata.combining(letter))
    return " ".join("st" if word == "saint" else word for word in _BREAKS.sub(" ", lower).split())


@cache
def table() -> Table:
    packed = files("tollhouse.services.defense").joinpath("data", "gazetteer.msgpack.zst").read_bytes()
    return msgspec.msgpack.decode(zstandard.decompress(packed), type=Table)


# Shorter aliases than this are initials; upper case tells them from words.
SHORT = 4


class Index(Struct):
    """The senses of each name, and the length in words of the longest name that begins with a word."""

    senses: dict[str, list[Sense]]
    longest: dict[str, int]

    def add(self, key: str, sense: Sense) -> None:
        senses = self.senses.setdefault(key, [])
        if sense not in senses:
            senses.append(sense)
        first, _, rest = key.partition(" ")
        words = rest.count(" ") + 2 if rest else 1
        if self.longest.get(first, 0) < words:
            self.longest[first] = words


@cache
def index() -> Index:
    """Every name of the table and of the countries. A name of a country is never also a town's."""
    data, result = table(), Index({}, {})
    for country in COUNTRIES:
        for name in (country.name, *country.aliases):
            # "CAR" is seldom a country.
            if not (name.isupper() and len(name) <= SHORT) or name in _INITIALS:
                result.add(name_key(name), Name(country.alpha2, "country"))
    countries = frozenset(result.senses)
    names = [(key, Name(code, "people")) for key, code in data.peoples.items()]
    names += [(key, Name(code, "government")) for key, code in data.governments.items()]
    names += [(key, Name("", "country")) for key in data.seas]
    for key, sense in names:
        if key not in countries:
            result.add(key, sense)
    taken = frozenset(result.senses)
    _add_regions(result, countries)
    for city in data.cities:
        for key in map(name_key, city.names):
            if len(key) > 1 and key not in taken:
                result.add(key, city)
    return result


def _add_regions(result: Index, countries: frozenset[str]) -> None:
    """Add the regions: one named as a country only if it is a part that the country's aliases name, or Georgia."""
    whole = frozenset(name_key(country.name) for country in COUNTRIES)
    for region in table().regions:
        for key in region.keys:
            is_part = key not in whole and key in countries and result.senses[key][0].country == region.country
            if is_part or key not in countries or region.country == "US":
                result.add(key, region)


_INITIALS = frozenset({"USA", "US", "UK", "UAE", "DRC", "DPRK", "PRC", "KSA"})


@cache
def given_names() -> frozenset[str]:
    return frozenset(table().given)


def county_states(key: str) -> list[str]:
    """The US states that have a county of this name."""
    return table().counties.get(key, [])


# A capital counts as this many times its population, a region as a part of it: towns give their names to regions.
_OF_CAPITALS, _OF_REGIONS = 15.0, 0.1


def prominence(place: City | Region) -> float:
    """How often a name means this place among the places of its country with this name."""
    if isinstance(place, Region):
        return place.population * _OF_REGIONS
    return place.population * (_OF_CAPITALS if place.flags & CAPITAL else 1.0)


@lru_cache(maxsize=8192)
def find_position(name: str) -> tuple[float, float] | None:
    """Latitude and longitude of a country's centre, else of the largest region or town of this name."""
    senses = index().senses.get(name_key(name), [])
    places = [sense for sense in senses if not isinstance(sense, Name)]
    countries = [sense for sense in senses if isinstance(sense, Name) and sense.kind == "country"]
    # "England" is a name of its country, but a place of its own.
    if countries and not any(place.country == countries[0].country for place in places):
        return table().centres.get(countries[0].country)
    largest = max(places, key=prominence, default=None)
    return (largest.latitude, largest.longitude) if largest else None


# Sold to everybody, or not a country's ISO code.
_TLDS = {
    "uk": "GB", "su": "RU", "tv": "", "me": "", "io": "", "co": "", "fm": "", "ws": "", "cc": "", "to": "", "ly": "",
    "ai": "", "la": "", "am": "", "gg": "", "im": "", "vc": "", "nu": "", "sh": "", "st": "",
}  # fmt: skip
_CODES = frozenset(country.alpha2 for country in COUNTRIES)


def tld_country(host: str) -> str:
    """The country of a host's national top-level domain; empty for others and for those sold to everybody."""
    ending = host.rpartition(".")[2]
    code = _TLDS.get(ending, ending.upper())
    return code if len(ending) == 2 and code in _CODES else ""


@cache
def _outlets() -> dict[str, str]:
    return {host: code for code, hosts in table().outlets.items() for host in hosts.split()}


@lru_cache(maxsize=8192)
def outlet_country(host: str) -> str:
    """The country that most articles of a national outlet concern; empty if unknown or if there is none."""
    known, part = _outlets(), host.lower().removeprefix("www.")
    stated = tld_country(part)
    while "." in part:
        if part in known:
            return known[part]
        part = part.partition(".")[2]
    return stated


_WORLD = frozenset({"world", "international", "global", "foreign", "foreign-affairs", "world-news"})
_NATIONAL = {"us": "US", "us-news": "US", "usa": "US", "uk": "GB", "uk-news": "GB"}
_LONGEST_SECTION = 24


@lru_cache(maxsize=8192)
def _section_country(part: str) -> str:
    """The country that a part of a URL's path names as a section of the site; else empty."""
    if part in _NATIONAL:
        return _NATIONAL[part]
    if len(part) < 4:
        return ""
    senses = index().senses.get(name_key(part), [])
    if senses and isinstance(senses[0], Name) and senses[0].kind == "country":
        return senses[0].country
    return ""


def read_sections(path: str) -> tuple[set[str], bool]:
    """Countries that sections of the site name, and whether one is about the world."""
    parts = [part for part in path.lower().split("/")[1:-1] if len(part) <= _LONGEST_SECTION and part.count("-") < 3]
    countries = {_section_country(part) for part in parts if not part.isdigit()} - {""}
    return countries, not _WORLD.isdisjoint(parts)


# GDELT counts places of Gaza and the West Bank to Israel too; the nearest town decides.
_BORDERS = {"IL": "PS", "PS": "IL"}
# Its south, north, west and east.
_CRIMEA = 44.3, 46.2, 32.4, 36.6


@lru_cache(maxsize=16384)
def country_of_point(fips: str, latitude: float, longitude: float) -> str:
    """The alpha-2 code of a provider's place; for places beyond disputed borders that of this product."""
    country = country_by_fips(fips)
    if country is None:
        return ""
    south, north, west, east = _CRIMEA
    if country.alpha2 == "RU" and south <= latitude <= north and west <= longitude <= east:
        return "UA"
    other = _BORDERS.get(country.alpha2)
    if other is None:
        return country.alpha2
    return min(_towns(country.alpha2, other), key=lambda town: _distance(town, latitude, longitude)).country


@cache
def _towns(one: str, other: str) -> list[City]:
    return [city for city in table().cities if city.country in {one, other}]


def _distance(town: City, latitude: float, longitude: float) -> float:
    return hypot(town.latitude - latitude, (town.longitude - longitude) * cos(radians(latitude)))
