"""The recorded feeds, loaded once, and what they hold as plain JSON for scans that share no code with the answerer."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.services.defense.brief.brief import BriefFeed
from tollhouse.services.defense.chat.snapshot import Snapshot, Snapshots
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.ingest.recording import load_recording
from tollhouse.services.defense.news.feeds import NewsFeeds
from tollhouse.services.defense.news.publisher import Publisher
from tollhouse.services.defense.settings import DefenseSettings


@dataclass(frozen=True)
class Recorded:
    """`feeds` are plain JSON: what the four feeds answer."""

    snapshot: Snapshot
    feeds: dict[str, Any]


async def load_recorded(folder: Path) -> Recorded:
    """What the defense service serves from its bundled recording."""
    settings = Settings(data_dir=str(folder), recorded=True)
    async with open_context(settings) as context:
        events = EventsFeed(context.database, recorded=True)
        await load_recording(context.database, settings)
        await Publisher(context.database, settings.section(DefenseSettings).retention_days).publish_stored(folder)
        await events.refresh()
        news = NewsFeeds(context.database, events)
        await news.refresh()
        brief = BriefFeed(context.database, events, news)
        snapshot = await Snapshots(context.database, events, news, brief).present(None)
        plain = {
            "as_of": events.window.as_of.isoformat(),
            "events": list(events.window.events),
            "reported": {entry.event.id: entry.reported_at for entry in events.window.entries},
            "stories": news.window.stories,
            "entities": news.window.entities,
            "brief": snapshot.holdings.brief,
        }
    return Recorded(snapshot, json.loads(msgspec.json.encode(plain)))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> Recorded:
    return asyncio.run(load_recorded(tmp_path_factory.mktemp("recorded")))


@pytest.fixture(scope="session")
def snapshot(recorded) -> Snapshot:
    return recorded.snapshot
