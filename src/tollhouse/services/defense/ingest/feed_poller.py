"""How one feed is asked for news: fetch if due, parse, and remember what the next time needs to know."""

import asyncio
from datetime import datetime

import httpx2
from msgspec import Struct

from tollhouse import clock
from tollhouse.services.defense.article import Article
from tollhouse.services.defense.ingest.feed_health import FeedHealth, after_failure, after_success
from tollhouse.services.defense.ingest.feed_parser import ParsedFeed, Reading, parse_feed
from tollhouse.services.defense.ingest.fetcher import Fetched, fetch
from tollhouse.services.defense.ingest.upstream_error import UpstreamFailure

CAP_BYTES = 10 * 1024 * 1024
DEADLINE_SECONDS = 30.0


class FeedState(Struct, frozen=True):
    """What is kept between two polls of a feed. `seen` is None until the feed has once been read."""

    etag: str = ""
    last_modified: str = ""
    seen: frozenset[str] | None = None
    health: FeedHealth = FeedHealth()


class Poll(Struct, frozen=True):
    """What came of a poll: the state to keep, and what was read, None when nothing changed or the feed failed."""

    state: FeedState
    parsed: ParsedFeed | None = None

    @property
    def articles(self) -> list[Article]:
        """The articles to take in; none when nothing changed."""
        return self.parsed.articles if self.parsed else []


async def poll(
    client: httpx2.AsyncClient, url: str, state: FeedState, since: datetime, *, interval_seconds: float
) -> Poll:
    """Ask the feed once. Never raises for what a feed can do wrong: `state.health` tells."""
    try:
        fetched = await fetch(
            client,
            url,
            cap_bytes=CAP_BYTES,
            deadline_seconds=DEADLINE_SECONDS,
            etag=state.etag,
            last_modified=state.last_modified,
        )
        return await _read(fetched, state, since, interval_seconds)
    except UpstreamFailure as failure:
        return _failed(state, failure.detail, failure.retry_after_seconds)
    except ValueError as fault:
        return _failed(state, str(fault), None)


async def _read(fetched: Fetched, state: FeedState, since: datetime, interval_seconds: float) -> Poll:
    at = clock.now()
    health = after_success(state.health, at, interval_seconds)
    if fetched.is_unchanged:
        return Poll(FeedState(state.etag, state.last_modified, state.seen, health))
    if fetched.status != 200:
        raise UpstreamFailure("status", f"the feed answered {fetched.status}", fetched.retry_after_seconds)
    reading = Reading(fetched.url, at, since, state.seen, fetched.content_type)
    # Ten megabytes take a second, in which nobody else may be kept waiting.
    parsed = await asyncio.to_thread(parse_feed, fetched.body, reading)
    # A conditional request would hide entries that wait for their time.
    waits = "future" in parsed.skipped
    etag, last_modified = ("", "") if waits else (fetched.etag, fetched.last_modified)
    return Poll(FeedState(etag, last_modified, parsed.listed, health), parsed)


def _failed(state: FeedState, error: str, retry_after_seconds: float | None) -> Poll:
    health = after_failure(state.health, clock.now(), error, retry_after_seconds)
    return Poll(FeedState(state.etag, state.last_modified, state.seen, health))
