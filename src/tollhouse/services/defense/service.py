"""The defense service: its feeds and desks put together, its health, and its work in the background."""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tollhouse import __version__
from tollhouse.gate.rooms import Rooms
from tollhouse.gate.service import Service, Work
from tollhouse.services.defense.agents_desk import AgentsDesk
from tollhouse.services.defense.alerts.desk import AlertsDesk
from tollhouse.services.defense.alerts.operations import alert_operations
from tollhouse.services.defense.alerts.watch import Watch
from tollhouse.services.defense.analysis.desk import AnalysisDesk
from tollhouse.services.defense.analysis.operations import analysis_operations
from tollhouse.services.defense.brief_feed import BriefFeed
from tollhouse.services.defense.chat.chat_desk import open_chat
from tollhouse.services.defense.chat.picture import Pictures
from tollhouse.services.defense.checkout_desk import CheckoutDesk, checkout_operations
from tollhouse.services.defense.events_feed import EventsFeed
from tollhouse.services.defense.ingest import health as sources
from tollhouse.services.defense.ingest.following_fatalities import follow_fatalities
from tollhouse.services.defense.ingest.following_feeds import follow_feeds
from tollhouse.services.defense.ingest.live import follow_provider
from tollhouse.services.defense.ingest.recording import load_recording
from tollhouse.services.defense.keys_desk import KeysDesk
from tollhouse.services.defense.news.news_feeds import NewsFeeds
from tollhouse.services.defense.news.newsdesk import Newsdesk
from tollhouse.services.defense.operations import Feeds, operations

INTERFACE_VERSION = "2.0"

_DESCRIPTION = """World events for people and software agents who watch defense and security.

Get a key with `POST /api/keys/create`, then send it as `Authorization: Bearer <key>`. An agent registers its wallet
with `POST /api/agent/register`, deposits USDC and signs each call instead. Errors are
`application/problem+json` (RFC 9457). Data: The GDELT Project, https://www.gdeltproject.org/."""

_TAGS = {
    "chat": "Questions in plain words",
    "feeds": "What happened",
    "keys": "Your access",
    "agents": "Wallets that pay per call",
    "alerts": "Told when it comes true",
    "analysis": "Counts of your own",
    "about": "This service",
}


async def open_defense(rooms: Rooms) -> Service:
    """The service over the rooms it is given; loads the bundled recording where there is nothing else to serve."""
    settings = rooms.settings
    events = EventsFeed(rooms.database, recorded=settings.recorded)
    if settings.recorded is not False:
        await load_recording(rooms.database, settings)
    desk = Newsdesk(rooms.database, settings.retention_days)
    await desk.first_edition(Path(settings.data_dir))
    await events.refresh()
    news = NewsFeeds(rooms.database, events)
    await news.refresh()
    feeds = Feeds(events, news, BriefFeed(rooms.database, events, news))
    chat = await open_chat(rooms, Pictures(rooms.database, feeds.events, feeds.news, feeds.brief))
    keys = KeysDesk(rooms.keys, rooms.meter, settings.keys_per_address_per_hour)
    checkout = CheckoutDesk(settings, rooms.database, rooms.keys, rooms.meter, rooms.stripe)
    return Service(
        name="defense",
        title="Tollhouse: defense intelligence feed",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        operations=[
            *operations(feeds, keys, AgentsDesk(rooms), chat),
            *checkout_operations(checkout),
            *alert_operations(AlertsDesk(rooms)),
            *analysis_operations(AnalysisDesk(rooms)),
        ],
        health=partial(_health, rooms, feeds),
        health_schema=_HEALTH_SCHEMA,
        work=_work(rooms, desk, checkout),
        follow=(events.follow, news.follow),
        tags=_TAGS,
    )


def _work(rooms: Rooms, desk: Newsdesk, checkout: CheckoutDesk) -> list[Work]:
    """What is done in the background: telling the news and who asked to be told, and following providers.

    Providers are not followed where recordings are wanted.
    """
    alerts = Watch(rooms.database, recorded=rooms.settings.recorded)
    work: list[Work] = [desk.work, alerts.work]
    if rooms.stripe:
        work.append(checkout.watch)
    if not rooms.settings.recorded:
        following = (follow_provider, follow_feeds, follow_fatalities)
        work += [partial(follow, rooms.database, rooms.settings) for follow in following]
    return work


async def _health(rooms: Rooms, feeds: Feeds) -> dict[str, Any]:
    facts = feeds.events.facts()
    found = await sources.all_sources(rooms.database)
    is_degraded = facts["as_of"] is None or any(source.status != "ok" for source in found)
    return {
        "status": "degraded" if is_degraded else "ok",
        "version": __version__,
        "uptime_seconds": rooms.uptime_seconds(),
        "feeds": {"events": facts, **feeds.news.facts()},
        "sources": msgspec.to_builtins(found),
    }


_HEALTH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["status", "version", "uptime_seconds", "feeds", "sources"],
    "properties": {
        "status": {"enum": ["ok", "degraded"], "description": "Degraded: a source fails, or a feed has nothing"},
        "version": {"type": "string"},
        "uptime_seconds": {"type": "integer"},
        "feeds": {"type": "object", "description": "What each feed serves now, up to which moment"},
        "sources": {
            "type": "array",
            "description": "Each provider: when it last answered, how it last failed",
            "items": {"type": "object"},
        },
    },
}
