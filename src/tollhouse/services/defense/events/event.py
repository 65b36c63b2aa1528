"""An event as stored, as served and as filters see it; the deaths that providers count, and its scores."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta
from math import asin, cos, log, log10, radians, sin, sqrt
from sys import intern
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

WINDOW_HOURS = 24

Category = Literal["Battles", "Protests", "Political", "Economic"]
SeverityTier = Literal["critical", "high", "medium", "low"]
FatalitiesBasis = Literal["not_reported", "headline", "ucdp", "acled"]
TitleBasis = Literal["page", "feed", "url"]
FeedSource = Literal["live", "recorded"]

_INTERNED_FIELDS = (("", "subcategory"), ("", "country_code"), ("geo", "country"), ("geo", "region"))


class Geo(Struct, frozen=True, gc=False):
    """Where it happened, in degrees. `region` names the first-level division, empty when only the country is known."""

    country: str
    region: str
    latitude: float
    longitude: float


class Metrics(Struct, frozen=True, gc=False):
    """`significance` and `confidence` lie in 0..1; docs/defense.md gives their formulas."""

    significance: float
    severity_tier: SeverityTier
    confidence: float


class Event(Struct, frozen=True, gc=False):
    """One event as the feed serves it. `source_count` is the number of independent publishers that report it."""

    id: str
    title: str
    event_date: date
    category: Category
    subcategory: str
    geo: Geo
    fatalities: int
    metrics: Metrics
    source_urls: list[str]
    source_count: int
    story_id: str | None
    fatalities_basis: FatalitiesBasis
    title_basis: TitleBasis


class EventEntry(Struct, frozen=True, gc=False):
    """A served event with what filters and sort orders need beside it. `country_code` is ISO 3166-1 alpha-2.

    `is_relevant`: it concerns defense, security or politics. `entities` are the ids that its reports name.
    """

    event: Event
    country_code: str
    reported_at: datetime
    is_relevant: bool = True
    entities: tuple[str, ...] = ()


class EventRecord(Struct, frozen=True, gc=False):
    """One event as stored, before fatality records are applied; its reports are in StoredEvent.

    `country_code` is ISO 3166-1 alpha-2. `goldstein` is -10..10. `relevance` is that to defense, security or politics,
    0..1; from a threshold on the event `is_relevant`. `source_count` counts independent publishers.
    `is_retrospective`: it reports the past. `has_headline` is False where the title was composed because neither a page
    nor a URL gave one. `reasons` explains the values of fields, keyed by field name.
    """

    id: str
    title: str
    title_basis: TitleBasis
    event_date: date
    category: Category
    subcategory: str
    geo: Geo
    country_code: str
    fatalities: int
    fatalities_basis: FatalitiesBasis
    confidence: float
    goldstein: float
    is_state_on_state: bool
    is_violent: bool
    relevance: float
    source_urls: list[str]
    source_count: int
    first_reported_at: datetime
    last_reported_at: datetime
    reasons: dict[str, str]
    has_headline: bool = True
    is_retrospective: bool = False
    is_relevant: bool = True
    story_id: str | None = None
    entities: tuple[str, ...] = ()


class EventReport(Struct, frozen=True, gc=False):
    """One report of an event: which page, when first seen, and the deaths that its title gives, None without any."""

    id: str
    reported_at: datetime
    publisher: str
    title: str
    url: str
    fatalities: int | None
    row_ids: tuple[str, ...]


class StoredEvent(EventRecord, frozen=True, gc=False, kw_only=True):
    """One event as stored, with its reports, oldest first."""

    reports: list[EventReport]


def read_record(packed: bytes) -> EventRecord:
    """Decode a stored record; strings that many records share are interned. Raises msgspec.MsgspecError."""
    record = msgspec.json.decode(packed, type=EventRecord)
    for part, name in _INTERNED_FIELDS:
        owner = getattr(record, part) if part else record
        force_setattr(owner, name, intern(getattr(owner, name)))
    force_setattr(record, "entities", tuple(map(intern, record.entities)))
    return record


FatalityProvider = Literal["ucdp", "acled"]
Coded = TypeVar("Coded")

DAYS_APART = timedelta(days=1)
KM_APART = 50.0
# For records located at the exact place.
PRECISE_KM_APART = 25.0
LONGEST_DAYS = 2

_EARTH_KM = 6371.0


class FatalityRecord(Struct, frozen=True):
    """A violent event as coded by a provider's researchers. `best`, `high` and `low` count deaths.

    `country` is ISO 3166-1 alpha-2. `days` is how many days the record covers from `date` on, 1 for one day.
    `where_precision`: 1 the place itself, 2 near it or within about 25 km, 3 the district, 4 and more a province or
    a country, with placeholder coordinates (in degrees). `source_url` is the provider's page, empty if there is none.
    """

    provider: FatalityProvider
    id: str
    date: date
    days: int
    country: str
    latitude: float
    longitude: float
    best: int
    high: int
    low: int
    headline: str
    where_precision: int
    source_url: str


class FatalityRecords(Struct, frozen=True):
    """The usable records of a provider and the number of unusable ones."""

    records: list[FatalityRecord]
    bad: int

    def __add__(self, other: "FatalityRecords") -> "FatalityRecords":
        return FatalityRecords(self.records + other.records, self.bad + other.bad)


def parse_records(
    events: Sequence[dict[str, Any]], kind: type[Coded], record: Callable[[Coded], FatalityRecord]
) -> FatalityRecords:
    """Convert raw events, whose numbers may be strings. `record` raises ValueError for an unusable event."""
    records: list[FatalityRecord] = []
    for event in events:
        try:
            records.append(record(msgspec.convert(event, kind, strict=False)))
        except ValueError:
            continue
    return FatalityRecords(records, len(events) - len(records))


def match_fatalities(event: EventRecord, records: Iterable[FatalityRecord]) -> FatalityRecord | None:
    """The one record that matches an event; None if none or several match, because a wrong figure is worse than none.

    The event must be violent and in the same country, at most a day and KM_APART kilometres away (PRECISE_KM_APART if
    the record has the exact place), and both must be located more precisely than a province. A record may match
    several events, which then report the same deaths.
    """
    if not event.is_violent or not event.geo.region:
        return None
    matching = [record for record in records if _matches(event, record)]
    return matching[0] if len({(record.provider, record.id) for record in matching}) == 1 else None


def kilometres(latitude1: float, longitude1: float, latitude2: float, longitude2: float) -> float:
    """Great-circle distance between two points in degrees."""
    north1, north2 = radians(latitude1), radians(latitude2)
    half_north, half_east = (north2 - north1) / 2, radians(longitude2 - longitude1) / 2
    chord = sin(half_north) ** 2 + cos(north1) * cos(north2) * sin(half_east) ** 2
    return 2 * _EARTH_KM * asin(min(1.0, sqrt(chord)))


def _matches(event: EventRecord, record: FatalityRecord) -> bool:
    if record.country != event.country_code or record.days > LONGEST_DAYS or record.where_precision > 3:
        return False
    last = record.date + timedelta(days=record.days - 1)
    if not record.date - DAYS_APART <= event.event_date <= last + DAYS_APART:
        return False
    apart = kilometres(event.geo.latitude, event.geo.longitude, record.latitude, record.longitude)
    return apart <= (PRECISE_KM_APART if record.where_precision == 1 else KM_APART)


_REACH, _HARM, _RELEVANCE = 0.45, 0.35, 0.20
# More publishers than this add nothing.
_SATURATED_AT = 50
# Significance of a report about the past is multiplied by this.
RETROSPECTIVE = 0.5


def significance(record: EventRecord) -> float:
    """Significance, 0..1, from publishers, harm and relevance."""
    weighed = weigh(record.goldstein, record.fatalities, record.relevance, record.source_count)
    return round(weighed * RETROSPECTIVE, 4) if record.is_retrospective else weighed


def weigh(goldstein: float, fatalities: int, relevance: float, publishers: int) -> float:
    """The significance of an event that is not in the past, 0..1."""
    harm = _harm(goldstein, fatalities, publishers)
    weighed = _REACH * _reach(publishers) + _HARM * harm + _RELEVANCE * relevance
    return round(min(1.0, weighed), 4)


def severity_tier(record: EventRecord) -> SeverityTier:
    """The first tier whose rule matches; at most medium if the category's confidence is below 0.5."""
    return _tier(record)[0]


def to_event(record: EventRecord) -> Event:
    """The event as served."""
    return Event(
        id=record.id,
        title=record.title,
        event_date=record.event_date,
        category=record.category,
        subcategory=record.subcategory,
        geo=record.geo,
        fatalities=record.fatalities,
        metrics=Metrics(significance(record), severity_tier(record), round(record.confidence, 4)),
        source_urls=record.source_urls,
        source_count=record.source_count,
        story_id=record.story_id,
        fatalities_basis=record.fatalities_basis,
        title_basis=record.title_basis,
    )


def reasons(record: EventRecord) -> dict[str, str]:
    """The record's reasons and those of its scores, with every number."""
    reach, harm = _reach(record.source_count), _harm(record.goldstein, record.fatalities, record.source_count)
    tier, why = _tier(record)
    total = (
        f"{_REACH} x {reach:.4f} (publishers {record.source_count}) + {_HARM} x {harm:.4f} (Goldstein value "
        f"{record.goldstein:g}, deaths {record.fatalities}) + {_RELEVANCE:.2f} x {record.relevance:.4f} (relevance)"
    )
    if record.is_retrospective:
        total = f"{RETROSPECTIVE} (it reports the past) x ({total})"
    return {
        **record.reasons,
        "significance": f"{total} = {significance(record):.4f}",
        "severity_tier": f"{tier}: {why}",
    }


def _reach(publishers: int) -> float:
    return min(1.0, log(1 + publishers) / log(1 + _SATURATED_AT))


def _harm(goldstein: float, fatalities: int, publishers: int) -> float:
    """From the toll, or the code's Goldstein value as far as further publishers confirm the first: codes often err."""
    return max(log10(1 + fatalities) / 2, -goldstein / 10 * _reach(max(0, publishers - 1)))


def _tier(record: EventRecord) -> tuple[SeverityTier, str]:
    """The tier and why. The reason claims no more than is known: what reports and codes say, not what happened."""
    publishers, is_battle = record.source_count, record.category == "Battles"
    deaths, reported = _count(record.fatalities, "death"), _count(publishers, "publisher")
    category = f"category {record.category} (confidence {record.confidence:.2f})"
    rules: tuple[tuple[bool, SeverityTier, str], ...] = (
        (record.fatalities >= 25, "critical", f"{deaths} reported, 25 or more"),
        (
            record.is_state_on_state and publishers >= 3,
            "critical",
            f"coded as a strike between two states, {reported}, 3 or more",
        ),
        (record.fatalities >= 5, "high", f"{deaths} reported, 5 or more"),
        (is_battle and publishers >= 3, "high", f"{category}, {reported}, 3 or more"),
        (is_battle and publishers >= 2, "medium", f"{category}, {reported}"),
        (record.category == "Protests" and record.is_violent, "medium", f"{category}, coded as violent"),
    )
    no_rule: tuple[SeverityTier, str] = (
        "low",
        f"{deaths} reported, {category}, {reported}: no rule of a higher tier matches",
    )
    tier, why = next(((tier, why) for holds, tier, why in rules if holds), no_rule)
    if record.is_retrospective and tier in {"critical", "high"}:
        return "medium", f"would be {tier} ({why}), but it reports the past"
    if record.confidence < 0.5 and tier in {"critical", "high"}:
        return "medium", f"would be {tier} ({why}), but confidence {record.confidence:.2f} is below 0.5"
    return tier, why


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
