"""How the rows of one source URL become one event, or why they do not."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.countries import country_by_cameo, find_country
from tollhouse.services.defense.events.event import Category, EventRecord, FatalitiesBasis, TitleBasis
from tollhouse.services.defense.ingest import cameo
from tollhouse.services.defense.ingest.classification import Decision, decide
from tollhouse.services.defense.ingest.export_row import Row
from tollhouse.services.defense.ingest.fatalities_extractor import death_toll
from tollhouse.services.defense.ingest.geolocation import Whereabouts, whereabouts
from tollhouse.services.defense.ingest.relevance import relevance
from tollhouse.services.defense.ingest.url_title import title_from_url

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


def collapse(url: str, rows: Sequence[Row], title: tuple[str, TitleBasis] | None = None) -> EventRecord | Rejected:
    """The one event that a URL's rows tell. `rows` may come from several exports; `title` is a headline that was found.

    Rows dated PAST_DAYS or more before their export speak of the past and are ignored.
    """
    fresh = [row for row in rows if _days_late(row.day, row.added) < PAST_DAYS]
    if not fresh:
        return Rejected("only mentions of the past" if rows else "no rows")
    decision = decide(url, fresh)
    text = title[0] if title else title_from_url(url, {row.geo_name for row in fresh})
    place = whereabouts(decision.supporting, fresh, text or "")
    if place is None:
        return Rejected("no place")
    if text is None:
        composed = _record(url, fresh, decision, place, (_made_up(url, decision, place), "url"))
        return replace(composed, has_headline=False, reasons={**composed.reasons, "title": _COMPOSED})
    return _record(url, fresh, decision, place, (text, title[1] if title else "url"))


def _record(
    url: str, rows: list[Row], decision: Decision, place: Whereabouts, headline: tuple[str, TitleBasis]
) -> EventRecord:
    title, basis = headline
    is_violent = decision.category == "Battles" or _has_riot(decision)
    deaths = death_toll(title) if is_violent else None
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
    decision: Decision, place: Whereabouts, basis: TitleBasis, deaths: int | None, *, by_states: bool
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


def _made_up(url: str, decision: Decision, place: Whereabouts) -> str:
    host = canonical_url(url).removeprefix("https://").partition("/")[0].partition("?")[0]
    return f"{decision.subcategory} in {place.name} ({host})"


def _has_riot(decision: Decision) -> bool:
    return decision.category == "Protests" and any(cameo.is_riot(row.code) for row in decision.supporting)


def _is_state_on_state(row: Row) -> bool:
    return (
        cameo.is_strike(row.code)
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
