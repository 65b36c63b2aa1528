"""Interprets a parsed question: rules that find its query, and what it means after the previous one."""

from collections.abc import Callable
from typing import Any, Literal, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.chat.parser import Sentence
from tollhouse.services.defense.chat.query_types import (
    EVERYTHING,
    MOST_ROWS,
    USUAL_ROWS,
    Dimension,
    Filters,
    Operation,
    Query,
)
from tollhouse.services.defense.chat.snapshot import Snapshot, plain
from tollhouse.services.defense.entities.mention import EntityType
from tollhouse.services.defense.events.filter import RULES


def build_filters(sentence: Sentence) -> Filters:
    """The filters that a sentence states, without its unknown words."""
    times = sentence.times
    world, region = sentence.values("world"), sentence.values("region")
    categories, kinds = sentence.values("category"), sentence.values("subcategory")
    severity = sentence.values("severity")
    return Filters(
        countries=tuple(sentence.values("country")),
        world=world[0] if world else None,
        region=region[0] if region else None,
        category=cast("Any", categories[0]) if categories and not kinds else None,
        subcategory=kinds[0] if kinds else None,
        severity_tier=cast("Any", severity[0]) if severity else None,
        day=times.day,
        since=times.since,
        until=times.until,
        **sentence.filters,
    )


def _fresh(sentence: Sentence, filters: Filters, _snapshot: Snapshot) -> Query | None:
    asks = sentence.has("fresh") and not sentence.has("many", "story", "event") and filters == EVERYTHING
    return Query("freshness", limit=MOST_ROWS) if asks else None


def _gap(sentence: Sentence, filters: Filters, _snapshot: Snapshot) -> Query | None:
    areas = sentence.values("area")
    if areas and (
        sentence.has("gap", "money") or not (sentence.unknown or sentence.has("story") or filters != EVERYTHING)
    ):
        return Query("gaps", about=areas[0])
    if sentence.has("gap"):
        return Query("gaps", limit=1 if sentence.has("most") else _limit(sentence))
    return None


def _money(sentence: Sentence, filters: Filters, _snapshot: Snapshot) -> Query | None:
    programs = sentence.values("program")
    if programs and (sentence.has("money", "many", "about") or not sentence.has("story")):
        return Query("program", about=programs[0])
    if sentence.has("money") and not _is_about_events(sentence) and filters.category is None:
        return Query("production", limit=_limit(sentence))
    return None


def _change(sentence: Sentence, filters: Filters, _snapshot: Snapshot) -> Query | None:
    compares = sentence.has("compare", "more") and filters.day is not None
    asks = (sentence.has("change") or compares) and replace(filters, category=None, day=None) == EVERYTHING
    return Query("change", Filters(category=filters.category)) if asks else None


def _deaths(sentence: Sentence, filters: Filters, _snapshot: Snapshot) -> Query | None:
    if sentence.has("deadliest") or (
        sentence.has("deaths") and not sentence.has("story", "about", "happened", "publishers")
    ):
        asks_who = sentence.has("who") and not sentence.has("many")
        return None if asks_who else Query("deaths", filters, limit=_limit(sentence))
    return None


def _share(sentence: Sentence, filters: Filters, _snapshot: Snapshot) -> Query | None:
    if not sentence.has("share"):
        return None
    whole = replace(filters, category=None, subcategory=None, severity_tier=None)
    if whole == filters:
        whole = EVERYTHING
    return Query("share", sides=(filters, whole))


def _compare(sentence: Sentence, filters: Filters, _snapshot: Snapshot) -> Query | None:
    if not sentence.has("compare", "more", "or"):
        return None
    sides: list[Filters] = []
    for kind, name in (
        ("country", "countries"),
        ("category", "category"),
        ("severity", "severity_tier"),
        ("world", "world"),
        ("subcategory", "subcategory"),
    ):
        values = sentence.values(cast("Any", kind))
        if len(values) > 1 and not sides:
            sides = [replace(filters, **{name: (value,) if kind == "country" else value}) for value in values[:5]]
    return Query("compare", sides=tuple(sides)) if sides else None


def _publishers(sentence: Sentence, filters: Filters, _snapshot: Snapshot) -> Query | None:
    if not sentence.has("publishers") or sentence.has("exists") or (sentence.has("many") and not sentence.has("story")):
        return None
    return Query("publishers", _with_entity(sentence, filters), limit=MOST_ROWS)


def _with_entity(sentence: Sentence, filters: Filters) -> Filters:
    entities = sentence.values("entity")
    return replace(filters, entity=entities[0]) if entities else filters


def _related(sentence: Sentence, _filters: Filters, snapshot: Snapshot) -> Query | None:
    if not sentence.has("related"):
        return None
    entity = _entity_of(sentence, snapshot)
    return Query("related", about=entity) if entity else None


def _breakdown(sentence: Sentence, filters: Filters, _snapshot: Snapshot) -> Query | None:
    """Answers "which country has the most protests?", "where were the battles?", "events by severity"."""
    by = _dimension(sentence)
    if by is None or (sentence.has("story", "mentioned", "who") and not sentence.has("event")):
        return None
    words = {token.text.casefold() for token in sentence.tokens}
    single = sentence.has("most", "where") and by == "country" and words.isdisjoint({"countries", "nations"})
    narrowed = replace(filters, category=None) if by == "category" else filters
    usual = 1 if single and sentence.has("most") else USUAL_ROWS
    return Query("breakdown", narrowed, by=by, limit=_limit(sentence, usual))


def _dimension(sentence: Sentence) -> Dimension | None:
    for by in ("country", "region", "category", "severity", "subcategory"):
        if sentence.has(by):
            return "severity_tier" if by == "severity" else cast("Dimension", by)
    return "country" if sentence.has("where") else None


def _entities(sentence: Sentence, filters: Filters, snapshot: Snapshot) -> Query | None:
    """Answers "who is mentioned most?", "which organizations are in the news?"."""
    kinds = [kind for kind in get_args(EntityType) if sentence.has(kind)]
    if (_entity_of(sentence, snapshot) and not kinds) or (sentence.has("story") and sentence.has("many")):
        return None
    asks = (
        sentence.has("mentioned") or (kinds and sentence.has("most", "list", "story", "who")) or sentence.has("entity")
    )
    if not asks or sentence.has("deaths"):
        return None
    kind: EntityType | None = kinds[0] if kinds else "person" if sentence.has("who") else None
    return Query("entities", filters, entity_type=kind, limit=_limit(sentence))


def _entity(sentence: Sentence, filters: Filters, snapshot: Snapshot) -> Query | None:
    """Answers "who is X?", "how often is X mentioned?"."""
    entity = _entity_of(sentence, snapshot)
    if entity is None:
        return None
    is_named = bool(sentence.values("entity"))
    if sentence.has("mentioned") and not sentence.has("story"):
        return Query("entity", about=entity)
    others = sentence.has("story", "many", "exists", "happened", "event", "publishers") or filters != EVERYTHING
    return Query("entity", about=entity) if is_named and not others and not sentence.unknown else None


def _stories(sentence: Sentence, filters: Filters, _snapshot: Snapshot) -> Query | None:
    if not sentence.has("story"):
        return None
    narrowed = _with_entity(sentence, filters)
    if sentence.has("many"):
        return Query("story_count", narrowed)
    return Query("stories", narrowed, limit=_limit(sentence, 1 if _is_single(sentence) else USUAL_ROWS))


def _is_single(sentence: Sentence) -> bool:
    words = {token.text.casefold() for token in sentence.tokens}
    return sentence.has("most") and not words.isdisjoint({"story", "event", "battle", "protest", "incident"})


def _count(sentence: Sentence, filters: Filters, _snapshot: Snapshot) -> Query | None:
    asks = sentence.has("many") or (sentence.has("exists") and _is_about_events(sentence))
    # "How many troops does China have?" is no question about events, though it names a country.
    is_of_others = bool(sentence.unknown) or sentence.has("person", "organization", "location", "platform")
    if not asks or not (_is_about_events(sentence) or (filters != EVERYTHING and not is_of_others)):
        return None
    return Query("count", _with_entity(sentence, filters))


def _list(sentence: Sentence, filters: Filters, _snapshot: Snapshot) -> Query | None:
    if not (sentence.has("most", "latest", "list") and _is_about_events(sentence)):
        return None
    order = "recent" if sentence.has("latest") else "significance"
    return Query(
        "list", filters, order=cast("Any", order), limit=_limit(sentence, 1 if _is_single(sentence) else USUAL_ROWS)
    )


def _about(sentence: Sentence, filters: Filters, _snapshot: Snapshot) -> Query | None:
    """Answers "what happened in Belarus?", "Ethiopia?", "the helicopter crash in Egypt"."""
    entities = sentence.values("entity")
    if sentence.has("many"):
        return None  # A number of what the feeds do not count.
    if filters != EVERYTHING and not sentence.unknown and not entities:
        return Query("about", filters)
    if sentence.unknown or entities:
        asks = sentence.has("about", "happened", "story", "exists") or filters != EVERYTHING
        return Query("stories", _with_entity(sentence, filters)) if asks else None
    return Query("stories") if sentence.has("happened") else None


_RULES: tuple[Callable[[Sentence, Filters, Snapshot], Query | None], ...] = (
    _fresh,
    _gap,
    _money,
    _change,
    _deaths,
    _share,
    _compare,
    _publishers,
    _related,
    _breakdown,
    _entities,
    _entity,
    _stories,
    _count,
    _list,
    _about,
)


def _is_about_events(sentence: Sentence) -> bool:
    kinds = {"category", "subcategory", "severity"}
    return sentence.has("event") or any(token.kind in kinds for token in sentence.tokens)


def _entity_of(sentence: Sentence, snapshot: Snapshot) -> str | None:
    """The entity that is named, a country or a region as such included."""
    if entities := sentence.values("entity"):
        return entities[0]
    for name in (*sentence.values("country"), *sentence.values("region")):
        if entity := snapshot.entity_named(name):
            return entity.id
    return None


def _limit(sentence: Sentence, usual: int = USUAL_ROWS) -> int:
    """How many are asked for."""
    numbers = [int(number) for number in sentence.values("number")]
    return max(1, min(MOST_ROWS, numbers[0])) if numbers else usual


SHORT = 4

_CONNECTING = frozenset({"then", "there", "or", "more", "most", "about", "list", "event"})
_FILTERED = frozenset(
    {"count", "list", "breakdown", "deaths", "about", "stories", "story_count", "publishers", "entities"}
)


def follow_up(sentence: Sentence, filters: Filters, alone: Query | None, before: Query) -> Query | None:
    """The query a sentence means after `before`; None when it can stand on its own. `alone` is what it means alone."""
    if sentence.unknown and not sentence.has("then", "there"):
        return None
    # Only connecting words: "and in Eritrea?", "only the critical ones".
    if sentence.ideas <= _CONNECTING and (sentence.has("then") or _is_short(sentence)):
        return _same_of_others(sentence, filters, before)
    if alone is None or alone.operation not in _FILTERED or before.operation not in _FILTERED:
        return None
    if sentence.has("there") or (filters == EVERYTHING and _is_short(sentence) and not sentence.has("event", "story")):
        return replace(alone, filters=_united(before.filters, filters))
    return None


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


Why = Literal["foreign", "beyond", "outside-window", "unknown-word", "not-understood", "not-supported"]


class NotUnderstood(Struct, frozen=True):
    """Why a question has no query, and the words that are the cause."""

    why: Why
    words: tuple[str, ...] = ()


def interpret(sentence: Sentence, snapshot: Snapshot, before: Query | None) -> Query | NotUnderstood:
    """The query of a sentence, after the previous query of the conversation."""
    if sentence.times.outside:
        return NotUnderstood("outside-window", (sentence.times.outside,))
    if foreign := [token.text for token in sentence.tokens if token.kind == "foreign"]:
        return NotUnderstood("foreign", tuple(foreign[:3]))
    if beyond := [token.text for token in sentence.tokens if token.kind == "beyond"]:
        return NotUnderstood("beyond", tuple(beyond[:3]))
    filters = build_filters(sentence)
    # Specific rules come first.
    query = next(filter(None, (rule(sentence, filters, snapshot) for rule in _RULES)), None)
    if before is not None:
        query = follow_up(sentence, filters, query, before) or query
    if query is None:
        return NotUnderstood("unknown-word" if sentence.unknown else "not-understood", tuple(sentence.unknown[:3]))
    return _with_words(sentence, query, snapshot)


# Queries that words narrow. In any other, an unknown word must not be ignored.
_BY_WORDS: frozenset[Operation] = frozenset(
    {"count", "list", "stories", "story_count", "publishers", "about", "breakdown"}
)


def _with_words(sentence: Sentence, query: Query, snapshot: Snapshot) -> Query | NotUnderstood:
    """The query narrowed to the remaining words; a word that no story contains makes it not understood."""
    if query.operation not in _BY_WORDS:
        return NotUnderstood("unknown-word", tuple(sentence.unknown[:3])) if sentence.unknown else query
    # A programme or an area is a word like others where no money is asked for.
    words = tuple(token.text for token in sentence.tokens if token.kind in {"unknown", "program", "area"})
    strange = [word for word in words if not all(map(snapshot.texts.knows, plain(word).split()))]
    if strange:
        return NotUnderstood("unknown-word", tuple(strange[:3]))
    return replace(query, filters=replace(query.filters, words=words)) if words else query
