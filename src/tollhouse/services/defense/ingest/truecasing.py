"""Truecasing: turn the words of a slug into a sentence with capitals and apostrophes."""

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib.resources import files

from tollhouse.services.defense.countries import COUNTRIES

# Words of other languages; with two of them English capitals would be wrong.
_FOREIGN = frozenset({
    "de", "la", "el", "los", "las", "les", "des", "du", "une", "et", "der", "die", "das", "und", "il", "di", "del",
    "por", "para", "que", "con", "dans", "pour", "sur",
})  # fmt: skip
_NEGATED = frozenset({
    "ain", "aren", "can", "couldn", "didn", "doesn", "don", "hadn", "hasn", "haven", "isn", "shouldn", "wasn", "weren",
    "won", "wouldn",
})  # fmt: skip
_SHORTENED = {
    "arent": "aren't", "cant": "can't", "couldnt": "couldn't", "didnt": "didn't", "doesnt": "doesn't", "dont": "don't",
    "hasnt": "hasn't", "havent": "haven't", "hes": "he's", "heres": "here's", "isnt": "isn't", "lets": "let's",
    "shouldnt": "shouldn't", "thats": "that's", "theres": "there's", "theyre": "they're", "wasnt": "wasn't",
    "whats": "what's", "whos": "who's", "wont": "won't", "wouldnt": "wouldn't", "youre": "you're",
}  # fmt: skip
_PARTICLES = frozenset(
    {"Factbox", "Explainer", "Breakingviews", "Timeline", "Exclusive", "Editorial", "Watch", "Opinion"}
)
# After these "us" is the pronoun; after the second group only at the end of the sentence.
_BEFORE_PRONOUN = frozenset({
    "let", "lets", "let's", "tell", "tells", "give", "gives", "show", "shows", "help", "helps", "make", "makes", "both",
    "teach", "takes",
})  # fmt: skip
_BEFORE_LAST_PRONOUN = frozenset({
    "of", "for", "with", "to", "about", "among", "around", "all", "on", "after", "join", "joins",
})  # fmt: skip
_PREFIXES = frozenset({"anti", "ex", "non"})
_MAGNITUDES = frozenset({"billion", "million", "trillion", "percent", "magnitude", "bn"})
# Only these words can join the previous word.
_JOINTS = frozenset({"s", "k", "n", "ll", "re", "ve", "t", "old", "no", "No", *_PREFIXES, *_MAGNITUDES, *_SHORTENED})
# Only words with these endings can be possessives, plurals, "us" or words with punctuation.
_INFLECTED_ENDS = frozenset("s,.")


def sentence(words: Sequence[str], places: Iterable[str] = ()) -> str:
    """The words as a headline in sentence case. A slug with capitals of its own keeps them.

    `places` are names that the event mentions, in their proper case, such as "Kabul, Kabol, Afghanistan".
    """
    if not all(map(str.islower, words)) and any(word != word.lower() != word.swapcase() for word in words[1:]):
        return _opened(_rejoined(list(words)))
    lower = [word.lower() for word in words]
    if not _FOREIGN.isdisjoint(lower) and sum(word in _FOREIGN for word in lower) > 1:
        return _opened(lower)
    local: dict[str, str] = {}
    for place in places:
        local.update(_capitals(place))
    return _opened(_named(_rejoined(lower), local))


@lru_cache(maxsize=8192)
def _capitals(place: str) -> dict[str, str]:
    """The capitalized words of a place name by their lower case."""
    return {part.lower(): part for part in place.replace(",", "").split() if part[:1].isupper()}


def _rejoined(words: list[str]) -> list[str]:
    if _JOINTS.isdisjoint(words):
        return words
    joined: list[str] = []
    for at, word in enumerate(words):
        last = joined[-1] if joined else ""
        if word == "s" and last == "u":
            joined[-1] = "US"
        elif word in {"k", "n"} and last == "u":
            joined[-1] = "U" + word.upper()
        elif (word == "s" and len(last) > 1) or (word in {"ll", "re", "ve"} and last.isalpha()):
            joined[-1] = f"{last}'{word}"
        elif word == "t" and last.lower() in _NEGATED:
            joined[-1] = f"{last}'t"
        elif last in _PREFIXES and word.isalpha():
            joined[-1] = f"{last}-{word}"
        elif (
            word.isdecimal()
            and last.isdecimal()
            and len(word) < 3
            and words[at + 1 : at + 2]
            and words[at + 1] in _MAGNITUDES
        ):
            joined[-1] = f"{last}.{word}"
        else:
            joined.append(_SHORTENED.get(word, word))
    return _aged(joined)


def _aged(words: list[str]) -> list[str]:
    """["12", "year", "old"] as "12-year-old", and "no", "2" as "No. 2"."""
    for at in range(len(words) - 2, -1, -1):
        if words[at + 1 : at + 3] in (["year", "old"], ["month", "old"]):
            words[at : at + 3] = ["-".join(words[at : at + 3])]
        elif words[at] in {"no", "No"} and words[at + 1] in {"1", "2", "3"} and at:
            words[at : at + 2] = [f"No. {words[at + 1]}"]
    return words


def _named(words: list[str], local: dict[str, str]) -> list[str]:
    names, starting = _names(), _names_starting()
    out: list[str] = []
    following = 0
    for at, word in enumerate(words):
        if at < following:
            continue
        name, following = _long_name(words, at, starting[word]) if word in starting else (None, at + 1)
        if name is not None:
            out.append(name)
        elif word[-1:] in _INFLECTED_ENDS:
            out.append(_cased(words, at, local))
        else:
            out.append(names.get(word) or local.get(word, word))
    return out


def _long_name(words: list[str], at: int, most_words: int) -> tuple[str | None, int]:
    """The longest name of several words that begins at `at`, and the position after it."""
    names = _names()
    for end in range(min(at + most_words, len(words)), at + 1, -1):
        name = _name(" ".join(words[at:end]), names)
        if name:
            return name, end
    return None, at + 1


def _name(text: str, names: dict[str, str]) -> str | None:
    """A name of several words or its possessive: slugs write "al qaeda s", "al qaedas" and "al qaeda"."""
    if text in names:
        return names[text]
    stem = text.removesuffix("'s") if text.endswith("'s") else text.removesuffix("s")
    return f"{names[stem]}'s" if stem in names else None


def _cased(words: list[str], at: int, local: dict[str, str]) -> str:
    word = words[at]
    if word == "us":
        return word if _is_pronoun(words, at) else "US"
    names = _names()
    bare = word.rstrip(",.")
    if bare in names:
        return names[bare] + word[len(bare) :]
    if bare in local:
        return local[bare] + word[len(bare) :]
    if word.endswith("'s") and (name := names.get(word[:-2]) or local.get(word[:-2])):
        return f"{name}'s"
    if word == "uss":
        return "USS"
    return _possessive(word, names, local)


def _possessive(word: str, names: dict[str, str], local: dict[str, str]) -> str:
    # "news" is not the possessive of "New".
    if not word.endswith("s") or word.endswith("ss") or word == "news":
        return word
    stem = word[:-1]
    name = names.get(stem) or local.get(stem)
    if not name:
        return word
    # Slugs drop the apostrophe: "irans" is a possessive, "asians" a plural.
    is_plural = stem not in _country_words() and stem.endswith(("an", "day", "i", "er"))
    return f"{name}s" if is_plural else f"{name}'s"


def _is_pronoun(words: list[str], at: int) -> bool:
    before = words[at - 1] if at else ""
    return before in _BEFORE_PRONOUN or (at == len(words) - 1 and before in _BEFORE_LAST_PRONOUN)


def _opened(words: list[str]) -> str:
    if not words:
        return ""
    first = words[0]
    if first.islower() or first[:3] == "al-":
        words = [first[:1].upper() + first[1:], *words[1:]]
    if words[0] in _PARTICLES and len(words) > 3:
        words[0] += ":"
    return " ".join(words)


@cache
def _names() -> dict[str, str]:
    """Proper spelling by lower-case words joined by single spaces."""
    text = files("tollhouse.services.defense").joinpath("data", "proper_names.txt").read_text(encoding="utf-8")
    countries = [
        name for country in COUNTRIES for name in (country.name, *country.aliases) if len(name) > 3 and "," not in name
    ]
    return {name.lower().replace("-", " ").replace("/", " "): name for name in (*countries, *text.splitlines())}


@cache
def _names_starting() -> dict[str, int]:
    """The word count of the longest name of several words, by its first word."""
    longest: dict[str, int] = {}
    for name in _names():
        first, *others = name.split()
        if others:
            longest[first] = max(longest.get(first, 0), len(others) + 1)
    return longest


@cache
def _country_words() -> frozenset[str]:
    return frozenset(country.name.lower() for country in COUNTRIES)
