"""The usual way to build the same: FastAPI with pydantic models, slowapi for the limits, uvicorn to serve it.

    python usual.py PORT EVENTS.json KEY

It does less than Tollhouse: keys and counts live in dictionaries, events are sorted beforehand, nothing is filtered,
and no header tells what is left of the plan.
"""

import json
import sys
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request
from pydantic import BaseModel
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded

LIMIT = "100000000/minute"


class Geo(BaseModel):
    """Where it happened."""

    country: str
    region: str
    latitude: float
    longitude: float


class Metrics(BaseModel):
    """How much it matters."""

    significance: float
    severity_tier: Literal["critical", "high", "medium", "low"]
    confidence: float


class Event(BaseModel):
    """One event, of the shape that Tollhouse serves."""

    id: str
    title: str
    event_date: date
    category: Literal["Battles", "Protests", "Political", "Economic"]
    subcategory: str
    geo: Geo
    fatalities: int
    metrics: Metrics
    source_urls: list[str]
    source_count: int
    story_id: str | None
    fatalities_basis: Literal["not_reported", "headline", "ucdp", "acled"]
    title_basis: Literal["page", "feed", "url"]


class EventsPage(BaseModel):
    """A page of the feed."""

    events: list[Event]
    count: int
    total: int
    total_relation: Literal["eq", "gte"]
    as_of: str | None
    window_hours: int
    coverage: float
    source: Literal["live", "recorded"]
    recording: str
    stale: bool
    next_cursor: str | None
    applied_filters: dict[str, Any]


def create(events_file: str, key: str) -> FastAPI:
    """The application, knowing one key."""
    page = EventsPage.model_validate(json.loads(Path(events_file).read_bytes()))
    callers = {key: {"id": "key_1", "tier": "enterprise"}}
    app = FastAPI()
    limiter = Limiter(key_func=lambda request: request.headers.get("authorization", ""))
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)

    async def caller(authorization: Annotated[str, Header()] = "") -> dict[str, str]:
        known = callers.get(authorization.removeprefix("Bearer "))
        if known is None:
            raise HTTPException(401, "This API key is unknown.")
        return known

    @app.get("/defense/feeds/events")
    @limiter.limit(LIMIT)
    async def events(
        request: Request,  # noqa: ARG001 - slowapi reads it
        caller: Annotated[dict[str, str], Depends(caller)],  # noqa: ARG001 - only holders of a key may come in
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
    ) -> EventsPage:
        chosen = page.events[:limit]
        return EventsPage(
            events=chosen,
            count=len(chosen),
            total=page.total,
            total_relation=page.total_relation,
            as_of=page.as_of,
            window_hours=page.window_hours,
            coverage=page.coverage,
            source=page.source,
            recording=page.recording,
            stale=page.stale,
            next_cursor=page.next_cursor,
            applied_filters={},
        )

    return app


if __name__ == "__main__":
    uvicorn.run(
        create(sys.argv[2], sys.argv[3]),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
    )
