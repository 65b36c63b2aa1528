"""Build stories and entities from the articles of the clustering window, reusing what has not changed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.article import Article, count_source_families, headline_key, mark_copies
from tollhouse.services.defense.events.classifier import title_relevance
from tollhouse.services.defense.events.event import Category, EventRecord, significance, weigh
from tollhouse.services.defense.news.entity import EntityIndex, PublishedEntity
from tollhouse.services.defense.news.entity_names import resolve_entities
from tollhouse.services.defense.news.reported_article import ReportedArticle, merged_reports
from tollhouse.services.defense.stories.clusterer import (
    WINDOW,
    Clusterer,
    ClustererState,
)
from tollhouse.services.defense.stories.story import LiveStory, Story, StoryReport, mean_tone, summarize

MOST_ENTITIES = 30


def build_story(story_id: str, reports: Sequence[ReportedArticle], events: Sequence[EventRecord]) -> Story:
    """The served story of articles (at least one) and of the events that they report."""
    articles = [report.article for report in reports]
    newest_first = sorted(articles, key=lambda article: (article.published, article.id), reverse=True)
    title, summary = summarize(articles)
    source_count = count_source_families(article.family for article in articles)
    names = Counter(named.id for report in reports for named in report.names)
    # The category is the one with the largest total confidence.
    weight: Counter[Category] = Counter()
    for event in events:
        weight[event.category] += round(1_000 * event.confidence)
    return Story(
        id=story_id,
        title=title,
        summary=summary,
        category=weight.most_common(1)[0][0] if weight else None,
        countries=[country for country, _ in Counter(event.geo.country for event in events).most_common()],
        first_seen=newest_first[-1].published,
        last_seen=newest_first[0].published,
        article_count=len(articles),
        source_count=source_count,
        sources=sorted({article.publisher for article in articles}),
        articles=[StoryReport(a.title, a.url, a.publisher, a.published) for a in newest_first],
        entities=[identity for identity, _ in names.most_common(MOST_ENTITIES)],
        event_ids=sorted(event.id for event in events),
        significance=_significance(reports, events, source_count),
        tone=mean_tone(articles),
    )


def _significance(reports: Sequence[ReportedArticle], events: Sequence[EventRecord], source_count: int) -> float:
    """The significance of its most significant event, by the story's own sources; without events, of its titles."""
    if events:
        return max(significance(replace(event, source_count=min(event.source_count, source_count))) for event in events)
    relevance = max(title_relevance([report.article.title for report in reports if report.has_headline]), default=0.0)
    return weigh(0.0, 0, relevance, source_count)


class CopyMarker:
    """Marks copies among published articles; compares only changed articles and those with the same headline."""

    def __init__(self) -> None:
        self._originals: dict[str, ReportedArticle] = {}
        self._marked: dict[str, ReportedArticle] = {}
        self._by_headline: dict[str, tuple[str, ...]] = {}

    def mark(self, reports: Mapping[str, ReportedArticle]) -> list[ReportedArticle]:
        """The reports (by article id) in their order, with copies of one text under the family of its original."""
        removed = [self._originals.pop(identity) for identity in self._originals.keys() - reports.keys()]
        added = [report for identity, report in reports.items() if self._originals.get(identity) is not report]
        replaced = [self._originals[report.article.id] for report in added if report.article.id in self._originals]
        touched = {self._remove(report) for report in (*removed, *replaced)} | {self._add(report) for report in added}
        for key in touched:
            self._compare(self._by_headline.get(key, ()))
        return [self._marked[identity] for identity in reports]

    def _remove(self, report: ReportedArticle) -> str:
        key, identity = headline_key(report.article.title), report.article.id
        del self._marked[identity]
        if key:
            same = tuple(other for other in self._by_headline.pop(key) if other != identity)
            if same:
                self._by_headline[key] = same
        return key

    def _add(self, report: ReportedArticle) -> str:
        key, identity = headline_key(report.article.title), report.article.id
        self._originals[identity] = self._marked[identity] = report
        if key:
            self._by_headline[key] = (*self._by_headline.get(key, ()), identity)
        return key

    def _compare(self, same_headline: Iterable[str]) -> None:
        for article in mark_copies(self._originals[identity].article for identity in sorted(same_headline)):
            report = self._originals[article.id]
            is_original = article.family == report.article.family
            self._marked[article.id] = report if is_original else replace(report, article=article)


PUBLISHED_HOURS = 24


class EventLinks(Struct, frozen=True, gc=False):
    """The story with most articles of an event, None without any, and the entities that its articles name."""

    story_id: str | None
    entities: tuple[str, ...]


class NewsSnapshot(Struct, frozen=True):
    """The stories and entities at one time, and the story and entity ids that ended since the previous snapshot.

    `links` are those of the events whose articles are in a story, by event id.
    """

    stories: list[Story]
    entities: list[PublishedEntity]
    merged: list[tuple[str, str]]
    links: dict[str, EventLinks]


class _BuiltStory(Struct, frozen=True, gc=False):
    """A story and its inputs: its articles and the events that they report."""

    articles: Sequence[str]
    events: Sequence[EventRecord]
    story: Story


class StoryBuilder:
    """Builds the stories of one source mode from articles in time order. `state` continues another process's work."""

    def __init__(self, state: bytes | None = None) -> None:
        self._clusterer = _read_clusterer(state) if state else Clusterer()
        self._reports: dict[str, ReportedArticle] = {}
        self._copies = CopyMarker()
        self._entities = EntityIndex()
        self._published: dict[str, ReportedArticle] = {}
        self._built: dict[str, _BuiltStory] = {}
        self._merged: list[tuple[str, str]] = []
        self._same: dict[str, str] = {}

    def articles(self) -> list[Article]:
        """The articles of the clustering window in order of time; composed titles are empty."""
        reports = sorted(self._reports.values(), key=lambda report: (report.article.published, report.article.id))
        return [_for_clustering(report) for report in reports]

    def add(self, reports: Iterable[ReportedArticle]) -> int:
        """Add articles to stories, and update known ones; return the number of new articles."""
        added: list[Article] = []
        for report in sorted(reports, key=lambda report: (report.article.published, report.article.id)):
            known = self._reports.get(report.article.id)
            self._reports[report.article.id] = merged_reports(known, report) if known else report
            if known is None:
                added.append(_for_clustering(report))
        self._merged += self._clusterer.add(added)
        return len(added)

    def expire(self, as_of: datetime) -> None:
        """Remove articles that left the clustering window."""
        before = as_of - WINDOW
        self._clusterer.expire(before)
        expired = [identity for identity, report in self._reports.items() if report.article.published < before]
        for identity in expired:
            del self._reports[identity]

    def snapshot(
        self, as_of: datetime, events: Mapping[str, EventRecord], articles_of: Mapping[str, Sequence[str]]
    ) -> NewsSnapshot:
        """The stories and entities of the 24 hours up to `as_of`.

        `events` are the window's events by id, and `articles_of` has the ids of the articles that report each.
        """
        self._merged += self._clusterer.join(
            articles_of[event] for event in sorted(events) if len(articles_of[event]) > 1
        )
        since = as_of - timedelta(hours=PUBLISHED_HOURS)
        recent = [live for live in self._clusterer.stories() if live.last_seen > since]
        story_of = {identity: live.id for live in recent for identity in live.articles if identity in self._reports}
        marked = self._copies.mark({identity: self._reports[identity] for identity in story_of})
        reports, same = resolve_entities(marked, story_of)
        self._merged += [(old, new) for old, new in same.items() if self._same.get(old) != new]
        self._same = same
        changed = self._publish(reports)
        links = {event_id: self._links(articles_of[event_id], story_of) for event_id in sorted(events)}
        events_of: dict[str, list[EventRecord]] = {}
        for event_id, link in links.items():
            if link.story_id:
                events_of.setdefault(link.story_id, []).append(events[event_id])
        stories = [story for live in recent if (story := self._build(live, changed, events_of.get(live.id, [])))]
        self._built = {story.id: self._built[story.id] for story in stories}
        entities = self._entities.update(self._published.values(), story_of)
        merged, self._merged = self._merged, []
        return NewsSnapshot(stories, entities, merged, links)

    def _publish(self, reports: Iterable[ReportedArticle]) -> set[str]:
        """Store the published form of each article; return the ids of articles whose form changed."""
        before, self._published, changed = self._published, {}, set()
        for report in reports:
            identity = report.article.id
            known = before.pop(identity, None)
            if known is None or (known is not report and known != report):
                changed.add(identity)
                known = report
            self._published[identity] = known
        return changed.union(before)

    def _links(self, articles: Sequence[str], story_of: Mapping[str, str]) -> EventLinks:
        # Most events have one article without names, and counting takes longer than all else here.
        stories = [story_of[identity] for identity in articles if identity in story_of]
        published = [self._published[identity] for identity in articles if identity in self._published]
        names = [named.id for report in published for named in report.names]
        story_id = Counter(stories).most_common(1)[0][0] if len(stories) > 1 else next(iter(stories), None)
        entities = Counter(names).most_common(MOST_ENTITIES) if names else ()
        return EventLinks(story_id, tuple([identity for identity, _ in entities]))

    def _build(self, live: LiveStory, changed: set[str], events: Sequence[EventRecord]) -> Story | None:
        """The story, built again only if an input changed; None if it has no articles."""
        known = self._built.get(live.id)
        if known and known.articles == live.articles and known.events == events and changed.isdisjoint(live.articles):
            return known.story
        members = [self._published[identity] for identity in live.articles if identity in self._published]
        if not members:
            return None
        story = build_story(live.id, members, events)
        self._built[live.id] = _BuiltStory(live.articles, events, story)
        return story

    def dump_state(self) -> bytes:
        """The state of the clusterer for the next process."""
        return msgspec.msgpack.encode(self._clusterer.dump())


def _read_clusterer(state: bytes) -> Clusterer:
    """The clusterer of a state; an empty one if another version wrote it, for the window's articles are added again."""
    try:
        return Clusterer.load(msgspec.msgpack.decode(state, type=ClustererState))
    except msgspec.ValidationError:
        return Clusterer()


def _for_clustering(report: ReportedArticle) -> Article:
    """The article, without a composed title."""
    return report.article if report.has_headline else replace(report.article, title="")
