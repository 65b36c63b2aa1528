"""The category of an event: CAMEO codes, the deciding row, and relevance to defense."""

from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from tollhouse.services.defense.events.event import Category
from tollhouse.services.defense.ingest.conflict_model import THRESHOLD, battle_probability, category_confidence
from tollhouse.services.defense.ingest.export_parser import Row

# Actor types that carry arms: military, rebels, insurgents, separatists, unaligned and international armed groups.
ARMED_TYPES = frozenset({"MIL", "REB", "INS", "SEP", "UAF", "IMG"})

_ECONOMIC = frozenset({"061", "071", "085", "162", "1621", "163", "1211", "1311", "1312"})


# A day has 200,000 rows and some 300 codes.
@lru_cache(maxsize=1024)
def cameo_category(code: str) -> Category | None:
    """The category of a CAMEO code; None for violent codes, which need the battle classifier."""
    if code.startswith("14"):
        return "Protests"
    if code in _ECONOMIC:
        return "Economic"
    return None if is_violence(code) else "Political"


def is_violence(code: str) -> bool:
    """Whether the code is assault (18), fighting (19) or mass violence (20). One such URL in nine is a battle."""
    return code.startswith(("18", "19", "20"))


def is_strike(code: str) -> bool:
    """Whether the code is one force using arms against another: fire, shelling, air strikes, broken truces."""
    return code.startswith(("190", "193", "194", "195", "196"))


def is_riot(code: str) -> bool:
    """Whether the code is a violent protest."""
    return code.startswith("145")


@lru_cache(maxsize=1024)
def cameo_label(code: str) -> str:
    """The label of a code, of its base code or of its root code; "Event" if all are unknown."""
    labels = _labels()
    return next((labels[code[:length]] for length in (4, 3, 2) if code[:length] in labels), "Event")


@cache
def _labels() -> dict[str, str]:
    table = files("tollhouse.services.defense").joinpath("data", "cameo_labels.json").read_bytes()
    return msgspec.json.decode(table, type=dict[str, str])


_BATTLE, _ARMED, _WORD = 0.4, 0.3, 0.15
_MOST_WORDS = 2
_WORDS = frozenset({
    "airbase", "airbases", "airstrike", "airstrikes", "ammunition", "army", "armour", "armor", "arms", "artillery",
    "bomber", "bombers", "brigade", "brigades", "carrier", "carriers", "ceasefire", "cruiser", "defence", "defense",
    "deployed", "deployment", "deploys", "destroyer", "destroyers", "drone", "drones", "f-15", "f-16", "f-18", "f-22",
    "f-35", "forces", "frigate", "frigates", "helicopter", "helicopters", "hypersonic", "insurgents", "jets", "marines",
    "militant", "militants", "military", "militia", "militias", "missile", "missiles", "munitions", "nato", "naval",
    "navy", "nuclear", "paratroopers", "peacekeepers", "pentagon", "radar", "rebels", "rocket", "rockets", "s-300",
    "s-400", "satellite", "shelling", "shells", "soldier", "soldiers", "spy", "submarine", "submarines", "tank",
    "tanks", "terror", "terrorism", "terrorist", "terrorists", "torpedo", "torpedoes", "troops", "war", "warheads",
    "warplanes", "warship", "warships", "weapon", "weapons",
})  # fmt: skip


def relevance(category: Category, rows: Sequence[Row], title: str) -> float:
    """Relevance to defense, 0..1: 0.4 for a battle, 0.3 for an armed actor, 0.15 for each of up to two title words."""
    armed = any(row.actor1_type in ARMED_TYPES or row.actor2_type in ARMED_TYPES for row in rows)
    return round(_BATTLE * (category == "Battles") + _ARMED * armed + words_relevance(title), 4)


def words_relevance(title: str) -> float:
    """Relevance of a title alone, 0..0.3."""
    return _WORD * min(_MOST_WORDS, len(_WORDS.intersection(title.lower().split())))


# Subcategory of a URL whose rows are all violent but that the classifier rejects.
UNCONFIRMED = "Unclassified report"


class Classification(Struct, frozen=True):
    """`row` is the deciding row, `supporting` are all rows of its category. `why` explains the decision to readers."""

    category: Category
    subcategory: str
    row: Row
    supporting: list[Row]
    confidence: float
    why: str


def classify(url: str, rows: Sequence[Row]) -> Classification:
    """Choose the category of a URL from its rows (at least one).

    It is Battles if the classifier accepts the violent rows. Otherwise the heaviest code among the non-violent rows
    decides. If every row is violent, the category is Political with the subcategory UNCONFIRMED.
    """
    calm = [row for row in rows if cameo_category(row.code)]
    if len(calm) == len(rows):
        return _by_weight(rows, calm, 0.0)
    odds = battle_probability(url, rows)
    if odds >= THRESHOLD:
        violent = [row for row in rows if not cameo_category(row.code)]
        row = heaviest_row(violent)
        why = (
            f"{'1 row' if len(violent) == 1 else f'{len(violent)} rows'} of fighting or political violence, "
            f"mainly {row.code}; battle probability {odds:.2f}, threshold {THRESHOLD:.2f}"
        )
        return Classification("Battles", cameo_label(row.code), row, violent, odds, why)
    if calm:
        return _by_weight(rows, calm, odds)
    row = heaviest_row(rows)
    why = f"all codes are violent, but the battle probability {odds:.2f} is below the threshold {THRESHOLD:.2f}"
    return Classification("Political", UNCONFIRMED, row, list(rows), category_confidence("Political", rows), why)


def _by_weight(rows: Sequence[Row], calm: list[Row], odds: float) -> Classification:
    row = heaviest_row(calm)
    category = cameo_category(row.code) or "Political"
    supporting = [other for other in calm if cameo_category(other.code) == category]
    why = f"code {row.code} has the most mentions"
    if odds:
        why += f"; battle probability {odds:.2f}, below the threshold {THRESHOLD:.2f}"
    confidence = category_confidence(category, rows)
    return Classification(category, cameo_label(row.code), row, supporting, confidence, why)


def heaviest_row(rows: Sequence[Row]) -> Row:
    """The most mentioned row of the code with most mentions; root events (early in their text) count double."""
    if len(rows) == 1:
        return rows[0]
    weights: dict[str, int] = {}
    for row in rows:
        weights[row.code] = weights.get(row.code, 0) + row.mentions * (1 + row.is_root)
    most = max(weights.values())
    heaviest = [row for row in rows if weights[row.code] == most]
    if len(heaviest) == 1:
        return heaviest[0]
    # Break ties by intensity, then by the more specific code.
    return max(heaviest, key=lambda row: (abs(row.goldstein), row.code[2:], row.mentions, row.id))
