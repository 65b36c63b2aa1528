"""Fetch fatality records from ACLED with the operator's own account.

Off unless the operator configures an account. ACLED's terms forbid redistribution, so records contain the figure, the
place and the day, but no notes or sources. An operator who sells the feeds needs a licence from ACLED.
ACLED API: an OAuth password grant for a day's token, then pages of at most 5,000 from page 1 on.
"""

from datetime import date
from typing import Any

import httpx2
from msgspec import Struct

from tollhouse.download import UpstreamFailure, fetch_json
from tollhouse.services.defense.events.event import FatalityRecord, FatalityRecords, parse_records
from tollhouse.services.defense.gazetteer import find_country

SITE = "https://acleddata.com/"
PAGE_SIZE = 5000
# Ten million events: stops only a server whose pages never end.
MOST_PAGES = 2000

_FIELDS = "event_id_cnty|event_date|time_precision|country|latitude|longitude|geo_precision|fatalities"
# ACLED's time precision: 1 day, 2 week, 3 month.
_DAYS = {1: 1, 2: 7, 3: 30}
# ACLED's place precision: 1 town, 2 part of a region (located at its town), 3 region.
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
    # Some errors come with HTTP status 200 and are stated in the body.
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
    """All events between two days, inclusive. Raises UpstreamFailure if the login or any page fails."""
    form = {"username": account.username, "password": account.password, "grant_type": "password", "client_id": "acled"}
    token = (await fetch_json(client, f"{site}oauth/token", _Token, form=form)).access_token
    records = FatalityRecords([], 0)
    for number in range(1, MOST_PAGES + 1):
        events = await _page(client, token, since, until, number, site)
        records += parse_acled(events)
        if len(events) < PAGE_SIZE:
            break
    return records


def parse_acled(events: list[dict[str, Any]]) -> FatalityRecords:
    """Convert raw events, whose numbers are strings."""
    return parse_records(events, _Event, _record)


async def _page(  # noqa: PLR0913, PLR0917 - the parameters of one request
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
        raise UpstreamFailure("status", f"ACLED responded with status {page.status} in its body")
    return page.data


def _record(event: _Event) -> FatalityRecord:
    country = find_country(event.country)
    if country is None:
        raise ValueError(f"{event.country[:40]!r} is not a known country")
    if event.fatalities < 0 or not (-90 <= event.latitude <= 90 and -180 <= event.longitude <= 180):
        raise ValueError("the figure or the coordinates are out of range")
    return FatalityRecord(
        provider="acled",
        id=event.event_id_cnty,
        date=event.event_date,
        days=_DAYS.get(event.time_precision, 30),
        country=country.alpha2,
        latitude=event.latitude,
        longitude=event.longitude,
        # ACLED gives one conservative figure, no range.
        best=event.fatalities,
        high=event.fatalities,
        low=event.fatalities,
        headline="",
        where_precision=_WHERE.get(event.geo_precision, 4),
        source_url="",
    )
