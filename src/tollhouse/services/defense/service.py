"""The defense service: its feeds and desks put together, its health, and its work in the background."""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tollhouse import __version__
from tollhouse.accounts.agent_endpoints import AgentEndpoints
from tollhouse.accounts.checkout_endpoints import CheckoutEndpoints
from tollhouse.accounts.key_endpoints import KeyEndpoints
from tollhouse.admission.context import AppContext
from tollhouse.http.service import Service, Work
from tollhouse.services.defense.alerts.declarations import alert_operations
from tollhouse.services.defense.alerts.endpoints import AlertEndpoints
from tollhouse.services.defense.alerts.monitor import AlertMonitor
from tollhouse.services.defense.analysis.declarations import analysis_operations
from tollhouse.services.defense.analysis.endpoints import AnalysisEndpoints
from tollhouse.services.defense.brief.feed import BriefFeed
from tollhouse.services.defense.chat.endpoints import open_chat
from tollhouse.services.defense.chat.snapshot import Snapshots
from tollhouse.services.defense.declarations import Feeds, operations
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.ingest import source_health as sources
from tollhouse.services.defense.ingest.fatalities_sync import sync_fatalities
from tollhouse.services.defense.ingest.feeds_sync import sync_feeds
from tollhouse.services.defense.ingest.gdelt_sync import sync_gdelt
from tollhouse.services.defense.ingest.recording import load_recording
from tollhouse.services.defense.news.feeds import NewsFeeds
from tollhouse.services.defense.news.story_publisher import StoryPublisher
from tollhouse.services.defense.pages import FRONT_PAGE, build_pages
from tollhouse.services.defense.settings import DefenseSettings

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


async def open_defense(context: AppContext) -> Service:
    """The service over the rooms it is given; loads the bundled recording where there is nothing else to serve."""
    settings = context.settings
    events = EventsFeed(context.database, recorded=settings.recorded)
    if settings.recorded is not False:
        await load_recording(context.database, settings)
    desk = StoryPublisher(context.database, settings.section(DefenseSettings).retention_days)
    await desk.publish_stored(Path(settings.data_dir))
    await events.refresh()
    news = NewsFeeds(context.database, events)
    await news.refresh()
    feeds = Feeds(events, news, BriefFeed(context.database, events, news))
    chat = await open_chat(context, Snapshots(context.database, feeds.events, feeds.news, feeds.brief))
    keys = KeyEndpoints(context.keys, context.plans, context.meter, settings.keys_per_address_per_hour)
    checkout = CheckoutEndpoints(settings, context.database, context.keys, context.meter, context.stripe)
    return Service(
        name="defense",
        title="Tollhouse: defense intelligence feed",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        endpoints=[
            *operations(feeds, keys, AgentEndpoints(context), chat),
            *checkout.endpoints(),
            *alert_operations(AlertEndpoints(context)),
            *analysis_operations(AnalysisEndpoints(context)),
        ],
        health=partial(_health, context, feeds),
        health_schema=_HEALTH_SCHEMA,
        leader_tasks=_work(context, desk, checkout),
        per_process_tasks=(events.follow, news.follow),
        tags=_TAGS,
        pages=build_pages(settings, context.plans),
        front_page=FRONT_PAGE,
    )


def _work(context: AppContext, desk: StoryPublisher, checkout: CheckoutEndpoints) -> list[Work]:
    """What is done in the background: telling the news and who asked to be told, and following providers.

    Providers are not followed where recordings are wanted.
    """
    alerts = AlertMonitor(context.database, recorded=context.settings.recorded, plans=context.plans.including("alerts"))
    work: list[Work] = [desk.work, alerts.work]
    if context.stripe:
        work.append(checkout.monitor)
    if not context.settings.recorded:
        following = (sync_gdelt, sync_feeds, sync_fatalities)
        work += [partial(follow, context.database, context.settings.section(DefenseSettings)) for follow in following]
    return work


async def _health(context: AppContext, feeds: Feeds) -> dict[str, Any]:
    facts = feeds.events.facts()
    found = await sources.list_sources(context.database)
    is_degraded = facts["as_of"] is None or any(source.status != "ok" for source in found)
    return {
        "status": "degraded" if is_degraded else "ok",
        "version": __version__,
        "uptime_seconds": context.uptime_seconds(),
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
