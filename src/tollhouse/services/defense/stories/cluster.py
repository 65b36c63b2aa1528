"""Puts each arriving article into a story, and mends what later articles show to be wrong.

An article joins the story that explains its words best (likeness.py). Bounded repairs follow each arrival: a few
recent articles are placed again, and a story that has doubled is held against its neighbours and tried for two stories
in one (halves.py); `settle` does so for all that have changed. Nothing here reads a clock, draws lots or depends on
hash order.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from tollhouse.services.defense.article import Article
from tollhouse.services.defense.stories.halves import allotted, halves, parting
from tollhouse.services.defense.stories.likeness import MISS, draw, likeness, query, shortlist
from tollhouse.services.defense.stories.postings import Cluster, Member
from tollhouse.services.defense.stories.shelf import Changes, Shelf
from tollhouse.services.defense.stories.story import LiveStory
from tollhouse.services.defense.stories.words import wording

WINDOW = timedelta(hours=36)


class Tuning(Struct, frozen=True):
    """Chosen on the development files of UCI's headlines and ECB+.

    `join` and `merge` are nats per word, `part` nats per article; `revisit` counts later arrivals, `revisit_texts`
    where they come with a text: fewer come then, and each says more. `growth` is a factor; the rest count articles.
    """

    join: float = 0.7
    merge: float = 0.4
    part: float = 0.35
    revisit: tuple[int, ...] = (100,)
    revisit_texts: tuple[int, ...] = (30, 200)
    merge_sample: int = 8
    part_sample: int = 24
    part_from: int = 6
    growth: float = 2.0


class Placement(Struct, frozen=True):
    """Where an arrival was put, and every article whose story is now another because of it, itself included.

    `merged` are (ended, successor); `split` are (begun, the story its articles came from).
    """

    story_id: str
    moved: dict[str, str]
    merged: list[tuple[str, str]]
    split: list[tuple[str, str]]


class Clusterer:
    """The live stories. `add` is idempotent by the article's id; `expire` is the caller's to call, with its clock."""

    def __init__(self, tuning: Tuning | None = None) -> None:
        self.tuning = tuning or Tuning()
        self.shelf = Shelf()
        self.recent: deque[str] = deque(maxlen=max((*self.tuning.revisit, *self.tuning.revisit_texts), default=0))

    def __len__(self) -> int:
        return len(self.shelf.clusters)

    def add(self, article: Article) -> Placement:
        if article.id not in self.shelf.home:
            member = Member(article.id, article.published, wording(article.title, article.text))
            self._settle(member, self._nearest(member))
            self._revisit(self.tuning.revisit_texts if article.text else self.tuning.revisit)
            self.recent.append(article.id)
        changes = self.shelf.asked()
        return Placement(self.shelf.home[article.id].id, changes.moved, changes.merged, changes.split)

    def settle(self) -> Changes:
        """Looks over every story that has changed since it last was: for the end of a batch."""
        for cluster in list(self.shelf.clusters.values()):
            if cluster.id in self.shelf.clusters:
                self._look_over(cluster)
        return self.shelf.asked()

    def expire(self, before: datetime) -> list[str]:
        """Lets go of articles published earlier than that; answers with the stories that ended so."""
        return self.shelf.expire(before)

    def story_of(self, article_id: str) -> str | None:
        cluster = self.shelf.home.get(article_id)
        return cluster.id if cluster else None

    def current(self, story_id: str) -> str | None:
        """The live story that answers to this id: itself, the one it was merged into, or None."""
        return story_id if story_id in self.shelf.clusters else self.shelf.successors.get(story_id)

    def stories(self) -> Iterator[LiveStory]:
        for cluster in self.shelf.clusters.values():
            times = [member.published for member in cluster.members.values()]
            yield LiveStory(cluster.id, list(cluster.members), min(times), max(times))

    def _settle(self, member: Member, cluster: Cluster | None) -> None:
        home = cluster or self.shelf.found(member)
        self.shelf.put(home, member)
        self._mend(home)

    def _nearest(self, member: Member, without: Cluster | None = None) -> Cluster | None:
        postings, terms = self.shelf.postings, member.wording.terms
        if not terms:
            return None
        asked = query(terms, postings)
        best, nearest = self.tuning.join, None
        for cluster in shortlist(asked, postings, best, without):
            score = likeness(asked, cluster) + draw(asked, cluster)
            if score > best and not cluster.disagrees(member.wording.serials):
                best, nearest = score, cluster
        return nearest

    def _revisit(self, backs: Sequence[int]) -> None:
        for back in backs:
            if back <= len(self.recent) and (cluster := self.shelf.home.get(self.recent[-back])):
                self._place_again(cluster.members[self.recent[-back]], cluster)

    def _place_again(self, member: Member, old: Cluster) -> None:
        if len(old.members) == 1:
            if better := self._nearest(member, old):
                self.shelf.merge(old, better)
            return
        self.shelf.postings.take(old, member.wording.terms)
        better = self._nearest(member)
        self.shelf.postings.add(old, member.wording.terms)
        if better is None and member.wording.terms:
            self.shelf.split(old, [member])
        elif better not in {old, None}:
            self.shelf.move(member, better)
            self._mend(better)

    def _mend(self, cluster: Cluster) -> None:
        """Looks a story over when it has grown by so much that what was found then may no longer hold."""
        size = len(cluster.members)
        if size >= self.tuning.growth * cluster.compared:
            cluster = self._join_kin(cluster)
        if len(cluster.members) >= self.tuning.growth * cluster.parted:
            self._part(cluster)

    def _look_over(self, cluster: Cluster) -> None:
        if len(cluster.members) > cluster.compared:
            cluster = self._join_kin(cluster)
        if len(cluster.members) > cluster.parted:
            self._part(cluster)

    def _join_kin(self, cluster: Cluster) -> Cluster:
        """The story it was merged into, or itself."""
        cluster.compared = len(cluster.members)
        kin = self._kin(cluster)
        if kin is None:
            return cluster
        self.shelf.merge(cluster, kin)
        return kin

    def _kin(self, cluster: Cluster) -> Cluster | None:
        """The larger story that explains this one's articles, on average, well enough to be the same story."""
        sample = cluster.sample(self.tuning.merge_sample)
        gained: dict[Cluster, float] = {}
        for member in sample:
            asked = query(member.wording.terms, self.shelf.postings)
            for other in shortlist(asked, self.shelf.postings, MISS, cluster):
                if len(other.members) >= len(cluster.members):
                    gained[other] = gained.get(other, 0.0) + likeness(asked, other) - MISS
        kin = max(gained, key=gained.__getitem__, default=None)
        if kin is None or gained[kin] / len(sample) + MISS <= self.tuning.merge or self._apart(cluster, kin):
            return None
        return kin

    def _apart(self, one: Cluster, other: Cluster) -> bool:
        size = self.tuning.part_sample // 2
        ours, theirs = one.sample(size), other.sample(size)
        terms = [member.wording.terms for member in (*ours, *theirs)]
        return parting(terms, [0] * len(ours) + [1] * len(theirs)) > self.tuning.part

    def _part(self, cluster: Cluster) -> None:
        """The larger half keeps the id, or the half with the first article when they are equal."""
        if len(cluster.members) < self.tuning.part_from:
            return
        cluster.parted = len(cluster.members)
        sample = cluster.sample(self.tuning.part_sample)
        sampled = [member.wording.terms for member in sample]
        parts = halves(sampled, self.tuning.part)
        if parts is None:
            return
        side = dict(zip((member.article_id for member in sample), parts, strict=True))
        others = [member for member in cluster.members.values() if member.article_id not in side]
        allotment = allotted([member.wording.terms for member in others], sampled, parts)
        side.update(zip((member.article_id for member in others), allotment, strict=True))
        first = next(iter(cluster.members))
        staying = max((0, 1), key=lambda half: (list(side.values()).count(half), side[first] == half))
        new = self.shelf.split(cluster, [m for m in cluster.members.values() if side[m.article_id] != staying])
        for half in (cluster, new):
            half.compared = half.parted = len(half.members)
