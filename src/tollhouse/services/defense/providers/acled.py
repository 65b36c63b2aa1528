"""How ACLED's events become fatality records, with the operator's own account and for the operator alone.

Off unless the operator gives an account. ACLED's terms forbid passing its data on, so a record carries the figure, the
place and the day, and neither its notes nor its sources. An operator who sells the feeds must ask ACLED for a licence.
ACLED API: an OAuth password grant for a day's token, then pages of at most 5,000 from page 1 on.
"""

from datetime import date
from typing import Any

import httpx2
from msgspec import Struct

from tollhouse.services.defense.countries import find_country
from tollhouse.services.defense.ingest.fetcher import UpstreamFailure, fetch_json
from tollhouse.services.defense.providers.fatalities import FatalityRecord, FatalityRecords, parse_records

SITE = "https://acleddata.com/"
PAGE_SIZE = 5000
# Ten million events, as for UCDP: only a server that never ends is cut off.
MOST_PAGES = 2000

_FIELDS = "event_id_cnty|event_date|time_precision|country|latitude|longitude|geo_precision|fatalities"
# ACLED's time precision: 1 the day, 2 the week, 3 the month.
_DAYS = {1: 1, 2: 7, 3: 30}
# ACLED's place precision: 1 the town, 2 a part of a region, whose town stands in, 3 the region.
_WHERE = {1: 1, 2: 3, 3: 4}


class AcledAccount(Struct, frozen=True):
    """The operator's own credentials at ACLED."""

    username: str
    password: str

    def __repr__(self) -> str:
        return "AcledAccount(***)"


class _Token(Struct, frozen=True):
    access_token: str


class _Page(Struct, frozen=True):
    data: list[dict[str, Any]]
    # HTTP says 200 even for some refusals; the body then says otherwise.
    success: bool = True
    status: int = 200


class _Event(Struct, frozen=True):
    event_id_cnty: str
    event_date: date
    country: str
    latitude: float
    longitude: float
    fatalities: int
    geo_precision: int = 3
    time_precision: int = 3


async def acled_records(
    client: httpx2.AsyncClient, account: AcledAccount, since: date, until: date, *, site: str = SITE
) -> FatalityRecords:
    """Every event between two days, both included. UpstreamFailure when the login or any page fails."""
    token = await _login(client, account, site)
    found = FatalityRecords([], 0)
    for number in range(1, MOST_PAGES + 1):
        events = await _page(client, token, since, until, number, site)
        found += parse_acled(events)
        if len(events) < PAGE_SIZE:
            break
    return found


def parse_acled(events: list[dict[str, Any]]) -> FatalityRecords:
    """The usable ones of raw events, whose numbers ACLED writes as strings."""
    return parse_records(events, _Event, _record)


async def _login(client: httpx2.AsyncClient, account: AcledAccount, site: str) -> str:
    form = {
        "username": account.username,
        "password": account.password,
        "grant_type": "password",
        "client_id": "acled",
    }
    return (await fetch_json(client, f"{site}oauth/token", _Token, form=form)).access_token


async def _page(  # noqa: PLR0913, PLR0917 - the parts of one question
    client: httpx2.AsyncClient, token: str, since: date, until: date, number: int, site: str
) -> list[dict[str, Any]]:
    page = await fetch_json(
        client,
        f"{site}api/acled/read",
        _Page,
        params={
            "_format": "json",
            "event_date": f"{since.isoformat()}|{until.isoformat()}",
            "event_date_where": "BETWEEN",
            "fields": _FIELDS,
            "limit": str(PAGE_SIZE),
            "page": str(number),
        },
        headers={"Authorization": f"Bearer {token}"},
    )
    if not page.success or page.status != 200:
        raise UpstreamFailure("status", f"ACLED answered with status {page.status} in its body")
    return page.data


def _record(event: _Event) -> FatalityRecord:
    country = find_country(event.country)
    if country is None:
        raise ValueError(f"{event.country[:40]!r} is no country we know")
    if event.fatalities < 0 or not (-90 <= event.latitude <= 90 and -180 <= event.longitude <= 180):
        raise ValueError("there is no such figure or place")
    return FatalityRecord(
        provider="acled",
        id=event.event_id_cnty,
        date=event.event_date,
        days=_DAYS.get(event.time_precision, 30),
        country=country.alpha2,
        latitude=event.latitude,
        longitude=event.longitude,
        # ACLED gives the most conservative of the reported figures, and no range.
        best=event.fatalities,
        high=event.fatalities,
        low=event.fatalities,
        headline="",
        where_precision=_WHERE.get(event.geo_precision, 4),
        source_url="",
    )
