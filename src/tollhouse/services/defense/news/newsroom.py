"""The newsroom: takes in what was reported, keeps the stories clustered, and tells them and their entities anew."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.article import Article
from tollhouse.services.defense.event import EventRecord
from tollhouse.services.defense.news.entity import Entity, entities_of
from tollhouse.services.defense.news.full_names import with_full_names
from tollhouse.services.defense.news.reported import Reported, united
from tollhouse.services.defense.news.story_context import context_of
from tollhouse.services.defense.publishers import voices
from tollhouse.services.defense.stories.cluster import WINDOW, Clusterer
from tollhouse.services.defense.stories.snapshot import Snapshot, dump, load
from tollhouse.services.defense.stories.story import Story, told
from tollhouse.services.defense.wire_copies import with_copies_marked

TOLD_HOURS = 24


class Edition(Struct, frozen=True):
    """What the newsroom tells at one moment, and which story ids ended or began since the last one."""

    stories: list[Story]
    entities: list[Entity]
    merged: list[tuple[str, str]]
    split: list[tuple[str, str]]


class Newsroom:
    """The live stories of one pool. Feed it in the order of time; `remembered` lets another process go on."""

    def __init__(self, remembered: bytes | None = None) -> None:
        self._clusterer = load(msgspec.msgpack.decode(remembered, type=Snapshot)) if remembered else Clusterer()
        self._reports: dict[str, Reported] = {}
        self._told: dict[str, tuple[int, Story]] = {}
        self._merged: list[tuple[str, str]] = []
        self._split: list[tuple[str, str]] = []

    def articles(self) -> list[Article]:
        """The articles of the clustering window, in their own words, in the order of time."""
        reports = sorted(self._reports.values(), key=lambda report: (report.article.published, report.article.id))
        return [_worded(report) for report in reports]

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
        reports, same_person = with_full_names(self._marked(story_of), story_of)
        by_id = {report.article.id: report for report in reports}
        grouped = ((live.id, [by_id[identity] for identity in live.articles if identity in by_id]) for live in told_now)
        stories = self._told_anew([(story_id, members) for story_id, members in grouped if members], events)
        entities = entities_of(reports, story_of)
        merged, self._merged = self._merged, []
        split, self._split = self._split, []
        return Edition(stories, entities, [*merged, *same_person.items()], split)

    def _told_anew(
        self, grouped: Sequence[tuple[str, Sequence[Reported]]], events: Mapping[str, EventRecord]
    ) -> list[Story]:
        """The stories; those that nothing has changed in are not told a second time."""
        told_before, self._told = self._told, {}
        for story_id, members in grouped:
            mine = [events[identity] for report in members if (identity := report.event_id) and identity in events]
            fingerprint = _fingerprint(members, mine)
            before = told_before.get(story_id)
            story = before[1] if before and before[0] == fingerprint else _told(story_id, members, mine)
            self._told[story_id] = (fingerprint, story)
        return [story for _, story in self._told.values()]

    def remembered(self) -> bytes:
        """The clusterer's state, for the next process."""
        return msgspec.msgpack.encode(dump(self._clusterer))

    def _marked(self, wanted: Iterable[str]) -> list[Reported]:
        """The wanted reports, copies of one agency's text under its family."""
        articles = with_copies_marked(self._reports[identity].article for identity in wanted)
        return [replace(self._reports[article.id], article=article) for article in articles]


def _worded(report: Reported) -> Article:
    """The article in its own words."""
    return report.article if report.has_headline else replace(report.article, title="")


def _fingerprint(reports: Sequence[Reported], events: Sequence[EventRecord]) -> int:
    """A number that is another when anything a story is told from is."""
    pages = [(report.article, *(named.id for named in report.names)) for report in reports]
    told_of = [(e.id, e.category, e.confidence, e.geo.country, e.goldstein, e.fatalities, e.relevance) for e in events]
    return hash((*pages, None, *told_of))


def _told(story_id: str, reports: Sequence[Reported], events: Sequence[EventRecord]) -> Story:
    articles = [report.article for report in reports]
    heard = voices(article.family for article in articles)
    context = context_of(reports, events, heard)
    return replace(told(story_id, articles, context), source_count=heard)
