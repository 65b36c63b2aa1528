"""Follow-ups: what a sentence means only after the one before it."""

import msgspec
from msgspec import Struct

from tollhouse.services.infra.assistant import entity_linking
from tollhouse.services.infra.assistant.entity_linking import Linker
from tollhouse.services.infra.assistant.intent_rules import asked_for, in_countries
from tollhouse.services.infra.assistant.query_types import Query
from tollhouse.services.infra.assistant.sentence import Sentence

_SETS = frozenset({"list", "makers", "suppliers", "customers", "upstream", "downstream"})
_PLACES = {"first": 0, "second": 1, "third": 2}
_OPENERS = frozenset({"and", "what", "who", "how", "if"})
# Whoever says so asks about no company in particular: "which companies could stop everything?".
_EVERYTHING = frozenset({"everything", "everyone"})
_BARE = frozenset({"and", "what", "about", "how", "of", "to", "from"})


class Focus(Struct, frozen=True, array_like=True):
    """What an answer leaves to come back to: its query, the companies it was about, and those it named first."""

    query: Query
    companies: tuple[str, ...]
    named: tuple[str, ...]


def follow_up(linker: Linker, sentence: Sentence, focus: Focus) -> Query | None:
    """The query a sentence means after `focus`; None when it can stand on its own."""
    if sentence.companies:
        return _of_another_end(sentence, focus) or _of_another(sentence, focus)
    narrowed = _narrowed(sentence, focus)
    if narrowed:
        return narrowed
    meant = _meant(sentence, focus)
    if meant is None or sentence.unknown or sentence.holds_word(_EVERYTHING):
        return None
    return asked_for(sentence.with_company(entity_linking.Token(entity_linking.COMPANY, meant, meant)), linker)


def _of_another_end(sentence: Sentence, focus: Focus) -> Query | None:
    """Tell "and from Zeiss?" after a path: the same way from another start, or to another end."""
    if focus.query.operation != "path" or len(sentence.companies) != 1 or not sentence.ideas() <= _BARE:
        return None
    source, target = focus.query.companies
    new = sentence.companies[0]
    return msgspec.structs.replace(focus.query, companies=(source, new) if sentence.has("to") else (new, target))


def _of_another(sentence: Sentence, focus: Focus) -> Query | None:
    """Tell "and Oracle?": the same question of another company."""
    is_bare = sentence.ideas() <= _BARE and sentence.has("and", "about")
    if not is_bare or len(sentence.companies) != 1 or not focus.query.companies:
        return None
    # Of two companies the second is the one that changes: "is TSMC a supplier of AMD?", "and of Broadcom?".
    return msgspec.structs.replace(
        focus.query, companies=(*focus.query.companies[:1], *sentence.companies)[-len(focus.query.companies) :]
    )


def _narrowed(sentence: Sentence, focus: Focus) -> Query | None:
    """Tell "only the Korean ones": the same question, of fewer companies."""
    is_about_them = sentence.has("it", "only", "and", "about")
    if not is_about_them or not sentence.countries or focus.query.operation not in _SETS:
        return None
    return in_countries(focus.query, sentence)


def _meant(sentence: Sentence, focus: Focus) -> str | None:
    """The company that a pronoun or a place in a list stands for."""
    place = next((place for idea, place in _PLACES.items() if sentence.has(idea)), None)
    if place is not None:
        return focus.named[place] if place < len(focus.named) else None
    is_left_open = sentence.has("it") or sentence.line.split(" ")[0] in _OPENERS
    return focus.companies[0] if focus.companies and is_left_open else None
