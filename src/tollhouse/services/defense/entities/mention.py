"""What a mention is: a stretch of text that stands for somebody, some body, some place or some platform."""

from typing import Literal

from msgspec import Struct

EntityType = Literal["person", "organization", "location", "platform"]
Form = Literal["name", "noun", "pronoun"]


class Span(Struct, frozen=True):
    """A mention in a sentence's words, from `start` to before `end`.

    `form` is name, noun ("the regime") or pronoun, as ACE tells them apart; only names become entities.
    """

    start: int
    end: int
    type: EntityType
    form: Form = "name"


class Mention(Struct, frozen=True):
    """A name in a text: `text` is what stands there from `start` to `end`, in characters."""

    text: str
    type: EntityType
    start: int
    end: int
