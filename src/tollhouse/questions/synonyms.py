"""Words that mean the same as those of a vocabulary, from WordNet: a word that is not declared may be one of them."""

import gzip
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources

from tollhouse.questions.normalise import phrase

# A shared meaning counts if its places among the meanings of both words add up to so much at most.
MOST_PLACES = 3
PREPOSITIONS = frozenset({"to", "from", "on", "of", "for", "with", "in", "by", "bei", "von", "an", "a", "de"})


@cache
def _meanings() -> Mapping[str, list[str]]:
    """The lines of the file that have a word, by word: a part of speech, and words with the place of the meaning."""
    packed = resources.files("tollhouse.questions").joinpath("data/synonyms.txt.gz").read_bytes()
    lines: dict[str, list[str]] = defaultdict(list)
    for line in gzip.decompress(packed).decode().splitlines():
        for word in line[len("n|") :].split(","):
            lines[word.partition(":")[0]].append(line)
    return lines


def is_verb(word: str) -> bool:
    """Whether a word is a verb in one of its frequent meanings."""
    return any(line.startswith("v|") for line in _meanings().get(word, ()))


def _alike(text: str, parts: str) -> Iterator[str]:
    """The words that share a frequent meaning with a phrase, as one of these parts of speech."""
    for line in _meanings().get(text, ()):
        part, _, words = line.partition("|")
        if part in parts:
            places = {word: int(place) for word, _, place in (each.partition(":") for each in words.split(","))}
            for other, place in places.items():
                if other != text and place + places[text] <= MOST_PLACES:
                    yield other


def synonyms(texts: Iterable[tuple[str, str]]) -> dict[str, list[int]]:
    """The synonyms of phrases, each with the numbers of the phrases that it can stand for.

    A phrase comes with its parts of speech ("v", "n", "a"). Of "sell to" the verb counts, and the preposition stays.
    """
    result: dict[str, list[int]] = defaultdict(list)
    for number, (text, parts) in enumerate(texts):
        words = phrase(text)
        others = set(_alike(" ".join(words), parts))
        if len(words) == 2 and parts == "v" and words[1] in PREPOSITIONS:
            others |= {f"{other} {words[1]}" for other in _alike(words[0], parts)}
        for other in others:
            result[other].append(number)
    return result
