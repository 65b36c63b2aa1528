"""Extract names from text: known names, a conditional random field, names that a headline ran together, and filters."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from sys import intern
from typing import get_args

import pycrfsuite  # type: ignore[import-untyped]

from tollhouse.services.defense.entities import lexicon
from tollhouse.services.defense.entities.lexicon import (
    GIVEN,
    PLATFORM,
    TITLES,
    EntityType,
    Known,
    Mention,
    Span,
    find_known,
    sentences,
)
from tollhouse.services.defense.gazetteer import find_country

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


# After these the country is a party: "war with Ukraine", "sanctions against Russia", "talks between Iran and Iraq".
_AGENTS = frozenset(["by", "with", "between", "against"])
_BORDERS = frozenset(["border", "borders", "frontier", "bordering", "shared"])
_SAYS = frozenset(["says", "said", "will", "would", "should", "must", "may", "can", "could", "wants", "has", "had"])
_LONGEST_SMALL = 4
_LED = frozenset(["led", "backed", "brokered", "aligned", "allied", "sponsored", "funded"])
_HYPHENS = frozenset("-\u2010\u2011\u2013")
_OBJECT_STARTS = lexicon.DETERMINERS | lexicon.QUANTIFIERS | {"to", "that", "it", "new", "more"}


def acts(words: Sequence[str], lowers: Sequence[str], start: int, end: int) -> bool:
    """Whether the country in words `start` to `end` is a subject that says or does something, or a party."""
    first = start - (start > 0 and lowers[start - 1] == "the")
    before = lowers[first - 1] if first else ""
    if before in _AGENTS:
        return not (first > 1 and lowers[first - 2] in _BORDERS)
    if before in lexicon.PREPOSITIONS or before in lexicon.PLACE_PREPOSITIONS:
        return False
    if before and _base(before, lexicon.ADDRESSES):
        return True
    after = lowers[end] if end < len(words) else ""
    if after in _HYPHENS:
        return end + 1 < len(words) and lowers[end + 1] in _LED
    # The other subject decides where two act: "Russia and Iran agree".
    if after in ("and", "&") and end + 2 < len(words) and words[end + 1][0].isupper():
        return _is_verb(words, lowers, end + 2, plural=True)
    return _is_verb(words, lowers, end, plural=before in ("and", "&", ","))


def _is_verb(words: Sequence[str], lowers: Sequence[str], position: int, *, plural: bool) -> bool:
    """Whether the word at `position` is the verb of a subject before it, also after an adverb."""
    if position < len(words) and lowers[position].endswith("ly"):
        position += 1
    # A capital begins another name, unless the headline raises all words.
    is_raised = position < len(words) and not words[position].islower()
    if position >= len(words) or (is_raised and any(w.islower() and len(w) > _LONGEST_SMALL for w in words)):
        return False
    lower = lowers[position]
    if lower in _SAYS or lower in lexicon.PASTS:
        return True
    after = words[position + 1] if position + 1 < len(words) else ""
    if lower == "to":
        return after.lower() in lexicon.VERBS
    base = lower if plural and lower in lexicon.VERBS else _base(lower, lexicon.VERBS)
    # What may be a plural noun too needs an object: "strikes targets", but "Iran protests spread".
    is_noun = lower.endswith("s") and base in lexicon.MODIFIERS
    has_object = after[:1].isupper() or after[:1].isdigit() or after.lower() in _OBJECT_STARTS
    return base is not None and (has_object or not is_noun)


def _base(lower: str, verbs: frozenset[str]) -> str | None:
    """The verb of a form that ends in s or ed."""
    for ending, instead in (("ies", "y"), ("es", ""), ("s", ""), ("ied", "y"), ("ed", ""), ("d", "")):
        base = lower.removesuffix(ending) + instead
        if lower.endswith(ending) and base in verbs:
            return base
    return None


_WITHIN: dict[str, EntityType] = {**lexicon.CERTAIN, "regions": "location"}
# "Islamic State in Iraq" is one name, although Iraq is also a name.
_LINKS = frozenset(["of", "for", "in", "the", "and", "&", "-", "de", "'s", "\u2019s"])
_SUFFIXES = frozenset(["Jr", "Jr.", "Sr", "Sr.", "II", "III", "IV"])
_PARTICIPLES = ("ing", "ed")
_ALSO_VERBS = frozenset(
    ["will", "mark", "bill", "grant", "rob", "may", "drew", "sue", "chase", "frank", "pat", "christian"]
)


def split_joined_names(spans: Sequence[Span], words: Sequence[str], known: Sequence[Known]) -> list[Span]:
    """Split spans that contain several names; keep the order, without overlaps."""
    taken = {place for span in spans for place in range(span.start, span.end)}
    return [
        part
        for span in spans
        for part in _parts(_with_given(span, words, taken), words, known)
        if not _is_scrap(part, words, known)
    ]


def _with_given(span: Span, words: Sequence[str], taken: Collection[int]) -> Span:
    """Extend a known surname by a lower-case given name: "mike Pompeo"."""
    before = span.start - 1
    if span.type != "person" or before < 0 or before in taken or not _is_surname(words[span.start]):
        return span
    given = words[before]
    is_given = given.islower() and given.capitalize() in GIVEN and given not in _ALSO_VERBS
    return Span(before, span.end, "person") if is_given else span


def _parts(span: Span, words: Sequence[str], known: Sequence[Known]) -> Iterator[Span]:
    inside = [
        it
        for it in known
        if it.label in _WITHIN and span.start <= it.start and it.end <= span.end and _len(it) < _len(span)
    ]
    if span.type == "person":
        yield from _persons(span, words, [it for it in inside if _is_beside_a_person(it, span, words)])
    elif span.type == "organization" and inside and (_has_verb(span, words) or _is_enumeration(span, words, inside)):
        yield from (Span(it.start, it.end, _WITHIN[it.label]) for it in inside)
    elif span.type == "organization" and _len(span) > 2 and _is_person(words[span.end - 2 : span.end]):
        is_one = _are_joined(words[span.start : span.end])
        yield span if is_one else Span(span.end - 2, span.end, "person")
    else:
        yield span


def _has_verb(span: Span, words: Sequence[str]) -> bool:
    """Whether a lower-case word that joins nothing parts it: "Investors Service affirms African Development Bank"."""
    return any(word.islower() and word.isalpha() and word not in _LINKS for word in words[span.start : span.end])


def _is_person(pair: Sequence[str]) -> bool:
    return pair[0] in GIVEN and _is_surname(pair[1])


def _are_joined(words: Iterable[str]) -> bool:
    """Whether one of the words joins names to one name of an organization."""
    return any(word in lexicon.ORGANIZATION_HEADS or word in _LINKS for word in words)


def _len(it: Span | Known) -> int:
    return it.end - it.start


def _is_enumeration(span: Span, words: Sequence[str], inside: Sequence[Known]) -> bool:
    """Whether it consists mostly of known names that nothing joins to one name."""
    taken = {place for it in inside for place in range(it.start, it.end)}
    rest = [words[place] for place in range(span.start, span.end) if place not in taken]
    # The Senate is known, but Georgia's Senate is another.
    alone = [words[it.start] for it in inside if _len(it) == 1]
    return len(taken) >= len(rest) and not _are_joined((*rest, *alone))


def _is_beside_a_person(it: Known, span: Span, words: Sequence[str]) -> bool:
    """Whether it is next to a known surname: then it may be a surname itself, as in "Michael Jordan"."""
    before = words[it.start - 1] if it.start > span.start else ""
    after = words[it.end] if it.end < span.end else ""
    return _is_surname(before) or _is_surname(after)


def _persons(span: Span, words: Sequence[str], inside: Sequence[Known]) -> Iterator[Span]:
    """The persons between the other names inside, split at titles and surnames."""
    start = span.start
    for it in inside:
        yield from _people(start, it.start, words)
        yield Span(it.start, it.end, _WITHIN[it.label])
        start = it.end
    yield from _people(start, span.end, words)


def _people(start: int, end: int, words: Sequence[str]) -> Iterator[Span]:
    if end - start > 1 and start == 0 and words[0].lower().endswith(_PARTICIPLES) and words[1] in lexicon.SURNAMES:
        start += 1
    for place in range(start + 1, end):
        if _begins_another(place, end, words):
            yield Span(start, place, "person")
            start = place
    if start < end:
        yield Span(start, end, "person")


def _begins_another(place: int, end: int, words: Sequence[str]) -> bool:
    before, word = words[place - 1], words[place]
    after = words[place + 1] if place + 1 < end else ""
    if _is_surname(before) and (_is_surname(word) or (word in GIVEN and _is_surname(after))):
        return True
    return word in TITLES and before not in TITLES and before not in _LINKS and after not in {"", *_SUFFIXES}


def _is_surname(word: str) -> bool:
    return word in lexicon.SURNAMES and word not in GIVEN


def _is_scrap(span: Span, words: Sequence[str], known: Sequence[Known]) -> bool:
    """Whether an organization is only letters or lower-case words, or an ordinary first word of a headline."""
    if span.type != "organization" or any(it.start < span.end and span.start < it.end for it in known):
        return False
    named = words[span.start : span.end]
    if max(map(len, named)) < 2 or all(word.islower() for word in named):
        return True
    is_written_small = 2 * sum(word.islower() for word in words) > len(words)
    return len(named) == 1 and span.start == 0 and is_written_small and named[0][1:].islower()


# Capitalized in headlines and used like persons: they strike, spread, win.
_THINGS = frozenset(["hurricane", "typhoon", "cyclone", "covid", "covid-19", "coronavirus", "diwali", "thanksgiving"])
_BUILDINGS = frozenset(
    ["center", "centre", "tower", "towers", "stadium", "airport", "hospital", "hall", "park", "museum"]
)
_SMALL = frozenset(["of", "for", "the", "and", "to", "in", "-"])


def extract_names(text: str) -> Iterator[Mention]:
    """The names in a headline or an article, in order, without overlaps.

    A country that says or does something is an organization, its government; otherwise it is a location.
    """
    for sentence in sentences(text):
        words = [token.text for token in sentence]
        lowers = [word.lower() for word in words]
        for span in sentence_names(words):
            start, end = sentence[span.start].start, sentence[span.end - 1].end
            type_ = span.type
            if type_ != "person" and find_country(text[start:end]):
                type_ = "organization" if acts(words, lowers, span.start, span.end) else "location"
            yield Mention(text[start:end], type_, start, end)


def sentence_names(words: Sequence[str]) -> list[Span]:
    """The names in a sentence's words. An office alone ("Foreign Secretary") is not a name."""
    known = find_known(words, [word.lower() for word in words])
    spans = split_joined_names(tag(words, known), words, known)
    return [span for span in spans if not _is_no_name(span, words[span.start : span.end])]


def _is_no_name(span: Span, words: Sequence[str]) -> bool:
    """Whether it is an office without a name, or a thing that headlines capitalize."""
    if span.type != "platform" and any(word.lower() in _THINGS for word in words):
        return True
    if span.type != "person" and (words[-1] in lexicon.PEOPLES or (len(words) == 1 and words[0] in lexicon.DEMONYMS)):
        return True
    is_office = all(word in TITLES or word in lexicon.DEMONYMS or word in _SMALL for word in words)
    return span.type == "person" and (is_office or words[-1].lower() in _BUILDINGS)
