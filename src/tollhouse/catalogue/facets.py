"""Facets: how often each value occurs in a result, each counted as if its own filter were not set."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tollhouse.catalogue import index
from tollhouse.catalogue.index import COUNT, TOTAL, View
from tollhouse.catalogue.items import MAX_INTEGER, comparable, display_number, key
from tollhouse.catalogue.query import CatalogueQuery, Facet, HistogramBucket, NumberFacet, ValueCount
from tollhouse.catalogue.schema import Field
from tollhouse.catalogue.search import EVERYTHING, Conditions

# tantivy's limit of buckets per request.
MAX_BUCKETS = 65_000
# A pass with a range has its buckets three times: below, in and above the range.
MAX_RANGE_BUCKETS = MAX_BUCKETS // 4
MAX_RANGE_AGGREGATIONS = 20

_WITHIN = "~"

Aggregations = dict[str, Any]
# Aggregations by the filter that they ignore; None: all filters apply.
Passes = dict[str | None, Aggregations]

MAX_FACET_VALUES = 1_000
BARS = 10

_SPREAD = {"number", "money"}
# Prefixes of aggregation names: a field's values or range, and its fine histogram.
_VALUES, _FINE = "=", "+"


def run_passes(where: Conditions, passes: Passes) -> dict[str, Any]:
    """Run all passes; the results by aggregation name. Names are not words, since buckets have other members too."""
    results: dict[str, Any] = {}
    interval = _joinable(where, passes)
    if interval:
        results |= _joined(where, interval, passes[interval], passes[None])
    for ignored, aggregations in passes.items():
        if not aggregations.keys() <= results.keys():
            results |= where.view.aggregate(where.without(ignored), aggregations)
    return results


def _joinable(where: Conditions, passes: Passes) -> str | None:
    """A range filter that one pass ignores while another pass applies all filters, so that one pass serves both."""
    if not 0 < len(passes.get(None, ())) <= MAX_RANGE_AGGREGATIONS or _WITHIN in where.view.counts:
        return None
    return next((name for name, ends in where.intervals.items() if name in passes and _is_bucket(*ends)), None)


def _joined(where: Conditions, name: str, without: Aggregations, within: Aggregations) -> dict[str, Any]:
    """The results of the pass without this range, and if possible those of the items in the range."""
    field = where.view.schema.by_name[name]
    low, high = where.intervals[name]
    # The bucket's upper end is exclusive.
    beyond = None if high is None else math.nextafter(high, math.inf) if field.type == "number" else high + 1
    bucket = {"key": _WITHIN, **{end: value for end, value in (("from", low), ("to", beyond)) if value is not None}}
    # The bucket's own count is the total.
    counted = {
        each: _limited(request, MAX_RANGE_BUCKETS // len(within)) for each, request in within.items() if each != TOTAL
    }
    ranged = {"field": index.value_column(field), "ranges": [bucket]}
    results = where.view.aggregate(where.without(name), {**without, _WITHIN: {"range": ranged, "aggs": counted}})
    # None if no item ever had a value.
    inside = next((each for each in results[_WITHIN]["buckets"] if each["key"] == _WITHIN), None)
    if inside and any(inside[each].get("sum_other_doc_count") for each in counted):
        # Too many values for one pass; remembered until the next publication.
        where.view.counts[_WITHIN] = inside = None
    if not inside:
        return results
    return results | {each: inside[each] for each in counted} | {TOTAL: {"value": inside["doc_count"]}}


def _is_bucket(low: float | None, high: float | None) -> bool:
    """Whether the range can be a bucket: at least one end, ordered, and exact as 64-bit floats."""
    given = [end for end in (low, high) if end is not None]
    return bool(given) and given == sorted(given) and all(abs(end) < MAX_INTEGER for end in given)


def _limited(request: dict[str, Any], size: int) -> dict[str, Any]:
    return {"terms": {**request["terms"], "size": size, "segment_size": size}} if "terms" in request else request


def count_facets(where: Conditions, query: CatalogueQuery) -> tuple[dict[str, Facet], int | None]:
    """The requested facets, and the number of matching items if it was computed on the way (else None).

    Facets over all items are cached for each view.
    """
    if not where.is_none:
        return _counted(where, query, query.facets)
    known = where.view.counts
    known |= _counted(where, query, [name for name in query.facets if name not in known])[0]
    return {name: known[name] for name in query.facets}, len(where.view)


def _counted(where: Conditions, query: CatalogueQuery, names: Sequence[str]) -> tuple[dict[str, Facet], int | None]:
    """Count facets; those under the same conditions share a pass."""
    fields = [where.view.schema.by_name[name] for name in names]
    passes: Passes = {}
    for field in fields:
        own_filter = field.name if field.name in where.filters else None
        passes.setdefault(own_filter, {}).update(_aggregations(where.view, field))
    if None in passes:
        passes[None] |= COUNT
    replies = run_passes(where, passes)
    total = int(replies[TOTAL]["value"]) if TOTAL in replies else None
    return {field.name: _facet(where, field, replies, query) for field in fields}, total


def _aggregations(view: View, field: Field) -> dict[str, Any]:
    column = index.count_column(field)
    if field.type not in _SPREAD:
        size = MAX_BUCKETS
        return {_VALUES + field.name: {"terms": {"field": column, "size": size, "segment_size": size}}}
    stats = {_VALUES + field.name: {"stats": {"field": column}}}
    fine = _fine_width(view, field)
    return stats | {_FINE + field.name: _histogram(column, fine)} if fine else stats


def _facet(where: Conditions, field: Field, replies: dict[str, Any], query: CatalogueQuery) -> Facet:
    reply = replies[_VALUES + field.name]
    if field.type in _SPREAD:
        return _spread(where, field, reply, replies.get(_FINE + field.name))
    buckets = [(bucket["key"], int(bucket["doc_count"])) for bucket in reply["buckets"]]
    if field.type in ("keyword", "keywords"):
        values = _merge_spellings(buckets)
    else:
        counts = [ValueCount(bool(value) if field.type == "boolean" else int(value), n) for value, n in buckets]
        values = sorted(counts, key=_most_first)
    return [*values, *sorted(_absent(field, values, query), key=_most_first)][:MAX_FACET_VALUES]


def _merge_spellings(buckets: list[tuple[str, int]]) -> list[ValueCount]:
    """Merge spellings of a value under the most frequent one; the largest counts first."""
    total: dict[str, int] = {}
    commonest: dict[str, str] = {}
    for label, count in sorted(buckets, key=lambda bucket: (-bucket[1], bucket[0])):
        value = key(label)
        total[value] = total.get(value, 0) + count
        commonest.setdefault(value, label)
    ordered = sorted((-count, value) for value, count in total.items())
    return [ValueCount(commonest[value], -negative) for negative, value in ordered]


def _absent(field: Field, values: list[ValueCount], query: CatalogueQuery) -> list[ValueCount]:
    """Filter values that no item has, with count 0, so that a page can still show and remove them."""
    chosen_values = query.any_of.get(field.name, ())
    present = {comparable(field.type, str(value.value)) for value in values} if chosen_values else set()
    absent: dict[Any, ValueCount] = {}
    for chosen in chosen_values:
        compared = comparable(field.type, chosen)
        if compared not in present:
            absent.setdefault(compared, ValueCount(chosen if field.type not in ("boolean", "integer") else compared, 0))
    return list(absent.values())


def _most_first(value: ValueCount) -> tuple[int, Any]:
    return -value.count, (key(value.value), value.value) if isinstance(value.value, str) else value.value


def _spread(where: Conditions, field: Field, stats: dict[str, Any], fine: dict[str, Any] | None) -> NumberFacet:
    if not stats["count"]:
        return NumberFacet(None, None, [])
    low, high = stats["min"], stats["max"]
    width = bar_width(field, low, high)
    fine_width = _fine_width(where.view, field)
    if fine is None or width < fine_width:
        column = index.count_column(field)
        fine = where.view.aggregate(where.without(field.name), {"bars": _histogram(column, width)})["bars"]
        fine_width = width
    counts: Counter[int] = Counter()
    for bucket in fine["buckets"]:
        counts[round(bucket["key"] / fine_width) // round(width / fine_width)] += int(bucket["doc_count"])
    return NumberFacet(
        display_number(field.type, low),
        display_number(field.type, high),
        [
            HistogramBucket(
                display_number(field.type, n * width), display_number(field.type, (n + 1) * width), counts[n]
            )
            for n in range(min(counts), max(counts) + 1)
        ],
    )


def _histogram(column: str, width: float) -> dict[str, Any]:
    return {"histogram": {"field": column, "interval": width, "min_doc_count": 1}}


def _fine_width(view: View, field: Field) -> float:
    """A bar width so small that coarser histograms are sums of its bars, which saves a second pass; 0 for none.

    The range of all items has at most about 1,000 such bars. Fractions of a unit cannot be summed exactly.
    """
    name = _FINE + field.name
    if name not in view.counts:
        stats = view.aggregate(EVERYTHING, {"all": {"stats": {"field": index.count_column(field)}}})["all"]
        width = bar_width(field, stats["min"], stats["max"]) if stats["count"] else 0.0
        fine = 10.0 ** math.floor(math.log10(width) - 1) if width else 0.0
        view.counts[name] = fine if fine >= 1 else 0.0
    return float(view.counts[name])


def bar_width(field: Field, low: float, high: float, most: int = BARS) -> float:
    """The smallest of 1, 2, 5, 10, 20, … units with at most `most` bars (one more if not aligned) for the range."""
    smallest = 1.0 if field.type == "money" else 1e-9
    width = max((high - low) / most, smallest)
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= width * (1 - 1e-12))
