"""Write data/examples.json, the examples of the API description, from the bundled recording; the brief's stays.

Run it after tools/prepare_recording.py.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from tollhouse import logs
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.http.endpoint import JSON, Request
from tollhouse.services.defense.brief.brief import BriefFeed
from tollhouse.services.defense.chat.snapshot import MOST_EVENTS
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.events.pages import CSV, EventsQuery, PointsQuery
from tollhouse.services.defense.ingest.recording import load_recording
from tollhouse.services.defense.news.feeds import EntitiesQuery, NewsFeeds, StoriesQuery

TARGET = Path(__file__).parents[1] / "src/tollhouse/services/defense/data/examples.json"
# An example with more reports is too long to read.
MOST_REPORTS = 4


async def build(folder: Path) -> dict[str, Any]:
    """The examples by name, except the brief's."""
    settings = Settings(data_dir=str(folder), background_work=False)
    async with open_context(settings, answers_calls=False) as context:
        await load_recording(context.database, settings)
        events = EventsFeed(context.database, recorded=True)
        await events.refresh()
        news = NewsFeeds(context.database, events)
        await news.refresh()
        brief = BriefFeed(context.database, events, news)
        listed = [entry.event for entry in events.window.most_significant(MOST_EVENTS)]
        event = next(it for it in listed if 1 < len(it.source_urls) <= MOST_REPORTS and it.story_id)
        query = EventsQuery(q=event.title, limit=1)
        points = PointsQuery(q=event.title, facets="severity_tier,reported_at")
        story = next(it for it in news.window.stories if 1 < it.article_count <= MOST_REPORTS)
        stories = StoriesQuery(q=story.title, limit=1)
        entity = next(it for it in news.window.entities if it.mentions <= MOST_REPORTS)
        entities = EntitiesQuery(q=entity.name, limit=1)
        return {
            "event": event,
            "event_detail": await events.one(_request(None, event.id)),
            "events_page": msgspec.json.decode((await events.page(_request(query))).body),
            "brief_summary": msgspec.json.decode((await brief.summary(_request(None))).body),
            "points_page": msgspec.json.decode((await events.points(_request(points))).body),
            "csv": (await events.page(_request(query, media_type=CSV))).body.decode(),
            "stories_page": await news.stories(_request(stories)),
            "story_detail": await news.story(_request(None, story.id)),
            "entities_page": await news.entities(_request(entities)),
            "entity_detail": await news.entity(_request(None, entity.id)),
        }


def _request(query: Any, identity: str = "", media_type: str = JSON) -> Request[Any, Any]:
    return Request(query, None, {"id": identity} if identity else {}, None, "", media_type)


def main() -> None:
    logs.configure("warning")
    known = msgspec.json.decode(TARGET.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        built = msgspec.to_builtins(asyncio.run(build(Path(folder))))
    TARGET.write_bytes(msgspec.json.format(msgspec.json.encode(known | built), indent=1) + b"\n")


if __name__ == "__main__":
    main()
