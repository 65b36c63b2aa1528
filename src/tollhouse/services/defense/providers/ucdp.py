"""Fetch fatality records from UCDP's georeferenced events (CC BY 4.0, up to a month behind).

UCDP API: pages of at most 1,000 from page 0 on, the operator's token in a header, at most 5,000 requests a day. Cite:
Uppsala Conflict Data Program, Department of Peace and Conflict Research, Uppsala University.
"""

from datetime import date
from typing import Any

import httpx2
from msgspec import Struct, field

from tollhouse.download import fetch_json
from tollhouse.services.defense.events.event import FatalityRecord, FatalityRecords, parse_records
from tollhouse.services.defense.gazetteer import find_country

API = "https://ucdpapi.pcr.uu.se/api/"
PAGE_SIZE = 1000
# A million events, more than UCDP has: stops only a server whose pages never end.
MOST_PAGES = 1000

# Names with a former name in parentheses, or used only by UCDP.
_COUNTRIES = {
    "DR Congo (Zaire)": "CD",
    "Kingdom of eSwatini (Swaziland)": "SZ",
    "Macedonia, FYR": "MK",
    "Madagascar (Malagasy)": "MG",
    "Serbia (Yugoslavia)": "RS",
    "Yemen (North Yemen)": "YE",
}


class UcdpPage(Struct, frozen=True):
    """A page of results with raw events, so that a bad event does not cost the page."""

    result: list[dict[str, Any]] = field(name="Result")
    pages: int = field(name="TotalPages")


class _Event(Struct, frozen=True):
    id: int
    country: str
    where_prec: int
    latitude: float
    longitude: float
    date_start: str
    date_end: str
    best: int
    high: int
    low: int
    source_headline: str | None = None


async def ucdp_records(  # noqa: PLR0913 - the parameters of one request
    client: httpx2.AsyncClient, token: str, version: str, since: date, until: date, *, api: str = API
) -> FatalityRecords:
    """All events between two days, inclusive. `version` is a release: `26.1`, or `26.0.9` for a candidate.

    Raises UpstreamFailure if any page fails, because partial results would look complete.
    """
    records = FatalityRecords([], 0)
    for number in range(MOST_PAGES):
        page = await fetch_json(
            client,
            f"{api}gedevents/{version}",
            UcdpPage,
            params={
                "pagesize": str(PAGE_SIZE),
                "page": str(number),
                "StartDate": since.isoformat(),
                "EndDate": until.isoformat(),
            },
            headers={"x-ucdp-access-token": token},
        )
        records += parse_ucdp(page.result)
        if number + 1 >= page.pages or not page.result:
            break
    return records


def parse_ucdp(events: list[dict[str, Any]]) -> FatalityRecords:
    """Convert raw events with the API's fields or the columns of UCDP's CSV files."""
    return parse_records(events, _Event, _record)


def _record(event: _Event) -> FatalityRecord:
    # `2010-05-13T00:00:00` in the API, `2010-05-13` in the files.
    first, last = date.fromisoformat(event.date_start[:10]), date.fromisoformat(event.date_end[:10])
    if not (0 <= event.low <= event.best <= event.high and first <= last):
        raise ValueError("the figures or the dates contradict each other")
    if not (-90 <= event.latitude <= 90 and -180 <= event.longitude <= 180):
        raise ValueError("the coordinates are out of range")
    return FatalityRecord(
        provider="ucdp",
        id=str(event.id),
        date=first,
        days=(last - first).days + 1,
        country=_country(event.country),
        latitude=event.latitude,
        longitude=event.longitude,
        best=event.best,
        high=event.high,
        low=event.low,
        headline=(event.source_headline or "").strip(),
        where_precision=event.where_prec,
        source_url=f"https://ucdp.uu.se/event/{event.id}",
    )


def _country(name: str) -> str:
    """ISO alpha-2 of UCDP's name: `Russia (Soviet Union)`, `Myanmar (Burma)`."""
    code = _COUNTRIES.get(name)
    if code:
        return code
    country = find_country(name) or find_country(name.partition(" (")[0])
    if country is None:
        raise ValueError(f"{name[:40]!r} is not a known country")
    return country.alpha2
