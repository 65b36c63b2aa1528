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

# tantivy's own bound on what one request may hold.
BUCKETS = 65_000
# A pass that also tells of an interval holds its buckets three times: below the interval, in it, and above.
MOST_WITHIN = BUCKETS // 4
MOST_ASKED_WITHIN = 20

_WITHIN = "~"

Asked = dict[str, Any]
# By the filter that is left out, None for none.
Passes = dict[str | None, Asked]

MAX_FACET_VALUES = 1_000
BARS = 10

_SPREAD = {"number", "money"}
# Before a field's name, in what is asked of the index: its values or its range, and its bars.
_OF, _FINE = "=", "+"


def run_passes(where: Conditions, passes: Passes) -> dict[str, Any]:
    """What each pass tells, by the names it was asked under, which are no words: buckets have members beside them."""
    told: dict[str, Any] = {}
    interval = _joinable(where, passes)
    if interval:
        told |= _joined(where, interval, passes[interval], passes[None])
    for left_out, asked in passes.items():
        if not asked.keys() <= told.keys():
            told |= where.view.aggregate(where.without(left_out), asked)
    return told


def _joinable(where: Conditions, passes: Passes) -> str | None:
    """The filter that is an interval, and that a pass leaves out beside one under all conditions."""
    if not 0 < len(passes.get(None, ())) <= MOST_ASKED_WITHIN or _WITHIN in where.view.counts:
        return None
    return next((name for name, ends in where.intervals.items() if name in passes and _is_bucket(*ends)), None)


def _joined(where: Conditions, name: str, asked: Asked, within: Asked) -> dict[str, Any]:
    """What the pass without this interval tells, and where it can, what it tells of the items in the interval."""
    field = where.view.schema.by_name[name]
    bucket = {"key": _WITHIN, **_bucket_ends(field, *where.intervals[name])}
    # How many there are, the bucket itself tells.
    counted = {each: _limited(wanted, MOST_WITHIN // len(within)) for each, wanted in within.items() if each != TOTAL}
    ranged = {"field": index.value_column(field), "ranges": [bucket]}
    told = where.view.aggregate(where.without(name), {**asked, _WITHIN: {"range": ranged, "aggs": counted}})
    # None where no item ever had a value.
    found = next((each for each in told[_WITHIN]["buckets"] if each["key"] == _WITHIN), None)
    if found and any(found[each].get("sum_other_doc_count") for each in counted):
        # These fields have too many values, and will until something is published.
        where.view.counts[_WITHIN] = found = None
    if not found:
        return told
    return told | {each: found[each] for each in counted} | {TOTAL: {"value": found["doc_count"]}}


def _is_bucket(low: float | None, high: float | None) -> bool:
    """A bucket has one end at least, and its ends are 64-bit floats in their order."""
    given = [end for end in (low, high) if end is not None]
    return bool(given) and given == sorted(given) and all(abs(end) < MAX_INTEGER for end in given)


def _bucket_ends(field: Field, low: float | None, high: float | None) -> dict[str, float]:
    """The end of a bucket does not belong to it."""
    beyond = None if high is None else math.nextafter(high, math.inf) if field.type == "number" else high + 1
    return {end: value for end, value in (("from", low), ("to", beyond)) if value is not None}


def _limited(wanted: dict[str, Any], size: int) -> dict[str, Any]:
    return {"terms": {**wanted["terms"], "size": size, "segment_size": size}} if "terms" in wanted else wanted


def count_facets(where: Conditions, query: CatalogueQuery) -> tuple[dict[str, Facet], int | None]:
    """The facets a query asks for, and how many items match where that came out in passing.

    The facets of all items are counted once for each view.
    """
    if not where.is_none:
        return _counted(where, query, query.facets)
    known = where.view.counts
    known |= _counted(where, query, [name for name in query.facets if name not in known])[0]
    return {name: known[name] for name in query.facets}, len(where.view)


def _counted(where: Conditions, query: CatalogueQuery, names: Sequence[str]) -> tuple[dict[str, Facet], int | None]:
    """Facets under the same conditions are counted in one pass."""
    fields = [where.view.schema.by_name[name] for name in names]
    wanted: Passes = {}
    for field in fields:
        wanted.setdefault(_own_filter(where, field), {}).update(_asked(where.view, field))
    if None in wanted:
        wanted[None] |= COUNT
    answers = run_passes(where, wanted)
    total = int(answers[TOTAL]["value"]) if TOTAL in answers else None
    return {field.name: _facet(where, field, answers, query) for field in fields}, total


def _own_filter(where: Conditions, field: Field) -> str | None:
    return field.name if field.name in where.filters else None


def _asked(view: View, field: Field) -> dict[str, Any]:
    column = index.count_column(field)
    if field.type not in _SPREAD:
        size = BUCKETS
        return {_OF + field.name: {"terms": {"field": column, "size": size, "segment_size": size}}}
    stats = {_OF + field.name: {"stats": {"field": column}}}
    fine = _fine_width(view, field)
    return stats | {_FINE + field.name: _histogram(column, fine)} if fine else stats


def _facet(where: Conditions, field: Field, answers: dict[str, Any], query: CatalogueQuery) -> Facet:
    answer = answers[_OF + field.name]
    if field.type in _SPREAD:
        return _spread(where, field, answer, answers.get(_FINE + field.name))
    buckets = [(bucket["key"], int(bucket["doc_count"])) for bucket in answer["buckets"]]
    if field.type in ("keyword", "keywords"):
        values = _spelt(buckets)
    else:
        told = [ValueCount(bool(found) if field.type == "boolean" else int(found), n) for found, n in buckets]
        values = sorted(told, key=_most_first)
    return [*values, *sorted(_absent(field, values, query), key=_most_first)][:MAX_FACET_VALUES]


def _spelt(buckets: list[tuple[str, int]]) -> list[ValueCount]:
    """One value for all its spellings, under the commonest of them; those of most items first."""
    total: dict[str, int] = {}
    commonest: dict[str, str] = {}
    for label, count in sorted(buckets, key=lambda bucket: (-bucket[1], bucket[0])):
        one = key(label)
        total[one] = total.get(one, 0) + count
        commonest.setdefault(one, label)
    return [ValueCount(commonest[one], -fewer) for fewer, one in sorted((-count, one) for one, count in total.items())]


def _absent(field: Field, values: list[ValueCount], query: CatalogueQuery) -> list[ValueCount]:
    """Chosen values that nothing has any more: a reader must still be able to take them back."""
    wanted = query.any_of.get(field.name, ())
    present = {comparable(field.type, str(value.value)) for value in values} if wanted else set()
    absent: dict[Any, ValueCount] = {}
    for chosen in wanted:
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
        conditions = where.without(_own_filter(where, field))
        fine = where.view.aggregate(conditions, {"bars": _histogram(column, width)})["bars"]
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
    """Bars so narrow that those of almost any answer are sums of them, so that no second pass is needed; 0 for none.

    At most some 1,000 of them make the range of all items. Parts of a unit cannot be added up exactly.
    """
    name = _FINE + field.name
    if name not in view.counts:
        stats = view.aggregate(EVERYTHING, {"all": {"stats": {"field": index.count_column(field)}}})["all"]
        width = bar_width(field, stats["min"], stats["max"]) if stats["count"] else 0.0
        fine = 10.0 ** math.floor(math.log10(width) - 1) if width else 0.0
        view.counts[name] = fine if fine >= 1 else 0.0
    return float(view.counts[name])


def bar_width(field: Field, low: float, high: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, … units that makes at most ten bars of the range (eleven, off the grid)."""
    least = 1.0 if field.type == "money" else 1e-9
    wanted = max((high - low) / BARS, least)
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= wanted * (1 - 1e-12))
