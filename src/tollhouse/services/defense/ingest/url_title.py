"""Derive a headline from a URL: the part of its path with most words, without ids, dates and section names.

Truecasing then turns the words of the slug into a sentence with capitals and apostrophes.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from urllib.parse import unquote_plus

from tollhouse.services.defense.entities.lexicon import word_class
from tollhouse.services.defense.gazetteer import COUNTRIES

FEWEST_WORDS = 3
MOST_WORDS = 40

_PARTS = re.compile(r"(?i:https?)://([^/?#:]*)[^/?#]*([^?#]*)(?:\?([^#]*))?")
_EXTENSION = re.compile(
    r"(?:\.(?:s?html?|php|aspx?|cms|vnp|ece|jsp|cfm|stm|amp|story|item|(?:full)?article|print))+$", re.IGNORECASE
)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
# Begins with a literal character, so searching for it is much faster than for _UUID.
_UUID_MIDDLE = re.compile(r"-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-", re.IGNORECASE)
# Apostrophes that a site escaped twice: %e2%80%99 without its percent signs, &#039; and &apos; without theirs.
_ESCAPED_QUOTE = re.compile(r"-?e2-80-9[89]-?(?=s-|s$|t-|-)|(?<=[a-z])(?:039|apos)(?=s?(?:-|$))")
_COMMA_ID = re.compile(r",[0-9]{6,}$")
_GAP = re.compile(r"(?:,(?=[^\W\d])|[-_+\s~|:;!?()\[\]\"“”*=&/\\\u2013—―])+")
# A comma after a word is kept.
_CLOSING_EDGES = " .'\u2019\u2018"
_EDGES = " .,'\u2019\u2018"
_ID = re.compile(
    r"id(?:us|in|uk|ca|af|l)[a-z0-9]*[0-9][a-z0-9]*"  # Reuters
    r"|(?=[a-z]*[0-9])(?=[0-9]*[a-z])[0-9a-f]{7,}"  # hashes
    r"|[a-z]{1,4}[0-9]{4,}[a-z]?"  # story numbers with a prefix
    r"|(?=.*[0-9])(?=.*[a-z])[a-z0-9]{9,}"  # tokens of letters and digits
    r"|[0-9]{8,}|[0-9]+\.[0-9]{4,}",
    re.IGNORECASE,
)
_RANDOM_CASE = re.compile(r"[a-z]+(?:[A-Z]+[a-z0-9]*){3,}")
_NUMBER_AT_AN_END = re.compile(r"[a-z]+[0-9]+[a-z]+[0-9]*|[0-9]{5,}|[0-9]+\.[0-9]+|20[0-9]{6}")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_LETTERS = re.compile(r"[^\W\d_]{2}|[^\W\d_]['\u2019]?[^\W\d_]")

# A path part with only these words names a section of the site.
_SECTIONS = word_class("slug_words", "sections")
_LEADING = frozenset({"article", "articles", "story", "news", "detail", "post"})
_TRAILING = frozenset({"article", "story", "html", "htm", "php", "spt", "ont", "video"})
# Sites append the name of the agency or paper that wrote the text.
_OUTLETS = {
    "post": [["national", "post"], ["washington", "post"]],
    "times": [["los", "angeles", "times"]],
    "sentinel": [["orlando", "sentinel"]],
    "press": [["associated", "press"]],
    "news": [["bbc", "news"]],
    "reuters": [["reuters"]],
    "afp": [["afp"]],
    "xinhua": [["xinhua"]],
    "nyt": [["nyt"]],
}
_COPIES = frozenset({"1", "2", "3", "4", "001", "002", "003", "004"})
# A number after one of these belongs to it: "part 2" is not a second copy of "part".
_COUNTED = word_class("slug_words", "counted")


def headline_words(url: str) -> list[str]:
    """The words of the headline in a URL, in their case and order; empty if no part has at least three real words."""
    match = _PARTS.match(url)
    if not match:
        return []
    host, path, query = match.groups()
    parts = [unquote_plus(part) for part in path.split("/") if len(part) > 7]
    if host.endswith("reuters.com"):
        # .../article/us-syria-security-idUS... lists topics; the headline, if any, is the next part.
        parts = parts[-1:] if len(parts) > 1 else [part for part in parts if "-id" not in part]
    if query and "-" in query:
        parts += [unquote_plus(pair.partition("=")[2]) for pair in query.split("&") if pair.count("-") > 2]
    best: list[str] = []
    most = FEWEST_WORDS - 1
    for part in reversed(parts):
        # Words need separators: a short part cannot have more.
        if len(part) <= most * 2:
            continue
        words = _words(part)
        count = real_words(words)
        if count > most and not all(word.lower() in _SECTIONS for word in words):
            best, most = words, count
    return best


def real_words(words: list[str]) -> int:
    """How many words have at least two letters; scripts without spaces count two characters per word."""
    if "".join(words).isascii():
        return len([word for word in words if len(word) > 1 and (word.isalpha() or _LETTERS.search(word))])
    return sum(len(_CJK.findall(word)) // 2 or bool(_LETTERS.search(word)) for word in words)


def _words(part: str) -> list[str]:
    if "." in part:
        part = _EXTENSION.sub("", part)
    if "039" in part or "apos" in part or "e2-80" in part:
        part = _ESCAPED_QUOTE.sub("'", part)
    if "," in part:
        part = _COMMA_ID.sub("", part)
    number, point, rest = part.partition(".")
    if point and number.isdecimal() and len(number) > 4:
        part = rest
    if len(part) > 36 and _UUID_MIDDLE.search(part):
        part = _UUID.sub(" ", part)
    # Nearly all slugs have only letters, digits and hyphens; splitting those costs a tenth.
    if part.replace("-", "").isalnum():
        words = part.split("-")
    else:
        words = [word.lstrip(_EDGES).rstrip(_CLOSING_EDGES) for word in _GAP.split(part)]
    words = [word for word in words if word and ((word.isalpha() and len(word) < 14) or not _is_id(word))]
    return _trimmed(words)[:MOST_WORDS]


def _is_id(word: str) -> bool:
    if word.isalpha() and word.islower():
        return False
    return _ID.fullmatch(word) is not None or (len(word) > 13 and _RANDOM_CASE.fullmatch(word) is not None)


def _trimmed(words: list[str]) -> list[str]:
    while words and (words[0].lower() in _LEADING or _is_number_at_an_end(words[0])):
        words = words[1:]
    words = _without_date(words)
    while words and (words[-1].lower() in _TRAILING or _is_number_at_an_end(words[-1])):
        words = words[:-1]
    for outlet in _OUTLETS.get(words[-1].lower(), ()) if words else ():
        if len(words) > len(outlet) + 2 and [word.lower() for word in words[-len(outlet) :]] == outlet:
            return words[: -len(outlet)]
    # Sites number the second copy of a slug.
    if len(words) > 3 and words[-1] in _COPIES and words[-2].lower() not in _COUNTED:
        words = words[:-1]
    return words


def _is_number_at_an_end(word: str) -> bool:
    return not word.isalpha() and _NUMBER_AT_AN_END.fullmatch(word) is not None


def _without_date(words: list[str]) -> list[str]:
    if not words or (words[0].isalpha() and words[-1].isalpha()):
        return words
    if len(words) > 3 and _YEAR.fullmatch(words[0]) and words[1].isdecimal():
        words = words[3 if words[2].isdecimal() else 2 :]
    if len(words) > 3 and _YEAR.fullmatch(words[-2]) and words[-1].isdecimal() and len(words[-1]) < 3:
        return words[:-2]
    if len(words) > 4 and _YEAR.fullmatch(words[-1]) and words[-2].isdecimal() and words[-3].isdecimal():
        return words[:-3]
    return words


def title_from_url(url: str, places: Iterable[str] = ()) -> str | None:
    """The headline in a URL's slug, in sentence case; None if the URL has fewer than three real words.

    `places` are full names of the event's places, used to restore capitals.
    """
    words = headline_words(url)
    return sentence(words, places) if words else None


# Words of other languages; with two of them English capitals would be wrong.
_FOREIGN = word_class("slug_words", "foreign")
_NEGATED = word_class("slug_words", "negated")
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
_BEFORE_PRONOUN = word_class("slug_words", "before_pronoun")
_BEFORE_LAST_PRONOUN = word_class("slug_words", "before_last_pronoun")
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
        before = words[at - 1] if at else ""
        is_last = at == len(words) - 1
        return word if before in _BEFORE_PRONOUN or (is_last and before in _BEFORE_LAST_PRONOUN) else "US"
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
