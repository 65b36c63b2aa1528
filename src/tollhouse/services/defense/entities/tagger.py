"""Which words of a sentence make names, and of what: a conditional random field over what `features` sees."""

from collections.abc import Sequence
from importlib.resources import files

import pycrfsuite  # type: ignore[import-untyped]

from tollhouse.services.defense.entities.features import features
from tollhouse.services.defense.entities.gazetteers import CERTAIN, PLATFORM, Known
from tollhouse.services.defense.entities.lexicon import EVENT_HEADS, HEADS
from tollhouse.services.defense.entities.mention import EntityType, Span

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
    """The names among a sentence's words, in order, none overlapping another; `known` are those known beforehand."""
    found = spans(_MODEL.tag(features(words, known)))
    names = [_trimmed(part, words) for span in found for part in _parted(span, words)]
    return _with_known([name for name in names if name and not _doubtful(name, words, known)], words, known)


def spans(labels: Sequence[str]) -> list[Span]:
    """The spans that labels B-type, I-type and O spell; an I that continues nothing begins a span."""
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
    """Two persons where "and" stands between: "President Duda and Prime Minister Tusk"."""
    if span.type != "person" or "and" not in words[span.start : span.end]:
        return [span]
    link = words.index("and", span.start)
    return [Span(span.start, link, span.type), Span(link + 1, span.end, span.type)]


def _trimmed(span: Span, words: Sequence[str]) -> Span | None:
    """The span without quotes, stops and possessives around it, and without what follows a comma."""
    start, end = span.start, span.end
    while start < end and (words[start] in _QUOTES or (span.type == "person" and _is_kin(words[start]))):
        start += 1
    if "," in words[start:end]:
        end = words.index(",", start)
    while start < end and (words[end - 1] in _QUOTES or words[end - 1].lower() in _POSSESSIVES):
        end -= 1
    return Span(start, end, span.type) if start < end else None


def _is_kin(word: str) -> bool:
    """A word in lower case before a person's name that is no particle of it: "son Hunter Biden"."""
    return word.islower() and word not in _PARTICLES


def _doubtful(span: Span, words: Sequence[str], known: Sequence[Known]) -> bool:
    """Whether a name is none after all: a noun of ours, or a platform with no number that we never heard of."""
    if span.type == "platform":
        heard = any(found.start < span.end and span.start < found.end for found in known if found.label == PLATFORM)
        return not heard and not _is_designator(words[span.start : span.end])
    # "Residents" at a sentence's start names nobody.
    return span.end - span.start == 1 and words[span.start].lower() in HEADS


def _is_designator(words: Sequence[str]) -> bool:
    """Few letters and a number: "K9", but not "COVID-19"."""
    return len(words[0]) <= _DESIGNATOR_LETTERS and any(word[-1].isdigit() for word in words)


def _with_known(names: list[Span], words: Sequence[str], known: Sequence[Known]) -> list[Span]:
    """The names, and the known ones that the tagger missed or found only a part of."""
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
    """Whether the tagger's word stands: for a longer name it does, and for whether a place is one."""
    covers = name.start <= found.start and found.end <= name.end
    is_same = name.start == found.start and found.end == name.end
    return covers and not (is_same and found.label in ("body", "company", PLATFORM))


# crfsuite reads the model where it lies, so these bytes must live as long as the tagger.
_PACKED = files("tollhouse.services.defense").joinpath("data", "entity_model.crfsuite").read_bytes()
_MODEL = pycrfsuite.Tagger()
_MODEL.open_inmemory(_PACKED)
