"""What a question means: a query, or why there is none."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.chat.follow_ups import follow_up
from tollhouse.services.defense.chat.intent_rules import asked_for, filters_of
from tollhouse.services.defense.chat.parser import Sentence
from tollhouse.services.defense.chat.query_types import Operation, Query
from tollhouse.services.defense.chat.snapshot import Snapshot
from tollhouse.services.defense.chat.story_index import plain

Why = Literal["foreign", "beyond", "outside-window", "unknown-word", "not-understood", "not-supported"]


class Puzzled(Struct, frozen=True):
    """Why a question is not understood, and the words that were in the way."""

    why: Why
    words: tuple[str, ...] = ()


def understood(sentence: Sentence, picture: Snapshot, before: Query | None) -> Query | Puzzled:
    """The query a sentence means, after what was asked before."""
    if sentence.moments.outside:
        return Puzzled("outside-window", (sentence.moments.outside,))
    if foreign := [token.text for token in sentence.tokens if token.kind == "foreign"]:
        return Puzzled("foreign", tuple(foreign[:3]))
    if beyond := [token.text for token in sentence.tokens if token.kind == "beyond"]:
        return Puzzled("beyond", tuple(beyond[:3]))
    filters = filters_of(sentence)
    query = asked_for(sentence, filters, picture)
    if before is not None:
        query = follow_up(sentence, filters, query, before) or query
    if query is None:
        return _puzzled(sentence)
    return _with_words(sentence, query, picture)


# What is asked in these is not narrowed by words: an unknown one must not be passed over.
_BY_WORDS: frozenset[Operation] = frozenset(
    {"count", "list", "stories", "story_count", "publishers", "about", "breakdown"}
)


def _with_words(sentence: Sentence, query: Query, picture: Snapshot) -> Query | Puzzled:
    """The query narrowed to the words that are left over; a word that nothing holds is owned up to."""
    if query.operation not in _BY_WORDS:
        return Puzzled("unknown-word", tuple(sentence.unknown[:3])) if sentence.unknown else query
    # A programme or an area is a word like others where no money is asked for.
    words = tuple(token.text for token in sentence.tokens if token.kind in {"unknown", "program", "area"})
    strange = [word for word in words if not all(map(picture.texts.knows, plain(word).split()))]
    if strange:
        return Puzzled("unknown-word", tuple(strange[:3]))
    return replace(query, filters=replace(query.filters, words=words)) if words else query


def _puzzled(sentence: Sentence) -> Puzzled:
    return Puzzled("unknown-word", tuple(sentence.unknown[:3])) if sentence.unknown else Puzzled("not-understood")
