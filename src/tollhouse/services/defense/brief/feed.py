"""The defense brief as a feed, rebuilt when the events, the stories or the procurement lines change."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from tollhouse import clock
from tollhouse.http.endpoint import JSON, Endpoint, Request, Response
from tollhouse.http.response import compute_etag
from tollhouse.http.terms import KEY_OR_AGENT
from tollhouse.services.defense import store
from tollhouse.services.defense.brief.brief import Brief, Day, Source, TopStory, build_brief
from tollhouse.services.defense.brief.production import Line, bundled_lines
from tollhouse.services.defense.events.feed import LICENCE, PROVIDER, EventsFeed
from tollhouse.services.defense.examples import example
from tollhouse.services.defense.news.feeds import NewsFeeds
from tollhouse.storage.database import Database

TOP_STORIES = 5

_GDELT = Source(PROVIDER, "https://www.gdeltproject.org/", LICENCE, ["events_live", "capability_gaps", "top_stories"])


class BriefFeed:
    """`GET /feeds/defense-brief`, from the windows that the other feeds serve."""

    def __init__(self, database: Database, events: EventsFeed, news: NewsFeeds) -> None:
        self._database = database
        self._events = events
        self._news = news
        self._built_from: tuple[object, object] = (None, None)
        self._response: Response | None = None

    async def brief(self, _request: Request[Any, Any]) -> Response:
        """The brief of the current windows."""
        events, news = self._events.events, self._news.window
        if self._response is None or self._built_from[0] is not events or self._built_from[1] is not news:
            async with self._database.reading() as connection:
                packed = await store.read_document_body(connection, store.PRODUCTION_LINES)
            lines = msgspec.json.decode(packed, type=tuple[Line, ...]) if packed else bundled_lines()
            self._response = await asyncio.to_thread(self._build, lines)
            self._built_from = (events, news)
        return self._response

    def _build(self, lines: Sequence[Line]) -> Response:
        day = Day(
            as_of=self._events.as_of,
            window=self._events.events,
            previous=self._events.previous,
            top_stories=[
                TopStory(story.id, story.title, story.article_count, story.source_count, story.significance)
                for story in self._news.window.stories[:TOP_STORIES]
            ],
            provider=_GDELT,
            coverage=self._events.coverage,
        )
        body = msgspec.json.encode(build_brief(day, lines, clock.now()))
        return Response(body, etag=compute_etag(body), cache_control="private, no-cache")

    def endpoint(self) -> Endpoint:
        """The endpoint of the brief."""
        return Endpoint(
            id="getDefenseBrief",
            method="GET",
            path="/feeds/defense-brief",
            summary="Get production, live events and capability gaps on one page",
            description="Every figure has a citation. docs/defense-brief.md states what each figure covers.",
            handler=self.brief,
            terms=KEY_OR_AGENT,
            responses={JSON: Brief},
            tag="feeds",
            is_tool=True,
            examples={JSON: example("brief")},
        )
