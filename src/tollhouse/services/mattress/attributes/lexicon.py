"""The words that decide an attribute, where they stand in a text, and what was derived from them."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct, field

Place = str
DECLARED, TITLE, TAGS, DESCRIPTION = "declared", "title", "tags", "description"

Value = TypeVar("Value")

_CLAUSE_END = re.compile(r"[.;!?,\n()|•]")
_SPACE = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")
_QUOTES = str.maketrans(
    {"\u2019": "'", "`": "'", "_": " ", "\u2013": "-", "\u2014": "-", "\u2011": "-", "\xd7": "x", "\xa0": " "}
)


class DerivedAttribute(Struct, frozen=True):
    """An attribute derived from `words` in the text at `place`. `value` is None if they contradict each other."""

    value: int | str | tuple[str, ...] | None
    words: tuple[str, ...]
    place: Place


class ProductTexts(Struct, frozen=True):
    """The texts of a product. `declared` are the texts of fields and options by attribute."""

    title: str = ""
    tags: tuple[str, ...] = ()
    description: str = ""
    declared: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def places(self, attribute: str) -> list[tuple[Place, tuple[str, ...]]]:
        """The texts to read for an attribute, the most reliable first."""
        return [
            (DECLARED, self.declared.get(attribute, ())),
            (TITLE, (self.title,)),
            (TAGS, self.tags),
            (DESCRIPTION, (self.description,)),
        ]


class SizeLabel(Struct, frozen=True):
    """Centimetres."""

    label: str
    width: int
    length: int
    words: tuple[str, ...]


class Level(Struct, frozen=True):
    value: int
    words: tuple[str, ...]
    negated: int | None = None
    range: tuple[float, float] = (0, 0)


class Label(Struct, frozen=True):
    label: str
    words: tuple[str, ...]


class SizeWords(Struct, frozen=True):
    labels: tuple[SizeLabel, ...]
    abbreviation: int
    not_sizes: tuple[str, ...]


class FirmnessWords(Struct, frozen=True):
    levels: tuple[Level, ...]
    widest_range: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    between: tuple[str, ...]
    parts: tuple[str, ...]
    not_followed_by: tuple[str, ...]
    not_firmness: tuple[str, ...]


class CoolingWords(Struct, frozen=True):
    levels: tuple[Level, ...]


class PositionWords(Struct, frozen=True):
    labels: tuple[Label, ...]
    behind: tuple[str, ...]
    before: tuple[str, ...]
    all_of: tuple[str, ...]


class MaterialWords(Struct, frozen=True):
    labels: tuple[Label, ...]
    springs: tuple[str, ...]
    fillings: tuple[str, ...]
    not_materials: tuple[str, ...]


class Words(Struct, frozen=True):
    negators: tuple[str, ...]
    clause_ends: tuple[str, ...]
    size: SizeWords
    firmness: FirmnessWords
    cooling: CoolingWords
    sleep_positions: PositionWords
    material: MaterialWords


class PhraseMatch(Struct, Generic[Value], frozen=True):
    """A phrase in a text, from `start` up to `end`, and its meaning."""

    start: int
    end: int
    value: Value
    words: str


@cache
def words() -> Words:
    return msgspec.toml.decode(files(__package__).joinpath("words.toml").read_bytes(), type=Words)


@cache
def labels(attribute: str) -> dict[str, str]:
    """The labels of an attribute (size, material or sleep_positions) by the words for them."""
    return {word: label.label for label in getattr(words(), attribute).labels for word in label.words}


@lru_cache(maxsize=128)
def normalize(text: str) -> str:
    """The text with one case and one kind of quote, dash and space. Line breaks stay."""
    plain = unicodedata.normalize("NFKC", text).casefold().translate(_QUOTES)
    return _LINES.sub("\n", _SPACE.sub(" ", plain))


@cache
def pattern(phrases: tuple[str, ...]) -> str:
    """A regular expression for any of the phrases as whole words, the longest first."""
    longest_first = sorted(phrases, key=len, reverse=True)
    return rf"(?<![\w'])(?:{'|'.join(map(_phrase, longest_first))})(?![\w'])" if phrases else "(?!)"


@cache
def compiled(phrases: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(pattern(phrases))


def find_phrases(text: str, meanings: Mapping[str, Value], unlike: Sequence[str] = ()) -> list[PhraseMatch[Value]]:
    """Phrases in a normalized text, except inside one of the phrases in `unlike`."""
    spans = [match.span() for match in compiled(tuple(unlike)).finditer(text)]
    return [
        PhraseMatch(match.start(), match.end(), meanings[_listed_phrase(match[0], meanings)], match[0])
        for match in compiled(tuple(meanings)).finditer(text)
        if not any(start < match.end() and match.start() < end for start, end in spans)
    ]


def is_negated(text: str, start: int) -> bool:
    """Whether the clause before `start` negates what follows: "not too firm"."""
    before = text[max(0, start - 200) : start]
    ends = [match.end() for end in (_CLAUSE_END, compiled(words().clause_ends)) for match in end.finditer(before)]
    return bool(_negators().search(before[max(ends, default=0) :]))


def unique_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """The distinct texts in order, each on one line."""
    return tuple(dict.fromkeys(" ".join(text.split()) for text in texts))


def _phrase(phrase: str) -> str:
    parts = [re.escape(part).replace(r"\*", r"\w*") for part in phrase.split(" ")]
    return r"[\s-]+".join(parts)


def _listed_phrase(matched: str, meanings: Mapping[str, Value]) -> str:
    """The listed phrase for a match, which may differ in spaces or match a star."""
    plain = " ".join(re.split(r"[\s-]+", matched))
    return plain if plain in meanings else _starred_phrase(plain, tuple(meanings))


@cache
def _starred_phrase(matched: str, phrases: tuple[str, ...]) -> str:
    return next(phrase for phrase in sorted(phrases, key=len, reverse=True) if compiled((phrase,)).fullmatch(matched))


@cache
def _negators() -> re.Pattern[str]:
    whole = tuple(word for word in words().negators if not word.startswith("n't"))
    return re.compile(rf"{pattern(whole)}|n't(?!\w)")
