"""How near to defense a report is."""

from collections.abc import Sequence

from tollhouse.services.defense.events.event import Category
from tollhouse.services.defense.ingest.cameo import ARMED_TYPES
from tollhouse.services.defense.ingest.export_row import Row

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
    """0..1: 0.4 for a battle, 0.3 for an armed actor, 0.15 for each of up to two defense words in the title."""
    armed = any(row.actor1_type in ARMED_TYPES or row.actor2_type in ARMED_TYPES for row in rows)
    return round(_BATTLE * (category == "Battles") + _ARMED * armed + words_relevance(title), 4)


def words_relevance(title: str) -> float:
    """0..0.3: what the title alone says."""
    return _WORD * min(_MOST_WORDS, len(_WORDS.intersection(title.lower().split())))
