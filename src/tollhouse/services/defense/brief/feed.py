"""The defense brief: made anew whenever what it is made of has changed."""

import asyncio
from collections.abc import Sequence
from operator import is_not

import msgspec

from tollhouse import clock
from tollhouse.http.endpoint import Request, Response
from tollhouse.http.response_writer import etag_of
from tollhouse.services.defense import store
from tollhouse.services.defense.brief.brief import Day, Source, TopStory, build_brief
from tollhouse.services.defense.brief.production import Line, bundled_lines
from tollhouse.services.defense.events.feed import LICENCE, PROVIDER, EventsFeed
from tollhouse.services.defense.news.feeds import NewsFeeds
from tollhouse.services.defense.stories.story import Story
from tollhouse.storage.database import Database

TOP_STORIES = 5

_GDELT = Source(PROVIDER, "https://www.gdeltproject.org/", LICENCE, ["events_live", "capability_gaps", "top_stories"])


class BriefFeed:
    """`GET /feeds/defense-brief`, over the windows that the other feeds serve."""

    def __init__(self, database: Database, events: EventsFeed, news: NewsFeeds) -> None:
        self._database = database
        self._events = events
        self._news = news
        self._made_of: tuple[object, object] | None = None
        self._answer: Response | None = None

    async def brief(self, _asked: Request[None, None]) -> Response:
        """The brief of the present windows."""
        made_of = (self._events.events, self._news.window)
        if self._answer is None or self._made_of is None or any(map(is_not, made_of, self._made_of)):
            async with self._database.reading() as connection:
                packed = await store.read_document_body(connection, store.PRODUCTION_LINES)
            lines = msgspec.json.decode(packed, type=tuple[Line, ...]) if packed else bundled_lines()
            self._answer = await asyncio.to_thread(self._made, lines)
            self._made_of = made_of
        return self._answer

    def _made(self, lines: Sequence[Line]) -> Response:
        day = Day(
            as_of=self._events.as_of,
            window=self._events.events,
            previous=self._events.previous,
            top_stories=_top(self._news.window.stories),
            provider=_GDELT,
            coverage=self._events.coverage,
        )
        body = msgspec.json.encode(build_brief(day, lines, clock.now()))
        return Response(body, etag=etag_of(body), cache_control="private, no-cache")


def _top(stories: Sequence[Story]) -> list[TopStory]:
    return [
        TopStory(story.id, story.title, story.article_count, story.source_count, story.significance)
        for story in stories[:TOP_STORIES]
    ]
