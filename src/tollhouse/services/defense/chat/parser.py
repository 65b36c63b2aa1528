"""Parses a question into tokens: what it names, what it asks for, its times, and the words that are unknown."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Literal

from msgspec import Struct
from rapidfuzz import fuzz, process

from tollhouse.services.defense.chat.snapshot import Snapshot, plain, stem, stems
from tollhouse.services.defense.chat.time_expressions import TimeExpressions, find_times
from tollhouse.services.defense.countries import COUNTRIES
from tollhouse.services.defense.events.filter import filters_in_question

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
    """The words and names that questions about a snapshot can use, as they are typed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._language = _language()
        self._names = dict(_names(snapshot))
        self._spellings = [name for name in self._names if len(name) >= CORRECTED_FROM]
        self._spellings += [name for name in _countries() if len(name) >= CORRECTED_FROM]
        self._vetted = {stem(word) for word in _steering()}
        self._snapshot = snapshot

    def meaning_of(self, phrase: str, *, is_upper: bool, is_capital: bool) -> Meaning | None:
        """What a phrase in plain form stands for; the writing tells "US" from "us"."""
        singular = " ".join(stem(word) for word in phrase.split())
        if is_upper and phrase in _codes():
            return Meaning("country", _codes()[phrase])
        result = self._language.get(phrase) or self._language.get(singular)
        if result and not (is_capital and result.kind == "ignored" and phrase in self._names):
            return result
        if country := _countries().get(phrase) or _countries().get(singular):
            return Meaning("country", country)
        return self._names.get(phrase) or self._names.get(singular)

    def corrected(self, word: str) -> Meaning | None:
        """What a misspelt word must stand for; words that occur in the news are no slips."""
        if len(word) < CORRECTED_FROM or self._snapshot.texts.knows(word):
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


def _names(snapshot: Snapshot) -> Iterator[tuple[str, Meaning]]:
    """Later ones win: what can filter events is meant before what is only named."""
    for line in reversed(snapshot.holdings.brief.production_summary.programs):
        # The largest line of a name comes last, so that it wins.
        yield from ((form, Meaning("program", line.name)) for form in _called(line.name))
    yield from ((name, Meaning("entity", entity.id)) for name, entity in snapshot.entity_by_name.items())
    for name, region in snapshot.regions.items():
        if len(name) > 3 and name not in _language():
            yield name, Meaning("region", region)
    for gap in snapshot.holdings.brief.capability_gaps:
        yield plain(gap.area), Meaning("area", gap.area)
    for name in snapshot.subcategories:
        whole = plain(name)
        forms = (whole, *(part for part in whole.split(" or ") if len(part) > 4))
        yield from ((form, Meaning("subcategory", name)) for form in forms)


def _called(program: str) -> Iterator[str]:
    """The name, and the designator alone where it begins with one: "B-21" of "B-21 Raider", "F-35" of "F-35A"."""
    designator = program.split(maxsplit=1)[0]
    if re.search(r"\d", designator):
        yield plain(re.sub(r"(?<=\d)[A-Za-z]$", "", designator))
        yield plain(designator)
    yield plain(program)


@cache
def _language() -> dict[str, Meaning]:
    table = _read()
    result = {word: Meaning("ignored", "") for word in map(plain, table["ignored"]["words"])}
    for name, kind in _TABLES.items():
        for value, phrases in table[name].items():
            result |= {" ".join(stems(phrase)): Meaning(kind, value) for phrase in phrases}
            result |= {plain(phrase): Meaning(kind, value) for phrase in phrases}
    result |= {word: Meaning("number", str(value)) for word, value in table["numbers"].items() if word != "one"}
    result |= {plain(phrase): Meaning("beyond", phrase) for phrase in table["beyond"]["words"]}
    return result | {plain(phrase): Meaning("foreign", phrase) for phrase in table["foreign"]["words"]}


@cache
def _countries() -> dict[str, str]:
    result = {plain(alias): country.name for country in COUNTRIES for alias in country.aliases if len(alias) > 2}
    result |= {word: name for name, words in _read()["demonyms"].items() for word in words}
    result |= {f"{plain(name)}s": name for name in result.values()}
    return (
        result
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


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads(files("tollhouse.services.defense.chat").joinpath("words.toml").read_text("utf-8"))


MOST_WORDS = 200
MOST_CORRECTED = 12

_WORD = re.compile(r"[^\W_]+(?:['’.&-][^\W_]+)*")  # noqa: RUF001


class Token(Struct, frozen=True):
    """A word or phrase as typed, and its meaning. `is_name`: it starts with a capital letter."""

    text: str
    meaning: Meaning
    is_name: bool

    @property
    def kind(self) -> Kind:
        return self.meaning.kind


class Sentence:
    """The tokens of a question in order, its times, and the filters that it states by number."""

    def __init__(self, tokens: list[Token], times: TimeExpressions, filters: dict[str, Any]) -> None:
        self.tokens = tokens
        self.times = times
        self.filters = filters

    @cached_property
    def ideas(self) -> frozenset[str]:
        return frozenset(token.meaning.value for token in self.tokens if token.kind == "idea")

    def has(self, *ideas: str) -> bool:
        return not self.ideas.isdisjoint(ideas)

    def values(self, kind: Kind) -> list[str]:
        """What it names of that kind, each once, in order."""
        return list(dict.fromkeys(token.meaning.value for token in self.tokens if token.kind == kind))

    @cached_property
    def unknown(self) -> list[str]:
        """The words that mean nothing here, as they stand."""
        return [token.text for token in self.tokens if token.kind == "unknown"]


def read(text: str, snapshot: Snapshot, vocabulary: Vocabulary) -> Sentence:
    """Read a question against one snapshot; words after the first MOST_WORDS are ignored."""
    filters, rest = filters_in_question(text.casefold())
    times = find_times(rest, snapshot.as_of)
    remaining = set(_WORD.findall(times.text))
    words = [word for word in _WORD.findall(text)[:MOST_WORDS] if word.casefold() in remaining]
    is_shouted = text.isupper()
    tokens: list[Token] = []
    while words:
        token, taken = _longest(words, vocabulary, is_shouted=is_shouted)
        tokens.append(token)
        del words[:taken]
    return Sentence(_corrected(tokens, vocabulary), times, filters)


def _longest(words: list[str], vocabulary: Vocabulary, *, is_shouted: bool) -> tuple[Token, int]:
    """The longest phrase at the start that means something, else one word."""
    for length in range(min(LONGEST_PHRASE, len(words)), 0, -1):
        phrase = " ".join(words[:length])
        is_name = phrase[0].isupper()
        is_upper = phrase.isupper() and not is_shouted
        meaning = vocabulary.meaning_of(plain(phrase), is_upper=is_upper, is_capital=is_name)
        if meaning:
            return Token(phrase, meaning, is_name), length
    word = words[0]
    is_number = word.isdecimal() and len(word) <= 4
    return Token(word, Meaning("number" if is_number else "unknown", word), word[0].isupper()), 1


def _corrected(tokens: list[Token], vocabulary: Vocabulary) -> list[Token]:
    """Take slips for what they must be; who misspells more than a few words is not understood anyway."""
    if sum(token.kind == "unknown" for token in tokens) > MOST_CORRECTED:
        return tokens
    corrected: list[Token] = []
    for token in tokens:
        meaning = vocabulary.corrected(plain(token.text)) if token.kind == "unknown" else None
        now = Token(token.text, meaning, token.is_name) if meaning else token
        pair = _as_pair(corrected[-1], now, vocabulary) if corrected else None
        if pair:
            corrected[-1] = pair
        else:
            corrected.append(now)
    return corrected


def _as_pair(before: Token, token: Token, vocabulary: Vocabulary) -> Token | None:
    """Join a misspelt name of two words: one of them alone may be known."""
    if "unknown" not in {before.kind, token.kind} or before.kind not in {"unknown", "entity"}:
        return None
    text = f"{before.text} {token.text}"
    meaning = vocabulary.corrected_name(plain(text))
    return Token(text, meaning, is_name=True) if meaning else None
