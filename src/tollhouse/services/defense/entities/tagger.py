"""Tag names in a sentence with a conditional random field."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from sys import intern
from typing import get_args

import pycrfsuite  # type: ignore[import-untyped]

from tollhouse.services.defense.entities import lexicon
from tollhouse.services.defense.entities.lexicon import PLATFORM, Known
from tollhouse.services.defense.entities.mention import EntityType, Span

# Word lists by letter; a word may be in several ("General", "Defense").
_LISTS = (
    ("d", lexicon.DEMONYMS),
    ("e", lexicon.PEOPLES),
    ("t", lexicon.TITLES),
    ("g", lexicon.GIVEN),
    ("s", lexicon.SURNAMES),
    ("o", lexicon.ORGANIZATION_HEADS),
    ("l", lexicon.LOCATION_HEADS),
    ("v", lexicon.EVENT_HEADS),
    ("m", lexicon.CALENDAR),
)
_LOWER_LISTS = (
    ("D", lexicon.DETERMINERS),
    ("I", lexicon.PREPOSITIONS),
    ("C", lexicon.CLOSERS),
    ("J", lexicon.ADJECTIVES),
)
_EDGE = ("<>", "<>", "<>", "<>")


def features(words: Sequence[str], known: Sequence[Known]) -> list[list[str]]:
    """The features of each word. `known` are the known names in the sentence."""
    case = _case(words)
    padded = [_EDGE, _EDGE, *(_describe(word, case) for word in words), _EDGE, _EDGE]
    near = ["", *_labels(len(words), known), ""]
    return [_features(padded, near, position) for position in range(len(words))]


def _features(seen: Sequence[tuple[str, str, str, str]], labels: Sequence[str], position: int) -> list[str]:
    before2, (word0, shape0, _, class0), (word, shape, ending, class_), (word2, shape2, _, class2), after2 = seen[
        position : position + 5
    ]
    label0, label, label2 = labels[position : position + 3]
    return [
        "w" + word, "s" + shape, "e" + ending, "c" + class_, "k" + label,
        "-w" + word0, "-s" + shape0, "-c" + class0, "-k" + label0,
        "+w" + word2, "+s" + shape2, "+c" + class2, "+k" + label2,
        "=c" + before2[3], "#c" + after2[3],
        "<" + class0 + "|" + class_ + label + shape,
        ">" + class_ + label + shape + "|" + class2,
        "*" + class0 + "|" + shape + "|" + class2,
    ]  # fmt: skip


def _case(words: Sequence[str]) -> str:
    """The case of a sentence: all capitals, most words capitalized as in headlines, or normal."""
    letters = [word for word in words if len(word) > 3 and word[0].isalpha()]
    if len(letters) > 2 and all(word.isupper() for word in letters):
        return "capitals"
    raised = sum(word[0].isupper() for word in letters)
    return "headline" if len(letters) > 3 and raised > 0.8 * len(letters) else ""


@lru_cache(maxsize=8192)
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
    head = lexicon.HEADS.get(lower)
    return flags + head[:2].upper() if head else flags


def _labels(count: int, known: Sequence[Known]) -> list[str]:
    labels = [""] * count
    for name in known:
        labels[name.start : name.end] = ["I" + name.label] * (name.end - name.start)
        labels[name.start] = "B" + name.label
    return labels


_TYPES: dict[str, EntityType] = {type_: type_ for type_ in get_args(EntityType)}
_DESIGNATOR_LETTERS = 4
_NEVER_LAST = frozenset(("'s", "\u2019s", "and", "of", "for", "the"))
_QUOTES = frozenset("\"'\u201c\u201d\u2018\u2019`\u00b4.,:;()[]-\u2013\u2014")


def tag(words: Sequence[str], known: Sequence[Known]) -> list[Span]:
    """The names in a sentence's words, in order, without overlaps; `known` are those from the lexicon."""
    tagged = _spans(_MODEL.tag(features(words, known)))
    names = [_trimmed(part, words) for span in tagged for part in _parted(span, words, known)]
    return _with_known([name for name in names if name and not _doubtful(name, words, known)], words, known)


def _spans(labels: Sequence[str]) -> list[Span]:
    """Spans of labels B-type, I-type and O; an I without a preceding span begins one."""
    spans: list[Span] = []
    for position, label in enumerate(labels):
        if label == "O":
            continue
        type_ = _TYPES[label[2:]]
        if label[0] == "I" and spans and spans[-1].end == position and spans[-1].type == type_:
            spans[-1] = Span(spans[-1].start, position + 1, type_)
        else:
            spans.append(Span(position, position + 1, type_))
    return spans


def _parted(span: Span, words: Sequence[str], known: Sequence[Known]) -> list[Span]:
    """Split two persons at "and", and names of two types: "the Middle East Jane Smith", "RAF Typhoon T3"."""
    last = next((name for name in known if name.end == span.end and span.start < name.start), None)
    if last and last.label == PLATFORM:
        return [Span(span.start, last.start, span.type), Span(last.start, span.end, PLATFORM)]
    place = next((name for name in known if name.start == span.start and name.end < span.end), None)
    if span.type == "location" and place and words[place.end] in lexicon.GIVEN:
        return [Span(span.start, place.end, span.type), Span(place.end, span.end, "person")]
    if span.type != "person" or "and" not in words[span.start : span.end]:
        return [span]
    link = words.index("and", span.start)
    return [Span(span.start, link, span.type), Span(link + 1, span.end, span.type)]


def _trimmed(span: Span, words: Sequence[str]) -> Span | None:
    """Strip quotes, punctuation and possessives, and everything after a comma."""
    start, end = span.start, span.end
    # A lower-case word before a person's name is not part of it, unless it is a particle: "son Hunter Biden".
    while start < end and (
        words[start] in _QUOTES
        or (span.type == "person" and words[start].islower() and words[start] not in lexicon.PARTICLES)
    ):
        start += 1
    if "," in words[start:end]:
        end = words.index(",", start)
    while start < end and (words[end - 1] in _QUOTES or words[end - 1].lower() in _NEVER_LAST):
        end -= 1
    return Span(start, end, span.type) if start < end else None


def _doubtful(span: Span, words: Sequence[str], known: Sequence[Known]) -> bool:
    """Whether a tagged name is implausible: a common noun, or an unknown platform without a number."""
    if span.type == "platform":
        is_known = any(name.start < span.end and span.start < name.end for name in known if name.label == PLATFORM)
        # A designator has few letters and a number: "K9", but not "COVID-19".
        has_number = any(word[-1].isdigit() for word in words[span.start : span.end])
        return not is_known and not (has_number and len(words[span.start]) <= _DESIGNATOR_LETTERS)
    # "Residents" at the start of a sentence is not a name.
    return span.end - span.start == 1 and words[span.start].lower() in lexicon.HEADS


def _with_known(names: list[Span], words: Sequence[str], known: Sequence[Known]) -> list[Span]:
    """Add the known names that the tagger missed or found only in part."""
    for listed in known:
        type_ = lexicon.CERTAIN.get(listed.label)
        # "UN Security Council Resolution 1325" is a document.
        if type_ is None or (listed.end < len(words) and words[listed.end] in lexicon.EVENT_HEADS):
            continue
        if not any(_decides(name, listed) for name in names):
            names = [name for name in names if name.end <= listed.start or listed.end <= name.start]
            names.append(Span(listed.start, listed.end, type_))
    return sorted(names, key=lambda name: name.start)


def _decides(name: Span, listed: Known) -> bool:
    """Whether the tagger's name takes precedence: it is longer, or decides whether a place is meant."""
    covers = name.start <= listed.start and listed.end <= name.end
    is_same = name.start == listed.start and listed.end == name.end
    return covers and not (is_same and listed.label in ("body", "company", PLATFORM))


# crfsuite does not copy the model, so these bytes must live as long as the tagger.
_PACKED = files("tollhouse.services.defense").joinpath("data", "entity_model.crfsuite").read_bytes()
_MODEL = pycrfsuite.Tagger()
_MODEL.open_inmemory(_PACKED)
