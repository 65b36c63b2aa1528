"""How often a reader agrees with the category that CAMEO codes give a URL, counted on labelled URLs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from tollhouse.services.defense.events.event import Category
from tollhouse.services.defense.ingest.cameo import category
from tollhouse.services.defense.ingest.conflict_words import GROUPS, word_counts
from tollhouse.services.defense.ingest.export_row import Row

Read = Literal["Battles", "Protests", "Political", "Economic", "none"]

# Word groups that speak for a category; those of private life speak against every one.
_FOR: Mapping[str, tuple[int, ...]] = {
    coded: tuple(map(GROUPS.index, groups))
    for coded, groups in {
        "Protests": ("protest",),
        "Economic": ("business",),
        "Political": ("speech", "zone", "protest"),
    }.items()
}
_AGAINST = tuple(map(GROUPS.index, ("crime", "accident", "sport", "culture", "memory")))


class ReadCategory(Struct, frozen=True):
    """What a reader says the URL is; `sample` is `random`, or `by_code` where the codes chose the URL."""

    url: str
    category: Read
    file: str
    sample: str


class Agreement(Struct, frozen=True):
    """Of `n` URLs that the codes put into a category, `right` were read as that category."""

    n: int
    right: int


def read_categories(lines: Iterable[bytes]) -> list[ReadCategory]:
    return [msgspec.json.decode(line, type=ReadCategory) for line in lines if line.strip()]


def verdict(coded: str, url: str) -> str:
    """The category, and whether the URL's words speak `for` it, `against` it, or are `silent`."""
    counts = word_counts(url)
    speaks_for = any(counts[group] for group in _FOR[coded])
    speaks_against = any(counts[group] for group in _AGAINST)
    if speaks_for == speaks_against:
        return f"{coded} silent"
    return f"{coded} for" if speaks_for else f"{coded} against"


def agreements(reads: Sequence[ReadCategory], rows_of: Mapping[str, list[Row]]) -> dict[str, Agreement]:
    """Counts per category and per verdict, of the labelled URLs that have rows."""
    n: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for read in reads:
        if read.url in rows_of:
            coded = coded_category(rows_of[read.url])
            for key in (coded, verdict(coded, read.url)):
                n[key] += 1
                right[key] += read.category == coded
    return {key: Agreement(n[key], right[key]) for key in sorted(n)}


def coded_category(rows: Sequence[Row]) -> str:
    """The category of the calm code with most mentions, root events counting double, as `deciding` weighs them."""
    weights: Counter[str] = Counter()
    for row in rows:
        if category(row.code):
            weights[row.code] += row.mentions * (1 + row.is_root)
    heaviest = max(weights, key=lambda code: (weights[code], code))
    return category(heaviest) or "Political"


def confidence(coded: Category, url: str, counted: Mapping[str, Agreement]) -> float:
    """0..1: the verdict's share of agreement, drawn towards the category's by two pseudo-observations."""
    nothing = Agreement(0, 0)
    overall = counted.get(coded, nothing)
    cell = counted.get(verdict(coded, url), nothing)
    expected = (overall.right + 1) / (overall.n + 2)
    return (cell.right + 2 * expected) / (cell.n + 2)
