"""Derive a headline from a URL: the part of its path with most words, without ids, dates and section names."""

import re
from collections.abc import Iterable
from urllib.parse import unquote_plus

from tollhouse.services.defense.ingest.truecasing import sentence

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
_SECTIONS = frozenset({
    "a", "all", "and", "archive", "article", "articles", "arts", "asia", "at", "breaking", "business", "category",
    "community", "content", "culture", "current", "east", "economics", "economy", "education", "en", "english",
    "entertainment", "environment", "events", "fashion", "features", "fitness", "food", "general", "government",
    "health", "home", "in", "index", "international", "latest", "law", "letters", "life", "lifestyle", "living",
    "local", "magazine", "media", "middle", "money", "more", "movies", "music", "nation", "national", "news", "of",
    "on", "opinion", "other", "people", "politics", "post", "press", "releases", "religion", "science", "security",
    "social", "society", "sports", "sport", "stories", "story", "style", "tech", "technology", "the", "theater", "to",
    "today", "top", "travel", "trends", "tv", "uk", "us", "video", "videos", "wires", "women", "work", "world",
    "editor", "views",
})  # fmt: skip
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
_COUNTED = frozenset({
    "by", "category", "chapter", "covid", "day", "episode", "game", "group", "level", "no", "number", "of", "over",
    "part", "phase", "round", "season", "stage", "to", "top", "type", "volume", "week",
})  # fmt: skip


def headline_words(url: str) -> list[str]:
    """The words of the headline in a URL, in their case and order; empty if no part has at least three real words."""
    match = _PARTS.match(url)
    if not match:
        return []
    host, path, query = match.groups()
    parts = [unquote_plus(part) for part in path.split("/") if len(part) > 7]
    if host.endswith("reuters.com"):
        parts = _without_reuters_slugline(parts)
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


def _without_reuters_slugline(parts: list[str]) -> list[str]:
    # .../article/us-syria-security-idUS... lists topics; the headline, if any, is the next part.
    if len(parts) > 1:
        return parts[-1:]
    return [] if any("-id" in part for part in parts) else parts


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
    words = [word for word in _split(part) if word and ((word.isalpha() and len(word) < 14) or not _is_id(word))]
    return _trimmed(words)[:MOST_WORDS]


def _split(part: str) -> list[str]:
    # Nearly all slugs have only letters, digits and hyphens; splitting those costs a tenth.
    if part.replace("-", "").isalnum():
        return part.split("-")
    return [word.lstrip(_EDGES).rstrip(_CLOSING_EDGES) for word in _GAP.split(part)]


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
