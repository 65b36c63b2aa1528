"""Where an event happened: the evidence of one report, and the decision over all reports of an event.

A report's evidence is the places that its title names, the provider's rows and the outlet. Every piece of evidence
speaks for a country with a weight; weights add up, and the exponential of the sums gives the countries' probabilities
(a conditional logit model). The place below the country is one that the titles name, else one of the rows.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import exp, floor, log2
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.events.event import Geo
from tollhouse.services.defense.events.title_places import Mention, Role, read_mentions
from tollhouse.services.defense.gazetteer import (
    Region,
    country_by_cameo,
    country_of_point,
    find_country,
    name_key,
    outlet_country,
    read_sections,
    table,
)
from tollhouse.services.defense.ingest.export_parser import Row

# How much the title says about the place: nothing; some name; a name after "in", after a word of attack and the like.
# `absent`: there is no title.
TitleState = Literal["absent", "silent", "named", "located"]
# `action` and `actor`: the rows' place and actors. `outlet`: the outlet's own country; `distant`: the same where the
# rows name only other countries; `abroad`: the same for a page in a section about the world. `section`: a country in
# the URL's path.
Kind = Literal[Role, "action", "actor", "outlet", "distant", "abroad", "section"]

# Weight of each kind of evidence where the titles are silent, name a place, and locate the event.
_WEIGHTS: dict[Kind, tuple[float, float, float]] = {
    "where": (0.0, 3.5, 3.5),
    "target": (0.0, 4.0, 4.0),
    "first": (0.0, 2.7, 1.2),
    "later": (0.0, 1.7, 1.2),
    "object": (0.0, 2.3, 1.2),
    "spot": (2.1, 2.1, 1.2),
    "government": (0.0, 2.0, 0.8),
    "people": (0.0, 1.3, 1.0),
    "source": (0.0, 1.3, 1.0),
    "aside": (0.4, 0.4, 0.4),
    "section": (1.9, 1.9, 1.9),
    "action": (0.5, 0.8, 0.6),
    "actor": (0.5, 0.8, 0.2),
    "outlet": (3.1, 1.8, 0.6),
    "distant": (2.3, 0.6, 0.2),
    "abroad": (0.9, 0.8, 0.2),
}
# Host without a port, and path.
_ADDRESS = re.compile(r"(?:[a-zA-Z]+://)?(?:[^/?#@]*@)?([^/?#:]*)[^/?#]*([^?#]*)")
# Without a title the outlet's country says as little as beside a title that names a place.
_STATES: dict[TitleState, int] = {"absent": 1, "silent": 0, "named": 1, "located": 2}
_OF_PAGES: tuple[Kind, ...] = ("outlet", "distant", "abroad", "section")
_OF_ROWS: tuple[Kind, ...] = ("action", "actor")
_LOCATING = frozenset({"where", "target"})
# Share of a country in a mention from which the title counts as naming or locating.
_NAMED, _LOCATED = 0.3, 0.6
# The same for a town or region to be served.
_NAMED_PLACE = 0.45
# Share of the titles naming countries from which an event's titles together count as locating.
_LEAST_LOCATED = 0.25
# Trust in a name that only the provider's gazetteer has.
_VILLAGE = 0.7
# Confidence from the winner's probability, a logistic function fitted to labelled reports.
_SLOPE, _OFFSET = 0.65, 0.7
# The weight of all countries that no evidence names.
_ELSEWHERE = 1.0
# Countries less probable than this are left out of shares.
_LEAST_SHARE = 0.02


class Evidence(Struct, frozen=True, array_like=True, gc=False):
    """`amount` (0..1) of a kind of evidence for a country, and the words of the title, if it is from there."""

    country: str
    kind: Kind
    amount: float
    words: str = ""


class Point(Struct, frozen=True, array_like=True, gc=False):
    """A place below country level, or a country's centre in the rows, in degrees.

    `weight` is 0 where no title names it.
    """

    country: str
    name: str
    region: str
    latitude: float
    longitude: float
    level: Literal["city", "region", "country"]
    source: Literal["gazetteer", "rows"]
    weight: float
    mentions: int


class PlaceEvidence(Struct, frozen=True, array_like=True, gc=False):
    """What one report says about the place. `places` are the names below country level in its title."""

    title: TitleState
    evidence: tuple[Evidence, ...]
    points: tuple[Point, ...]
    places: tuple[str, ...]

    @property
    def countries(self) -> dict[str, float]:
        """The probability of each country by this report alone, alpha-2."""
        return country_shares([self])


class Location(Struct, frozen=True):
    """`name` is for readers: the city, else the region, else the country. `confidence` (0..1) is the country's."""

    geo: Geo
    country_code: str
    name: str
    why: str
    confidence: float


def read_place(title: str, rows: Sequence[Row], url: str) -> PlaceEvidence:
    """The evidence of a report: its title, the provider's rows of its page, and its address."""
    match = _ADDRESS.match(url)
    assert match is not None
    outlet = outlet_country(match[1].lower())
    sections, is_abroad = read_sections(match[2])
    actions, actors, points = _read_rows(rows)
    mentions = read_mentions(title, frozenset({outlet, *actions, *sections} - {""}))
    pieces: list[tuple[str, Kind, float, str]] = [
        (code, mention.role, share, mention.text) for mention in mentions for code, share in mention.countries.items()
    ]
    texts = {name_key(mention.text) for mention in mentions}
    located = list(_weighed(points, title))
    for point in located:
        # Villages that only the provider's gazetteer has; it also has persons and institutions.
        if point.weight and name_key(point.name) not in texts:
            kind: Kind = "where" if point.weight == _WEIGHTS["where"][1] else "spot"
            pieces.append((point.country, kind, _VILLAGE, point.name))
    state = _title_state(title, [(kind, amount) for _, kind, amount, _ in pieces])
    pieces += [(code, "action", share, "") for code, share in actions.items()]
    pieces += [(code, "actor", share, "") for code, share in actors.items()]
    pieces += [(code, "section", 1.0, "") for code in sorted(sections)]
    if outlet:
        is_distant = bool(actions or actors) and outlet not in actions and outlet not in actors
        pieces.append((outlet, "abroad" if is_abroad else "distant" if is_distant else "outlet", 1.0, ""))
    evidence: dict[tuple[str, Kind], Evidence] = {}
    for code, kind, amount, words in pieces:
        known = evidence.get((code, kind))
        if known is None or known.amount < amount:
            evidence[code, kind] = Evidence(code, kind, round(amount, 3), words)
    named = [point for mention in mentions for point in _named_points(mention)]
    places = tuple(dict.fromkeys(point.name for point in named))
    return PlaceEvidence(state, tuple(evidence.values()), (*named, *located), places)


def _title_state(title: str, named: Sequence[tuple[Kind, float]]) -> TitleState:
    if not title.strip():
        return "absent"
    if any(kind in _LOCATING and share >= _LOCATED for kind, share in named):
        return "located"
    return "named" if any(kind != "aside" and share >= _NAMED for kind, share in named) else "silent"


def country_shares(reports: Sequence[PlaceEvidence]) -> dict[str, float]:
    """The probability of each country, most probable first; those below 0.02 are left out."""
    scores = _scores(reports)
    if not scores:
        return {}
    best = max(scores.values())
    powers = {code: exp(score - best) for code, score in scores.items()}
    # Countries without evidence, together.
    total = sum(powers.values()) + _ELSEWHERE * exp(-best)
    shares = {code: power / total for code, power in powers.items()}
    ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return {code: floor(share * 1000) / 1000 for code, share in ordered if share >= _LEAST_SHARE}


def decide_place(reports: Sequence[PlaceEvidence]) -> Location | None:
    """The place of an event from the evidence of all its reports; None if there is no evidence at all."""
    shares = country_shares(reports)
    if not shares:
        return None
    code, share = next(iter(shares.items()))
    country = find_country(code)
    assert country is not None
    point, source = _choose_point(code, [point for report in reports for point in report.points])
    why = f"{_explain(code, reports)}; {source}"
    share = min(max(share, 0.001), 0.999)
    odds = (share / (1 - share)) ** _SLOPE * exp(_OFFSET)
    name = point.name if point.level != "country" else ""
    return Location(
        Geo(country.name, point.region if name else "", point.latitude, point.longitude),
        code,
        f"{name}, {country.name}" if name and name != country.name else country.name,
        why,
        round(odds / (1 + odds), 3),
    )


def _scores(reports: Sequence[PlaceEvidence]) -> dict[str, float]:
    """The sum of weights for each country: for each kind the mean over the reports that have evidence of its sort."""
    state = _state(reports)
    speaking = sum(1 for report in reports if report.title in {"named", "located"}) or 1
    with_rows = sum(1 for r in reports if any(e.kind in _OF_ROWS for e in r.evidence)) or 1
    counts: dict[Kind, int] = dict.fromkeys(_OF_PAGES, len(reports)) | dict.fromkeys(_OF_ROWS, with_rows)
    scores: dict[str, float] = {}
    for report in reports:
        for country, kind, amount in ((e.country, e.kind, e.amount) for e in report.evidence):
            count = counts.get(kind, speaking)
            scores[country] = scores.get(country, 0.0) + _WEIGHTS[kind][state] * amount / count
    # Agreement of several reports is worth more than one report, with falling returns: many are copies.
    agreement = 1 + 0.15 * log2(max(len(reports), 1))
    return {country: score * agreement for country, score in scores.items() if score > 0}


def _state(reports: Sequence[PlaceEvidence]) -> int:
    """The column of the weights for a set of reports: what their titles say together.

    A few titles of many that say where something happens do not decide how the others are read.
    """
    states = Counter(report.title for report in reports)
    located, speaking = states["located"], states["located"] + states["named"]
    if located and located >= _LEAST_LOCATED * speaking:
        return _STATES["located"]
    return _STATES["named" if speaking else "silent" if states["silent"] else "absent"]


def _read_rows(rows: Sequence[Row]) -> tuple[dict[str, float], dict[str, float], dict[Point, int]]:
    """Shares of countries among places and among actors, by mentions, and the mentions of each point."""
    actions: dict[str, float] = {}
    actors: dict[str, float] = {}
    points: dict[Point, int] = {}
    for row in rows:
        if row.latitude is not None and row.longitude is not None:
            point = _row_point(row.geo_type, row.geo_name, row.geo_country, row.latitude, row.longitude)
            if point is not None:
                actions[point.country] = actions.get(point.country, 0.0) + row.mentions
                points[point] = points.get(point, 0) + row.mentions
        for code in (row.actor1_country, row.actor2_country):
            country = country_by_cameo(code) if code else None
            if country is not None:
                actors[country.alpha2] = actors.get(country.alpha2, 0.0) + row.mentions
    for counts in (actions, actors):
        total = sum(counts.values()) or 1.0
        for code in counts:
            counts[code] /= total
    return actions, actors, points


# Characters that GDELT's gazetteer has in place of letters it could not decode.
_LOST = frozenset("¿?\ufffd")
_COUNTRY, _US_STATE, _STATE = 1, 2, 5


@lru_cache(maxsize=16384)
def _row_point(geo_type: int, geo_name: str, fips: str, latitude: float, longitude: float) -> Point | None:
    """A row's place, from GDELT's "City, Region, Country" and its shorter forms."""
    code = country_of_point(fips, latitude, longitude)
    country = find_country(code) if code else None
    if country is None:
        return None
    parts = [part.strip() for part in geo_name.split(",")]
    region = parts[1].rstrip("*") if len(parts) > 2 else parts[0] if geo_type in {_STATE, _US_STATE} else ""
    # GDELT writes "Belarus (general)" for an unknown region.
    if region.endswith(")") or region == country.name or not _LOST.isdisjoint(region):
        region = ""
    level: Literal["city", "region", "country"] = "city"
    if geo_type == _COUNTRY or not parts[0] or find_country(parts[0]) == country:
        level, region = "country", ""
    elif geo_type in {_STATE, _US_STATE}:
        level = "region"
    return Point(code, parts[0] or country.name, region, latitude, longitude, level, "rows", 0.0, 0)


def _weighed(points: dict[Point, int], title: str) -> Iterable[Point]:
    """The rows' points with their mentions, and with a weight where the title names them."""
    if not points:
        return
    text = f" {name_key(title)} "
    for point, mentions in points.items():
        weight = 0.0
        key = name_key(point.name)
        if point.level != "country" and len(key) > 3 and f" {key} " in text:
            weight = _WEIGHTS["where" if f" in {key} " in text else "spot"][1]
        yield replace(point, weight=weight, mentions=mentions)


def _named_points(mention: Mention) -> Iterable[Point]:
    place = mention.place
    share = mention.countries.get(place.country, 0.0) if place else 0.0
    if place is None or share < _NAMED_PLACE or mention.role in {"aside", "people"}:
        return
    weight = _WEIGHTS[mention.role][1] * share
    if isinstance(place, Region):
        yield Point(
            place.country, place.name, place.name, place.latitude, place.longitude, "region", "gazetteer", weight, 0
        )
    else:
        region = table().regions[place.region].name if place.region >= 0 else ""
        yield Point(
            place.country, place.names[0], region, place.latitude, place.longitude, "city", "gazetteer", weight, 0
        )


_SOURCES = {
    ("gazetteer", "city"): "the town that a title names, from the gazetteer",
    ("gazetteer", "region"): "the region that a title names, from the gazetteer",
    ("rows", "city"): "the place that the provider's rows mention most",
    ("rows", "region"): "the region that the provider's rows mention most",
    ("rows", "country"): "the centre of the country",
}


def _choose_point(code: str, points: Sequence[Point]) -> tuple[Point, str]:
    """The best point in a country and where it comes from.

    First a place that a title names, then the rows' most mentioned town, then their region, then the country's centre.
    """
    weights: dict[str, float] = {}
    mentions: dict[str, int] = {}
    inside = [point for point in points if point.country == code]
    for point in inside:
        key = name_key(point.name)
        weights[key] = weights.get(key, 0.0) + point.weight
        mentions[key] = mentions.get(key, 0) + point.mentions

    def rank(point: Point) -> tuple[float, bool, bool, int, bool, str]:
        key = name_key(point.name)
        weight = weights[key] * (1.0 if point.level == "city" else 0.8)
        return weight, point.level == "city", point.level == "region", mentions[key], point.source == "gazetteer", key

    best = max(inside, key=rank, default=None)
    if best is not None and best.level != "country":
        if best.source == "rows" and best.weight:
            return best, "a place that a title names, located by the provider's rows"
        return best, _SOURCES[best.source, best.level]
    return _centre(code), _SOURCES["rows", "country"]


@lru_cache(maxsize=512)
def _centre(code: str) -> Point:
    latitude, longitude = table().centres[code]
    return Point(code, "", "", latitude, longitude, "country", "rows", 0.0, 0)


_NATIONAL = "{outlet} is one of the country, by its domain or the table of outlets"
_PHRASES: dict[Kind, str] = {
    "where": "{title} places it in {words}",
    "target": "{title} names {words} as the target",
    "first": "{title} names {words}",
    "later": "{title} names {words}",
    "object": "{title} names {words}",
    "spot": "{title} names {words}",
    "government": "{title} names {words}",
    "people": "{title} has {words}",
    "source": "{title} names {words} as the origin",
    "aside": "{title} has {words}",
    "section": "the page is in a section about the country",
    "action": "the provider's rows place it there",
    "actor": "an actor in the rows is from there",
    "outlet": _NATIONAL,
    "distant": _NATIONAL,
    "abroad": _NATIONAL,
}


def _explain(code: str, reports: Sequence[PlaceEvidence]) -> str:
    """The evidence for a country in plain words, strongest first, without names that hardly stand for the place."""
    state = _state(reports)
    weights: dict[str, float] = {}
    words: dict[str, dict[str, None]] = {}
    pieces = [piece for report in reports for piece in report.evidence if piece.country == code]
    for piece in [piece for piece in pieces if not piece.words or piece.amount >= _NAMED_PLACE] or pieces:
        phrase = _PHRASES[piece.kind]
        weights[phrase] = weights.get(phrase, 0.0) + _WEIGHTS[piece.kind][state] * piece.amount / len(reports)
        words.setdefault(phrase, {})[repr(piece.words)] = None
    ordered = sorted(weights, key=lambda phrase: (-weights[phrase], phrase))
    title, outlet = ("the title", "the outlet") if len(reports) == 1 else ("a title", "an outlet")
    strongest = [phrase for phrase in ordered[:3] if weights[phrase] >= 0.2] or ordered[:1]
    named = [(phrase, _listed(list(words[phrase])[:3])) for phrase in strongest]
    text = _listed([phrase.format(title=title, outlet=outlet, words=names) for phrase, names in named])
    return f"{len(reports)} reports: {text}" if len(reports) > 1 else text


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
