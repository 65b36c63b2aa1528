"""Tag names in a sentence with a conditional random field."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from sys import intern

import pycrfsuite  # type: ignore[import-untyped]

from tollhouse.services.defense.entities import lexicon as known_words
from tollhouse.services.defense.entities.lexicon import CERTAIN, EVENT_HEADS, HEADS, PLATFORM, Known
from tollhouse.services.defense.entities.mention import EntityType, Span

# Word lists by letter; a word may be in several ("General", "Defense").
_LISTS = (
    ("d", known_words.DEMONYMS),
    ("e", known_words.PEOPLES),
    ("t", known_words.TITLES),
    ("g", known_words.GIVEN),
    ("s", known_words.SURNAMES),
    ("o", known_words.ORGANIZATION_HEADS),
    ("l", known_words.LOCATION_HEADS),
    ("v", known_words.EVENT_HEADS),
    ("m", known_words.CALENDAR),
)
_LOWER_LISTS = (
    ("D", known_words.DETERMINERS),
    ("I", known_words.PREPOSITIONS),
    ("C", known_words.CLOSERS),
    ("J", known_words.ADJECTIVES),
)
_EDGE = ("<>", "<>", "<>", "<>")


def features(words: Sequence[str], known: Sequence[Known]) -> list[list[str]]:
    """The features of each word. `known` are the known names in the sentence."""
    case = _case(words)
    labels = _labels(len(words), known)
    seen = [_describe(word, case) for word in words]
    padded = [_EDGE, _EDGE, *seen, _EDGE, _EDGE]
    near = ["", *labels, ""]
    return [_features(padded, near, position) for position in range(len(words))]


def _features(seen: Sequence[tuple[str, str, str, str]], labels: Sequence[str], position: int) -> list[str]:
    before2, (word0, shape0, _, class0), (word, shape, ending, class_), (word2, shape2, _, class2), after2 = seen[
        position : position + 5
    ]
    label0, label, label2 = labels[position : position + 3]
    return [
        "w" + word,
        "s" + shape,
        "e" + ending,
        "c" + class_,
        "k" + label,
        "-w" + word0,
        "-s" + shape0,
        "-c" + class0,
        "-k" + label0,
        "+w" + word2,
        "+s" + shape2,
        "+c" + class2,
        "+k" + label2,
        "=c" + before2[3],
        "#c" + after2[3],
        "<" + class0 + "|" + class_ + label + shape,
        ">" + class_ + label + shape + "|" + class2,
        "*" + class0 + "|" + shape + "|" + class2,
    ]


def _case(words: Sequence[str]) -> str:
    """The case of a sentence: all capitals, most words capitalized as in headlines, or normal."""
    letters = [word for word in words if len(word) > 3 and word[0].isalpha()]
    if len(letters) > 2 and all(word.isupper() for word in letters):
        return "capitals"
    raised = sum(word[0].isupper() for word in letters)
    return "headline" if len(letters) > 3 and raised > 0.8 * len(letters) else ""


@lru_cache(maxsize=32768)
def _describe(word: str, case: str) -> tuple[str, str, str, str]:
    """A word in lower case, its shape, its ending, and the lists that contain it."""
    lower = word.lower()
    plain = word.capitalize() if case == "capitals" else word
    return lower, intern(case[:1] + _shape(plain)), intern(lower[-3:]), _class(plain, lower)


def _shape(word: str) -> str:
    if word.isalpha():
        if word.islower():
            return "x"
        if word.isupper():
            return "X" if len(word) == 1 else "XX" if len(word) < 6 else "XXX"
        return "Xx" if word[0].isupper() else "xX"
    if word[0].isdigit():
        return "9" if word[-1].isdigit() else "9x"
    if "." in word and word[0].isalpha():
        return "X."
    return "Xx'" if word[0].isupper() else word[0] if not word[0].isalpha() else "x'"


def _class(word: str, lower: str) -> str:
    flags = "".join(letter for letter, entries in _LISTS if word in entries)
    flags += "".join(letter for letter, entries in _LOWER_LISTS if lower in entries)
    head = known_words.HEADS.get(lower)
    return flags + head[:2].upper() if head else flags


def _labels(count: int, known: Sequence[Known]) -> list[str]:
    labels = [""] * count
    for found in known:
        labels[found.start : found.end] = ["I" + found.label] * (found.end - found.start)
        labels[found.start] = "B" + found.label
    return labels


_TYPES: dict[str, EntityType] = {
    "person": "person",
    "organization": "organization",
    "location": "location",
    "platform": "platform",
}
_DESIGNATOR_LETTERS = 4
_PARTICLES = frozenset(
    ("al", "el", "bin", "ibn", "bint", "de", "da", "di", "du", "van", "von", "der", "den", "ter", "ul")
)
_POSSESSIVES = frozenset(("'s", "\u2019s"))
_QUOTES = frozenset("\"'\u201c\u201d\u2018\u2019`\u00b4.,:;()[]-\u2013\u2014")


def tag(words: Sequence[str], known: Sequence[Known]) -> list[Span]:
    """The names in a sentence's words, in order, without overlaps; `known` are those from the lexicon."""
    found = spans(_MODEL.tag(features(words, known)))
    names = [_trimmed(part, words) for span in found for part in _parted(span, words)]
    return _with_known([name for name in names if name and not _doubtful(name, words, known)], words, known)


def spans(labels: Sequence[str]) -> list[Span]:
    """Spans of labels B-type, I-type and O; an I without a preceding span begins one."""
    found: list[Span] = []
    for position, label in enumerate(labels):
        if label == "O":
            continue
        type_ = _TYPES[label[2:]]
        if label[0] == "I" and found and found[-1].end == position and found[-1].type == type_:
            found[-1] = Span(found[-1].start, position + 1, type_)
        else:
            found.append(Span(position, position + 1, type_))
    return found


def _parted(span: Span, words: Sequence[str]) -> list[Span]:
    """Split two persons at "and": "President Duda and Prime Minister Tusk"."""
    if span.type != "person" or "and" not in words[span.start : span.end]:
        return [span]
    link = words.index("and", span.start)
    return [Span(span.start, link, span.type), Span(link + 1, span.end, span.type)]


def _trimmed(span: Span, words: Sequence[str]) -> Span | None:
    """Strip quotes, punctuation and possessives, and everything after a comma."""
    start, end = span.start, span.end
    while start < end and (words[start] in _QUOTES or (span.type == "person" and _is_kin(words[start]))):
        start += 1
    if "," in words[start:end]:
        end = words.index(",", start)
    while start < end and (words[end - 1] in _QUOTES or words[end - 1].lower() in _POSSESSIVES):
        end -= 1
    return Span(start, end, span.type) if start < end else None


def _is_kin(word: str) -> bool:
    """Whether a lower-case word before a person's name is not a particle of it: "son Hunter Biden"."""
    return word.islower() and word not in _PARTICLES


def _doubtful(span: Span, words: Sequence[str], known: Sequence[Known]) -> bool:
    """Whether a tagged name is implausible: a common noun, or an unknown platform without a number."""
    if span.type == "platform":
        is_known = any(found.start < span.end and span.start < found.end for found in known if found.label == PLATFORM)
        return not is_known and not _is_designator(words[span.start : span.end])
    # "Residents" at the start of a sentence is not a name.
    return span.end - span.start == 1 and words[span.start].lower() in HEADS


def _is_designator(words: Sequence[str]) -> bool:
    """Whether it has few letters and a number: "K9", but not "COVID-19"."""
    return len(words[0]) <= _DESIGNATOR_LETTERS and any(word[-1].isdigit() for word in words)


def _with_known(names: list[Span], words: Sequence[str], known: Sequence[Known]) -> list[Span]:
    """Add the known names that the tagger missed or found only in part."""
    for found in known:
        type_ = CERTAIN.get(found.label)
        # "UN Security Council Resolution 1325" is a document.
        if type_ is None or (found.end < len(words) and words[found.end] in EVENT_HEADS):
            continue
        if not any(_decides(name, found) for name in names):
            names = [name for name in names if name.end <= found.start or found.end <= name.start]
            names.append(Span(found.start, found.end, type_))
    return sorted(names, key=lambda name: name.start)


def _decides(name: Span, found: Known) -> bool:
    """Whether the tagger's name takes precedence: it is longer, or decides whether a place is meant."""
    covers = name.start <= found.start and found.end <= name.end
    is_same = name.start == found.start and found.end == name.end
    return covers and not (is_same and found.label in ("body", "company", PLATFORM))


# crfsuite does not copy the model, so these bytes must live as long as the tagger.
_PACKED = files("tollhouse.services.defense").joinpath("data", "entity_model.crfsuite").read_bytes()
_MODEL = pycrfsuite.Tagger()
_MODEL.open_inmemory(_PACKED)
