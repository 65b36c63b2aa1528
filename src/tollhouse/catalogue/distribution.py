"""Distributions: the matching items of a query by a number or a time, in bars of a round width."""

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tollhouse.catalogue import index
from tollhouse.catalogue.facets import bar_width
from tollhouse.catalogue.index import COUNT, TOTAL
from tollhouse.catalogue.items import EPOCH, MICROS, display_number
from tollhouse.catalogue.query import Bar, Distribution
from tollhouse.catalogue.schema import Field
from tollhouse.catalogue.search import Conditions

MAX_BARS = 100

_STATS = "="
_SMALLEST_SHARE = 1e-9
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
# Units of a calendar with their months; those of fixed length with their duration.
_FIXED = (("hour", _HOUR), ("day", _DAY))
_MONTHS = (("month", 1), ("year", 12), ("decade", 120), ("century", 1_200))
# The last second of the calendar, which a double represents exactly.
_LAST = datetime(9_999, 12, 31, 23, 59, 59, tzinfo=UTC)


def count_bars(where: Conditions, field: Field) -> Distribution:
    """The items that match, by a field of type integer, number, money or timestamp that is filtered."""
    column = index.value_column(field)
    replies = where.view.aggregate(where.all, {_STATS: {"stats": {"field": column}}, **COUNT})
    total, stats = int(replies[TOTAL]["value"]), replies[_STATS]
    missing = total - int(stats["count"])
    if not stats["count"]:
        return Distribution(total, missing, [])
    unit = None
    if field.type == "timestamp":
        unit, edges = _calendar_edges(stats["min"], stats["max"])
    else:
        edges = _number_edges(field, stats["min"], stats["max"])
    ranges = [{"key": str(at), "from": low, "to": high} for at, (low, high) in enumerate(pairwise(edges))]
    counted = where.view.aggregate(where.all, {_STATS: {"range": {"field": column, "ranges": ranges}}})
    counts = {bucket["key"]: int(bucket["doc_count"]) for bucket in counted[_STATS]["buckets"]}
    bars = [
        Bar(_displayed(field, low), _displayed(field, high), counts.get(str(at), 0))
        for at, (low, high) in enumerate(pairwise(edges))
    ]
    return Distribution(total, missing, bars, unit)


def _number_edges(field: Field, low: float, high: float) -> list[float]:
    """Multiples of a round width, from the lowest value or below it to above the highest."""
    width = bar_width(field, low, high, MAX_BARS - 1)
    # A narrower bar than doubles can tell apart has no end.
    smallest = max(abs(low), abs(high)) * _SMALLEST_SHARE
    if width < smallest:
        width = 10.0 ** math.ceil(math.log10(smallest))
    if field.type != "number":
        width, low, high = max(1, round(width)), round(low), round(high)
    first, last = low // width, high // width + 1
    edges = [(first + at) * width for at in range(int(last - first) + 1)]
    return [*edges, (last + 1) * width] if edges[-1] <= high else edges


def _calendar_edges(low: float, high: float) -> tuple[str, list[float]]:
    """The smallest unit with at most MAX_BARS bars, and the edges of its bars."""
    first, last = map(_moment, (low, high))
    for unit, duration in _FIXED:
        start = first.replace(minute=0, second=0, microsecond=0)
        start = start if unit == "hour" else start.replace(hour=0)
        if (last - start) / duration < MAX_BARS:
            count = (last - start) // duration + 1
            return unit, [_microseconds(start) + at * duration.total_seconds() * MICROS for at in range(count + 1)]
    for unit, months in _MONTHS:
        start_month = (first.year * 12 + first.month - 1) // months * months
        count = (last.year * 12 + last.month - 1 - start_month) // months + 1
        if count <= MAX_BARS or unit == _MONTHS[-1][0]:
            return unit, [_microseconds(_month(start_month + at * months)) for at in range(count + 1)]
    raise AssertionError("the last unit fits every time")


def _month(number: int) -> datetime:
    """The first of a month, counted from the year 0; the ends of the calendar beyond them."""
    year, month = divmod(number, 12)
    return datetime(max(year, 1), month + 1, 1, tzinfo=UTC) if year <= _LAST.year else _LAST


def _moment(microseconds: float) -> datetime:
    return EPOCH + timedelta(microseconds=min(microseconds, _microseconds(_LAST)))


def _microseconds(moment: datetime) -> float:
    since = moment - EPOCH
    return float((since.days * 86_400 + since.seconds) * MICROS + since.microseconds)


def _displayed(field: Field, value: float) -> float | str:
    if field.type == "timestamp":
        return f"{_moment(value).replace(tzinfo=None).isoformat()}Z"
    return display_number(field.type, round(value, 9))
