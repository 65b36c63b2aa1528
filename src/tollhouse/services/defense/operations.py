"""The defense service's operations, declared."""

import json
from collections.abc import Sequence
from typing import Any

from tollhouse.gate.operation import Operation
from tollhouse.gate.terms import FREE, KEY_METERED, KEY_UNMETERED
from tollhouse.services.defense.events_feed import EventDetail, EventsFeed
from tollhouse.services.defense.events_formats import CSV, FORMATS, GEOJSON, JSON, NDJSON, EventsPage
from tollhouse.services.defense.events_query import EventsQuery
from tollhouse.services.defense.examples import example
from tollhouse.services.defense.keys_desk import KeyIssued, KeyRequest, KeyRevoked, KeysDesk, KeyStatus

_COLLECTION: dict[str, Any] = {
    "type": "object",
    "description": "A GeoJSON FeatureCollection (RFC 7946); the page's own members stand beside `features`.",
    "required": ["type", "features", "total", "next_cursor"],
    "properties": {
        "type": {"const": "FeatureCollection"},
        "features": {"type": "array", "items": {"type": "object"}},
        "total": {"type": "integer"},
        "next_cursor": {"type": ["string", "null"]},
    },
}


def operations(events: EventsFeed, keys: KeysDesk) -> Sequence[Operation]:
    """Every operation, in the order the description shows them."""
    return [
        Operation(
            id="listEvents",
            method="GET",
            path="/feeds/events",
            summary="Events of the past 24 hours",
            description="World events from The GDELT Project, one per source article, most significant first. "
            "Every filter narrows the list; `next_cursor` leads to the next page and is null on the last one.",
            handler=events.page,
            terms=KEY_METERED,
            query=EventsQuery,
            answers={
                JSON: EventsPage,
                GEOJSON: _COLLECTION,
                CSV: {"type": "string"},
                NDJSON: {"type": "string", "description": "One event a line"},
            },
            formats=FORMATS,
            problems=("upstream-unavailable",),
            tag="feeds",
            examples={JSON: example("events_page"), CSV: example("csv"), NDJSON: json.dumps(example("event")) + "\n"},
        ),
        Operation(
            id="getEvent",
            method="GET",
            path="/feeds/events/{id}",
            summary="One event and its provenance",
            description="The provider's row ids, the source, and why each figure has its value.",
            handler=events.one,
            terms=KEY_METERED,
            path_parameters={
                "id": {
                    "description": "The event's id",
                    "example": example("event_detail")["id"],
                    "schema": {"type": "string", "pattern": "^conflict_[0-9a-f]{16}$"},
                }
            },
            answers={JSON: EventDetail},
            tag="feeds",
            examples={JSON: example("event_detail")},
        ),
        Operation(
            id="createKey",
            method="POST",
            path="/api/keys/create",
            summary="Get a free API key",
            description="The key is shown once. At most 60 an hour go to one client address and 20 to one email.",
            handler=keys.create,
            terms=FREE,
            body=KeyRequest,
            answers={JSON: KeyIssued},
            problems=("tier-not-self-service", "too-many-keys"),
            tag="keys",
            examples={"body": example("key_request"), JSON: example("key_issued")},
        ),
        Operation(
            id="verifyKey",
            method="GET",
            path="/api/keys/verify",
            summary="What the key is and what is left of its plan",
            handler=keys.verify,
            terms=KEY_UNMETERED,
            answers={JSON: KeyStatus},
            tag="keys",
            examples={JSON: example("key_status")},
        ),
        Operation(
            id="rotateKey",
            method="POST",
            path="/api/keys/rotate",
            summary="Replace the key by a new one",
            description="The old text stops working; id, tier and what is used of the plan stay.",
            handler=keys.rotate,
            terms=KEY_UNMETERED,
            answers={JSON: KeyIssued},
            tag="keys",
            examples={JSON: example("key_issued")},
        ),
        Operation(
            id="revokeKey",
            method="POST",
            path="/api/keys/revoke",
            summary="Give the key back",
            description="The key opens nothing any more. This cannot be undone.",
            handler=keys.revoke,
            terms=KEY_UNMETERED,
            answers={JSON: KeyRevoked},
            tag="keys",
            examples={JSON: example("key_revoked")},
        ),
    ]
