"""A question read word by word: what it names, what it asks for, when, and what in it is not understood."""

import re
from functools import cached_property
from typing import Any

from msgspec import Struct

from tollhouse.services.defense.chat.snapshot import Snapshot
from tollhouse.services.defense.chat.story_index import plain
from tollhouse.services.defense.chat.time_expressions import Moments, moments_in
from tollhouse.services.defense.chat.vocabulary import LONGEST_PHRASE, Kind, Meaning, Vocabulary
from tollhouse.services.defense.events.filter import filters_in_question

MOST_WORDS = 200
MOST_CORRECTED = 12

_WORD = re.compile(r"[^\W_]+(?:['’.&-][^\W_]+)*")  # noqa: RUF001


class Token(Struct, frozen=True):
    """One word or phrase as it stands, and what it means. `is_name` when it is written as one."""

    text: str
    meaning: Meaning
    is_name: bool

    @property
    def kind(self) -> Kind:
        return self.meaning.kind


class Sentence:
    """The tokens of a question in their order, and its times."""

    def __init__(self, tokens: list[Token], moments: Moments, filters: dict[str, Any]) -> None:
        self.tokens = tokens
        self.moments = moments
        self.filters = filters

    @cached_property
    def ideas(self) -> frozenset[str]:
        return frozenset(token.meaning.value for token in self.tokens if token.kind == "idea")

    def has(self, *ideas: str) -> bool:
        """Whether any of these ideas is in it."""
        return not self.ideas.isdisjoint(ideas)

    def values(self, kind: Kind) -> list[str]:
        """What it names of that kind, each once, in order."""
        return list(dict.fromkeys(token.meaning.value for token in self.tokens if token.kind == kind))

    @cached_property
    def unknown(self) -> list[str]:
        """The words that mean nothing here, as they stand."""
        return [token.text for token in self.tokens if token.kind == "unknown"]


def read(text: str, picture: Snapshot, vocabulary: Vocabulary) -> Sentence:
    """Read a question against one picture; what stands after its first words is left aside."""
    filters, rest = filters_in_question(text.casefold())
    moments = moments_in(rest, picture.as_of)
    left = set(_WORD.findall(moments.text))
    words = [word for word in _WORD.findall(text)[:MOST_WORDS] if word.casefold() in left]
    is_shouted = text.isupper()
    tokens: list[Token] = []
    while words:
        token, taken = _longest(words, vocabulary, is_shouted=is_shouted)
        tokens.append(token)
        del words[:taken]
    return Sentence(_corrected(tokens, vocabulary), moments, filters)


def _longest(words: list[str], vocabulary: Vocabulary, *, is_shouted: bool) -> tuple[Token, int]:
    """The longest phrase at the start that means something, else one word."""
    for length in range(min(LONGEST_PHRASE, len(words)), 0, -1):
        phrase = " ".join(words[:length])
        is_name = phrase[0].isupper()
        is_upper = phrase.isupper() and not is_shouted
        meaning = vocabulary.meaning_of(plain(phrase), is_upper=is_upper, is_capital=is_name)
        if meaning:
            return Token(phrase, meaning, is_name), length
    word = words[0]
    meaning = _number(word) or Meaning("unknown", word)
    return Token(word, meaning, word[0].isupper()), 1


def _number(word: str) -> Meaning | None:
    return Meaning("number", word) if word.isdecimal() and len(word) <= 4 else None


def _corrected(tokens: list[Token], vocabulary: Vocabulary) -> list[Token]:
    """Take slips for what they must be; who misspells more than a few words is not understood anyway."""
    if sum(token.kind == "unknown" for token in tokens) > MOST_CORRECTED:
        return tokens
    corrected: list[Token] = []
    for token in tokens:
        meaning = vocabulary.corrected(plain(token.text)) if token.kind == "unknown" else None
        now = Token(token.text, meaning, token.is_name) if meaning else token
        pair = _as_pair(corrected[-1], now, vocabulary) if corrected else None
        if pair:
            corrected[-1] = pair
        else:
            corrected.append(now)
    return corrected


def _as_pair(before: Token, token: Token, vocabulary: Vocabulary) -> Token | None:
    """Join a misspelt name of two words: one of them alone may be known."""
    if "unknown" not in {before.kind, token.kind} or before.kind not in {"unknown", "entity"}:
        return None
    text = f"{before.text} {token.text}"
    meaning = vocabulary.corrected_name(plain(text))
    return Token(text, meaning, is_name=True) if meaning else None
