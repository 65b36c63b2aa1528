"""Examples for the description, out of the bundled recording of November 2020."""

from typing import Any

EVENT: dict[str, Any] = {}
EVENT_DETAIL: dict[str, Any] = {"id": "conflict_0000000000000000"}
EVENTS_PAGE: dict[str, Any] = {}
CSV_EXAMPLE = ""
KEY_REQUEST: dict[str, Any] = {"email": "ada@example.org", "label": "my agent"}
KEY_ISSUED: dict[str, Any] = {
    "api_key": "th_live_shown-this-once",
    "key_id": "key_5f0c2a9be1d34c77",
    "tier": "free",
    "label": "my agent",
    "created_at": "2026-01-31T08:00:00Z",
    "limits": {"requests_per_day": 100, "requests_per_minute": 10},
}
