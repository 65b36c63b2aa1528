"""Types of mentions of people, organizations, locations and platforms."""

from typing import Literal

from msgspec import Struct

EntityType = Literal["person", "organization", "location", "platform"]
Form = Literal["name", "noun", "pronoun"]


class Span(Struct, frozen=True):
    """A mention in a sentence's words, from `start` to `end` (exclusive). `form` follows ACE; only names are served."""

    start: int
    end: int
    type: EntityType
    form: Form = "name"


class Mention(Struct, frozen=True):
    """A name in a text, from character `start` to `end` (exclusive)."""

    text: str
    type: EntityType
    start: int
    end: int
