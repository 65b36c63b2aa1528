"""Clusterer."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from heapq import heapify
from math import log2
from operator import itemgetter

from msgspec import Struct

from tollhouse.services.defense.article import Article
from tollhouse.services.defense.stories.cluster_set import Changes, Cluster, ClusterSet, Member
from tollhouse.services.defense.stories.similarity import (
    MISS_LOGPROB,
    Query,
    collocation_penalty,
    draw,
    query,
    shortlist,
    similarity,
)
from tollhouse.services.defense.stories.split import assign_sides, bisect, split_gain
from tollhouse.services.defense.stories.story import LiveStory
from tollhouse.services.defense.stories.tokens import wording

WINDOW = timedelta(hours=36)


class Tuning(Struct, frozen=True):
    """Chosen on the development files of UCI's headlines and ECB+, and on the recording as we read it.

    To join takes `join` nats per word and `join_evidence` nats in all: a headline has few words to convince with. To
    part takes `part` nats per article and `part_words` for each of its words, less by the share `part_large` for each
    doubling of the story's size within `large`: a war's day grows larger than most events. `merge` is nats per word.
    `growth` is a factor; the rest count articles.
    """

    join: float = 0.5
    join_evidence: float = 2.8
    merge: float = 0.4
    part: float = 0.7
    part_words: float = 0.1
    part_large: float = 0.15
    large: tuple[int, int] = (24, 64)
    merge_sample: int = 8
    reassign_sample: int = 24
    reassign_from: int = 4
    part_sample: int = 24
    part_from: int = 6
    singleton_limit: int = 2
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
        self.cluster_set = ClusterSet()

    def __len__(self) -> int:
        return len(self.cluster_set.clusters)

    def add(self, article: Article) -> Placement:
        if article.id not in self.cluster_set.home:
            member = Member(article.id, article.published, wording(article.title, article.text))
            home, straggler = self._nearest(member)
            self._settle(member, home)
            if straggler:
                self._place_again(next(iter(straggler.members.values())), straggler)
        changes = self.cluster_set.asked()
        return Placement(self.cluster_set.home[article.id].id, changes.moved, changes.merged, changes.split)

    def settle(self) -> Changes:
        """Looks over every story that has changed since it last was: for the end of a batch."""
        for cluster in list(self.cluster_set.clusters.values()):
            if cluster.id in self.cluster_set.clusters:
                self._look_over(cluster)
        return self.cluster_set.asked()

    def expire(self, before: datetime) -> list[str]:
        """Lets go of articles published earlier than that; answers with the stories that ended so."""
        return self.cluster_set.expire(before)

    def story_of(self, article_id: str) -> str | None:
        cluster = self.cluster_set.home.get(article_id)
        return cluster.id if cluster else None

    def current(self, story_id: str) -> str | None:
        """The live story that answers to this id: itself, the one it was merged into, or None."""
        return story_id if story_id in self.cluster_set.clusters else self.cluster_set.successors.get(story_id)

    def stories(self) -> Iterator[LiveStory]:
        for cluster in self.cluster_set.clusters.values():
            times = [member.published for member in cluster.members.values()]
            yield LiveStory(cluster.id, list(cluster.members), min(times), max(times))

    def _settle(self, member: Member, cluster: Cluster | None) -> None:
        home = cluster or self.cluster_set.found(member)
        self.cluster_set.put(home, member)
        self._mend(home)

    def _nearest(self, member: Member, without: Cluster | None = None) -> tuple[Cluster | None, Cluster | None]:
        """The story to join, if any is near enough, and the small one next to it: it may have missed just this."""
        postings, terms = self.cluster_set.postings, member.wording.terms
        if not terms:
            return None, None
        asked = query(member.wording, postings)
        best, nearest = self._to_join(asked), None
        small: list[tuple[float, Cluster]] = []
        for cluster in shortlist(asked, postings, best, without):
            alike = similarity(asked, cluster)
            if alike > 0.0 and len(cluster.members) <= self.tuning.singleton_limit:
                small.append((alike, cluster))
            score = alike + draw(asked, cluster)
            if score > best and not cluster.disagrees(member.wording.serials):
                score -= collocation_penalty(asked, cluster, postings.stories)
                if score > best:
                    best, nearest = score, cluster
        others = [(alike, cluster) for alike, cluster in small if cluster is not nearest]
        return nearest, max(others, key=itemgetter(0), default=(0.0, None))[1]

    def _to_join(self, asked: Query) -> float:
        return self.tuning.join + self.tuning.join_evidence / asked.words

    def _place_again(self, member: Member, old: Cluster) -> None:
        if len(old.members) == 1:
            if better := self._nearest(member, old)[0]:
                self.cluster_set.merge(old, better)
            return
        self.cluster_set.postings.take(old, member.wording.terms)
        better, _ = self._nearest(member)
        self.cluster_set.postings.add(old, member.wording.terms)
        if better is None and member.wording.terms:
            self.cluster_set.split(old, [member])
        elif better not in {old, None}:
            self.cluster_set.move(member, better)
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
        """The story it was merged into, or itself, with what the story most like it had of its articles."""
        cluster.compared = len(cluster.members)
        explained = self._explained(cluster)
        if kin := self._kin(cluster, explained):
            self.cluster_set.merge(cluster, kin)
            return kin
        if cluster.compared >= self.tuning.reassign_from and explained:
            self._claim(cluster, max(explained, key=explained.__getitem__))
        return self.cluster_set.clusters.get(cluster.id, cluster)

    def _explained(self, cluster: Cluster) -> dict[Cluster, float]:
        """The other stories that explain some of its articles, and how well they do on average, in nats per word."""
        sample = cluster.sample(self.tuning.merge_sample)
        gained: dict[Cluster, float] = {}
        for member in sample:
            asked = query(member.wording, self.cluster_set.postings)
            for other in shortlist(asked, self.cluster_set.postings, MISS_LOGPROB, cluster):
                if len(other.members) > 1:
                    gained[other] = gained.get(other, 0.0) + similarity(asked, other) - MISS_LOGPROB
        return {other: gain / len(sample) + MISS_LOGPROB for other, gain in gained.items()}

    def _kin(self, cluster: Cluster, explained: dict[Cluster, float]) -> Cluster | None:
        """The larger story that explains this one's articles well enough to be the same story."""
        larger = [other for other in explained if len(other.members) >= len(cluster.members)]
        kin = max(larger, key=explained.__getitem__, default=None)
        if kin is None or explained[kin] <= self.tuning.merge or self._apart(cluster, kin):
            return None
        return kin

    def _claim(self, cluster: Cluster, neighbour: Cluster) -> None:
        """Places again what of the neighbour's would do here too: there may not have been this story when it came."""
        for member in neighbour.sample(self.tuning.reassign_sample):
            if cluster.members and self.cluster_set.home[member.article_id] is neighbour and len(neighbour.members) > 1:
                asked = query(member.wording, self.cluster_set.postings, cluster.counts)
                if similarity(asked, cluster) + draw(asked, cluster) > self._to_join(asked):
                    self._place_again(member, neighbour)

    def _apart(self, one: Cluster, other: Cluster) -> bool:
        if one.is_at_odds(other):
            return True
        size = self.tuning.part_sample // 2
        ours, theirs = one.sample(size), other.sample(size)
        terms = [member.wording.terms for member in (*ours, *theirs)]
        return split_gain(terms, [0] * len(ours) + [1] * len(theirs)) > self._to_part(terms)

    def _to_part(self, articles: Sequence[dict[str, int]], size: int = 1) -> float:
        """Nats per article that telling two stories apart must gain, of a story of this size."""
        words = sum(sum(terms.values()) for terms in articles) / len(articles)
        least, most = self.tuning.large
        doublings = log2(min(max(size, least), most) / least)
        return (self.tuning.part + self.tuning.part_words * words) * (1 - self.tuning.part_large * doublings)

    def _part(self, cluster: Cluster) -> None:
        """The larger half keeps the id, or the half with the first article when they are equal."""
        if len(cluster.members) < self.tuning.part_from:
            return
        cluster.parted = len(cluster.members)
        sample = cluster.sample(self.tuning.part_sample)
        sampled = [member.wording.terms for member in sample]
        parts = bisect(sampled, self._to_part(sampled, cluster.parted))
        if parts is None:
            return
        side = dict(zip((member.article_id for member in sample), parts, strict=True))
        others = [member for member in cluster.members.values() if member.article_id not in side]
        allotment = assign_sides([member.wording.terms for member in others], sampled, parts)
        side.update(zip((member.article_id for member in others), allotment, strict=True))
        first = next(iter(cluster.members))
        staying = max((0, 1), key=lambda half: (list(side.values()).count(half), side[first] == half))
        new = self.cluster_set.split(cluster, [m for m in cluster.members.values() if side[m.article_id] != staying])
        for half in (cluster, new):
            half.compared = half.parted = len(half.members)


class StoredStory(Struct, frozen=True):
    """`compared` and `parted` are the sizes at which it was last looked over for a merge and for a split."""

    id: str
    members: list[Member]
    absorbed: tuple[str, ...]
    compared: int
    parted: int


class Snapshot(Struct, frozen=True):
    """`shared` holds, of each word that several stories use, their places in `stories`; msgspec encodes all of it."""

    stories: list[StoredStory]
    shared: dict[str, list[int]]


def dump(clusterer: Clusterer) -> Snapshot:
    clusters = clusterer.cluster_set.clusters.values()
    place = {cluster: number for number, cluster in enumerate(clusters)}
    return Snapshot(
        [StoredStory(c.id, list(c.members.values()), c.absorbed, c.compared, c.parted) for c in clusters],
        {
            term: [place[user] for user in users]
            for term, users in clusterer.cluster_set.postings.stories.items()
            if len(users) > 1
        },
    )


def load(snapshot: Snapshot, tuning: Tuning | None = None) -> Clusterer:
    clusterer = Clusterer(tuning)
    clusters = [_restored(stored, clusterer.cluster_set) for stored in snapshot.stories]
    for term, users in snapshot.shared.items():
        clusterer.cluster_set.postings.stories[term] = {clusters[place]: None for place in users}
    heapify(clusterer.cluster_set.oldest)
    return clusterer


def _restored(stored: StoredStory, cluster_set: ClusterSet) -> Cluster:
    cluster_set.clusters[stored.id] = cluster = Cluster(stored.id)
    for member in stored.members:
        cluster_set.postings.add(cluster, member.wording.terms)
        cluster.members[member.article_id] = member
        cluster_set.home[member.article_id] = cluster
        cluster_set.oldest.append((member.published, member.article_id))
    cluster.absorbed = stored.absorbed
    cluster.compared, cluster.parted = stored.compared, stored.parted
    cluster_set.successors.update(dict.fromkeys(stored.absorbed, stored.id))
    return cluster
