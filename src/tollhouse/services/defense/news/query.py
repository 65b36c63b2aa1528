"""What a caller may ask of the stories and entities feeds."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tollhouse.services.defense.entities.mention import EntityType
from tollhouse.services.defense.events.event import Category
from tollhouse.services.defense.events.query import ABOUT_COUNTRY, CountryText, ShortText
from tollhouse.services.defense.paging import ABOUT_CURSOR, Cursor

Limit = Annotated[int, Meta(ge=1, le=100, description="Items per page", examples=[20])]


class StoriesQuery(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The parameters of `GET /feeds/stories`."""

    limit: Limit = 20
    category: Annotated[Category | None, Meta(description="Only this category")] = None
    country: Annotated[CountryText | None, ABOUT_COUNTRY] = None
    q: Annotated[
        ShortText | None, Meta(description="Words that all stand in the title or the summary", examples=["rocket"])
    ] = None
    since: Annotated[
        Annotated[datetime, Meta(tz=True)] | None,
        Meta(description="Only stories with an article after this moment", examples=["2020-11-15T06:00:00Z"]),
    ] = None
    cursor: Annotated[Cursor | None, ABOUT_CURSOR] = None


class EntitiesQuery(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The parameters of `GET /feeds/entities`."""

    limit: Limit = 20
    type: Annotated[EntityType | None, Meta(description="Only this type")] = None
    q: Annotated[
        ShortText | None, Meta(description="Words that all stand in the name or one alias", examples=["Abiy"])
    ] = None
    cursor: Annotated[Cursor | None, ABOUT_CURSOR] = None


def filters(query: Struct) -> dict[str, Any]:
    """The filters in force, as `applied_filters` echoes them."""
    given = msgspec.to_builtins(query)
    return {name: value for name, value in given.items() if name not in ("limit", "cursor")}
