"""Poll publishers' feeds when they are due, with back-off, and store their articles, state and health."""

import asyncio
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse import __version__, clock
from tollhouse.download import Fetched, UpstreamFailure, fetch
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.services.defense.article import Article
from tollhouse.services.defense.ingest import source_health
from tollhouse.services.defense.ingest.feed_parser import ParsedFeed, Reading, parse_feed
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.reported_article import import_items
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.services.defense.stories.clusterer import WINDOW
from tollhouse.storage.database import Database, upsert

SHORTEST_BACK_OFF_SECONDS = 60
LONGEST_BACK_OFF_SECONDS = 6 * 3600
# Retry within a day, whatever Retry-After a source sends.
LONGEST_RETRY_AFTER_SECONDS = 24 * 3600


class FeedHealth(Struct, frozen=True):
    """The health of one feed. `last_error` is empty after a success; `next_attempt_at` None means now."""

    last_success: datetime | None = None
    last_error: str = ""
    last_error_at: datetime | None = None
    consecutive_failures: int = 0
    next_attempt_at: datetime | None = None


def is_due(health: FeedHealth, at: datetime) -> bool:
    """Whether the feed may be polled at this time."""
    return health.next_attempt_at is None or at >= health.next_attempt_at


def after_success(health: FeedHealth, at: datetime, interval_seconds: float) -> FeedHealth:
    """The health after a response (including 304); the next attempt is due after `interval_seconds`."""
    return replace(
        health,
        last_success=at,
        last_error="",
        consecutive_failures=0,
        next_attempt_at=at + timedelta(seconds=interval_seconds),
    )


def after_failure(health: FeedHealth, at: datetime, error: str, retry_after_seconds: float | None = None) -> FeedHealth:
    """The health after a failure. `retry_after_seconds` from the source can only lengthen the back-off."""
    failures = health.consecutive_failures + 1
    requested = min(retry_after_seconds or 0.0, LONGEST_RETRY_AFTER_SECONDS)
    return replace(
        health,
        last_error=error,
        last_error_at=at,
        consecutive_failures=failures,
        next_attempt_at=at + timedelta(seconds=max(back_off_seconds(failures), requested)),
    )


def back_off_seconds(failures: int) -> float:
    """1, 2, 4 … minutes after the first, second, third … failure in a row, at most 6 hours; no jitter."""
    # Limit the exponent: beyond 2**20 the maximum applies anyway.
    doubled = SHORTEST_BACK_OFF_SECONDS * 2.0 ** min(max(failures, 1) - 1, 20)
    return min(doubled, LONGEST_BACK_OFF_SECONDS)


CAP_BYTES = 10 * 1024 * 1024
DEADLINE_SECONDS = 30.0


class FeedState(Struct, frozen=True):
    """State between two polls of a feed. `seen` is None until the feed was read once."""

    etag: str = ""
    last_modified: str = ""
    seen: frozenset[str] | None = None
    health: FeedHealth = FeedHealth()


class Poll(Struct, frozen=True):
    """The result of a poll: the new state, and the parsed feed unless it is unchanged or failed."""

    state: FeedState
    parsed: ParsedFeed | None = None

    @property
    def articles(self) -> list[Article]:
        """The articles to import."""
        return self.parsed.articles if self.parsed else []


async def poll(
    client: httpx2.AsyncClient, url: str, state: FeedState, since: datetime, *, interval_seconds: float
) -> Poll:
    """Poll the feed once. Faults of the feed do not raise; they are in `state.health`."""
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
    if fetched.is_not_modified:
        return Poll(FeedState(state.etag, state.last_modified, state.seen, health))
    if fetched.status != 200:
        raise UpstreamFailure("status", f"the feed responded with status {fetched.status}", fetched.retry_after_seconds)
    reading = Reading(fetched.url, at, since, state.seen, fetched.content_type)
    # Ten megabytes take a second: parse in a thread.
    parsed = await asyncio.to_thread(parse_feed, fetched.body, reading)
    # A conditional request would hide the entries dated in the future.
    etag, last_modified = ("", "") if "future" in parsed.skipped else (fetched.etag, fetched.last_modified)
    return Poll(FeedState(etag, last_modified, parsed.listed, health), parsed)


def _failed(state: FeedState, error: str, retry_after_seconds: float | None) -> Poll:
    health = after_failure(state.health, clock.now(), error, retry_after_seconds)
    return Poll(FeedState(state.etag, state.last_modified, state.seen, health))


log = logger("ingest")

CHECK_INTERVAL = timedelta(seconds=15)
CONCURRENT_POLLS = 4
LONGEST_SOURCE_NAME = 200


async def sync_feeds(database: Database, settings: DefenseSettings) -> None:
    """Poll every configured feed when it is due, until cancelled. A failing feed backs off and delays no other."""
    await source_health.keep_only(database, "feed ", [_source(url) for url in settings.feeds])
    async with database.reading() as connection:
        stored = await store.feed_states(connection)
    states = {url: msgspec.json.decode(stored[url], type=FeedState) for url in settings.feeds if url in stored}
    polls = asyncio.Semaphore(CONCURRENT_POLLS)
    async with httpx2.AsyncClient(headers={"User-Agent": f"tollhouse/{__version__}"}) as client:

        async def poll_feed(url: str) -> None:
            async with polls:
                state = states.get(url, FeedState())
                result = await poll(
                    client, url, state, clock.now() - WINDOW, interval_seconds=settings.feed_interval_seconds
                )
                if await _store_poll(database, url, result):
                    states[url] = result.state

        while True:
            due = [url for url in settings.feeds if is_due(states.get(url, FeedState()).health, clock.now())]
            await asyncio.gather(*map(poll_feed, due))
            await asyncio.sleep(min(CHECK_INTERVAL.total_seconds(), settings.feed_interval_seconds))


async def _store_poll(database: Database, url: str, result: Poll) -> bool:
    """Store articles, state and health. False if that fails, so that the next poll reads the same articles again."""
    try:
        await import_items(database, "provider", result.articles)
        async with database.writing() as connection:
            await upsert(connection, store.news_feed, [{"url": url, "state": msgspec.json.encode(result.state)}])
        health = result.state.health
        if health.consecutive_failures:
            error = UpstreamFailure("malformed", health.last_error)
            await source_health.failed(database, _source(url), error, health.consecutive_failures)
        else:
            await source_health.succeeded(database, _source(url))
    except Problem as problem:
        log.warning("feed not stored", url=url, detail=problem.detail)
        return False
    return True


def _source(url: str) -> str:
    """The feed's name in source health."""
    place = urlsplit(url)
    # With the path, because a publisher may have several feeds; without the query, which may contain a secret.
    return f"feed {place.hostname}{place.path}"[:LONGEST_SOURCE_NAME]
