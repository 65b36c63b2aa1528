"""The rows of the index of events: their columns, and the terms by which most rows need not be read.

A number is in a column of its own, and its range also in a term of `buckets`: the rows of a selective range are then
read by term. The position of a row in each order is one whole number: the value above the inverted id. `parts` marks
samples of the rows: "part 8" is every eighth.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from math import floor
from typing import Any, Literal, get_args
from zlib import crc32

import msgspec
from msgspec import Struct
from tantivy import Schema, SchemaBuilder

from tollhouse import clock
from tollhouse.services.defense.events.event import Category, EventEntry, SeverityTier
from tollhouse.services.defense.events.filter import title_words

# Increase when rows change: an index with another number is built again.
LAYOUT = "events-4"

Sort = Literal["significance", "recent", "fatalities"]

CATEGORIES: tuple[str, ...] = get_args(Category)
SEVERITY_TIERS: tuple[str, ...] = get_args(SeverityTier)

SLOT = timedelta(minutes=15)
RELEVANT = "relevant"
# Every second, fourth, ... row, for samples of any size.
PARTS: tuple[int, ...] = tuple(2**power for power in range(1, 21))

_EPOCH = clock.at(0)
_MICROSECOND = timedelta(microseconds=1)
_DIGITS_ONLY = str.maketrans("", "", "-:TZ")
_DEGREES = 5
_SIGNIFICANCE_STEP = 25
_CONFIDENCE_STEPS = 50
_MOST_SOURCES = 100
_FATALITY_BUCKETS, _FEW_FATALITIES = 256, 3
_MOST_BUCKET = 10**14

_TERMS = ("id", "relevance", "words", "entities", "story", "areas", "country_code", "region_key", "buckets", "parts")
_COUNTED = ("category", "severity_tier", "country", "region")
_WHOLE = (
    "by_significance", "by_recent", "by_fatalities", "slot", "day", "reported_at", "reported_slot",
    "significance", "sources", "fatalities", "category_number", "tier_number", "place",
)  # fmt: skip
_FRACTIONS = ("latitude", "longitude", "confidence")


class SortOrder(Struct, frozen=True):
    """How a value and an id make one number: the value in the upper bits, the first bits of the id below."""

    id_bits: int
    largest: int

    def key(self, value: int, digits: str) -> int:
        """Larger keys come first. Equal keys are ordered by the whole id."""
        inverted = (1 << self.id_bits) - 1 - (int(digits, 16) >> (64 - self.id_bits))
        return min(value, self.largest) << self.id_bits | inverted

    def value(self, key: int) -> int:
        return key >> self.id_bits


ORDERS: dict[Sort, SortOrder] = {
    "significance": SortOrder(49, 2**14 - 1),
    "recent": SortOrder(16, 2**47 - 1),
    "fatalities": SortOrder(36, 2**27 - 1),
}


def order_column(sort: Sort) -> str:
    return f"by_{sort}"


@cache
def columns() -> Schema:
    """The columns of the index of the window."""
    builder = SchemaBuilder()
    for name in _TERMS:
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in _COUNTED:
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic", fast=True)
    for name in _WHOLE:
        builder.add_integer_field(name, fast=True)
    for name in _FRACTIONS:
        builder.add_float_field(name, fast=True)
    builder.add_unsigned_field("id_number", fast=True)
    builder.add_bytes_field("body", stored=True)
    return builder.build()


@cache
def previous_columns() -> Schema:
    """The columns of the index of the day before the window, of which only counts are served."""
    builder = SchemaBuilder()
    builder.add_text_field("id", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("relevance", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("category", tokenizer_name="raw", index_option="basic", fast=True)
    builder.add_integer_field("slot", fast=True)
    return builder.build()


def previous_row(entry: EventEntry, slot: int) -> dict[str, Any]:
    event = entry.event
    row: dict[str, Any] = {"id": event.id, "category": event.category, "slot": slot}
    return row | {"relevance": RELEVANT} if entry.is_relevant else row


def index_row(entry: EventEntry, slot: int, areas: Sequence[str]) -> dict[str, Any]:
    """The row of a served event: its values by column. `areas` are the capabilities that it names."""
    event, geo = entry.event, entry.event.geo
    digits = event.id.rpartition("_")[2]
    values = {sort: sort_value(entry, sort) for sort in ORDERS}
    number = crc32(event.id.encode())
    row: dict[str, Any] = {
        **previous_row(entry, slot),
        "id_number": int(digits, 16),
        **{order_column(sort): order.key(values[sort], digits) for sort, order in ORDERS.items()},
        "words": list(title_words(event.title)),
        "country_code": entry.country_code,
        "region_key": geo.region.casefold(),
        "severity_tier": event.metrics.severity_tier,
        "country": geo.country,
        "region": geo.region,
        "day": event.event_date.toordinal(),
        "reported_at": microseconds(entry.reported_at),
        "reported_slot": slot_number(entry.reported_at),
        "significance": values["significance"],
        "sources": event.source_count,
        "fatalities": event.fatalities,
        "category_number": CATEGORIES.index(event.category),
        "tier_number": SEVERITY_TIERS.index(event.metrics.severity_tier),
        "place": place_number(geo.country, geo.region),
        "latitude": geo.latitude,
        "longitude": geo.longitude,
        "confidence": event.metrics.confidence,
        "parts": [str(part) for part in PARTS if number % part == 0],
        "buckets": [
            *(bucket(sort, sort_bucket(sort, values[sort], digits)) for sort in ORDERS),
            bucket("confidence", confidence_bucket(event.metrics.confidence)),
            bucket("sources", sources_bucket(event.source_count)),
            bucket("cell", cell_number(*cell(geo.longitude, geo.latitude))),
        ],
        "body": msgspec.json.encode(entry),
    }
    optional = {"entities": list(entry.entities), "story": event.story_id, "areas": areas}
    return row | {name: value for name, value in optional.items() if value}


def sort_value(entry: EventEntry, sort: Sort) -> int:
    """The value by which an order sorts, as a cursor carries it: below 10^14."""
    if sort == "significance":
        return round(entry.event.metrics.significance * 10_000)
    if sort == "recent":
        return int(clock.iso(entry.reported_at).translate(_DIGITS_ONLY))
    return entry.event.fatalities


def bucket(name: str, number: int) -> str:
    """The term of a bucket; terms of one name are ordered as their numbers."""
    return f"{name}:{number:015d}"


def sort_bucket(sort: Sort, value: int, digits: str) -> int:
    """The bucket of a position: a larger one comes before all positions in smaller ones."""
    if sort == "significance":
        return min(value, ORDERS[sort].largest) // _SIGNIFICANCE_STEP
    if sort == "recent":
        return value // 100
    # Most events have no deaths, and many the same few: those are divided by their ids, into terms of enough rows.
    part = int(digits[:2], 16) if value == 0 else 16 * int(digits[0], 16) if value <= _FEW_FATALITIES else 0
    return min(value, ORDERS[sort].largest) * _FATALITY_BUCKETS + _FATALITY_BUCKETS - 1 - part


def minute_bucket(moment: datetime) -> int:
    """The bucket of the order `recent` that a time is in."""
    return int(clock.iso(moment).translate(_DIGITS_ONLY)) // 100


def confidence_bucket(confidence: float) -> int:
    """The bucket that a confidence (0..1) is in."""
    return floor(confidence * _CONFIDENCE_STEPS)


def sources_bucket(count: int) -> int:
    return min(count, _MOST_SOURCES)


def cell(longitude: float, latitude: float) -> tuple[int, int]:
    """The column and row of the grid that a point in degrees is in."""
    return floor((longitude + 180) / _DEGREES), floor((latitude + 90) / _DEGREES)


def cell_number(column: int, row: int) -> int:
    return column * 1_000 + row


def event_id(number: int) -> str:
    """The id of an event from the number that its digits are."""
    return f"conflict_{number:016x}"


def place_number(country: str, region: str) -> int:
    return crc32(f"{country}\n{region}".encode())


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970-01-01 UTC."""
    return (moment.astimezone(UTC) - _EPOCH) // _MICROSECOND


def slot_number(moment: datetime) -> int:
    """The number of the 15 minutes that a moment is in; a full quarter of an hour ends the 15 minutes before it."""
    return -((_EPOCH - moment) // SLOT)


def slot_end(number: int) -> datetime:
    """The end of the 15 minutes with a number."""
    return _EPOCH + number * SLOT
