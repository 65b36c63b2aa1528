"""What an event is: the wire form that callers read, and the record it is made from."""

from datetime import date, datetime
from sys import intern
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

Category = Literal["Battles", "Protests", "Political", "Economic"]
SeverityTier = Literal["critical", "high", "medium", "low"]
FatalitiesBasis = Literal["not_reported", "headline", "ucdp", "acled"]
TitleBasis = Literal["page", "feed", "url"]

_IN_COMMON = (("", "subcategory"), ("", "country_code"), ("geo", "country"), ("geo", "region"))


class Geo(Struct, frozen=True, gc=False):
    """Where it happened. `region` is the first-level division's name, empty when only the country is known."""

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
    """One event as the feed serves it."""

    id: str
    title: str
    event_date: date
    category: Category
    subcategory: str
    geo: Geo
    fatalities: int
    metrics: Metrics
    source_urls: list[str]
    story_id: str | None
    fatalities_basis: FatalitiesBasis
    title_basis: TitleBasis


class EventRecord(Struct, frozen=True, gc=False):
    """What one source URL's rows say, before anybody else's reports are weighed in.

    `country_code` is ISO 3166-1 alpha-2. `goldstein` is -10..10. `relevance` is the defense relevance, 0..1.
    `publishers` is how many publishers the provider counted for the event's best-covered row.
    `has_headline` is False where the title had to be composed, because nobody and not even the address gave any words.
    `reasons` says in plain words why a field has its value, keyed by the field's name.
    """

    id: str
    url: str
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
    publishers: int
    first_reported_at: datetime
    last_reported_at: datetime
    row_ids: list[str]
    reasons: dict[str, str]
    has_headline: bool = True


def read_record(packed: bytes) -> EventRecord:
    """A stored record; the words that many events have in common are in memory once. Raises msgspec.MsgspecError."""
    record = msgspec.json.decode(packed, type=EventRecord)
    for part, name in _IN_COMMON:
        owner = getattr(record, part) if part else record
        force_setattr(owner, name, intern(getattr(owner, name)))
    return record
