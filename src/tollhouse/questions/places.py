"""Countries by ISO code, name, alias and demonym, as questions name them."""

import csv
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from rapidfuzz import fuzz, process

from tollhouse.questions.vocabulary import Declaration, Named

# Codes that are words in capitals as well: "supplier AND customer". "US" is meant by who writes it so.
_WORDS = frozenset(
    {"and", "are", "as", "at", "be", "by", "can", "do", "in", "is", "it", "me", "my", "no", "nor", "per", "so", "to"}
)
# Of German adjectives: "japanisch", "deutsche".
_GERMAN_ENDINGS = ("e", "en", "er", "es", "em")
_BREAKS = re.compile(r"[\W_]+")


class Country(Struct, frozen=True):
    """A country. `alpha2` and `alpha3` are ISO 3166-1 codes; `regions` are the parts of the world it belongs to.

    `translated` are names, adjectives and demonyms in German, Spanish and French.
    """

    alpha2: str
    alpha3: str
    name: str
    aliases: tuple[str, ...]
    demonyms: tuple[str, ...]
    regions: tuple[str, ...] = ()
    translated: tuple[str, ...] = ()


def find_country(text: str) -> Country | None:
    """The country with this name, code or alias, in any case."""
    return _by_key().get(normalize(text))


def country_by_code(alpha2: str) -> Country:
    """The country with this alpha-2 code. Raises KeyError if there is none."""
    return countries()[alpha2]


def near_countries(text: str, limit: int = 5) -> list[str]:
    """Names of countries similar to `text`, the nearest first."""
    names = [country.name for country in countries().values()]
    matches = process.extract(text, names, scorer=fuzz.WRatio, limit=limit, score_cutoff=60, processor=normalize)
    return [name for name, _, _ in matches]


@cache
def countries() -> dict[str, Country]:
    table = files("tollhouse.questions").joinpath("data", "countries.csv").read_text("utf-8")
    rows = csv.DictReader(table.splitlines())
    return {
        row["alpha2"]: Country(
            row["alpha2"],
            row["alpha3"],
            row["name"],
            split_list(row["aliases"]),
            split_list(row["demonyms"]),
            split_list(row["regions"]),
            tuple(form for language in ("de", "es", "fr") for form in split_list(row.get(language) or "")),
        )
        for row in rows
    }


@cache
def _groups() -> Mapping[str, Mapping[str, Any]]:
    text = files("tollhouse.questions").joinpath("data", "parts_of_world.toml").read_text("utf-8")
    return tomllib.loads(text)


@cache
def parts_of_world() -> dict[str, tuple[str, ...]]:
    """The parts of the world and alliances that each country belongs to, by its name."""
    members = {name: set(codes.split()) for name, codes in _groups()["members"].items()}
    return {
        country.name: (*country.regions, *(name for name, codes in members.items() if country.alpha2 in codes))
        for country in countries().values()
    }


def with_parts_of_world(declaration: Declaration, attribute: str) -> Declaration:
    """The declaration with what people call parts of the world and alliances as values of an attribute."""
    names = {name: tuple(words) for name, words in _groups()["names"].items()}
    kinds = [
        replace(
            kind,
            attributes=tuple(
                replace(each, values=names) if each.name == attribute else each for each in kind.attributes
            ),
        )
        for kind in declaration.kinds
    ]
    return replace(declaration, kinds=tuple(kinds))


def country_names(country: Country, kind: str, value: str, *, with_codes: bool) -> Iterator[Named]:
    """Every way to write a country, as names of this value of the kind's `country`; codes only in capitals.

    Its codes are for countries of the data: elsewhere "AI" is seldom Anguilla.
    """
    for text in (country.name, *country.aliases, *country.demonyms, *country.translated):
        for ending in ("", *_GERMAN_ENDINGS) if text.endswith("sch") else ("",):
            yield Named(text + ending, kind, "country", value)
    for code in (country.alpha2, country.alpha3) if with_codes else ():
        if code.lower() not in _WORDS:
            yield Named(code, kind, "country", value, exact=True)


def split_list(cell: str) -> tuple[str, ...]:
    """Split a cell with a list: `a;b` -> (a, b)."""
    return tuple(part.strip() for part in cell.split(";") if part.strip())


def normalize(text: str) -> str:
    """Lower case without accents; every run of punctuation becomes one space."""
    letters = unicodedata.normalize("NFKD", text[:200]).casefold()
    return _BREAKS.sub(" ", "".join(letter for letter in letters if not unicodedata.combining(letter))).strip()


@cache
def _by_key() -> dict[str, Country]:
    # Later entries win: names before codes, codes before aliases.
    index = {normalize(alias): country for country in countries().values() for alias in country.aliases}
    index |= {normalize(code): country for country in countries().values() for code in (country.alpha3, country.alpha2)}
    return index | {normalize(country.name): country for country in countries().values()}
