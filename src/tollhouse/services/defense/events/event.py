"""The types of an event: as stored, as served, and as filters see it."""

from datetime import date, datetime
from sys import intern
from typing import Literal

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
