"""Terms of titles and texts: stems of words, without the common ones, and serial numbers."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from sys import intern

TITLE_CHARS = 400
TEXT_CHARS = 2_000
TERMS = 96

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

_SERIAL = re.compile(
    r"\b(day|week|round|part|episode|stage|chapter|phase|volume|vol|issue|lesson)\s+#?(\d{1,4})\b", re.IGNORECASE
)
_DIGIT = re.compile(r"\d")
_NO_SERIALS: Mapping[str, str] = {}
# Scripts without spaces (Thai, kana, Han): pairs of characters replace words.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
# Include vowel signs, which Python's \\w excludes.
_LETTER = r"[\w\u0300-\u036f\u064b-\u065f\u0900-\u0dff]"
# Not at the start of a sentence, where every word is capitalized.
_NAME = re.compile(rf"(?<=[\w,;:'\"(] )[A-Z]{_LETTER}+")
_WORD = re.compile(rf"\d+(?:[.,:]\d+)*\w*|{_LETTER}+(?:['\u2019]{_LETTER}+)*")
# The same for ASCII text, twice as fast.
_ASCII_WORD = re.compile(r"[0-9]+(?:[.,:][0-9]+)*[0-9A-Za-z_]*|[0-9A-Za-z_]+(?:'[0-9A-Za-z_]+)*")


# A story's headlines are compared with each other several times.
@lru_cache(maxsize=1024)
def term_counts(text: str) -> Mapping[str, int]:
    """How often each term is used: the first TERMS different ones."""
    return _counted(words(text))


def text_term_counts(text: str) -> dict[str, int]:
    """The same with names and numbers, which distinguish one fire from the next, counted twice.

    Names are known by their capitals, unless most words have them.
    """
    raw = words(text)
    if 2 * sum([word[0].isupper() for word in raw]) <= len(raw):
        raw += _NAME.findall(text) + [word for word in raw if word[0].isdecimal()]
    return _counted(raw)


def _counted(raw: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in raw:
        for term in _terms(word):
            counts[term] = counts.get(term, 0) + 1
    return counts if len(counts) <= TERMS else dict(islice(counts.items(), TERMS))


def words(text: str) -> list[str]:
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


def serials(title: str) -> Mapping[str, str]:
    """Serial numbers by label, `{"day": "21"}`: "Day 2" and "Day 21" are different stories with the same words."""
    matches = _SERIAL.findall(title) if _DIGIT.search(title) else ()
    return {label.lower(): number for label, number in matches} if matches else _NO_SERIALS


# Interned, because many titles keep the same terms.
@lru_cache(maxsize=1 << 14)
def _terms(raw: str) -> tuple[str, ...]:
    word = _plain(raw)
    if word.isascii():
        return () if word in STOP or (len(word) < 2 and not word.isdecimal()) else (intern(_stem(word)),)
    return tuple(intern(term) for run in _RUN.findall(word) for term in _in_script(run))


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
