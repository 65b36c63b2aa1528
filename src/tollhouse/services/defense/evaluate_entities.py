"""Evaluate entity extraction on annotated sentences: `tollhouse evaluate entities`."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tollhouse.services.defense.entities.ace_mentions import sentence_mentions
from tollhouse.services.defense.entities.extractor import sentence_names
from tollhouse.services.defense.entities.lexicon import PRONOUNS, EntityType, Span

Sentence = list[tuple[str, str]]
Place = tuple[int, int, int, EntityType]

# Our types by annotators' names for them, in lower case and without signs.
_TYPES: dict[str, EntityType] = {
    "person": "person", "per": "person", "organization": "organization", "organisation": "organization",
    "org": "organization", "corporation": "organization", "company": "organization", "group": "organization",
    "norp": "organization", "location": "location", "loc": "location", "gpe": "location", "geoloc": "location",
    "facility": "location", "fac": "location", "platform": "platform", "militaryplatform": "platform",
    "weapon": "platform", "aircraft": "platform", "vehicle": "platform",
}  # fmt: skip


def evaluate(path: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """Strict F1, precision and recall of spans of the four types: a span counts if words and type are equal.

    Some corpora mark only names, others also nouns and pronouns. If a corpus marks at least a tenth of the pronouns,
    mentions by the conventions of ACE are compared (`ace_mentions`), otherwise the served names. Platforms are ignored
    in corpora without them. `by_type` has the figures of each type; `tokens_per_s` is per second of CPU time.
    """
    sentences = list(read_conll(path))
    gold = {place for number, sentence in enumerate(sentences) for place in _gold(number, sentence)}
    whole = _marks_pronouns(sentences, gold)
    progress(f"{len(sentences)} sentences, {len(gold)} spans; the corpus marks {'all mentions' if whole else 'names'}")
    started = time.process_time()
    predicted = _find_spans(sentences, sentence_mentions if whole else sentence_names)
    seconds = time.process_time() - started
    if not _only(gold, "platform"):
        predicted -= _only(predicted, "platform")
    types = sorted({place[3] for place in gold | predicted})
    by_type = {type_: _figures(_only(gold, type_), _only(predicted, type_)) for type_ in types}
    tokens = sum(map(len, sentences))
    return {**_figures(gold, predicted), "by_type": by_type, "tokens_per_s": round(tokens / seconds) if seconds else 0}


def read_conll(path: Path) -> Iterator[Sentence]:
    """The sentences of a CoNLL file as lists of (token, label): first and last column of each line."""
    sentence: Sentence = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            fields = line.split()
            if len(fields) > 1:
                sentence.append((fields[0], fields[-1]))
            elif sentence:
                yield sentence
                sentence = []
    if sentence:
        yield sentence


def _gold(number: int, sentence: Sentence) -> Iterator[Place]:
    """The spans of our types, in IOB1 or IOB2 labels."""
    start, before = 0, "O"
    for position, label in enumerate([*(label for _, label in sentence), "O"]):
        if before != "O" and (label[:1] != "I" or label[2:] != before[2:]):
            if type_ := our_type(before[2:]):
                yield number, start, position, type_
            before = "O"
        if before == "O" and label != "O":
            start, before = position, label


def our_type(label: str) -> EntityType | None:
    """Our type for an annotator's label, ignoring case; None if there is none."""
    return _TYPES.get("".join(filter(str.isalpha, label)).lower())


def _find_spans(sentences: Sequence[Sentence], find: Callable[[Sequence[str]], list[Span]]) -> set[Place]:
    return {
        (number, span.start, span.end, span.type)
        for number, sentence in enumerate(sentences)
        for span in find([word for word, _ in sentence])
    }


def _marks_pronouns(sentences: Sequence[Sentence], gold: set[Place]) -> bool:
    places = [
        (number, position)
        for number, sentence in enumerate(sentences)
        for position, (word, _) in enumerate(sentence)
        # "US" is the country.
        if word.lower() in PRONOUNS and word != "US"
    ]
    marked = {(number, start) for number, start, end, _ in gold if end - start == 1}
    return 10 * len(marked.intersection(places)) > len(places)


def _only(places: set[Place], type_: EntityType) -> set[Place]:
    return {place for place in places if place[3] == type_}


def _figures(gold: set[Place], predicted: set[Place]) -> dict[str, float]:
    right = len(gold & predicted)
    return {
        "f1": _share(2 * right, len(gold) + len(predicted)),
        "precision": _share(right, len(predicted)),
        "recall": _share(right, len(gold)),
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0
