"""What is asked under almost the same conditions, told in as few passes over the index as will do."""

import math
from typing import Any

from tollhouse.catalogue import index_columns
from tollhouse.catalogue.field_values import MAX_INTEGER
from tollhouse.catalogue.index import TOTAL
from tollhouse.catalogue.schema import Field
from tollhouse.catalogue.search import Conditions

# tantivy's own bound on what one request may hold.
BUCKETS = 65_000
# A pass that also tells of an interval holds its buckets three times: below the interval, in it, and above.
MOST_WITHIN = BUCKETS // 4
MOST_ASKED_WITHIN = 20

_WITHIN = "~"

Asked = dict[str, Any]
# By the filter that is left out, None for none.
Passes = dict[str | None, Asked]


def answers(where: Conditions, passes: Passes) -> dict[str, Any]:
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
    bucket = {"key": _WITHIN, **_ends(field, *where.intervals[name])}
    # How many there are, the bucket itself tells.
    counted = {each: _limited(wanted, MOST_WITHIN // len(within)) for each, wanted in within.items() if each != TOTAL}
    ranged = {"field": index_columns.value_column(field), "ranges": [bucket]}
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


def _ends(field: Field, low: float | None, high: float | None) -> dict[str, float]:
    """The end of a bucket does not belong to it."""
    beyond = None if high is None else math.nextafter(high, math.inf) if field.type == "number" else high + 1
    return {end: value for end, value in (("from", low), ("to", beyond)) if value is not None}


def _limited(wanted: dict[str, Any], size: int) -> dict[str, Any]:
    return {"terms": {**wanted["terms"], "size": size, "segment_size": size}} if "terms" in wanted else wanted
