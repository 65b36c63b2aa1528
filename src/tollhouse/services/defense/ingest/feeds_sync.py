"""Following publishers' own feeds: each asked when it is due, its state and health kept across restarts."""

import asyncio
from datetime import timedelta
from urllib.parse import urlsplit

import httpx2
import msgspec

from tollhouse import __version__, clock
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.services.defense.ingest import source_health
from tollhouse.services.defense.ingest.feed_health import is_due
from tollhouse.services.defense.ingest.feed_poller import FeedState, Poll, poll
from tollhouse.services.defense.ingest.upstream_error import UpstreamFailure
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.article_import import take_items
from tollhouse.services.defense.stories.clusterer import WINDOW
from tollhouse.storage.database import Database

log = logger("ingest")

LOOK_EVERY = timedelta(seconds=15)
AT_ONCE = 4
# Of a source in the health of sources.
LONGEST_NAME = 200


async def follow_feeds(database: Database, settings: Settings) -> None:
    """Ask every feed of the settings when it is due, for ever; one that fails waits longer and keeps nobody up."""
    await source_health.only_these(database, "feed ", [_source(url) for url in settings.feeds])
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
        await take_items(database, "provider", answer.articles)
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
