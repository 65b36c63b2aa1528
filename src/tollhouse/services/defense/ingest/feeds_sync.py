"""Poll publishers' feeds."""

import asyncio
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse import __version__, clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.services.defense.article import Article
from tollhouse.services.defense.ingest import source_health
from tollhouse.services.defense.ingest.feed_parser import ParsedFeed, Reading, parse_feed
from tollhouse.services.defense.ingest.fetcher import Fetched, UpstreamFailure, fetch
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.article_import import import_items
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.services.defense.stories.clusterer import WINDOW
from tollhouse.storage.database import Database

SHORTEST_BACK_OFF_SECONDS = 60
LONGEST_BACK_OFF_SECONDS = 6 * 3600
# However long a source asks us to stay away, we look again within a day.
LONGEST_RETRY_AFTER_SECONDS = 24 * 3600


class FeedHealth(Struct, frozen=True):
    """One source's record. `last_error` is empty after a success; `next_attempt_at` None means at once."""

    last_success: datetime | None = None
    last_error: str = ""
    last_error_at: datetime | None = None
    consecutive_failures: int = 0
    next_attempt_at: datetime | None = None


def is_due(health: FeedHealth, at: datetime) -> bool:
    """Whether the source may be asked at this moment."""
    return health.next_attempt_at is None or at >= health.next_attempt_at


def after_success(health: FeedHealth, at: datetime, interval_seconds: float) -> FeedHealth:
    """The record after an answer, 304 included; the next attempt follows after the source's own interval."""
    return replace(
        health,
        last_success=at,
        last_error="",
        consecutive_failures=0,
        next_attempt_at=at + timedelta(seconds=interval_seconds),
    )


def after_failure(health: FeedHealth, at: datetime, error: str, retry_after_seconds: float | None = None) -> FeedHealth:
    """The record after a failure. `retry_after_seconds` is what the source asked for; it can only lengthen the wait."""
    failures = health.consecutive_failures + 1
    asked = min(retry_after_seconds or 0.0, LONGEST_RETRY_AFTER_SECONDS)
    return replace(
        health,
        last_error=error,
        last_error_at=at,
        consecutive_failures=failures,
        next_attempt_at=at + timedelta(seconds=max(back_off_seconds(failures), asked)),
    )


def back_off_seconds(failures: int) -> float:
    """1, 2, 4 … minutes after the first, second, third … failure in a row, at most 6 hours. Without jitter."""
    # Beyond 2**20 nothing changes but the size of the number.
    doubled = SHORTEST_BACK_OFF_SECONDS * 2.0 ** min(max(failures, 1) - 1, 20)
    return min(doubled, LONGEST_BACK_OFF_SECONDS)


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


log = logger("ingest")

LOOK_EVERY = timedelta(seconds=15)
AT_ONCE = 4
# Of a source in the health of sources.
LONGEST_NAME = 200


async def sync_feeds(database: Database, settings: DefenseSettings) -> None:
    """Ask every feed of the settings when it is due, for ever; one that fails waits longer and keeps nobody up."""
    await source_health.keep_only(database, "feed ", [_source(url) for url in settings.feeds])
    async with database.reading() as connection:
        stored = await store.feed_states(connection)
    states = {url: msgspec.json.decode(stored[url], type=FeedState) for url in settings.feeds if url in stored}
    turns = asyncio.Semaphore(AT_ONCE)
    async with httpx2.AsyncClient(headers={"User-Agent": f"tollhouse/{__version__}"}) as client:

        async def ask(url: str) -> None:
            async with turns:
                state = states.get(url, FeedState())
                answer = await poll(
                    client, url, state, clock.now() - WINDOW, interval_seconds=settings.feed_interval_seconds
                )
                if await _keep(database, url, answer):
                    states[url] = answer.state

        while True:
            due = [url for url in settings.feeds if is_due(states.get(url, FeedState()).health, clock.now())]
            await asyncio.gather(*map(ask, due))
            await asyncio.sleep(min(LOOK_EVERY.total_seconds(), settings.feed_interval_seconds))


async def _keep(database: Database, url: str, answer: Poll) -> bool:
    """Keep the items and the state; False when they cannot be, so that the next poll reads the same items again."""
    try:
        await import_items(database, "provider", answer.articles)
        async with database.writing() as connection:
            await store.write_feed_state(connection, url, msgspec.json.encode(answer.state))
        await _tell(database, url, answer.state)
    except Problem as problem:
        log.warning("feed not kept", url=url, detail=problem.detail)
        return False
    return True


async def _tell(database: Database, url: str, state: FeedState) -> None:
    if state.health.consecutive_failures:
        error = UpstreamFailure("malformed", state.health.last_error)
        await source_health.failed(database, _source(url), error, state.health.consecutive_failures)
    else:
        await source_health.succeeded(database, _source(url))


def _source(url: str) -> str:
    """The feed's name in the health of sources."""
    place = urlsplit(url)
    # The path too: a publisher has several feeds. Not the query, which may hold a subscriber's secret.
    return f"feed {place.hostname}{place.path}"[:LONGEST_NAME]
