"""Story builder."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.article import Article
from tollhouse.services.defense.events.event import Category, EventRecord
from tollhouse.services.defense.ingest.classification import words_relevance
from tollhouse.services.defense.ingest.scores import significance
from tollhouse.services.defense.news.entity import Entity, EntityIndex
from tollhouse.services.defense.news.reported_article import NamedEntity, ReportedArticle, merged_reports
from tollhouse.services.defense.publishers import count_source_families, headline_key, mark_copies
from tollhouse.services.defense.stories.clusterer import WINDOW, Clusterer, Snapshot, dump, load
from tollhouse.services.defense.stories.story import Context, LiveStory, Story, told

MOST_ENTITIES = 30


def context_of(reports: Sequence[ReportedArticle], events: Sequence[EventRecord], heard: int) -> Context:
    """`events` are those the story's articles report, `heard` its independent voices."""
    names = Counter(named.id for report in reports for named in report.names)
    return Context(
        category=_category(events),
        countries=[country for country, _ in Counter(event.geo.country for event in events).most_common()],
        entities=[identity for identity, _ in names.most_common(MOST_ENTITIES)],
        event_ids=sorted(event.id for event in events),
        significance=_significance(reports, events, heard),
    )


def _category(events: Sequence[EventRecord]) -> Category | None:
    """The category that its events are surest of together; None for a story that no event was made from."""
    weight: Counter[Category] = Counter()
    for event in events:
        weight[event.category] += round(1_000 * event.confidence)
    return weight.most_common(1)[0][0] if weight else None


def _significance(reports: Sequence[ReportedArticle], events: Sequence[EventRecord], heard: int) -> float:
    """That of its most significant event; without one, what its voices and its words are worth."""
    if events:
        return max(significance(event.goldstein, event.fatalities, event.relevance, heard) for event in events)
    relevance = max(words_relevance(report.article.title) for report in reports)
    return significance(0.0, 0, relevance, heard)


class CopyMarker:
    """Only pages that came, changed or left, and those under the same headline, are compared anew."""

    def __init__(self) -> None:
        self._given: dict[str, ReportedArticle] = {}
        self._marked: dict[str, ReportedArticle] = {}
        self._alike: dict[str, set[str]] = {}

    def marked(self, wanted: Mapping[str, ReportedArticle]) -> list[ReportedArticle]:
        """The wanted reports, by article id, in their order, copies of one agency's text under its family."""
        gone = [self._given.pop(identity) for identity in self._given.keys() - wanted.keys()]
        came = [report for identity, report in wanted.items() if self._given.get(identity) is not report]
        replaced = [self._given[report.article.id] for report in came if report.article.id in self._given]
        touched = {self._left(report) for report in (*gone, *replaced)} | {self._came(report) for report in came}
        for key in touched:
            self._mark(self._alike.get(key, ()))
        return [self._marked[identity] for identity in wanted]

    def _left(self, report: ReportedArticle) -> str:
        key, identity = headline_key(report.article.title), report.article.id
        del self._marked[identity]
        if key:
            self._alike[key].discard(identity)
            if not self._alike[key]:
                del self._alike[key]
        return key

    def _came(self, report: ReportedArticle) -> str:
        key, identity = headline_key(report.article.title), report.article.id
        self._given[identity] = self._marked[identity] = report
        if key:
            self._alike.setdefault(key, set()).add(identity)
        return key

    def _mark(self, alike: Iterable[str]) -> None:
        for article in mark_copies(self._given[identity].article for identity in sorted(alike)):
            report = self._given[article.id]
            is_its_own = article.family == report.article.family
            self._marked[article.id] = report if is_its_own else replace(report, article=article)


# How often, and how many times as often as any other of the surname, the window must name somebody in full to make it
# clear who is meant without a story's help.
CLEAR_FROM = 2
CLEAR_TIMES = 2

FullNames = dict[str, Counter[NamedEntity]]


def resolve_surnames(
    reports: Iterable[ReportedArticle], story_of: Mapping[str, str]
) -> tuple[list[ReportedArticle], dict[str, str]]:
    """The reports with surnames resolved, and which entity id so became which everywhere in the window."""
    kept = list(reports)
    everywhere: FullNames = {}
    by_story: dict[str, FullNames] = {}
    for report in kept:
        story = story_of.get(report.article.id, report.article.id)
        for named in filter(_is_full, report.names):
            for names in (everywhere, by_story.setdefault(story, {})):
                names.setdefault(_surname(named), Counter())[replace(named, text="")] += 1
    clear = {surname: who for surname, names in everywhere.items() if (who := _clearly(names))}
    resolved = []
    for report in kept:
        told = by_story.get(story_of.get(report.article.id, report.article.id), {})
        resolved.append(_resolved(report, told, clear))
    return resolved, _merged(kept, clear)


def _resolved(report: ReportedArticle, told: FullNames, clear: Mapping[str, NamedEntity]) -> ReportedArticle:
    if not any(map(_is_surname, report.names)):
        return report
    return replace(report, names=tuple(_whole(named, told, clear) for named in report.names))


def _whole(named: NamedEntity, told: FullNames, clear: Mapping[str, NamedEntity]) -> NamedEntity:
    if not _is_surname(named):
        return named
    here = told.get(_surname(named))
    who = next(iter(here)) if here and len(here) == 1 else clear.get(_surname(named))
    return replace(who, text=named.text) if who else named


def _clearly(names: Counter[NamedEntity]) -> NamedEntity | None:
    (who, count), *others = names.most_common(2)
    next_count = others[0][1] if others else 0
    return who if count >= CLEAR_FROM and count >= CLEAR_TIMES * next_count else None


def _merged(reports: Iterable[ReportedArticle], clear: Mapping[str, NamedEntity]) -> dict[str, str]:
    surnames = (named for report in reports for named in report.names if _is_surname(named))
    return {named.id: clear[_surname(named)].id for named in surnames if _surname(named) in clear}


def _is_full(named: NamedEntity) -> bool:
    return named.type == "person" and " " in named.name


def _is_surname(named: NamedEntity) -> bool:
    return named.type == "person" and " " not in named.name


def _surname(named: NamedEntity) -> str:
    return named.name.rpartition(" ")[2].casefold()


PUBLISHED_HOURS = 24


class NewsSnapshot(Struct, frozen=True):
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
        self._reports: dict[str, ReportedArticle] = {}
        self._copies = CopyMarker()
        self._entities = EntityIndex()
        self._shown: dict[str, ReportedArticle] = {}
        self._told: dict[str, _Told] = {}
        self._merged: list[tuple[str, str]] = []
        self._split: list[tuple[str, str]] = []

    def articles(self) -> list[Article]:
        """The articles of the clustering window, in their own words, in the order of time."""
        reports = sorted(self._reports.values(), key=lambda report: (report.article.published, report.article.id))
        return [_worded(report) for report in reports]

    def report(self, article_id: str) -> ReportedArticle | None:
        """What was reported of an article of the clustering window."""
        return self._reports.get(article_id)

    def take(self, reports: Iterable[ReportedArticle]) -> int:
        """Put articles that are not in a story yet into one; tells how many."""
        taken = 0
        for report in sorted(reports, key=lambda report: (report.article.published, report.article.id)):
            known = self._reports.get(report.article.id)
            self._reports[report.article.id] = merged_reports(known, report) if known else report
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

    def edition(self, as_of: datetime, events: Mapping[str, EventRecord]) -> NewsSnapshot:
        """The stories and entities of the 24 hours up to `as_of`; `events` by id."""
        changes = self._clusterer.settle()
        self._merged += changes.merged
        self._split += changes.split
        since = as_of - timedelta(hours=PUBLISHED_HOURS)
        told_now = [live for live in self._clusterer.stories() if live.last_seen > since]
        story_of = {identity: live.id for live in told_now for identity in live.articles if identity in self._reports}
        marked = self._copies.marked({identity: self._reports[identity] for identity in story_of})
        reports, same_person = resolve_surnames(marked, story_of)
        moved = self._show(reports)
        stories = [story for live in told_now if (story := self._told_anew(live, moved, events))]
        self._told = {story.id: self._told[story.id] for story in stories}
        entities = self._entities.told(self._shown.values(), story_of)
        merged, self._merged = self._merged, []
        split, self._split = self._split, []
        return NewsSnapshot(stories, entities, [*merged, *same_person.items()], split)

    def _show(self, reports: Iterable[ReportedArticle]) -> set[str]:
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


def _worded(report: ReportedArticle) -> Article:
    """The article in its own words."""
    return report.article if report.has_headline else replace(report.article, title="")


def _told(story_id: str, reports: Sequence[ReportedArticle], events: Sequence[EventRecord]) -> Story:
    articles = [report.article for report in reports]
    heard = count_source_families(article.family for article in articles)
    context = context_of(reports, events, heard)
    return replace(told(story_id, articles, context), source_count=heard)
