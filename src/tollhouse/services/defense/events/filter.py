"""The event filter of the feed, alerts and analysis: its fields, their checks and tests, and what an event has.

To add a filter, add a field to `EventFilter` and its rule to `RULES`. The feed's query parameters, the filters of
alerts and analysis, and the form on the events page follow. The chat's questions test the same `EVENT_ATTRIBUTES`.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from operator import eq, ge, gt, le
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from tollhouse.errors import Problem, invalid_parameter
from tollhouse.services.defense.events.event import Category, Event, EventEntry, SeverityTier
from tollhouse.services.defense.gazetteer import Country, find_country, near_matches

ABOUT_COUNTRY = Meta(
    description="A country: English name, ISO 3166-1 alpha-2 or alpha-3 code, or a common alias, in any case",
    examples=["Afghanistan", "UA", "syr", "the Netherlands"],
)

ShortText = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00]*$")]
CountryText = Annotated[str, Meta(min_length=1, max_length=100)]
Longitude = Annotated[float, Meta(ge=-180, le=180)]
Latitude = Annotated[float, Meta(ge=-90, le=90)]
BoundingBox = tuple[Longitude, Latitude, Longitude, Latitude]

EventTest = Callable[[EventEntry], bool]


class EventFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Conditions on events. An event passes when it meets every condition that is given, and is relevant.

    With `relevance` "all" it need not be relevant.
    """

    category: Annotated[Category | None, Meta(description="Only events of this category")] = None
    country: Annotated[CountryText | None, ABOUT_COUNTRY] = None
    region: Annotated[
        ShortText | None, Meta(description="The region's name (`geo.region`), in any case", examples=["Kabul"])
    ] = None
    severity_tier: Annotated[SeverityTier | None, Meta(description="Only events of this severity tier")] = None
    min_confidence: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None, Meta(description="The lowest `confidence`", examples=[0.6])
    ] = None
    min_sources: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="Only events reported by at least this many sources (`source_count`)", examples=[3]),
    ] = None
    bbox: Annotated[
        BoundingBox | None,
        Meta(
            description="West, south, east, north in degrees. A west greater than east crosses the 180th meridian; "
            "the two latitudes may come in either order",
            examples=[[60.0, 29.0, 75.0, 39.0]],
        ),
    ] = None
    q: Annotated[ShortText | None, Meta(description="Words that must all be in the title", examples=["rocket"])] = None
    since: Annotated[
        Annotated[datetime, Meta(tz=True)] | None,
        Meta(description="Only events reported after this time", examples=["2020-11-15T06:00:00Z"]),
    ] = None
    until: Annotated[
        Annotated[datetime, Meta(tz=True)] | None,
        Meta(description="Only events reported at this time or before", examples=["2020-11-15T09:00:00Z"]),
    ] = None
    entity: Annotated[
        ShortText | None,
        Meta(
            description="Only events whose reports name this entity: its id, or its name or an alias in any case",
            examples=["NATO"],
        ),
    ] = None
    relevance: Annotated[
        Literal["all"] | None,
        Meta(
            description="`all` includes events without relevance to defense, security or politics (sport, celebrities, "
            "weather, case counts), which are left out otherwise"
        ),
    ] = None


FILTER_FIELDS = EventFilter.__struct_fields__


# What an event has, by attribute: filters test it, and questions name it.
EVENT_ATTRIBUTES: dict[str, Callable[[EventEntry], Any]] = {
    "category": lambda entry: entry.event.category,
    "subcategory": lambda entry: entry.event.subcategory,
    "country": lambda entry: entry.event.geo.country,
    "country_code": lambda entry: entry.country_code,
    "region": lambda entry: entry.event.geo.region,
    "latitude": lambda entry: entry.event.geo.latitude,
    "longitude": lambda entry: entry.event.geo.longitude,
    "severity": lambda entry: entry.event.metrics.severity_tier,
    "significance": lambda entry: entry.event.metrics.significance,
    "confidence": lambda entry: entry.event.metrics.confidence,
    "publishers": lambda entry: entry.event.source_count,
    "deaths": lambda entry: None if entry.event.fatalities_basis == "not_reported" else entry.event.fatalities,
    "date": lambda entry: entry.event.event_date,
    "reported": lambda entry: entry.reported_at,
    "title": lambda entry: entry.event.title,
    "event": lambda entry: entry.event,
}


class FilterRule(Struct, frozen=True):
    """The rule of one filter: the attribute that it tests, and whether the attribute passes the filter's value.

    `read` makes of a filter's value what `passes` compares with.
    """

    attribute: str
    passes: Callable[[Any, Any], bool]
    read: Callable[[Any], Any] = lambda value: value

    def build_test(self, value: Any) -> EventTest:
        """The test for a value of the filter."""
        passes, own, compared = self.passes, EVENT_ATTRIBUTES[self.attribute], self.read(value)
        return lambda entry: passes(own(entry), compared)


def title_words(text: str) -> frozenset[str]:
    """The words of a title as `q` compares them."""
    return frozenset(re.findall(r"\w+", text.casefold()))


def _is_inside(event: Event, bbox: BoundingBox) -> bool:
    west, south, east, north = bbox
    geo = event.geo
    between = west <= geo.longitude <= east if west <= east else geo.longitude >= west or geo.longitude <= east
    return min(south, north) <= geo.latitude <= max(south, north) and between


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # The offset leads out of the calendar: take the time as written.
        return moment.replace(tzinfo=UTC)


# Every filter except `entity` and `relevance` (see field_tests).
RULES: dict[str, FilterRule] = {
    "category": FilterRule("category", eq),
    "country": FilterRule("country_code", eq, lambda text: require_country(text).alpha2),
    "region": FilterRule("region", lambda own, name: own.casefold() == name, str.casefold),
    "severity_tier": FilterRule("severity", eq),
    "min_confidence": FilterRule("confidence", ge),
    "min_sources": FilterRule("publishers", ge),
    "bbox": FilterRule("event", _is_inside),
    "q": FilterRule("title", lambda own, words: bool(words) and words <= title_words(own), title_words),
    "since": FilterRule("reported", gt, _in_utc),
    "until": FilterRule("reported", le, _in_utc),
}


def event_tests(filters: EventFilter, entities: frozenset[str] = frozenset()) -> list[EventTest]:
    """One test for each filter that is given. `entities` are the ids that `filters.entity` denotes."""
    return list(field_tests(filters, entities).values())


def field_tests(filters: EventFilter, entities: frozenset[str]) -> dict[str, EventTest]:
    """The tests by the filter they are of. `entities` as event_tests has it."""
    given = ((name, rule, getattr(filters, name)) for name, rule in RULES.items())
    tests = {name: rule.build_test(value) for name, rule, value in given if value is not None}
    if filters.entity is not None:
        tests["entity"] = lambda entry: not entities.isdisjoint(entry.entities)
    if filters.relevance is None:
        tests["relevance"] = lambda entry: entry.is_relevant
    return tests


Filters = TypeVar("Filters", bound=EventFilter)


def check_filters(filters: Filters) -> Filters:
    """The filters of a body's `filters` member, with the country's name. Raises Problem `invalid-body`."""
    if filters.country is None:
        return filters
    country = find_country(filters.country)
    if country is None:
        raise invalid_member("filters.country", *_unknown_country(filters.country))
    return replace(filters, country=country.name)


def require_country(text: str, parameter: str = "country") -> Country:
    """The country of this name, code or alias. Raises Problem `invalid-parameter` with near matches in `allowed`."""
    country = find_country(text)
    if country is None:
        raise invalid_parameter(parameter, *_unknown_country(text))
    return country


def invalid_member(member: str, detail: str, allowed: list[str] | None = None) -> Problem:
    """A 400 that names the member of the body that is wrong."""
    facts: dict[str, Any] = {"allowed": allowed} if allowed else {}
    return Problem("invalid-body", detail, parameter=member, **facts)


def applied_filters(filters: EventFilter) -> dict[str, Any]:
    """The filters that are given, as `applied_filters` returns them."""
    return {name: value for name, value in msgspec.to_builtins(filters).items() if name in FILTER_FIELDS}


def _unknown_country(text: str) -> tuple[str, list[str]]:
    return "There is no country of that name or code.", near_matches(text)


def form_fields() -> list[dict[str, Any]]:
    """The fields for a form on a page: name, description, input type, bounds, an example.

    `only_value` is the value of a field that takes no other.
    """
    properties = msgspec.json.schema_components([EventFilter])[1]["EventFilter"]["properties"]
    fields = []
    for name, schema in properties.items():
        value = next(one for one in schema["anyOf"] if one.get("type") != "null")
        values = value.get("enum", [])
        fields.append(
            {
                "name": name,
                "description": schema["description"],
                "type": "number" if value.get("type") in {"integer", "number"} else "text",
                "step": "1" if value.get("type") == "integer" else "any",
                "min": value.get("minimum"),
                "max": value.get("maximum"),
                "only_value": values[0] if len(values) == 1 else None,
                "example": schema.get("examples", [""])[0],
            }
        )
    return fields
