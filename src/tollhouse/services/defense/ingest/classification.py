"""Which category a URL's rows put it into, and which row speaks for them all."""

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from tollhouse.services.defense.events.event import Category
from tollhouse.services.defense.ingest import cameo, conflict_probability
from tollhouse.services.defense.ingest.export_row import Row

# What a URL is called whose rows claim violence that the classifier does not believe.
UNCONFIRMED = "Unclassified report"


class Decision(Struct, frozen=True):
    """`supporting` are the rows of the category, the deciding one among them. `why` is for people."""

    category: Category
    subcategory: str
    row: Row
    supporting: list[Row]
    confidence: float
    why: str


def decide(url: str, rows: Sequence[Row]) -> Decision:
    """The category of a URL with the given rows, at least one.

    Battles when the classifier believes its candidates. Otherwise the code with most weight decides among the rows
    that claim no violence. When all do, the URL is Political under UNCONFIRMED, which claims no fighting.
    """
    calm = [row for row in rows if _category(row.code)]
    if len(calm) == len(rows):
        return _by_weight(rows, calm, 0.0)
    odds = conflict_probability.battle_probability(url, rows)
    if odds >= conflict_probability.THRESHOLD:
        return _battle([row for row in rows if not _category(row.code)], odds)
    return _by_weight(rows, calm, odds) if calm else _unconfirmed(rows, odds)


def _battle(candidates: list[Row], odds: float) -> Decision:
    row = _heaviest(candidates)
    why = (
        f"{_counted(candidates)} of fighting or political violence, above all {row.code}; "
        f"the classifier gives {odds:.2f}, at least {conflict_probability.THRESHOLD:.2f}"
    )
    return Decision("Battles", cameo.label(row.code), row, candidates, odds, why)


def _by_weight(rows: Sequence[Row], calm: list[Row], odds: float) -> Decision:
    row = _heaviest(calm)
    category = _category(row.code) or "Political"
    supporting = [other for other in calm if _category(other.code) == category]
    why = f"code {row.code} has the most mentions"
    if odds:
        why += f"; the classifier gives {odds:.2f} to fighting, below {conflict_probability.THRESHOLD:.2f}"
    confidence = conflict_probability.category_confidence(category, rows)
    return Decision(category, cameo.label(row.code), row, supporting, confidence, why)


def _unconfirmed(rows: Sequence[Row], odds: float) -> Decision:
    row = _heaviest(rows)
    threshold = conflict_probability.THRESHOLD
    why = f"all {_counted(rows)} violence, but the classifier gives {odds:.2f}, below {threshold:.2f}"
    return Decision(
        "Political", UNCONFIRMED, row, list(rows), conflict_probability.category_confidence("Political", rows), why
    )


def _heaviest(rows: Sequence[Row]) -> Row:
    """The best-told row of the code with most weight. A root event, told early in its text, weighs double."""
    if len(rows) == 1:
        return rows[0]
    weights: dict[str, int] = {}
    for row in rows:
        weights[row.code] = weights.get(row.code, 0) + row.mentions * (1 + row.is_root)
    most = max(weights.values())
    heaviest = [row for row in rows if weights[row.code] == most]
    if len(heaviest) == 1:
        return heaviest[0]
    # Of equals, deeds before words and the specific before the general.
    return max(heaviest, key=lambda row: (abs(row.goldstein), row.code[2:], row.mentions, row.id))


def _counted(rows: Sequence[Row]) -> str:
    return "1 row" if len(rows) == 1 else f"{len(rows)} rows"


# A day has 200,000 rows and some 300 codes.
_category = lru_cache(maxsize=1024)(cameo.category)
