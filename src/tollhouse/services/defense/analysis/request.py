"""What a caller asks to have counted, and which events that means."""

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from tollhouse.errors import Problem
from tollhouse.services.defense.countries import find_country, near_matches
from tollhouse.services.defense.events.event import Category, SeverityTier
from tollhouse.services.defense.events.query import (
    ABOUT_COUNTRY,
    Box,
    CountryText,
    Entry,
    EventsQuery,
    Moment,
    Share,
    ShortText,
    predicates,
)

Dimension = Literal["country", "category", "day", "entity"]
Order = Literal["count", "fatalities", "significance_sum", "significance_mean", "significance_max", "group"]

_WORD = re.compile(r"\w+")


class AnalysisFilters(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The filters of `GET /feeds/events`; an event that passes all of them is counted."""

    category: Annotated[Category | None, Meta(description="Only this category")] = None
    country: Annotated[CountryText | None, ABOUT_COUNTRY] = None
    region: Annotated[ShortText | None, Meta(description="The region's name (`geo.region`), in any case")] = None
    severity_tier: Annotated[SeverityTier | None, Meta(description="Only this tier")] = None
    min_confidence: Annotated[Share | None, Meta(description="At least this sure")] = None
    bbox: Annotated[Box | None, Meta(description="West, south, east, north in degrees")] = None
    q: Annotated[ShortText | None, Meta(description="Words that all stand in the title")] = None
    since: Annotated[Moment | None, Meta(description="Only events reported after this moment")] = None


class AnalysisRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/analysis`."""

    group_by: Annotated[
        list[Dimension],
        Meta(min_length=1, max_length=2, description="One or two different dimensions. `day` is the event's date"),
    ]
    filters: AnalysisFilters = AnalysisFilters()
    hours: Annotated[int, Meta(ge=1, le=168, description="Events reported in so many hours up to `as_of`")] = 24
    order_by: Annotated[
        Order, Meta(description="The largest first, `group` in the groups' own order; equals by their groups")
    ] = "count"
    limit: Annotated[int, Meta(ge=1, le=1_000, description="At most so many groups are shown")] = 100


class SavedRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/analysis/queries`."""

    name: Annotated[
        str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$", description="What you will know it by")
    ]
    query: AnalysisRequest


class AnalysisQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `POST /api/analysis`."""

    format: Annotated[Literal["json", "csv"] | None, Meta(description="The representation, before `Accept`")] = None


class RunQuery(AnalysisQuery, frozen=True, forbid_unknown_fields=True):
    """The parameters of `POST /api/analysis/queries/{id}/run`."""


def check(asked: AnalysisRequest) -> None:
    """Raises Problem `invalid-body` for what the types cannot say."""
    if len(set(asked.group_by)) < len(asked.group_by):
        raise refused("group_by", "`group_by` names a dimension twice.")
    country = asked.filters.country
    if country is not None and find_country(country) is None:
        raise refused("filters.country", "There is no country of that name or code.", near_matches(country))


def refused(member: str, detail: str, allowed: list[str] | None = None) -> Problem:
    """A 400 that names the member of the body that is wrong."""
    facts: dict[str, Any] = {"allowed": allowed} if allowed else {}
    return Problem("invalid-body", detail, parameter=member, **facts)


def tests(filters: AnalysisFilters) -> list[Callable[[Entry], bool]]:
    """One test per filter, those of the feed."""
    found = predicates(EventsQuery(**asdict(filters)))
    country = find_country(filters.country) if filters.country else None
    if country is not None:
        code = country.alpha2
        found.append(lambda entry: entry.country_code == code)
    if filters.q is not None:
        words = set(_WORD.findall(filters.q.casefold()))
        found.append(lambda entry: bool(words) and words <= set(_WORD.findall(entry.event.title.casefold())))
    return found


def told(filters: AnalysisFilters) -> dict[str, Any]:
    """The filters in force, as `applied_filters` echoes them."""
    given: dict[str, Any] = msgspec.to_builtins(filters)
    return given
