"""The newsroom: takes in what was reported, keeps the stories clustered, and tells them and their entities anew."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.article import Article
from tollhouse.services.defense.events.event import EventRecord
from tollhouse.services.defense.news.entity import Entity, EntityCount
from tollhouse.services.defense.news.full_names import with_full_names
from tollhouse.services.defense.news.reported_article import Reported, united
from tollhouse.services.defense.news.story_context import context_of
from tollhouse.services.defense.news.syndication import Copies
from tollhouse.services.defense.publishers import voices
from tollhouse.services.defense.stories.clusterer import WINDOW, Clusterer
from tollhouse.services.defense.stories.snapshot import Snapshot, dump, load
from tollhouse.services.defense.stories.story import LiveStory, Story, told

TOLD_HOURS = 24


class Edition(Struct, frozen=True):
    """What the newsroom tells at one moment, and which story ids ended or began since the last one."""

    stories: list[Story]
    entities: list[Entity]
    merged: list[tuple[str, str]]
    split: list[tuple[str, str]]


class _Told(Struct, frozen=True, gc=False):
    """A story, and what it was told from: its articles, the events they report, and what these were then."""

    articles: Sequence[str]
    event_ids: tuple[str, ...]
    events: tuple[EventRecord | None, ...]
    story: Story

    def is_by(self, events: Mapping[str, EventRecord]) -> bool:
        """Whether the same is known of its events now."""
        return self.events == tuple(map(events.get, self.event_ids))


class StoryBuilder:
    """The live stories of one pool. Feed it in the order of time; `remembered` lets another process go on."""

    def __init__(self, remembered: bytes | None = None) -> None:
        self._clusterer = load(msgspec.msgpack.decode(remembered, type=Snapshot)) if remembered else Clusterer()
        self._reports: dict[str, Reported] = {}
        self._copies = Copies()
        self._entities = EntityCount()
        self._shown: dict[str, Reported] = {}
        self._told: dict[str, _Told] = {}
        self._merged: list[tuple[str, str]] = []
        self._split: list[tuple[str, str]] = []

    def articles(self) -> list[Article]:
        """The articles of the clustering window, in their own words, in the order of time."""
        reports = sorted(self._reports.values(), key=lambda report: (report.article.published, report.article.id))
        return [_worded(report) for report in reports]

    def report(self, article_id: str) -> Reported | None:
        """What was reported of an article of the clustering window."""
        return self._reports.get(article_id)

    def take(self, reports: Iterable[Reported]) -> int:
        """Put articles that are not in a story yet into one; tells how many."""
        taken = 0
        for report in sorted(reports, key=lambda report: (report.article.published, report.article.id)):
            known = self._reports.get(report.article.id)
            self._reports[report.article.id] = united(known, report) if known else report
            if known is None:
                taken += 1
                placed = self._clusterer.add(_worded(report))
                self._merged += placed.merged
                self._split += placed.split
        return taken

    def expire(self, as_of: datetime) -> None:
        """Let go of what left the clustering window."""
        before = as_of - WINDOW
        self._clusterer.expire(before)
        gone = [identity for identity, report in self._reports.items() if report.article.published < before]
        for identity in gone:
            del self._reports[identity]

    def edition(self, as_of: datetime, events: Mapping[str, EventRecord]) -> Edition:
        """The stories and entities of the 24 hours up to `as_of`; `events` by id."""
        changes = self._clusterer.settle()
        self._merged += changes.merged
        self._split += changes.split
        since = as_of - timedelta(hours=TOLD_HOURS)
        told_now = [live for live in self._clusterer.stories() if live.last_seen > since]
        story_of = {identity: live.id for live in told_now for identity in live.articles if identity in self._reports}
        marked = self._copies.marked({identity: self._reports[identity] for identity in story_of})
        reports, same_person = with_full_names(marked, story_of)
        moved = self._show(reports)
        stories = [story for live in told_now if (story := self._told_anew(live, moved, events))]
        self._told = {story.id: self._told[story.id] for story in stories}
        entities = self._entities.told(self._shown.values(), story_of)
        merged, self._merged = self._merged, []
        split, self._split = self._split, []
        return Edition(stories, entities, [*merged, *same_person.items()], split)

    def _show(self, reports: Iterable[Reported]) -> set[str]:
        """Keep what is told of each article now; answers with the articles of which that changed."""
        before, self._shown, moved = self._shown, {}, set()
        for report in reports:
            identity = report.article.id
            known = before.pop(identity, None)
            if known is None or (known is not report and known != report):
                moved.add(identity)
                known = report
            self._shown[identity] = known
        return moved.union(before)

    def _told_anew(self, live: LiveStory, moved: set[str], events: Mapping[str, EventRecord]) -> Story | None:
        """The story, told a second time only if something changed in it; None of one without articles."""
        known = self._told.get(live.id)
        if known and known.articles == live.articles and moved.isdisjoint(live.articles) and known.is_by(events):
            return known.story
        members = [self._shown[identity] for identity in live.articles if identity in self._shown]
        if not members:
            return None
        reported = tuple(report.event_id for report in members if report.event_id)
        mine = tuple(map(events.get, reported))
        story = _told(live.id, members, [event for event in mine if event])
        self._told[live.id] = _Told(live.articles, reported, mine, story)
        return story

    def remembered(self) -> bytes:
        """The clusterer's state, for the next process."""
        return msgspec.msgpack.encode(dump(self._clusterer))


def _worded(report: Reported) -> Article:
    """The article in its own words."""
    return report.article if report.has_headline else replace(report.article, title="")


def _told(story_id: str, reports: Sequence[Reported], events: Sequence[EventRecord]) -> Story:
    articles = [report.article for report in reports]
    heard = voices(article.family for article in articles)
    context = context_of(reports, events, heard)
    return replace(told(story_id, articles, context), source_count=heard)
