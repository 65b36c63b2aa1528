"""The event filter of the feed, alerts, analysis and the chat: its fields, their checks, tests and wording.

To add a filter, add a field to `EventFilter` and its rule to `RULES`. The feed's query parameters, the filters of
alerts and analysis, the arguments of the chat's tool, its answers and the form on the events page follow.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from tollhouse.errors import Problem, invalid_parameter
from tollhouse.services.defense.countries import COUNTRIES, Country, find_country, near_matches
from tollhouse.services.defense.events.event import Category, EventEntry, SeverityTier

_COUNTRY_NAMES = {
    text for country in COUNTRIES for text in (country.name, country.alpha2, country.alpha3, country.alpha2.lower())
}
ABOUT_COUNTRY = Meta(
    description="A country: English name, ISO 3166-1 alpha-2 or alpha-3 code, or a common alias, in any case",
    examples=["Afghanistan"],
)

ShortText = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00]*$")]
CountryText = Annotated[str, Meta(min_length=1, max_length=100, extra_json_schema={"enum": sorted(_COUNTRY_NAMES)})]
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


class FilterRule(Struct, frozen=True):
    """The rule of one filter.

    `build_test` makes the test for a value. `phrase` describes a value, to follow the word "events". `question`, for
    filters that the chat reads from a question in lower case, matches the text and its value as group 1.
    """

    build_test: Callable[[Any], EventTest]
    phrase: Callable[[Any], str]
    question: re.Pattern[str] | None = None


def _in_country(text: str) -> EventTest:
    code = require_country(text).alpha2
    return lambda entry: entry.country_code == code


def _in_region(name: str) -> EventTest:
    folded = name.casefold()
    return lambda entry: entry.event.geo.region.casefold() == folded


def _in_box(bbox: BoundingBox) -> EventTest:
    west, south, east, north = bbox
    low, high = min(south, north), max(south, north)

    def is_inside(entry: EventEntry) -> bool:
        geo = entry.event.geo
        between = west <= geo.longitude <= east if west <= east else geo.longitude >= west or geo.longitude <= east
        return low <= geo.latitude <= high and between

    return is_inside


def _has_words(text: str) -> EventTest:
    words = title_words(text)
    return lambda entry: bool(words) and words <= title_words(entry.event.title)


def _reported_after(moment: datetime) -> EventTest:
    try:
        since = moment.astimezone(UTC)
    except OverflowError:  # The offset leads out of the calendar: take the time as written.
        since = moment.replace(tzinfo=UTC)
    return lambda entry: entry.reported_at > since


_KIND_OF_CATEGORY = {"Battles": "battle", "Protests": "protest", "Political": "political", "Economic": "economic"}

# Every filter except `entity` and `relevance` (see event_tests). The phrases of category and severity precede
# the word "events".
RULES: dict[str, FilterRule] = {
    "category": FilterRule(lambda value: lambda entry: entry.event.category == value, _KIND_OF_CATEGORY.__getitem__),
    "country": FilterRule(_in_country, lambda value: f"in {value}"),
    "region": FilterRule(_in_region, lambda value: f"in {value}"),
    "severity_tier": FilterRule(lambda value: lambda entry: entry.event.metrics.severity_tier == value, str),
    "min_confidence": FilterRule(
        lambda value: lambda entry: entry.event.metrics.confidence >= value,
        lambda value: f"with a confidence of at least {value:g}",
        re.compile(r"\bwith (?:a )?confidence (?:of )?(?:at least|above|over) (0?\.\d+|[01])\b"),
    ),
    "min_sources": FilterRule(
        lambda value: lambda entry: entry.event.source_count >= value,
        lambda value: f"reported by at least {value} source{'' if value == 1 else 's'}",
        re.compile(r"\b(?:with |from |reported by |by )?at least (\d{1,6}) (?:sources?|publishers?|outlets?)\b"),
    ),
    "bbox": FilterRule(_in_box, lambda value: f"between {value[:2]} and {value[2:]}"),
    "q": FilterRule(_has_words, lambda value: f"that say “{value}”"),
    "since": FilterRule(_reported_after, lambda value: f"reported after {value:%H:%M} UTC"),
}


def event_tests(filters: EventFilter, entities: frozenset[str] = frozenset()) -> list[EventTest]:
    """One test for each filter that is given. `entities` are the ids that `filters.entity` denotes."""
    given = ((rule, getattr(filters, name)) for name, rule in RULES.items())
    tests = [rule.build_test(value) for rule, value in given if value is not None]
    if filters.entity is not None:
        tests.append(lambda entry: not entities.isdisjoint(entry.entities))
    if filters.relevance is None:
        tests.append(lambda entry: entry.is_relevant)
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


def filters_in_question(text: str) -> tuple[dict[str, Any], str]:
    """The filters that a lower-case question states by number, and the question without them."""
    filters: dict[str, Any] = {}
    for name, rule in RULES.items():
        match = rule.question.search(text) if rule.question else None
        if match:
            value = msgspec.convert({name: match[1]}, EventFilter, strict=False)
            filters[name] = getattr(value, name)
            text = f"{text[: match.start()]} {text[match.end() :]}"
    return filters, text


def title_words(text: str) -> frozenset[str]:
    """The words of a title as `q` compares them."""
    return frozenset(re.findall(r"\w+", text.casefold()))


def _unknown_country(text: str) -> tuple[str, list[str]]:
    return "There is no country of that name or code.", near_matches(text)


def form_fields() -> list[dict[str, Any]]:
    """The fields for a form on a page: name, description, input type, bounds and an example."""
    properties = msgspec.json.schema_components([EventFilter])[1]["EventFilter"]["properties"]
    fields = []
    for name, schema in properties.items():
        value = next(one for one in schema["anyOf"] if one.get("type") != "null")
        fields.append(
            {
                "name": name,
                "description": schema["description"],
                "type": "number" if value.get("type") in {"integer", "number"} else "text",
                "step": "1" if value.get("type") == "integer" else "any",
                "min": value.get("minimum"),
                "max": value.get("maximum"),
                "example": schema.get("examples", [""])[0],
            }
        )
    return fields
