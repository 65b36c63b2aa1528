"""How often each value occurs among what a query finds, each facet counted as if its own filter were not set."""

import math
from collections.abc import Sequence
from typing import Any

from tollhouse.catalogue import columns
from tollhouse.catalogue.finding import Conditions
from tollhouse.catalogue.query import Bar, Facet, Query, Spread, ValueCount
from tollhouse.catalogue.schema import Field
from tollhouse.catalogue.values import comparable, key, shown

MAX_FACET_VALUES = 1_000
BARS = 10

# tantivy's own bound on what one aggregation may hold.
_BUCKETS = 65_000
_SPREAD = {"number", "money"}


def counted(where: Conditions, query: Query) -> dict[str, Facet]:
    """The facets a query asks for; those of all items are counted once for each view."""
    if not where.is_none:
        return _counted(where, query, query.facets)
    known = where.view.counts
    known |= _counted(where, query, [name for name in query.facets if name not in known])
    return {name: known[name] for name in query.facets}


def _counted(where: Conditions, query: Query, names: Sequence[str]) -> dict[str, Facet]:
    """Facets under the same conditions are counted in one pass."""
    answers: dict[str, dict[str, Any]] = {}
    fields = [where.view.schema.by_name[name] for name in names]
    for left_out in {_own_filter(where, field) for field in fields}:
        together = {field.name: _asked(field) for field in fields if _own_filter(where, field) == left_out}
        answers |= where.view.aggregate(where.without(left_out), together)
    return {field.name: _facet(where, field, answers[field.name], query) for field in fields}


def _own_filter(where: Conditions, field: Field) -> str | None:
    return field.name if field.name in where.filters else None


def _asked(field: Field) -> dict[str, Any]:
    column = columns.count_column(field)
    if field.type in _SPREAD:
        return {"stats": {"field": column}}
    return {"terms": {"field": column, "size": _BUCKETS, "segment_size": _BUCKETS}}


def _facet(where: Conditions, field: Field, answer: dict[str, Any], query: Query) -> Facet:
    if field.type in _SPREAD:
        return _spread(where, field, answer)
    buckets = [(bucket["key"], int(bucket["doc_count"])) for bucket in answer["buckets"]]
    if field.type in ("keyword", "keywords"):
        values = _spelt(buckets)
    else:
        values = [ValueCount(bool(found) if field.type == "boolean" else int(found), n) for found, n in buckets]
    values += _absent(field, values, query)
    return sorted(values, key=_most_first)[:MAX_FACET_VALUES]


def _spelt(buckets: list[tuple[str, int]]) -> list[ValueCount]:
    """One value for all its spellings, under the commonest of them."""
    total: dict[str, int] = {}
    commonest: dict[str, str] = {}
    for label, count in sorted(buckets, key=lambda bucket: (-bucket[1], bucket[0])):
        total[key(label)] = total.get(key(label), 0) + count
        commonest.setdefault(key(label), label)
    return [ValueCount(commonest[each], count) for each, count in total.items()]


def _absent(field: Field, values: list[ValueCount], query: Query) -> list[ValueCount]:
    """Chosen values that nothing has any more: a reader must still be able to take them back."""
    present = {comparable(field.type, str(value.value)) for value in values}
    absent: dict[Any, ValueCount] = {}
    for chosen in query.any_of.get(field.name, ()):
        compared = comparable(field.type, chosen)
        if compared not in present:
            absent.setdefault(compared, ValueCount(chosen if field.type not in ("boolean", "integer") else compared, 0))
    return list(absent.values())


def _most_first(value: ValueCount) -> tuple[int, Any]:
    return -value.count, (key(value.value), value.value) if isinstance(value.value, str) else value.value


def _spread(where: Conditions, field: Field, stats: dict[str, Any]) -> Spread:
    if not stats["count"]:
        return Spread(None, None, [])
    low, high = stats["min"], stats["max"]
    width = bar_width(field, low, high)
    bars = {"histogram": {"field": columns.count_column(field), "interval": width}}
    found = where.view.aggregate(where.without(_own_filter(where, field)), {"bars": bars})["bars"]["buckets"]
    counts = {round(bucket["key"] / width): int(bucket["doc_count"]) for bucket in found}
    numbers = range(min(counts), max(counts) + 1)
    return Spread(
        shown(field.type, low),
        shown(field.type, high),
        [Bar(shown(field.type, n * width), shown(field.type, (n + 1) * width), counts.get(n, 0)) for n in numbers],
    )


def bar_width(field: Field, low: float, high: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, … units that makes at most ten bars of the range (eleven, off the grid)."""
    least = 1.0 if field.type == "money" else 1e-9
    wanted = max((high - low) / BARS, least)
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= wanted * (1 - 1e-12))
