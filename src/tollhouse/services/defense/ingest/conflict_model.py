"""The battle classifier: a logistic regression over a URL's words and its GDELT rows, and confidence per category.

Of URLs that GDELT codes as assault or fight (CAMEO 18 to 20), only about one in nine reports armed conflict or
political violence; the others are crime, accidents, sport and celebrities. tools/train_conflict.py trains the model.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from math import exp, log
from operator import mul
from string import ascii_lowercase

import msgspec
from msgspec import Struct

from tollhouse.services.defense.events.event import Category
from tollhouse.services.defense.ingest.export_parser import Memo, Row

TABLES = tomllib.loads(
    files("tollhouse.services.defense").joinpath("data", "conflict_words.toml").read_text(encoding="utf-8")
)
GROUPS: tuple[str, ...] = tuple(TABLES["words"])

_PATH = re.compile(r"(?i:https?)://[^/?#]*(/[^?#]*)")
_LETTERS = ascii_lowercase.encode()
_ONLY_LETTERS = bytes(sign if sign in _LETTERS else ord(" ") for sign in range(256))
# A year of an earlier century is history; later years are dates of publication. The lookbehind follows the 1 because
# a pattern that begins with a literal character is several times faster.
_OLD_YEAR = re.compile(r"1(?<=\b1)[5-9][0-9]{2}\b")
_MEMORY = (GROUPS.index("memory"),)

# CAMEO root codes: assault, fight, unconventional mass violence.
FIGHT_ROOTS = frozenset({"18", "19", "20"})

NAMES: tuple[str, ...] = (
    *(f"words_{group}" for group in GROUPS), "words_none", "words_violent_kinds", "words_tame_kinds",
    "killing_by_mishap_or_crime", "violent_in_war_country", "violent_in_anglosphere", "none_in_war_country",
    "place_war", "place_unrest", "place_anglosphere", "place_unknown", "actor_war", "actor_unrest",
    "actors_two_countries", "actor_military", "actor_irregular", "actor_spy", "actor_civilian", "code_bombing",
    "code_firearms", "code_artillery", "code_occupation", "code_mass", "code_assault_only", "share_of_fights",
    "share_of_protests", "fights_log", "tone", "tone_grim",
)  # fmt: skip

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

# Word groups that support a category; groups of private life contradict every category.
_SUPPORTING: Mapping[str, tuple[int, ...]] = {
    coded: tuple(map(GROUPS.index, groups))
    for coded, groups in {
        "Protests": ("protest",),
        "Economic": ("business",),
        "Political": ("speech", "zone", "protest"),
    }.items()
}
_CONTRADICTING = tuple(map(GROUPS.index, ("crime", "accident", "sport", "culture", "memory")))


class Weights(Struct, frozen=True):
    """Log-odds per unit of each feature, in the order of NAMES."""

    bias: float
    values: list[float]


class Agreement(Struct, frozen=True):
    """Of `n` labelled URLs that the codes put into a category, `right` were labelled with that category."""

    n: int
    right: int


class ConflictModel(Struct, frozen=True):
    """A trained model over the features called `names`.

    `folds` are the weights trained without that fold's URLs. `fold_of` is the fold of every training URL by `url_key`,
    so that evaluation can score known URLs with weights that have not seen them. `agreements` are counts by category
    and by `word_evidence`. `provenance` describes the training data.
    """

    provenance: dict[str, str | int | float | None]
    threshold: float
    names: tuple[str, ...]
    weights: Weights
    folds: list[Weights]
    fold_of: dict[str, int]
    agreements: dict[str, Agreement]


def read_model(packed: bytes) -> ConflictModel:
    """Decode a model file. Raises ValueError if it was trained on other features than this code computes."""
    model = msgspec.json.decode(packed, type=ConflictModel)
    if model.names != NAMES:
        raise ValueError("the conflict model was trained on other features; run tools/train_conflict.py")
    return model


def probability(weights: Weights, values: Sequence[float]) -> float:
    """The regression's probability, 0..1, for features in the order of NAMES."""
    score = weights.bias + sum(map(mul, weights.values, values))
    # Beyond 700 exp overflows, and the result is 0 or 1 long before.
    return 1 / (1 + exp(-max(-700.0, min(700.0, score))))


MODEL = read_model(files("tollhouse.services.defense").joinpath("data", "conflict_model.json").read_bytes())
THRESHOLD: float = MODEL.threshold


def battle_probability(url: str, rows: Sequence[Row]) -> float:
    """Calibrated probability that a URL reports armed conflict or political violence: a battle from THRESHOLD on.

    `rows` are all rows of the URL. Raises ValueError if none is in CAMEO root 18, 19 or 20.
    """
    return probability(MODEL.weights, features(url, rows))


def category_confidence(category: Category, rows: Sequence[Row]) -> float:
    """Probability that the category which the codes give to a URL's rows is right.

    For battles this is the model's probability. For other categories it is the share of labelled URLs with the same
    word evidence whose label agrees, smoothed towards the category's share by two pseudo-observations.
    """
    url = rows[0].url
    if category == "Battles":
        return battle_probability(url, rows)
    none = Agreement(0, 0)
    overall = MODEL.agreements.get(category, none)
    cell = MODEL.agreements.get(word_evidence(category, url), none)
    expected = (overall.right + 1) / (overall.n + 2)
    return (cell.right + 2 * expected) / (cell.n + 2)


def word_evidence(category: str, url: str) -> str:
    """The category, and whether the URL's words speak `for` it, `against` it, or are `silent`."""
    counts = word_counts(url)
    supports = any(counts[group] for group in _SUPPORTING[category])
    contradicts = any(counts[group] for group in _CONTRADICTING)
    if supports == contradicts:
        return f"{category} silent"
    return f"{category} for" if supports else f"{category} against"


def features(url: str, rows: Sequence[Row]) -> list[float]:
    """One number per name in NAMES, from all rows of a URL. Raises ValueError if no row is in FIGHT_ROOTS."""
    fights = [row for row in rows if row.root_code in FIGHT_ROOTS]
    if not fights:
        raise ValueError(f"{url} has no row of assault, fight or mass violence")
    places = _places(fights)
    return [
        *_word_features(url, places[0] + places[1] / 2, places[2]),
        *places,
        *_actors(rows, fights),
        *_codes(rows, fights),
    ]


def _word_features(url: str, danger: float, anglosphere: float) -> list[float]:
    counts = word_counts(url)
    violent, tame = float(_kinds(counts, _VIOLENT)), float(_kinds(counts, _TAME))
    none = 0.0 if any(counts) else 1.0
    mishap = float(violent == 1 and counts[_KILLING] > 0 and any(counts[group] for group in _MISHAP))
    at_war, at_home = (danger, anglosphere) if violent else (0.0, 0.0)
    return [*counts, none, violent, tame, mishap, at_war, at_home, none * danger]


def _kinds(counts: list[float], groups: tuple[int, ...]) -> int:
    return len(groups) - [counts[group] for group in groups].count(0.0)


def _places(fights: list[Row]) -> list[float]:
    """Shares of the fighting rows located in a country at war, in one with unrest, in the Anglosphere, nowhere."""
    countries = [row.geo_country for row in fights]
    n = len(fights)
    return [sum([country in group for country in countries]) / n for group in (_WAR, _UNREST, _ANGLOSPHERE, ("",))]


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
        # Count irregular forces in any row: GDELT often attributes their fights to another actor.
        float(any(row.actor1_type in _IRREGULAR or row.actor2_type in _IRREGULAR for row in rows)),
        float("SPY" in types),
        float(not types.isdisjoint(_CIVILIAN)),
    ]


def _codes(rows: Sequence[Row], fights: list[Row]) -> list[float]:
    """Features of codes and tone. GDELT's tone is mostly -10..10, and below -4 when people die."""
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


def word_counts(url: str) -> list[float]:
    """How often each group of GROUPS occurs in the URL's path, at most 2 each. Host and query are ignored."""
    counts = [0.0] * len(GROUPS)
    match = _PATH.match(url)
    if not match:
        return counts
    path = match[1].lower()
    words = path.encode("ascii", "replace").translate(_ONLY_LETTERS).split()
    matched = filter(None, map(_WORD_GROUPS.__getitem__, words))
    for groups in (*matched, *(_MEMORY for _ in _OLD_YEAR.findall(path))):
        for group in groups:
            if counts[group] < 2:
                counts[group] += 1
    return counts


def _index_words() -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Whole words and word prefixes, each with its groups."""
    whole: dict[str, list[int]] = {}
    prefixes: dict[str, list[int]] = {}
    for group, words in enumerate(TABLES["words"].values()):
        for word in words.split():
            (prefixes if word.endswith("*") else whole).setdefault(word.rstrip("*"), []).append(group)
    return whole, prefixes


_WHOLE, _PREFIXES = _index_words()


def _groups(word: bytes) -> tuple[int, ...]:
    text = word.decode()
    groups = set(_WHOLE.get(text, ()))
    for end in range(3, len(text) + 1):
        groups.update(_PREFIXES.get(text[:end], ()))
    return tuple(sorted(groups)) if len(text) > 1 else ()


_WORD_GROUPS = Memo(_groups)
