"""Words of texts, types of mentions, and the lexicon: names of places, organizations, companies and platforms."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Any, Final, Literal

from msgspec import Struct

from tollhouse.services.defense.gazetteer import COUNTRIES

EntityType = Literal["person", "organization", "location", "platform"]
Form = Literal["name", "noun", "pronoun"]


class Span(Struct, frozen=True):
    """A mention in a sentence's words, from `start` to `end` (exclusive). `form` follows ACE; only names are served."""

    start: int
    end: int
    type: EntityType
    form: Form = "name"


class Mention(Struct, frozen=True):
    """A name in a text, from character `start` to `end` (exclusive)."""

    text: str
    type: EntityType
    start: int
    end: int


# Initialisms keep their points, abbreviations the last one, numbers their commas; an apostrophe begins a suffix.
_TOKEN = re.compile(
    r"(?:[^\W\d_]\.){2,}"
    r"|(?:Mr|Mrs|Ms|Dr|Prof|Gen|Lt|Col|Maj|Capt|Sgt|Cpl|Pvt|Pfc|Spc|Adm|Cmdr|Cdr|Brig|Sen|Rep|Gov|Rev|St|Corp|Inc|Ltd|Co|Jr|Sr)\."
    r"|[A-Z]\.(?= [A-Z])"
    r"|\d+(?:[.,]\d+)*(?![^\W_])"
    r"|['\u2019][sS](?!\w)"
    r"|(?:[^\W_]|[\u0300-\u036f])+(?:['\u2019](?![sS](?!\w))[^\W_]+)?"
    r"|\S"
)
_ENDS = frozenset(".!?…。\uff01\uff1f")
_CLOSING = frozenset("\"'\u201d\u2019»)")
# Text without punctuation is split here, to limit the work per sentence.
LONGEST_SENTENCE = 200


class Token(Struct, frozen=True):
    """A word, number or sign, from character `start` to `end` (exclusive)."""

    text: str
    start: int
    end: int


def tokenise(text: str) -> Iterator[Token]:
    """The tokens of a text in order. Hyphens are tokens: "F-35" is three, "Lockheed's" is two."""
    for match in _TOKEN.finditer(text):
        yield Token(match.group(), match.start(), match.end())


def sentences(text: str) -> Iterator[list[Token]]:
    """The tokens of a text by sentence, which ends at punctuation, at a blank line or at LONGEST_SENTENCE."""
    sentence: list[Token] = []
    for token in tokenise(text):
        if sentence and (len(sentence) >= LONGEST_SENTENCE or _breaks(text, sentence, token)):
            yield sentence
            sentence = []
        sentence.append(token)
    if sentence:
        yield sentence


def _breaks(text: str, sentence: list[Token], token: Token) -> bool:
    gap = text[sentence[-1].end : token.start]
    if gap.count("\n") > 1:
        return True
    last = sentence[-1].text
    if last in _CLOSING and len(sentence) > 1:
        last = sentence[-2].text
    return last in _ENDS and gap != "" and not token.text[0].islower()


PLATFORM: Final = "platform"
# A platform only where its kind or designator is beside it.
_COMMON = "common"
_MOST_BETWEEN = 5
# Types of known names without a tag. Smaller cities may be personal names, so the tagger decides.
CERTAIN: dict[str, EntityType] = {
    "body": "organization",
    "company": "organization",
    "capitals": "location",
    "country": "location",
    "platform": "platform",
}
# Shorter names such as "IS" and "WHO" are ordinary words in another case.
_SHORT = 5
_QUARTERS = ("North", "South", "East", "West", "Northern", "Southern", "Eastern", "Western")
# A hyphen of a designator, not of a character class.
_HYPHEN = re.compile(r"-(?![^\[\]]*\])")
_APOSTROPHES = re.compile("(')")


class Known(Struct, frozen=True):
    """A known name in words `start` to `end` (exclusive); `label` is its kind, such as country or company."""

    start: int
    end: int
    label: str


def find_known(words: Sequence[str], lowers: Sequence[str]) -> list[Known]:
    """The known names in a sentence, in order, longest first at each position, without overlaps."""
    designators = list(_designators(words, text)) if _HINT.search(text := " ".join(words)) else []
    by_start = {name.start: name for name in designators}
    known: list[Known] = []
    if any("\u2019" in word for word in lowers):
        lowers = [word.replace("\u2019", "'") for word in lowers]
    shouted = not any(map(str.islower, words))
    position = 0
    while position < len(words):
        name = by_start.get(position)
        if name is None and not (shouted and lowers[position] in _SMALL_WORDS):
            name = _longest(words, lowers, position)
        if name and name.label in (PLATFORM, _COMMON):
            is_beside = known and known[-1].label == PLATFORM and known[-1].end == name.start
            name = _with_kind(name, lowers, is_platform=is_beside or name.label == PLATFORM or name.end in by_start)
        if name and known and name.label == known[-1].label == PLATFORM and name.start == known[-1].end:
            # Join adjacent platforms: MQ-9 Reaper.
            known[-1] = Known(known[-1].start, name.end, PLATFORM)
        elif name:
            known.append(name)
        position = name.end if name else position + 1
    return known


def table(name: str) -> dict[str, Any]:
    """A word list: data/gazetteers/NAME.toml."""
    return _read_toml(f"gazetteers/{name}")


def word_class(list_: str, *names: str) -> frozenset[str]:
    """The words of these classes of data/LIST.toml."""
    return frozenset(word for name in names for word in _read_toml(list_)[name].split())


@cache
def _read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads(files("tollhouse.services.defense").joinpath("data", f"{name}.toml").read_text("utf-8"))


def _longest(words: Sequence[str], lowers: Sequence[str], start: int) -> Known | None:
    for lower, exact, label in _BY_FIRST.get(lowers[start], ()):
        end = start + len(lower)
        if (
            tuple(lowers[start:end]) == lower
            and (not exact or tuple(words[start:end]) == exact)
            and (exact or any(word[0].isupper() for word in words[start:end]))
        ):
            return Known(start, end, label)
    return None


def _with_kind(name: Known, lowers: Sequence[str], *, is_platform: bool) -> Known | None:
    """A platform with the noun of its kind: "Hellfire missiles". A common word is one only with it: "Typhoon jets"."""
    end = name.end
    for position in range(name.end, min(name.end + _MOST_BETWEEN, len(lowers))):
        if is_kind(lowers[position]):
            end = position + 1
        elif lowers[position] not in BETWEEN_KIND:
            break
    return Known(name.start, end, PLATFORM) if is_platform or end > name.end else None


def is_kind(lower: str) -> bool:
    """Whether a word in lower case is the noun of a kind of platform, such as "missiles"."""
    is_platform = HEADS.get(lower) == PLATFORM or (lower,) in PLATFORM_NOUNS
    return is_platform or lower in _KINDS or (lower.removesuffix("s"),) in PLATFORM_NOUNS


def _designators(words: Sequence[str], text: str) -> Iterator[Known]:
    """Platforms by the pattern of their designator; `text` is the words joined by spaces."""
    ends = list(accumulate(len(word) + 1 for word in words))
    starts = [0, *ends]
    for match in _DESIGNATOR.finditer(text):
        if match.start() in starts and match.end() + 1 in ends:
            yield Known(starts.index(match.start()), ends.index(match.end() + 1) + 1, PLATFORM)


def shortened(country: str) -> list[str]:
    """Short forms of a country in headlines: "S Africa", "N. Korea"."""
    first, _, rest = country.partition(" ")
    return [f"{first[0]} {rest}", f"{first[0]}. {rest}"] if first in _QUARTERS and rest else []


def _entries() -> Iterator[tuple[str, str]]:
    """Every known name with its label, lowest priority first."""
    platforms = table("platforms")
    yield from ((name, _COMMON) for name in _with_plurals([platforms["common"]["names"]]))
    for label, names in table("places")["places"].items():
        yield from ((name.strip(), label) for line in names.splitlines() for name in line.split("|"))
    for canonical, aliases in table("companies").items():
        yield from ((name, "company") for name in (canonical, *aliases))
    for canonical, aliases in table("forces").items():
        yield from ((name, "body") for name in (canonical, *aliases))
    yield from ((name, PLATFORM) for name in _with_plurals(platforms["names"].values()))
    yield from ((name, "country") for country in COUNTRIES for name in (country.name, *country.aliases))
    yield from ((short, "country") for country in COUNTRIES for short in shortened(country.name))
    yield from ((f"{name}.", "country") for name in ("U.S", "U.K", "U.S.A", "U.A.E"))


def _with_plurals(lists: Iterable[str]) -> Iterator[str]:
    for name in (name.strip() for names in lists for line in names.splitlines() for name in line.split("|")):
        yield name
        if name[-1:].islower() and not name.endswith("s"):
            yield f"{name}s"


# The words in lower case, their exact spelling if it matters, and the label.
_Entry = tuple[tuple[str, ...], tuple[str, ...] | None, str]


def _index() -> dict[str, list[_Entry]]:
    by_words: dict[tuple[str, ...], _Entry] = {}
    for name, label in _entries():
        for split in _splits(name.replace("\u2019", "'")):
            lower = tuple(word.lower() for word in split)
            # Abbreviations match only in capitals, and names in lower case only in lower case.
            abbreviation = len(name) < _SHORT and name[1:] != name[1:].lower()
            exact = split if abbreviation or name.islower() else None
            by_words[lower] = (lower, exact, label)
    by_first: dict[str, list[_Entry]] = {}
    for entry in sorted(by_words.values(), key=lambda entry: -len(entry[0])):
        by_first.setdefault(entry[0][0], []).append(entry)
    return by_first


def _splits(name: str) -> set[tuple[str, ...]]:
    """The tokens of a name by our tokenizer, also split at apostrophes, and split at spaces only."""
    ours = tuple(token.text for token in tokenise(name))
    apart = tuple(part for word in ours for part in _APOSTROPHES.split(word) if part)
    return {split for split in (ours, apart, tuple(name.split())) if split}


# In a headline in capitals "IS" and "WHO" are ordinary words.
_SMALL_WORDS = frozenset(f"{table('nouns')['around']['closers']} {table('nouns')['around']['prepositions']}".split())
_BY_FIRST = _index()
# Every designator has a digit, a class, or the prefix of a ship or vehicle.
_HINT = re.compile(r"\d|\b[A-Z][A-Za-z]{2,5} [A-Z]|\b(?:BMP|BTR|BMD|RPG|MT)|[-\u2010\u2011\u2013] ?class")
# Words are separated by spaces, and hyphens and slashes may be words.
_PATTERNS = "|".join(table("platforms")["patterns"].values()).replace("/", " ?/ ?")
_SPACED = _HYPHEN.sub("(?: ?[-\u2010\u2011\u2013] ?)", _PATTERNS)
_DESIGNATOR = re.compile(rf"(?<![\w-])(?:{_SPACED})(?![\w-])")


def _words(*texts: str) -> frozenset[str]:
    return frozenset(word for text in texts for word in text.split())


_NOUNS = table("nouns")
_PERSONS = table("persons")
_PLACES = table("places")
_NAME_HEADS = table("organizations")["name_heads"]
_AROUND = _NOUNS["around"]

_TYPES: dict[str, EntityType] = {
    "person": "person",
    "location": "location",
    "aircraft": "platform",
    "weapon": "platform",
    "organization": "organization",
}

# Types of common nouns in lower case, and of pairs of words.
HEADS: dict[str, EntityType] = {
    word: type_ for kind, type_ in _TYPES.items() for word in _NOUNS["heads"][kind].split() if "_" not in word
}
PAIRS: dict[tuple[str, str], EntityType] = {
    (first, last): type_
    for kind, type_ in _TYPES.items()
    for pair in _NOUNS["heads"][kind].split()
    if "_" in pair
    for first, last in [pair.split("_", 1)]
}
BETWEEN_KIND = _words(table("platforms")["common"]["between"])
_KINDS = _words(table("platforms")["common"]["kinds"])
_WORDNET = table("wordnet")
# Nouns of vehicles and weapons, also of two words; a plural ends in an s.
PLATFORM_NOUNS = frozenset(tuple(noun.split("_")) for noun in _WORDNET["platforms"].split())
MODIFIERS = _words(_WORDNET["modifiers"])
# As often verbs as adjectives or nouns.
VERBAL = _words(_WORDNET["verbal"])
VERBS = _words(_WORDNET["verbs"])
ADDRESSES = _words(_WORDNET["addresses"])
OF_HEADS = _words(_AROUND["of_heads"])
ADJECTIVES = _words(_AROUND["adjectives"])
DIRECTIONS = _words(_AROUND["directions"])
DETERMINERS = _words(_AROUND["determiners"])
QUANTIFIERS = _words(_AROUND["quantifiers"])
PREPOSITIONS = _words(_AROUND["prepositions"])
PLACE_PREPOSITIONS = _words(_AROUND["place_prepositions"])
CLOSERS = _words(_AROUND["closers"])
PASTS = _words(_AROUND["pasts"])
INNER = _words(_AROUND["inner"])
VAGUE = _words(_AROUND["vague"])
UNCOUNTED = _words(_AROUND["uncounted"])

COUNTRY_NAMES = frozenset(name.lower() for country in COUNTRIES for name in (country.name, *country.aliases))
DEMONYMS = _words(_PLACES["demonyms"]["words"])
PEOPLES = _words(_PLACES["demonyms"]["peoples"])
TITLES = _words(_PERSONS["titles"]["words"])
GIVEN = _words(_PERSONS["given"]["names"])
SURNAMES = _words(_PERSONS["given"]["surnames"])
# Lower-case words inside a person's name.
PARTICLES = _words("al el bin ibn bint de da di du van von der den ter ul")
ORGANIZATION_HEADS = _words(_NAME_HEADS["organization"])
LOCATION_HEADS = _words(_NAME_HEADS["location"])
EVENT_HEADS = _words(_NAME_HEADS["event"])

# Capitalized words that are not names.
CALENDAR = _words(
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June July August",
    "September October November December Jan. Feb. Mar. Apr. Aug. Sept. Sep. Oct. Nov. Dec.",
    "Jan Feb Mar Apr Aug Sept Oct Nov Dec",
)

PRONOUNS: dict[str, EntityType] = {
    "i": "person", "me": "person", "my": "person", "myself": "person",
    "he": "person", "him": "person", "himself": "person", "she": "person", "her": "person", "herself": "person",
    "we": "organization", "us": "organization", "ourselves": "organization", "they": "organization",
    "here": "location",
}  # fmt: skip
