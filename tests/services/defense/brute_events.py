"""The events feed without an index: every event is tested, sorted and counted. Results must be the same."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, get_args

from msgspec.structs import replace

from tollhouse import clock
from tollhouse.services.defense.events.event import Category, Event, EventEntry, Geo, Metrics, SeverityTier
from tollhouse.services.defense.events.filter import EventFilter, event_tests
from tollhouse.services.defense.events.index_rows import Sort, slot_end, slot_number
from tollhouse.services.defense.events.index_search import entry_position
from tollhouse.services.defense.events.pages import EventsQuery
from tollhouse.services.defense.gazetteer import find_country

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
WORDS = ("rocket", "strike", "talks", "border", "march", "Straße", "naïve", "U.S.", "one_two")
PLACES = (("Kenya", "Nairobi"), ("Kenya", ""), ("Sudan", "Khartoum"), ("Ukraine", "Kharkiv"), ("", ""))
ENTITIES = tuple(f"entity_{letter}" for letter in "abcdefgh")
FACETS = {
    "category": lambda one: one.event.category,
    "severity_tier": lambda one: one.event.metrics.severity_tier,
    "country": lambda one: one.event.geo.country,
    "region": lambda one: one.event.geo.region,
    "reported_at": lambda one: clock.iso(slot_end(slot_number(one.reported_at))),
}


def made_entry(number: int, chance: Random) -> EventEntry:
    """A random event. Values repeat, so that orders have ties."""
    country, region = chance.choice(PLACES)
    found = find_country(country)
    moment = NOON - timedelta(seconds=chance.choice((chance.randrange(86_400), 900 * chance.randrange(96))))
    event = Event(
        f"conflict_{chance.choice((number, chance.getrandbits(64))):016x}", " ".join(chance.sample(WORDS, 3)),
        moment.date(), chance.choice(get_args(Category)), "",
        Geo(country, region, chance.uniform(-90, 90), chance.choice((-180.0, 180.0, chance.uniform(-180, 180)))),
        chance.choice((0, 0, 0, 1, 3, chance.randrange(2_000))),
        Metrics(chance.randrange(101) / 100, chance.choice(get_args(SeverityTier)), chance.randrange(101) / 100),
        ["https://news.example/1"], chance.choice((1, 1, 2, 5, 400)), None, "not_reported", "url",
    )  # fmt: skip
    named = tuple(chance.sample(ENTITIES, chance.randrange(3)))
    return EventEntry(event, found.alpha2 if found else "", moment, chance.random() < 0.9, named)


def made_filters(chance: Random) -> dict[str, Any]:
    """One to three random filters, and sometimes all events."""
    moment = NOON - timedelta(seconds=chance.choice((chance.randrange(-900, 90_000), 900 * chance.randrange(97))))
    choices: dict[str, Any] = {
        "category": chance.choice(get_args(Category)),
        "country": chance.choice(("Kenya", "sdn", "UA", "Fiji")),
        "region": chance.choice(("NAIROBI", "Kharkiv", "nowhere")),
        "severity_tier": chance.choice(get_args(SeverityTier)),
        "min_confidence": chance.choice((0.0, 0.3, 0.55, 0.999, 1.0, chance.random())),
        "min_sources": chance.choice((1, 2, 3, 5, 101, 1_000)),
        "bbox": (
            chance.uniform(-180, 180),
            chance.uniform(-90, 90),
            chance.uniform(-180, 180),
            chance.uniform(-90, 90),
        ),
        "q": chance.choice((*WORDS, "ROCKET strike", "strasse", "u.s. talks", "nothing", "!")),
        "since": moment,
        "until": moment,
        "entity": "an entity",
    }
    names = chance.sample(sorted(choices), chance.randrange(4))
    filters = {name: choices[name] for name in names}
    return filters | ({"relevance": "all"} if chance.random() < 0.3 else {})


def passing(entries: Sequence[EventEntry], filters: EventFilter, entities: frozenset[str]) -> list[EventEntry]:
    tests = event_tests(filters, entities)
    return [entry for entry in entries if all(test(entry) for test in tests)]


def brute_page(
    entries: Sequence[EventEntry], query: EventsQuery, entities: frozenset[str]
) -> tuple[list[Event], int, str | None]:
    """The events of a page, the total, and the next cursor."""
    matching = sorted(passing(entries, query, entities), key=lambda entry: place(entry, query.sort))
    start = 0
    if query.cursor:
        value, _, digits = query.cursor.partition("-")
        start = bisect_right(matching, (-int(value), digits), key=lambda entry: place(entry, query.sort))
    shown = matching[start : start + query.limit]
    has_more = bool(shown) and start + query.limit < len(matching)
    negated, digits = place(shown[-1], query.sort) if has_more else (0, "")
    return [entry.event for entry in shown], len(matching), f"{-negated}-{digits}" if has_more else None


def place(entry: EventEntry, sort: Sort) -> tuple[int, str]:
    return entry_position(entry, sort)


def brute_facet(
    entries: Sequence[EventEntry], query: EventsQuery, entities: frozenset[str], name: str
) -> list[tuple[str, int]]:
    own = ("since", "until") if name == "reported_at" else (name,)
    others = replace(query, **dict.fromkeys(own))
    counts = Counter(map(FACETS[name], passing(entries, others, entities)))
    counts.pop("", None)
    return sorted(counts.items(), key=lambda item: item[0] if name == "reported_at" else (-item[1], item[0]))
