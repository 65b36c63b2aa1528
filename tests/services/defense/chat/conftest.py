"""The recorded feeds, loaded once, and what they hold as plain JSON for scans that share no code with the answerer."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tollhouse import app
from tollhouse.services.defense.brief_feed import BriefFeed
from tollhouse.services.defense.chat.picture import Picture, Pictures
from tollhouse.services.defense.events_feed import EventsFeed
from tollhouse.services.defense.ingest.recording import load_recording
from tollhouse.services.defense.news.news_feeds import NewsFeeds
from tollhouse.services.defense.news.newsdesk import Newsdesk
from tollhouse.settings import Settings


@dataclass(frozen=True)
class Recorded:
    """`feeds` are plain JSON: what the four feeds answer."""

    picture: Picture
    feeds: dict[str, Any]


async def load_recorded(folder: Path) -> Recorded:
    """What the defense service serves from its bundled recording."""
    settings = Settings(data_dir=str(folder), recorded=True)
    async with app.rooms_of(settings) as rooms:
        events = EventsFeed(rooms.database, recorded=True)
        await load_recording(rooms.database, settings)
        await Newsdesk(rooms.database, settings.retention_days).first_edition(folder)
        await events.refresh()
        news = NewsFeeds(rooms.database, events)
        await news.refresh()
        brief = BriefFeed(rooms.database, events, news)
        picture = await Pictures(rooms.database, events, news, brief).present(None)
        plain = {
            "as_of": events.as_of.isoformat(),
            "events": list(events.events),
            "stories": news.window.stories,
            "entities": news.window.entities,
            "brief": picture.holdings.brief,
        }
    return Recorded(picture, json.loads(msgspec.json.encode(plain)))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> Recorded:
    return asyncio.run(load_recorded(tmp_path_factory.mktemp("recorded")))


@pytest.fixture(scope="session")
def picture(recorded) -> Picture:
    return recorded.picture
