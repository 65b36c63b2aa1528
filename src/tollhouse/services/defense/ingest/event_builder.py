"""Build one event from the rows of a source URL: identity, place, reasons."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.countries import Country, country_by_cameo, country_by_fips, find_country
from tollhouse.services.defense.events.event import Category, EventRecord, FatalitiesBasis, Geo, TitleBasis
from tollhouse.services.defense.ingest import classification
from tollhouse.services.defense.ingest.classification import Classification, classify, relevance
from tollhouse.services.defense.ingest.export_parser import Row
from tollhouse.services.defense.ingest.fatalities_extractor import extract_fatalities
from tollhouse.services.defense.ingest.url_title import title_from_url

_COUNTRY, _US_STATE, _US_CITY, _CITY, _STATE = 1, 2, 3, 4, 5
# What GDELT's gazetteer put for letters that it lost.
_LOST = frozenset("¿?\ufffd")
# Towns of Gaza and the West Bank that GDELT's gazetteer files under Israel, too.
_IN_PALESTINE = ("Gaza", "Khan Yunis", "Khan Younis", "Rafah", "West Bank", "Ramallah", "Hebron", "Nablus", "Jenin")
_CITIES = frozenset({_CITY, _US_CITY})
# "New Mexico" and "Papua New Guinea" name neither Mexico nor Guinea; "Nigeria" does not name Niger.
_OPENING = re.compile(r"(?<!new )\b")
_CLOSING = re.compile(r"(?:n|i|s|'s|ns|is)?\b")
_PRECISION = {_COUNTRY: "country", _US_STATE: "state", _US_CITY: "city", _CITY: "city", _STATE: "state"}


class Location(Struct, frozen=True):
    """`name` is how a person would say it: the city, else the region, else the country."""

    geo: Geo
    country_code: str
    name: str
    why: str


def locate(supporting: Sequence[Row], everything: Sequence[Row], title: str) -> Location | None:
    """The place of the rows that support the category, else of all the URL's rows; None when none has one.

    First the country: one that the title places the event in, else one that it names, else the most mentioned. Then
    the place in it: one that the title names, else the most exact, a city before a region before the country's middle.
    """
    elsewhere = _placed(everything)
    rows = elsewhere if len(supporting) == len(everything) else _placed(supporting)
    named: Mapping[str, int] = {}
    if len({row.geo_name for row in elsewhere}) > 1:
        named = _named(elsewhere, title.lower())
        if not any(named[row.geo_name] for row in rows):
            # GDELT often ties the deed to a bystander's place; the headline knows better.
            rows = [row for row in elsewhere if named[row.geo_name]] or rows
    rows = rows or elsewhere
    if not rows:
        return None
    row = rows[0] if len({row.geo_name for row in rows}) == 1 else _chosen(rows, named)
    assert row.latitude is not None
    assert row.longitude is not None
    place = row.geo_type, row.geo_name, row.geo_country, row.latitude, row.longitude
    return _described(place, is_supporting=row in supporting)


def _placed(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.latitude is not None and country_by_fips(row.geo_country)]


def _named(rows: list[Row], headline: str) -> dict[str, int]:
    """How plainly the headline, in lower case, names each place of the rows."""
    named: dict[str, int] = {}
    for row in rows:
        if row.geo_name not in named:
            named[row.geo_name] = _naming(row.geo_name, row.geo_country, headline)
    return named


def _chosen(rows: list[Row], named: Mapping[str, int]) -> Row:
    countries: dict[str, int] = {}
    points: dict[str, int] = {}
    for row in rows:
        country, point = row.geo_country, row.geo_name
        countries[country] = countries.get(country, 0) + row.mentions
        points[point] = points.get(point, 0) + row.mentions

    def rank(row: Row) -> tuple[int, int, int, int, str]:
        exactness = 2 if row.geo_type in _CITIES else row.geo_type != _COUNTRY
        return named[row.geo_name], countries[row.geo_country], exactness, points[row.geo_name], row.id

    return max(rows, key=rank)


def _naming(geo_name: str, fips: str, title: str) -> int:
    """How plainly the headline, in lower case, names the place or its country: 2 after "in", 1 elsewhere, 0 never."""
    found = [name for name in _names(geo_name, fips) if name in title and _is_word(name, title)]
    if not found:
        return 0
    return 2 if any(f"in {name}" in title for name in found) else 1


@lru_cache(maxsize=8192)
def _names(geo_name: str, fips: str) -> tuple[str, ...]:
    country = country_by_fips(fips)
    spot = geo_name.partition(",")[0].lower()
    names = {spot, spot.removesuffix(" city").removesuffix(" strip")}
    if country:
        names |= {name.lower() for name in (country.name, *country.aliases) if len(name) > 3}
    return tuple(names)


def _is_word(name: str, title: str) -> bool:
    # One pattern for every name: to compile one for each costs more than the rest of an event.
    at = title.find(name)
    while at >= 0:
        if _OPENING.match(title, at) and _CLOSING.match(title, at + len(name)):
            return True
        at = title.find(name, at + 1)
    return False


@lru_cache(maxsize=8192)
def _described(place: tuple[int, str, str, float, float], *, is_supporting: bool) -> Location:
    geo_type, geo_name, fips, latitude, longitude = place
    country = country_by_fips("WE" if _is_misplaced(geo_name, fips) else fips)
    assert country is not None
    name, region = _spoken(geo_type, geo_name, country)
    geo = Geo(country.name, region, latitude, longitude)
    source = "rows of its category" if is_supporting else "its other rows"
    return Location(geo, country.alpha2, name, f"{_PRECISION[geo_type]} {geo_name!r}, from {source}")


def _is_misplaced(geo_name: str, fips: str) -> bool:
    return fips == "IS" and geo_name.startswith(_IN_PALESTINE)


def _spoken(geo_type: int, geo_name: str, country: Country) -> tuple[str, str]:
    """The place's spoken name and its region, out of GDELT's "City, Region, Country" and its shorter forms."""
    parts = [part.strip() for part in geo_name.split(",")]
    if geo_type == _COUNTRY:
        return country.name, ""
    division = parts[0] if geo_type in {_STATE, _US_STATE} else ""
    region = parts[1].rstrip("*") if len(parts) > 2 else division
    # "Belarus (general)" is GDELT's word for an unknown region; _LOST shows a broken name.
    if region.endswith(")") or region == country.name or not _LOST.isdisjoint(region):
        region = ""
    spot = parts[0] or country.name
    return (f"{spot}, {country.name}" if spot != country.name else spot), region


RejectionReason = Literal["no rows", "only mentions of the past", "no place"]

# GDELT dates "last week", "last month" and "last year" 7, about 30 and about 365 days back.
PAST_DAYS = 6

_PARTS = re.compile(r"(?i:https?://)?([^/?#]*)([^?#]*)(?:\?([^#]*))?")
_TRACKING = re.compile(
    r"(?:utm_\w*|fbclid|gclid|dclid|msclkid|yclid|igshid|mc_[ce]id|ocid|cmpid|cmp|ito|ns_\w*|smid|sref|_ga"
    r"|amp(?:=1|=true)?$|outputtype=amp)(?:=|$)",
    re.IGNORECASE,
)


class Rejected(Struct, frozen=True):
    """Why the rows of a URL make no event."""

    reason: RejectionReason


def canonical_url(url: str) -> str:
    """The form in which two addresses of one article are equal: an identity, not an address to open.

    Scheme, a leading "www.", default ports, fragment, trailing slashes, a last path part "amp" and tracking parameters
    say nothing about the article. Everything else stays, other parameters and their order included: wrongly keeping two
    articles apart costs a duplicate, wrongly joining them loses an event.
    """
    match = _PARTS.match(url)
    assert match is not None
    host, path, query = match.groups()
    host = host.lower().removesuffix(":80").removesuffix(":443").removeprefix("www.")
    path = path.rstrip("/").removesuffix("/amp").rstrip("/")
    kept = [pair for pair in query.split("&") if pair and not _TRACKING.match(pair)] if query else ()
    return f"https://{host}{path}" + (f"?{'&'.join(kept)}" if kept else "")


# A slot's pages, each asked twice: to gather its rows, and to make its event.
@lru_cache(maxsize=4096)
def event_id(url: str) -> str:
    """`conflict_` and the first 16 hex digits of the canonical URL's SHA-256."""
    return f"conflict_{sha256(canonical_url(url).encode()).hexdigest()[:16]}"


def build_event(url: str, rows: Sequence[Row], title: tuple[str, TitleBasis] | None = None) -> EventRecord | Rejected:
    """The one event that a URL's rows tell. `rows` may come from several exports; `title` is a headline that was found.

    Rows dated PAST_DAYS or more before their export speak of the past and are ignored.
    """
    fresh = [row for row in rows if _days_late(row.day, row.added) < PAST_DAYS]
    if not fresh:
        return Rejected("only mentions of the past" if rows else "no rows")
    decision = classify(url, fresh)
    text = title[0] if title else title_from_url(url, {row.geo_name for row in fresh})
    place = locate(decision.supporting, fresh, text or "")
    if place is None:
        return Rejected("no place")
    if text is None:
        composed = _record(url, fresh, decision, place, (_made_up(url, decision, place), "url"))
        return replace(composed, has_headline=False, reasons={**composed.reasons, "title": _COMPOSED})
    return _record(url, fresh, decision, place, (text, title[1] if title else "url"))


def _record(
    url: str, rows: list[Row], decision: Classification, place: Location, headline: tuple[str, TitleBasis]
) -> EventRecord:
    title, basis = headline
    is_violent = decision.category == "Battles" or _has_riot(decision)
    deaths = extract_fatalities(title) if is_violent else None
    by_states = decision.category == "Battles" and any(map(_is_state_on_state, decision.supporting))
    moments = [row.added for row in rows]
    fatalities_basis: FatalitiesBasis = "not_reported" if deaths is None else "headline"
    return EventRecord(
        id=event_id(url),
        url=url,
        title=title,
        title_basis=basis,
        event_date=_date(decision.row.day),
        category=decision.category,
        subcategory=decision.subcategory,
        geo=place.geo,
        country_code=place.country_code,
        fatalities=deaths or 0,
        fatalities_basis=fatalities_basis,
        confidence=decision.confidence,
        goldstein=decision.row.goldstein,
        is_state_on_state=by_states,
        is_violent=is_violent,
        relevance=relevance(decision.category, rows, title),
        publishers=max([row.sources for row in rows]),
        first_reported_at=_moment(min(moments)),
        last_reported_at=_moment(max(moments)),
        row_ids=[row.id for row in rows],
        reasons=_reasons(decision, place, basis, deaths, by_states=by_states),
    )


def _reasons(
    decision: Classification, place: Location, basis: TitleBasis, deaths: int | None, *, by_states: bool
) -> dict[str, str]:
    reasons = {
        "category": decision.why,
        "subcategory": _coded(decision.row.code, decision.row.goldstein),
        "confidence": _probable(decision.confidence, decision.category),
        "title": _TITLE_REASONS[basis],
        "geo": place.why,
        "fatalities": "no figure in the headline" if deaths is None else f"the headline says {deaths}",
    }
    if by_states:
        reasons["is_state_on_state"] = "a strike or fight between the states or armed forces of two countries"
    return reasons


_COMPOSED = "composed of what the rows say: nobody gives a headline, and the URL has no words"
_TITLE_REASONS: dict[TitleBasis, str] = {
    "page": "the page's own title",
    "feed": "the publisher's feed",
    "url": "read from the URL: the export carries no headline",
}


@lru_cache(maxsize=4096)
def _coded(code: str, goldstein: float) -> str:
    return f"CAMEO code {code}, Goldstein value {goldstein:g}"


@lru_cache(maxsize=4096)
def _probable(confidence: float, category: Category) -> str:
    return f"{confidence:.2f}, the calibrated probability that {category} is right"


def _made_up(url: str, decision: Classification, place: Location) -> str:
    host = canonical_url(url).removeprefix("https://").partition("/")[0].partition("?")[0]
    return f"{decision.subcategory} in {place.name} ({host})"


def _has_riot(decision: Classification) -> bool:
    return decision.category == "Protests" and any(classification.is_riot(row.code) for row in decision.supporting)


def _is_state_on_state(row: Row) -> bool:
    return (
        classification.is_strike(row.code)
        and row.actor1_country != row.actor2_country
        and _is_state(row.actor1_name, row.actor1_country, row.actor1_type)
        and _is_state(row.actor2_name, row.actor2_country, row.actor2_type)
    )


def _is_state(name: str, country: str, kind: str) -> bool:
    """Whether an actor is a country's government or forces, or bears the country's bare name."""
    if country_by_cameo(country) is None:
        return False
    return kind in {"GOV", "MIL"} or (not kind and find_country(name) is not None)


@lru_cache(maxsize=4096)
def _days_late(day: str, added: str) -> int:
    return (_date(added[:8]) - _date(day)).days


@lru_cache(maxsize=4096)
def _date(day: str) -> date:
    return date(int(day[:4]), int(day[4:6]), int(day[6:8]))


@lru_cache(maxsize=4096)
def _moment(added: str) -> datetime:
    return datetime.strptime(added, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
