"""Tokenize articles into normalized terms."""

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

TITLE_CHARS = 400
TEXT_CHARS = 2_000
TERMS = 96
# In shorter texts a shared name is no evidence of a shared event.
SHORTEST_SENTENCE = 12

STOP = frozenset(
    """
    a about above after again against ago all almost along already also although always am amid among an and another any
    are around as at away back be because been before behind being below between both but by came can come could did do
    does doing down during each either else even ever every few for from further get gets getting go goes going got had
    has have having he her here hers him his how however i if in inside instead into is it its itself just keep last
    least less let like made make makes making many may maybe me might more most much must my near never new next no nor
    not now of off on once one only onto or other our out outside over own per put puts quite rather really said same
    saw say saying says see seen set sets several shall she should since so some still such take takes than that the
    their them then there these they thing this those though through till to today together told tomorrow too took
    tonight toward towards two under until up upon us use used using very via vs want was way we well went were what
    when where whether which while who whom whose why will with within without would yes yesterday yet you your
    day days hour hours month months morning night week weeks year years monday tuesday wednesday thursday friday
    saturday sunday
    announce announced announces breaking exclusive headline headlines live news newsletter opinion photo photos read
    report reported reports review roundup source sources story update updated updates video videos watch
    """.split()  # noqa: SIM905 - a paragraph is easier to edit than a list of quotes
)

# Serial numbers: "Day 2" and "Day 21" are different stories with the same words.
_SERIAL = re.compile(
    r"\b(day|week|round|part|episode|stage|chapter|phase|volume|vol|issue|lesson)\s+#?(\d{1,4})\b", re.IGNORECASE
)
_DIGIT = re.compile(r"\d")
# Scripts without spaces (Thai, kana, Han): pairs of characters replace words.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
# Include vowel signs, which Python's \\w excludes.
_LETTER = r"[\w\u0300-\u036f\u064b-\u065f\u0900-\u0dff]"
# Not at the start of a sentence, where every word is capitalized.
_NAME = re.compile(rf"(?<=[\w,;:'\"(] )[A-Z]{_LETTER}+")
# Also at the start of a sentence: the second word is capitalized too.
_FULL_NAME = re.compile(rf"[A-Z]{_LETTER}+(?: [A-Z]{_LETTER}+)+")
_WORD = re.compile(rf"\d+(?:[.,:]\d+)*\w*|{_LETTER}+(?:['\u2019]{_LETTER}+)*")
# The same for ASCII text, twice as fast.
_ASCII_WORD = re.compile(r"[0-9]+(?:[.,:][0-9]+)*[0-9A-Za-z_]*|[0-9A-Za-z_]+(?:'[0-9A-Za-z_]+)*")


class Wording(Struct, frozen=True, gc=False):
    """The counts of each term, serial numbers by label (`{"day": "21"}`), and adjacent terms of names in a headline."""

    terms: dict[str, int]
    serials: dict[str, str]
    names: tuple[tuple[str, str], ...] = ()


def wording(title: str, text: str = "") -> Wording:
    """Tokenize the beginning of a title and a text; a text that repeats the title counts it once.

    Names and numbers in running text count twice: they distinguish one fire from the next.
    """
    title = title[:TITLE_CHARS]
    words = _words(title)
    counts: dict[str, int] = {}
    rest = text[:TEXT_CHARS].removeprefix(title)
    for raw in _with_emphasis(title, words) + (_with_emphasis(rest, _words(rest)) if text else []):
        for term in _terms(raw):
            if term in counts:
                counts[term] += 1
            elif len(counts) < TERMS:
                counts[term] = 1
    serials = {label.lower(): number for label, number in _SERIAL.findall(title)} if _DIGIT.search(title) else {}
    return Wording(counts, serials, _names(title, words) if sum(counts.values()) < SHORTEST_SENTENCE else ())


def _words(text_part: str) -> list[str]:
    return (_ASCII_WORD if text_part.isascii() else _WORD).findall(text_part)


def _with_emphasis(text_part: str, words: list[str]) -> list[str]:
    """The words; in running text names and numbers twice, unless most words are capitalized."""
    if len(words) < SHORTEST_SENTENCE or _are_capitals(words):
        return words
    return words + _NAME.findall(text_part) + [word for word in words if word[0].isdecimal()]


def _names(title: str, words: list[str]) -> tuple[tuple[str, str], ...]:
    """Adjacent terms of names, unless most words are capitalized."""
    if _are_capitals(words):
        return ()
    pairs = [pair for name in _FULL_NAME.findall(title) for pair in pairwise(name.split())]
    return tuple([(one, other) for first, second in pairs for one in _terms(first)[:1] for other in _terms(second)[:1]])


def _are_capitals(words: list[str]) -> bool:
    return 2 * sum([word[0].isupper() for word in words]) > len(words)


@lru_cache(maxsize=1 << 16)
def _terms(raw: str) -> tuple[str, ...]:
    word = _plain(raw)
    if word.isascii():
        return () if word in STOP or (len(word) < 2 and not word.isdecimal()) else (_stem(word),)
    return tuple(term for run in _RUN.findall(word) for term in _in_script(run))


def _in_script(run: str) -> list[str]:
    if re.match(f"[{_UNSPACED}]", run):
        return [run[i : i + 2] for i in range(max(1, len(run) - 1))]
    return [run] if len(run) > 1 else []


def _plain(raw: str) -> str:
    """Remove case, accents, possessives and apostrophes."""
    word = raw.casefold()
    if "'" in word or "\u2019" in word:
        word = word.replace("\u2019", "'").removesuffix("'s").replace("'", "")
    if word.isascii():
        return word
    letters = (char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", "".join(letters))


def _stem(word: str) -> str:
    """Strip English endings: plural, -ing, -ed, silent e, doubled consonant."""
    if len(word) > 3 and word[-1] == "s" and word[-2] not in "sui":
        word = word[:-3] + "y" if word.endswith("ies") and len(word) > 4 else word[:-1]
    for ending in ("ing", "ed", "e"):
        if word.endswith(ending) and len(word) - len(ending) > 3:
            word = word.removesuffix(ending)
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] in "bdgklmnprt":
        return word[:-1]
    return word
