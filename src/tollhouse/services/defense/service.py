"""The defense service: its feeds and endpoints, its health and its background tasks."""

from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.http.endpoint import endpoints_of
from tollhouse.http.service import AnsweringOperation, Component, ComponentState, Service, Work
from tollhouse.services.defense.alerts.endpoints import AlertEndpoints
from tollhouse.services.defense.alerts.monitor import AlertMonitor
from tollhouse.services.defense.analysis.endpoints import AnalysisEndpoints
from tollhouse.services.defense.brief.brief import BriefFeed
from tollhouse.services.defense.chat.endpoints import open_chat
from tollhouse.services.defense.chat.snapshot import Snapshots
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.ingest.fatalities_sync import sync_fatalities
from tollhouse.services.defense.ingest.feeds_sync import sync_feeds
from tollhouse.services.defense.ingest.gdelt_sync import sync_gdelt
from tollhouse.services.defense.ingest.recording import load_recording
from tollhouse.services.defense.ingest.source_health import SourceHealth, list_sources
from tollhouse.services.defense.news.feeds import NewsFeeds
from tollhouse.services.defense.news.publisher import Publisher
from tollhouse.services.defense.pages import FRONT_PAGE, build_pages
from tollhouse.services.defense.recordings import served_pools
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.storage.database import Database

INTERFACE_VERSION = "2.0"

_DESCRIPTION = """World events for people and software agents who watch defense and security.

Get a key with `POST /api/keys/create`, then send it as `Authorization: Bearer <key>`. An agent registers its wallet
with `POST /api/agent/register`, deposits USDC and signs each call instead. Errors are
`application/problem+json` (RFC 9457). Data: The GDELT Project, https://www.gdeltproject.org/."""

_TAGS = {
    "chat": "Questions in plain words",
    "feeds": "Events, stories, entities and the defense brief",
    "alerts": "Webhooks called when a condition is met",
    "analysis": "Counts of events by group",
    "about": "About this service",
}


class Health(Struct, frozen=True):
    """The response of `GET /health`. `degraded`: a source fails, or a feed is empty.

    `feeds` say what each feed serves and up to when, `sources` when each provider last succeeded and failed.
    """

    status: Literal["ok", "degraded"]
    version: str
    uptime_seconds: int
    feeds: dict[str, dict[str, Any]]
    sources: list[SourceHealth]


async def open_defense(context: AppContext) -> Service:
    """Build the service. Loads a bundled recording unless `recorded` is false."""
    settings = context.settings
    folder = Path(settings.data_dir) / "events-index"
    events = EventsFeed(context.database, recorded=settings.recorded, folder=folder)
    if settings.recorded is not False:
        await load_recording(context.database, settings)
    retention_days = settings.section(DefenseSettings).retention_days
    publisher = Publisher(context.database, retention_days, served_pools(settings.recorded))
    await publisher.publish_stored(Path(settings.data_dir))
    await events.refresh()
    news = NewsFeeds(context.database, events)
    await news.refresh()
    brief = BriefFeed(context.database, events, news)
    chat = await open_chat(context, Snapshots(context.database, events, news, brief))
    return Service(
        name="defense",
        title="Tollhouse: defense intelligence feed",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        endpoints=[
            one
            for handlers in (chat, events, news, brief, AlertEndpoints(context), AnalysisEndpoints(context))
            for one in endpoints_of(handlers)
        ],
        health=partial(_health, context, events, news),
        health_schema=Health,
        assistant=AnsweringOperation(
            "chat",
            "prompt",
            "response",
            "conversation_id",
            examples=("How many battles were there in Ethiopia?", "What happened in Ukraine in the last 24 hours?"),
        ),
        components=partial(_components, context.database, events, news),
        leader_tasks=_leader_tasks(context, publisher),
        per_process_tasks=(events.follow, news.follow),
        tags=_TAGS,
        pages=build_pages(settings, context.plans),
        front_page=FRONT_PAGE,
        has_accounts=True,
    )


def _leader_tasks(context: AppContext, publisher: Publisher) -> list[Work]:
    """The background tasks of the leader. Providers are not polled when a recording is served."""
    alerts = AlertMonitor(context.database, recorded=context.settings.recorded, plans=context.plans.including("alerts"))
    tasks: list[Work] = [publisher.run, alerts.run]
    if not context.settings.recorded:
        syncs = (sync_gdelt, sync_feeds, sync_fatalities)
        tasks += [partial(sync, context.database, context.settings.section(DefenseSettings)) for sync in syncs]
    return tasks


async def _health(context: AppContext, events: EventsFeed, news: NewsFeeds) -> Health:
    facts = events.facts()
    sources = await list_sources(context.database)
    is_degraded = facts["as_of"] is None or any(source.status != "ok" for source in sources)
    feeds = {"events": facts, **news.facts()}
    return Health("degraded" if is_degraded else "ok", __version__, context.uptime_seconds(), feeds, sources)


async def _components(database: Database, events: EventsFeed, news: NewsFeeds) -> list[Component]:
    """The three feeds, and the sources of live data."""
    facts, counts = events.facts(), news.facts()
    state: ComponentState = "failing" if facts["as_of"] is None else "stale" if events.is_stale() else "ok"
    details = {"failing": "The feed is empty.", "stale": "The newest data are older than an hour."}
    recording = "A bundled recording, which does not age." if facts["source"] == "recorded" else ""
    detail = details.get(state, recording)
    feeds = (
        ("events", facts["events"]),
        ("stories", counts["stories"]["stories"]),
        ("entities", counts["entities"]["entities"]),
    )
    components = [
        Component(name, name.capitalize(), state, rows, facts["as_of"], detail=detail) for name, rows in feeds
    ]
    for source in await list_sources(database):
        failing = source.status != "ok"
        # Its error may have an internal address: the log and the operator's page have it.
        reason = f"The last {source.failures} attempts failed." if source.failures > 1 else "The last attempt failed."
        components.append(
            Component(
                _source_id(source.name),
                _source_title(source.name),
                "failing" if failing else "ok",
                updated_at=source.last_success_at,
                detail=reason if failing else "",
            )
        )
    return components


def _source_id(name: str) -> str:
    """A stable id of a source that tells nothing of its address."""
    return name if not name.startswith("feed ") else f"feed {blake2b(name.encode(), digest_size=4).hexdigest()}"


def _source_title(name: str) -> str:
    """A source's name for everyone: a feed by its host, if that is a public name."""
    kind, _, address = name.partition(" ")
    if kind != "feed":
        return {"gdelt": "GDELT", "ucdp": "UCDP", "acled": "ACLED"}.get(kind, kind)
    host = address.partition("/")[0]
    labels = host.split(".")
    is_public = len(labels) > 1 and labels[-1].isalpha() and labels[-1] not in {"local", "internal", "lan", "localhost"}
    return f"Feed of {host.removeprefix('www.')}" if is_public else "Feed of a publisher"
