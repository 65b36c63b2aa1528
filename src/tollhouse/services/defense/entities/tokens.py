"""Split text into tokens with positions, and into sentences."""

import re
from collections.abc import Iterator

from msgspec import Struct

# Initialisms keep their points, abbreviations the last one, numbers their commas; an apostrophe begins a suffix.
_TOKEN = re.compile(
    r"(?:[^\W\d_]\.){2,}"
    r"|(?:Mr|Mrs|Ms|Dr|Prof|Gen|Lt|Col|Maj|Capt|Sgt|Cpl|Pvt|Pfc|Spc|Adm|Cmdr|Cdr|Brig|Sen|Rep|Gov|Rev|St|Corp|Inc|Ltd|Co|Jr|Sr)\."
    r"|[A-Z]\.(?= [A-Z])"
    r"|\d+(?:[.,]\d+)*(?![^\W_])"
    r"|['\u2019][sS](?!\w)"
    r"|(?:[^\W_]|[\u0300-\u036f])+(?:['\u2019](?![sS](?!\w))[^\W_]+)?"
    r"|\S"
)
_ENDS = frozenset(".!?…。\uff01\uff1f")
_CLOSING = frozenset("\"'\u201d\u2019»)")
# Text without punctuation is split here, to limit the work per sentence.
LONGEST_SENTENCE = 200


class Token(Struct, frozen=True):
    """A word, number or sign, from character `start` to `end` (exclusive)."""

    text: str
    start: int
    end: int


def tokenise(text: str) -> Iterator[Token]:
    """The tokens of a text in order. Hyphens are tokens: "F-35" is three, "Lockheed's" is two."""
    for match in _TOKEN.finditer(text):
        yield Token(match.group(), match.start(), match.end())


def sentences(text: str) -> Iterator[list[Token]]:
    """The tokens of a text by sentence, which ends at punctuation, at a blank line or at LONGEST_SENTENCE."""
    sentence: list[Token] = []
    for token in tokenise(text):
        if sentence and (len(sentence) >= LONGEST_SENTENCE or _breaks(text, sentence, token)):
            yield sentence
            sentence = []
        sentence.append(token)
    if sentence:
        yield sentence


def _breaks(text: str, sentence: list[Token], token: Token) -> bool:
    gap = text[sentence[-1].end : token.start]
    if gap.count("\n") > 1:
        return True
    last = sentence[-1].text
    if last in _CLOSING and len(sentence) > 1:
        last = sentence[-2].text
    return last in _ENDS and gap != "" and not token.text[0].islower()
