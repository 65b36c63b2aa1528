"""What words and phrases stand for: the language's own, and the names in one picture."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from msgspec import Struct
from rapidfuzz import fuzz, process

from tollhouse.services.defense.chat.snapshot import Snapshot
from tollhouse.services.defense.chat.story_index import plain, stem
from tollhouse.services.defense.countries import COUNTRIES

LONGEST_PHRASE = 6
CORRECTED_FROM = 5
ALIKE = 85.0

Kind = Literal[
    "idea",
    "country",
    "world",
    "region",
    "category",
    "subcategory",
    "severity",
    "entity",
    "program",
    "area",
    "number",
    "ignored",
    "foreign",
    "beyond",
    "unknown",
]


# The tables of words.toml that give phrases for values; a phrase that stands in two means the later one.
_TABLES: dict[str, Kind] = {
    "world": "world",
    "subcategory": "subcategory",
    "severity": "severity",
    "category": "category",
    "areas": "area",
    "ideas": "idea",
}


class Meaning(Struct, frozen=True):
    """`value` is the idea's name, the country's, the entity's id and so on."""

    kind: Kind
    value: str


class Vocabulary:
    """Everything a picture can be asked about, by how it is typed."""

    def __init__(self, picture: Snapshot) -> None:
        self._language = _language()
        self._names = dict(_names(picture))
        self._spellings = [name for name in self._names if len(name) >= CORRECTED_FROM]
        self._spellings += [name for name in _countries() if len(name) >= CORRECTED_FROM]
        self._vetted = {stem(word) for word in _steering()}
        self._picture = picture

    def meaning_of(self, phrase: str, *, is_upper: bool, is_capital: bool) -> Meaning | None:
        """What a phrase in plain form stands for; the writing tells "US" from "us"."""
        singular = " ".join(stem(word) for word in phrase.split())
        if is_upper and phrase in _codes():
            return Meaning("country", _codes()[phrase])
        found = self._language.get(phrase) or self._language.get(singular)
        if found and not (is_capital and found.kind == "ignored" and phrase in self._names):
            return found
        if country := _countries().get(phrase) or _countries().get(singular):
            return Meaning("country", country)
        return self._names.get(phrase) or self._names.get(singular)

    def corrected(self, word: str) -> Meaning | None:
        """What a misspelt word must stand for; words that occur in the news are no slips."""
        if len(word) < CORRECTED_FROM or self._picture.texts.knows(word):
            return None
        near = process.extractOne(word, self._spellings, scorer=fuzz.ratio, score_cutoff=ALIKE)
        if near:
            return self.meaning_of(near[0], is_upper=True, is_capital=True)
        steering = process.extractOne(stem(word), _steering(), scorer=fuzz.ratio, score_cutoff=ALIKE)
        return self._language.get(steering[0]) if steering else None

    def corrected_name(self, words: str) -> Meaning | None:
        """What a misspelt name of several words must stand for."""
        near = process.extractOne(words, self._spellings, scorer=fuzz.ratio, score_cutoff=ALIKE)
        return self.meaning_of(near[0], is_upper=True, is_capital=True) if near and " " in near[0] else None


def _names(picture: Snapshot) -> Iterator[tuple[str, Meaning]]:
    """Later ones win: what can filter events is meant before what is only named."""
    for line in reversed(picture.holdings.brief.production_summary.programs):
        # The largest line of a name comes last, so that it wins.
        yield from ((form, Meaning("program", line.name)) for form in _called(line.name))
    for name in picture.entity_names:
        entity = picture.entity_named(name)
        if entity:
            yield name, Meaning("entity", entity.id)
    for name, region in picture.regions.items():
        if len(name) > 3 and name not in _language():
            yield name, Meaning("region", region)
    for gap in picture.holdings.brief.capability_gaps:
        yield plain(gap.area), Meaning("area", gap.area)
    for name in picture.subcategories:
        yield from ((form, Meaning("subcategory", name)) for form in _forms(name))


def _called(program: str) -> Iterator[str]:
    """The name, and the designator alone where it begins with one: "B-21" of "B-21 Raider", "F-35" of "F-35A"."""
    designator = program.split(maxsplit=1)[0]
    if re.search(r"\d", designator):
        yield plain(re.sub(r"(?<=\d)[A-Za-z]$", "", designator))
        yield plain(designator)
    yield plain(program)


def _forms(subcategory: str) -> Iterator[str]:
    whole = plain(subcategory)
    yield whole
    for part in whole.split(" or "):
        if len(part) > 4:
            yield part


@cache
def _language() -> dict[str, Meaning]:
    table = _read()
    found = {word: Meaning("ignored", "") for word in map(plain, table["ignored"]["words"])}
    for name, kind in _TABLES.items():
        for value, phrases in table[name].items():
            found |= {_singular(phrase): Meaning(kind, value) for phrase in phrases}
            found |= {plain(phrase): Meaning(kind, value) for phrase in phrases}
    found |= {word: Meaning("number", str(value)) for word, value in table["numbers"].items() if word != "one"}
    found |= {plain(phrase): Meaning("beyond", phrase) for phrase in table["beyond"]["words"]}
    return found | {plain(phrase): Meaning("foreign", phrase) for phrase in table["foreign"]["words"]}


@cache
def _countries() -> dict[str, str]:
    found = {plain(alias): country.name for country in COUNTRIES for alias in country.aliases if len(alias) > 2}
    found |= {word: name for name, words in _read()["demonyms"].items() for word in words}
    found |= {f"{plain(name)}s": name for name in found.values()}
    return (
        found
        | {plain(country.name): country.name for country in COUNTRIES}
        | {"uk": "United Kingdom", "uae": "United Arab Emirates"}
    )


@cache
def _codes() -> dict[str, str]:
    """Two and three letters that are words as well: a country only when written in capitals."""
    codes = {country.alpha3.lower(): country.name for country in COUNTRIES}
    codes |= {country.alpha2.lower(): country.name for country in COUNTRIES}
    return {code: name for code, name in codes.items() if code not in _countries()}


@cache
def _steering() -> tuple[str, ...]:
    """The words of the language that steer an answer, and may be misspelt."""
    return tuple(
        phrase
        for phrase, meaning in _language().items()
        if " " not in phrase
        and len(phrase) >= CORRECTED_FROM
        and meaning.kind not in {"ignored", "foreign", "beyond", "number"}
    )


def _singular(phrase: str) -> str:
    return " ".join(stem(word) for word in plain(phrase).split())


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads(files("tollhouse.services.defense.chat").joinpath("words.toml").read_text("utf-8"))
