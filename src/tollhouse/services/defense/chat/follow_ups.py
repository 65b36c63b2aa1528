"""Follow-ups: what a sentence means only after the one before it."""

from msgspec.structs import replace

from tollhouse.services.defense.chat.parser import Sentence
from tollhouse.services.defense.chat.query_types import EVERYTHING, Filters, Query
from tollhouse.services.defense.events.filter import RULES

SHORT = 4

_CONNECTING = frozenset({"then", "there", "or", "more", "most", "about", "list", "event"})
_FILTERED = frozenset(
    {"count", "list", "breakdown", "deaths", "about", "stories", "story_count", "publishers", "entities"}
)


def follow_up(sentence: Sentence, filters: Filters, alone: Query | None, before: Query) -> Query | None:
    """The query a sentence means after `before`; None when it can stand on its own. `alone` is what it means alone."""
    if sentence.unknown and not sentence.has("then", "there"):
        return None
    if _is_bare(sentence) and (sentence.has("then") or _is_short(sentence)):
        return _same_of_others(sentence, filters, before)
    if alone is None or alone.operation not in _FILTERED or before.operation not in _FILTERED:
        return None
    if sentence.has("there") or (filters == EVERYTHING and _is_short(sentence) and not sentence.has("event", "story")):
        return replace(alone, filters=_united(before.filters, filters))
    return None


def _is_bare(sentence: Sentence) -> bool:
    """Whether nothing is asked but of what: "and in Eritrea?", "only the critical ones"."""
    return sentence.ideas <= _CONNECTING


def _is_short(sentence: Sentence) -> bool:
    return len(sentence.tokens) <= SHORT and not sentence.has("list", "most")


def _same_of_others(sentence: Sentence, filters: Filters, before: Query) -> Query | None:
    if entities := sentence.values("entity"):
        return (
            replace(before, about=entities[0]) if before.about and before.operation in {"entity", "related"} else None
        )
    if areas := sentence.values("area"):
        return replace(before, about=areas[0]) if before.operation == "gaps" else None
    if programs := sentence.values("program"):
        return replace(before, about=programs[0]) if before.operation == "program" else None
    if filters == EVERYTHING:
        return None
    if before.sides:
        return replace(before, sides=tuple(_united(side, filters) for side in before.sides))
    return replace(before, filters=_united(before.filters, filters)) if before.operation in _FILTERED else None


def _united(before: Filters, now: Filters) -> Filters:
    """What was meant before, with what is said now in its place: a place for a place, a kind for a kind, a time."""
    united = before
    if now.countries or now.world or now.region:
        united = replace(united, countries=now.countries, world=now.world, region=now.region, entity=None, words=())
    if now.category or now.subcategory:
        united = replace(united, category=now.category, subcategory=now.subcategory)
    if now.severity_tier:
        united = replace(united, severity_tier=now.severity_tier)
    if now.day or now.since or now.until:
        united = replace(united, day=now.day, since=now.since, until=now.until)
    # Filters that a question states by number, such as `min_sources`.
    numbers = {name: value for name in RULES if RULES[name].question and (value := getattr(now, name)) is not None}
    return replace(united, **numbers)
