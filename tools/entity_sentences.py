"""Generate annotated sentences of defence news from the patterns in data/entity_sentences.txt."""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tollhouse.services.defense.entities.lexicon import tokenise
from tools.entity_slots import draw

Sentence = list[tuple[str, str]]

_TYPES = {"P": "person", "O": "organization", "L": "location", "W": "platform"}
_SLOT = re.compile(r"\{(\w+)\}")
_PART = re.compile(r"\[([POLW]) ([^\]]+)\]|([^\[]+)")


def sentences(patterns: Path, random: Random) -> Iterator[Sentence]:
    """Every pattern as often as it says, slots filled, some sentences as a headline or in capitals."""
    for line in patterns.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            times, pattern = line[1:].split(" ", 1)
            for _ in range(int(times)):
                yield _cased(_marked(_SLOT.sub(lambda slot: draw(slot[1], random), pattern)), random)


def _marked(text: str) -> Sentence:
    sentence: Sentence = []
    for mark, inside, outside in _PART.findall(text):
        for position, token in enumerate(tokenise(inside or outside)):
            sentence.append((token.text, f"{'I' if position else 'B'}-{_TYPES[mark]}" if mark else "O"))
    return sentence


def _cased(sentence: Sentence, random: Random) -> Sentence:
    chance = random.random()
    if chance < 0.04:
        return [(word.upper(), label) for word, label in sentence]
    if chance < 0.10:
        return [(word[:1].upper() + word[1:] if len(word) > 3 else word, label) for word, label in sentence]
    return sentence
