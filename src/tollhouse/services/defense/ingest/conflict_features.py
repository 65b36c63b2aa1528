"""What a URL and its GDELT rows show that bears on "this reports a battle": named numbers between -1 and 6."""

from collections.abc import Sequence
from math import log

from tollhouse.services.defense.ingest.conflict_words import GROUPS, TABLES, word_counts
from tollhouse.services.defense.ingest.export_row import Row

# CAMEO roots: assault, fight, unconventional mass violence.
FIGHT_ROOTS = frozenset({"18", "19", "20"})

NAMES: tuple[str, ...] = (
    *(f"words_{group}" for group in GROUPS),
    "words_none",
    "words_violent_kinds",
    "words_tame_kinds",
    "killing_by_mishap_or_crime",
    "violent_in_war_country",
    "violent_in_anglosphere",
    "none_in_war_country",
    "place_war",
    "place_unrest",
    "place_anglosphere",
    "place_unknown",
    "actor_war",
    "actor_unrest",
    "actors_two_countries",
    "actor_military",
    "actor_irregular",
    "actor_spy",
    "actor_civilian",
    "code_bombing",
    "code_firearms",
    "code_artillery",
    "code_occupation",
    "code_mass",
    "code_assault_only",
    "share_of_fights",
    "share_of_protests",
    "fights_log",
    "tone",
    "tone_grim",
)

_WAR = frozenset(TABLES["war"]["fips"].split())
_UNREST = frozenset(TABLES["unrest"]["fips"].split())
_WAR_ACTORS = frozenset(TABLES["war"]["cameo"].split())
_UNREST_ACTORS = frozenset(TABLES["unrest"]["cameo"].split())
_ANGLOSPHERE = frozenset(TABLES["anglosphere"]["fips"].split())
_IRREGULAR = frozenset({"REB", "SEP", "INS", "UAF"})
_CIVILIAN = frozenset({"BUS", "COP", "CRM", "CVL", "EDU", "HLH", "JUD", "LAB", "LEG", "MED", "MNC"})
_VIOLENT = tuple(map(GROUPS.index, ("weapon", "forces", "insurgent", "attack", "killing", "war")))
_KILLING = GROUPS.index("killing")
_MISHAP = (GROUPS.index("accident"), GROUPS.index("crime"))
_TAME = tuple(map(GROUPS.index, ("crime", "accident", "sport", "culture", "memory", "business")))


def features(url: str, rows: Sequence[Row]) -> list[float]:
    """One number per name in NAMES. `rows` are all rows of the URL; without a row in FIGHT_ROOTS: ValueError."""
    fights = [row for row in rows if row.root_code in FIGHT_ROOTS]
    if not fights:
        raise ValueError(f"{url} has no row of assault, fight or mass violence")
    places = _places(fights)
    return [*_words(url, places[0] + places[1] / 2, places[2]), *places, *_actors(rows, fights), *_codes(rows, fights)]


def _words(url: str, danger: float, anglosphere: float) -> list[float]:
    counts = word_counts(url)
    violent, tame = float(_kinds(counts, _VIOLENT)), float(_kinds(counts, _TAME))
    none = 0.0 if any(counts) else 1.0
    mishap = float(violent == 1 and counts[_KILLING] > 0 and any(counts[group] for group in _MISHAP))
    at_war, at_home = (danger, anglosphere) if violent else (0.0, 0.0)
    return [*counts, none, violent, tame, mishap, at_war, at_home, none * danger]


def _kinds(counts: list[float], groups: tuple[int, ...]) -> int:
    return len(groups) - [counts[group] for group in groups].count(0.0)


def _places(fights: list[Row]) -> list[float]:
    """Shares of the fighting rows placed in a country at war, one of unrest, the Anglosphere, nowhere."""
    war = unrest = anglosphere = unknown = 0
    for row in fights:
        country = row.geo_country
        if country in _WAR:
            war += 1
        elif country in _UNREST:
            unrest += 1
        elif country in _ANGLOSPHERE:
            anglosphere += 1
        elif not country:
            unknown += 1
    n = len(fights)
    return [war / n, unrest / n, anglosphere / n, unknown / n]


def _actors(rows: Sequence[Row], fights: list[Row]) -> list[float]:
    countries: set[str] = set()
    types: set[str] = set()
    two = 0
    for row in fights:
        one, other = row.actor1_country, row.actor2_country
        countries.update((one, other))
        types.update((row.actor1_type, row.actor2_type))
        if "" != one != other != "":
            two += 1
    return [
        float(not countries.isdisjoint(_WAR_ACTORS)),
        float(not countries.isdisjoint(_UNREST_ACTORS)),
        two / len(fights),
        float("MIL" in types),
        _irregular(rows),
        float("SPY" in types),
        float(not types.isdisjoint(_CIVILIAN)),
    ]


def _irregular(rows: Sequence[Row]) -> float:
    # It counts wherever it is named: GDELT often codes an irregular force's fights as somebody else's.
    for row in rows:
        if row.actor1_type in _IRREGULAR or row.actor2_type in _IRREGULAR:
            return 1.0
    return 0.0


def _codes(rows: Sequence[Row], fights: list[Row]) -> list[float]:
    """What is said to be done and how it sounds; GDELT's tone is mostly -10..10, below -4 when people die."""
    codes = {row.base_code for row in fights}
    roots = [row.root_code for row in rows]
    tone = sum([row.tone for row in rows]) / len(rows)
    return [
        float("183" in codes or "195" in codes),
        float("193" in codes),
        float("194" in codes),
        float("192" in codes),
        float("20" in roots),
        float("19" not in roots and "20" not in roots),
        len(fights) / len(rows),
        roots.count("14") / len(rows),
        log(len(fights)) / 2,
        max(-1.0, min(1.0, tone / 10)),
        float(tone < -4),
    ]
