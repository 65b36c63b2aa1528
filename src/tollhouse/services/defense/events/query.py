"""What a caller may ask of the events feed, and which events that means."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import Meta, Struct

from tollhouse import clock
from tollhouse.errors import invalid_parameter
from tollhouse.services.defense.countries import COUNTRIES, Country, find_country, near_matches
from tollhouse.services.defense.events.event import Category, Event, SeverityTier
from tollhouse.services.defense.paging import ABOUT_CURSOR, Cursor

Sort = Literal["significance", "recent", "fatalities"]
Format = Literal["json", "geojson", "csv", "ndjson"]

_COUNTRY_NAMES = {
    text for country in COUNTRIES for text in (country.name, country.alpha2, country.alpha3, country.alpha2.lower())
}
ABOUT_COUNTRY = Meta(
    description="A country: English name, ISO 3166-1 alpha-2 or alpha-3 code, or a common alias, in any case",
    examples=["Afghanistan"],
)
_REGION = "The region's name (`geo.region`), in any case"
_BBOX = (
    "West, south, east, north in degrees. West greater than east crosses the 180th meridian; "
    "the two latitudes may come in either order"
)
_SINCE = "Only events reported after this moment"

ShortText = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00]*$")]
CountryText = Annotated[str, Meta(min_length=1, max_length=100, extra_json_schema={"enum": sorted(_COUNTRY_NAMES)})]
Share = Annotated[float, Meta(ge=0, le=1)]
Longitude = Annotated[float, Meta(ge=-180, le=180)]
Latitude = Annotated[float, Meta(ge=-90, le=90)]
Box = tuple[Longitude, Latitude, Longitude, Latitude]
Moment = Annotated[datetime, Meta(tz=True)]


class EventsQuery(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The parameters of `GET /feeds/events`."""

    limit: Annotated[int, Meta(ge=1, le=100, description="Events per page", examples=[20])] = 20
    category: Annotated[Category | None, Meta(description="Only this category")] = None
    country: Annotated[CountryText | None, ABOUT_COUNTRY] = None
    region: Annotated[ShortText | None, Meta(description=_REGION, examples=["Kabul"])] = None
    severity_tier: Annotated[SeverityTier | None, Meta(description="Only this tier")] = None
    min_confidence: Annotated[Share | None, Meta(description="At least this sure", examples=[0.6])] = None
    bbox: Annotated[Box | None, Meta(description=_BBOX, examples=[[60.0, 29.0, 75.0, 39.0]])] = None
    q: Annotated[ShortText | None, Meta(description="Words that all stand in the title", examples=["rocket"])] = None
    since: Annotated[Moment | None, Meta(description=_SINCE, examples=["2020-11-15T06:00:00Z"])] = None
    cursor: Annotated[Cursor | None, ABOUT_CURSOR] = None
    sort: Annotated[Sort, Meta(description="Largest or latest first; equals by id")] = "significance"
    format: Annotated[Format | None, Meta(description="The representation, before `Accept`")] = None

    def filters(self) -> dict[str, Any]:
        """The filters in force, as `applied_filters` echoes them."""
        given = msgspec.to_builtins(self)
        return {name: value for name, value in given.items() if name not in ("limit", "cursor", "sort", "format")}

    def link_to(self, cursor: str) -> str:
        """This query for the page after `cursor`, as a relative reference."""
        given = msgspec.to_builtins(msgspec.structs.replace(self, cursor=cursor))
        pairs = {name: ",".join(map(str, value)) if name == "bbox" else value for name, value in given.items()}
        return f"?{urlencode(pairs)}"


class Entry(Struct, frozen=True, gc=False):
    """An event in the window, with what filters and orders need beside its wire form."""

    event: Event
    country_code: str
    reported_at: datetime


def resolved_country(text: str) -> Country:
    """The country meant. Raises Problem `invalid-parameter` with near matches in `allowed`."""
    country = find_country(text)
    if country is None:
        raise invalid_parameter("country", "There is no country of that name or code.", near_matches(text))
    return country


def predicates(query: EventsQuery) -> list[Callable[[Entry], bool]]:
    """One test per filter in force; an event that passes all of them is meant. `country` and `q` are the window's."""
    tests: list[Callable[[Entry], bool]] = []
    if query.category is not None:
        tests.append(lambda entry: entry.event.category == query.category)
    if query.region is not None:
        region = query.region.casefold()
        tests.append(lambda entry: entry.event.geo.region.casefold() == region)
    if query.severity_tier is not None:
        tests.append(lambda entry: entry.event.metrics.severity_tier == query.severity_tier)
    if query.min_confidence is not None:
        least = query.min_confidence
        tests.append(lambda entry: entry.event.metrics.confidence >= least)
    if query.bbox is not None:
        tests.append(_inside(query.bbox))
    if query.since is not None:
        since = _utc(query.since)
        tests.append(lambda entry: entry.reported_at > since)
    return tests


def _inside(bbox: tuple[float, float, float, float]) -> Callable[[Entry], bool]:
    west, south, east, north = bbox
    low, high = min(south, north), max(south, north)

    def inside(entry: Entry) -> bool:
        geo = entry.event.geo
        between = west <= geo.longitude <= east if west <= east else geo.longitude >= west or geo.longitude <= east
        return low <= geo.latitude <= high and between

    return inside


def _utc(moment: datetime) -> datetime:
    """In UTC; a moment whose offset leads out of the calendar is taken as written."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return moment.replace(tzinfo=UTC)


def sort_value(entry: Entry, sort: Sort) -> int:
    """What an order compares, as the whole number a cursor carries."""
    if sort == "significance":
        return round(entry.event.metrics.significance * 10_000)
    if sort == "recent":
        return int(clock.iso(entry.reported_at).translate(_DIGITS_ONLY))
    return entry.event.fatalities


_DIGITS_ONLY = str.maketrans("", "", "-:TZ")
