"""Build one event from all rows of a source URL, with its location and the reasons for every field."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.countries import Country, country_by_cameo, country_by_fips, find_country
from tollhouse.services.defense.events.event import EventRecord, Geo, TitleBasis
from tollhouse.services.defense.ingest import classification
from tollhouse.services.defense.ingest.classification import Classification, classify, relevance
from tollhouse.services.defense.ingest.export_parser import Row
from tollhouse.services.defense.ingest.fatalities_extractor import extract_fatalities
from tollhouse.services.defense.ingest.url_title import title_from_url

_COUNTRY, _US_STATE, _US_CITY, _CITY, _STATE = 1, 2, 3, 4, 5
# Characters that GDELT's gazetteer has in place of letters it could not decode.
_LOST = frozenset("¿?\ufffd")
# Towns of Gaza and the West Bank that GDELT's gazetteer also lists under Israel.
_IN_PALESTINE = ("Gaza", "Khan Yunis", "Khan Younis", "Rafah", "West Bank", "Ramallah", "Hebron", "Nablus", "Jenin")
_CITIES = frozenset({_CITY, _US_CITY})
# "New Mexico" and "Papua New Guinea" name neither Mexico nor Guinea; "Nigeria" does not name Niger.
_OPENING = re.compile(r"(?<!new )\b")
_CLOSING = re.compile(r"(?:n|i|s|'s|ns|is)?\b")
_PRECISION = {_COUNTRY: "country", _US_STATE: "state", _US_CITY: "city", _CITY: "city", _STATE: "state"}


class Location(Struct, frozen=True):
    """`name` is for readers: the city, else the region, else the country. `why` explains the choice."""

    geo: Geo
    country_code: str
    name: str
    why: str


def locate(supporting: Sequence[Row], everything: Sequence[Row], title: str) -> Location | None:
    """Choose the event's location among the supporting rows, else among all rows; None if no row has a place.

    Prefer a country that the title names after "in", then one that it names elsewhere, then the most mentioned. Within
    the country prefer a place that the title names, then a city over a region over the country's centre.
    """
    elsewhere = _placed(everything)
    rows = elsewhere if len(supporting) == len(everything) else _placed(supporting)
    named: Mapping[str, int] = {}
    if len({row.geo_name for row in elsewhere}) > 1:
        named = _named(elsewhere, title.lower())
        if not any(named[row.geo_name] for row in rows):
            # GDELT often attaches the action to another actor's place; prefer the headline.
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
    """The rank by which a lower-case headline names each place of the rows: see `_naming`."""
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
    """2 if a lower-case headline names the place or its country after "in", 1 if it names it elsewhere, else 0."""
    named = [name for name in _names(geo_name, fips) if name in title and _is_word(name, title)]
    return 2 if any(f"in {name}" in title for name in named) else int(bool(named))


@lru_cache(maxsize=8192)
def _names(geo_name: str, fips: str) -> tuple[str, ...]:
    country = country_by_fips(fips)
    spot = geo_name.partition(",")[0].lower()
    names = {spot, spot.removesuffix(" city").removesuffix(" strip")}
    if country:
        names |= {name.lower() for name in (country.name, *country.aliases) if len(name) > 3}
    return tuple(names)


def _is_word(name: str, title: str) -> bool:
    # Match fixed patterns at the position: compiling one pattern per name costs more than the rest of an event.
    at = title.find(name)
    while at >= 0:
        if _OPENING.match(title, at) and _CLOSING.match(title, at + len(name)):
            return True
        at = title.find(name, at + 1)
    return False


@lru_cache(maxsize=8192)
def _described(place: tuple[int, str, str, float, float], *, is_supporting: bool) -> Location:
    geo_type, geo_name, fips, latitude, longitude = place
    country = country_by_fips("WE" if fips == "IS" and geo_name.startswith(_IN_PALESTINE) else fips)
    assert country is not None
    name, region = _spoken(geo_type, geo_name, country)
    geo = Geo(country.name, region, latitude, longitude)
    source = "rows of the category" if is_supporting else "other rows"
    return Location(geo, country.alpha2, name, f"{_PRECISION[geo_type]} {geo_name!r}, from {source}")


def _spoken(geo_type: int, geo_name: str, country: Country) -> tuple[str, str]:
    """Name for readers and region, from GDELT's "City, Region, Country" and its shorter forms."""
    parts = [part.strip() for part in geo_name.split(",")]
    if geo_type == _COUNTRY:
        return country.name, ""
    division = parts[0] if geo_type in {_STATE, _US_STATE} else ""
    region = parts[1].rstrip("*") if len(parts) > 2 else division
    # GDELT writes "Belarus (general)" for an unknown region; _LOST marks a damaged name.
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
    """Why the rows of a URL do not make an event."""

    reason: RejectionReason


def canonical_url(url: str) -> str:
    """Normalize a URL so that two addresses of one article are equal. The result identifies; it may not resolve.

    Drops the scheme, a leading "www.", default ports, the fragment, trailing slashes, a last path part "amp" and
    tracking parameters. Keeps everything else, including the order of other parameters: a wrong split costs a
    duplicate, a wrong merge loses an event.
    """
    match = _PARTS.match(url)
    assert match is not None
    host, path, query = match.groups()
    host = host.lower().removesuffix(":80").removesuffix(":443").removeprefix("www.")
    path = path.rstrip("/").removesuffix("/amp").rstrip("/")
    pairs = [pair for pair in query.split("&") if pair and not _TRACKING.match(pair)] if query else ()
    return f"https://{host}{path}" + (f"?{'&'.join(pairs)}" if pairs else "")


# Called twice per page: to group its rows and to build its event.
@lru_cache(maxsize=4096)
def event_id(url: str) -> str:
    """`conflict_` and the first 16 hex digits of the canonical URL's SHA-256."""
    return f"conflict_{sha256(canonical_url(url).encode()).hexdigest()[:16]}"


def build_event(url: str, rows: Sequence[Row], title: tuple[str, TitleBasis] | None = None) -> EventRecord | Rejected:
    """Build the event of a URL from its rows, which may come from several exports, and the page's headline if known.

    Ignores rows dated PAST_DAYS or more before their export: they report the past.
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
        host = canonical_url(url).removeprefix("https://").partition("/")[0].partition("?")[0]
        text = f"{decision.subcategory} in {place.name} ({host})"
        composed = _record(url, fresh, decision, place, (text, "url"))
        return replace(composed, has_headline=False, reasons={**composed.reasons, "title": _COMPOSED})
    return _record(url, fresh, decision, place, (text, title[1] if title else "url"))


def _record(
    url: str, rows: list[Row], decision: Classification, place: Location, headline: tuple[str, TitleBasis]
) -> EventRecord:
    title, basis = headline
    is_violent = decision.category == "Battles" or (
        decision.category == "Protests" and any(classification.is_riot(row.code) for row in decision.supporting)
    )
    deaths = extract_fatalities(title) if is_violent else None
    by_states = decision.category == "Battles" and any(map(_is_state_on_state, decision.supporting))
    moments = [row.added for row in rows]
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
        fatalities_basis="not_reported" if deaths is None else "headline",
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
        "subcategory": f"CAMEO code {decision.row.code}, Goldstein value {decision.row.goldstein:g}",
        "confidence": f"{decision.confidence:.2f}, the calibrated probability that {decision.category} is right",
        "title": _TITLE_REASONS[basis],
        "geo": place.why,
        "fatalities": "the headline gives no figure" if deaths is None else f"the headline gives {deaths}",
    }
    if by_states:
        reasons["is_state_on_state"] = "use of force between the governments or armed forces of two countries"
    return reasons


_COMPOSED = "composed from the rows: no headline is known and the URL has no words"
_TITLE_REASONS: dict[TitleBasis, str] = {
    "page": "the page's own title",
    "feed": "the publisher's feed",
    "url": "derived from the URL: the export has no headline",
}


def _is_state_on_state(row: Row) -> bool:
    return (
        classification.is_strike(row.code)
        and row.actor1_country != row.actor2_country
        and _is_state(row.actor1_name, row.actor1_country, row.actor1_type)
        and _is_state(row.actor2_name, row.actor2_country, row.actor2_type)
    )


def _is_state(name: str, country: str, kind: str) -> bool:
    """Whether an actor is a government or armed forces, or is named only by its country."""
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
