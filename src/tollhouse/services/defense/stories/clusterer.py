"""Incremental clustering: assign each arriving article to a story, and repair earlier assignments.

An article joins the story with the highest similarity to its words. Bounded repairs follow each arrival: the most
similar small story is reassigned, and a story that has doubled is compared with its neighbours, takes over articles
that fit it better, and is tested for a split; `settle` repairs all changed stories. Only articles that share words with
the arrival are examined, so that unrelated articles in between change nothing. The result depends on no clock,
randomness or hash order.
"""

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
    build_query,
    collocation_penalty,
    shortlist,
    similarity,
    size_prior,
)
from tollhouse.services.defense.stories.split import assign_sides, bisect, split_gain
from tollhouse.services.defense.stories.story import LiveStory
from tollhouse.services.defense.stories.tokens import wording

WINDOW = timedelta(hours=36)


class Tuning(Struct, frozen=True):
    """Thresholds, tuned on the development files of UCI's headlines and ECB+ and on the labelled recording.

    Joining takes `join` nats per word and `join_evidence` nats in total, because a headline has few words. Splitting
    takes `part` nats per article and `part_words` for each of its words, reduced by the share `part_large` for each
    doubling of the size within `large`. `merge` is nats per word. `growth` is a factor; the rest count articles.
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


class Placement(Changes):
    """The story of an added article, and the changes that adding it caused."""

    story_id: str


class Clusterer:
    """The live stories. `add` is idempotent by article id; the caller runs `expire` with its own clock."""

    def __init__(self, tuning: Tuning | None = None) -> None:
        self.tuning = tuning or Tuning()
        self.clusters = ClusterSet()

    def __len__(self) -> int:
        return len(self.clusters.by_id)

    def add(self, article: Article) -> Placement:
        if article.id not in self.clusters.home:
            member = Member(article.id, article.published, wording(article.title, article.text))
            nearest, small = self._nearest(member)
            home = nearest or self.clusters.begin(member)
            self.clusters.add(home, member)
            self._repair(home)
            if small:
                self._reassign(next(iter(small.members.values())), small)
        changes = self.clusters.take_changes()
        return Placement(changes.moved, changes.merged, changes.split, self.clusters.home[article.id].id)

    def settle(self) -> Changes:
        """Repair every story that changed since its last repair. Call it at the end of a batch."""
        for cluster in list(self.clusters.by_id.values()):
            if cluster.id not in self.clusters.by_id:
                continue
            merged = self._merge_similar(cluster) if len(cluster.members) > cluster.compared else cluster
            if len(merged.members) > merged.parted:
                self._split(merged)
        return self.clusters.take_changes()

    def expire(self, before: datetime) -> list[str]:
        """Remove articles published before a time; return the ids of stories that became empty."""
        return self.clusters.expire(before)

    def story_of(self, article_id: str) -> str | None:
        cluster = self.clusters.home.get(article_id)
        return cluster.id if cluster else None

    def current(self, story_id: str) -> str | None:
        """The live story with this id or the one it was merged into; None if it ended."""
        return story_id if story_id in self.clusters.by_id else self.clusters.successors.get(story_id)

    def stories(self) -> Iterator[LiveStory]:
        for cluster in self.clusters.by_id.values():
            times = [member.published for member in cluster.members.values()]
            yield LiveStory(cluster.id, list(cluster.members), min(times), max(times))

    def _nearest(self, member: Member, without: Cluster | None = None) -> tuple[Cluster | None, Cluster | None]:
        """The story to join, if any is similar enough, and the most similar other small story."""
        index, terms = self.clusters.index, member.wording.terms
        if not terms:
            return None, None
        query = build_query(member.wording, index)
        best, nearest = self._join_threshold(query), None
        small: list[tuple[float, Cluster]] = []
        for cluster in shortlist(query, index, best, without):
            score = similarity(query, cluster)
            if score > 0.0 and len(cluster.members) <= self.tuning.singleton_limit:
                small.append((score, cluster))
            score += size_prior(query, cluster)
            if score > best and not cluster.disagrees(member.wording.serials):
                score -= collocation_penalty(query, cluster, index.stories)
                if score > best:
                    best, nearest = score, cluster
        others = [(score, cluster) for score, cluster in small if cluster is not nearest]
        return nearest, max(others, key=itemgetter(0), default=(0.0, None))[1]

    def _join_threshold(self, query: Query) -> float:
        return self.tuning.join + self.tuning.join_evidence / query.words

    def _reassign(self, member: Member, old: Cluster) -> None:
        if len(old.members) == 1:
            if better := self._nearest(member, old)[0]:
                self.clusters.merge(old, better)
            return
        self.clusters.index.remove(old, member.wording.terms)
        better, _ = self._nearest(member)
        self.clusters.index.add(old, member.wording.terms)
        if better is None and member.wording.terms:
            self.clusters.split(old, [member])
        elif better not in {old, None}:
            self.clusters.move(member, better)
            self._repair(better)

    def _repair(self, cluster: Cluster) -> None:
        """Repair a story once it has grown by the factor `growth` since its last repair."""
        if len(cluster.members) >= self.tuning.growth * cluster.compared:
            cluster = self._merge_similar(cluster)
        if len(cluster.members) >= self.tuning.growth * cluster.parted:
            self._split(cluster)

    def _merge_similar(self, cluster: Cluster) -> Cluster:
        """Merge into a similar larger story, or take over fitting articles; return the resulting story."""
        cluster.compared = len(cluster.members)
        compared = self._compare(cluster)
        if similar := self._find_similar(cluster, compared):
            self.clusters.merge(cluster, similar)
            return similar
        if cluster.compared >= self.tuning.reassign_from and compared:
            self._take_over(cluster, max(compared, key=compared.__getitem__))
        return self.clusters.by_id.get(cluster.id, cluster)

    def _compare(self, cluster: Cluster) -> dict[Cluster, float]:
        """The mean similarity of its articles to other stories, in nats per word."""
        sample = cluster.sample(self.tuning.merge_sample)
        gained: dict[Cluster, float] = {}
        for member in sample:
            query = build_query(member.wording, self.clusters.index)
            for other in shortlist(query, self.clusters.index, MISS_LOGPROB, cluster):
                if len(other.members) > 1:
                    gained[other] = gained.get(other, 0.0) + similarity(query, other) - MISS_LOGPROB
        return {other: gain / len(sample) + MISS_LOGPROB for other, gain in gained.items()}

    def _find_similar(self, cluster: Cluster, compared: dict[Cluster, float]) -> Cluster | None:
        """The larger story whose similarity is high enough for a merge."""
        larger = [other for other in compared if len(other.members) >= len(cluster.members)]
        similar = max(larger, key=compared.__getitem__, default=None)
        if similar is None or compared[similar] <= self.tuning.merge or self._are_distinct(cluster, similar):
            return None
        return similar

    def _take_over(self, cluster: Cluster, neighbour: Cluster) -> None:
        """Reassign a neighbour's articles that fit this story too: it may not have existed when they arrived."""
        for member in neighbour.sample(self.tuning.reassign_sample):
            if cluster.members and self.clusters.home[member.article_id] is neighbour and len(neighbour.members) > 1:
                query = build_query(member.wording, self.clusters.index, cluster.counts)
                if similarity(query, cluster) + size_prior(query, cluster) > self._join_threshold(query):
                    self._reassign(member, neighbour)

    def _are_distinct(self, one: Cluster, other: Cluster) -> bool:
        if one.conflicts_with(other):
            return True
        size = self.tuning.part_sample // 2
        ours, theirs = one.sample(size), other.sample(size)
        terms = [member.wording.terms for member in (*ours, *theirs)]
        return split_gain(terms, [0] * len(ours) + [1] * len(theirs)) > self._split_threshold(terms)

    def _split_threshold(self, articles: Sequence[dict[str, int]], size: int = 1) -> float:
        """Nats per article that a split must gain, for a story of this size."""
        words = sum(sum(terms.values()) for terms in articles) / len(articles)
        least, most = self.tuning.large
        doublings = log2(min(max(size, least), most) / least)
        return (self.tuning.part + self.tuning.part_words * words) * (1 - self.tuning.part_large * doublings)

    def _split(self, cluster: Cluster) -> None:
        """Split a story if it is two. The larger half keeps the id, at equal size the half with the first article."""
        if len(cluster.members) < self.tuning.part_from:
            return
        cluster.parted = len(cluster.members)
        sample = cluster.sample(self.tuning.part_sample)
        sampled = [member.wording.terms for member in sample]
        parts = bisect(sampled, self._split_threshold(sampled, cluster.parted))
        if parts is None:
            return
        side = dict(zip((member.article_id for member in sample), parts, strict=True))
        others = [member for member in cluster.members.values() if member.article_id not in side]
        allotment = assign_sides([member.wording.terms for member in others], sampled, parts)
        side.update(zip((member.article_id for member in others), allotment, strict=True))
        first = next(iter(cluster.members))
        staying = max((0, 1), key=lambda half: (list(side.values()).count(half), side[first] == half))
        new = self.clusters.split(cluster, [m for m in cluster.members.values() if side[m.article_id] != staying])
        for half in (cluster, new):
            half.compared = half.parted = len(half.members)


class StoredStory(Struct, frozen=True):
    """A cluster in storage; see `Cluster` for its fields."""

    id: str
    members: list[Member]
    absorbed: tuple[str, ...]
    compared: int
    parted: int


class ClustererState(Struct, frozen=True):
    """The clusterer as plain data. `shared` has the positions in `stories` of the users of each shared term.

    The order of articles in a story and of stories under a term is preserved, because it decides ties.
    """

    stories: list[StoredStory]
    shared: dict[str, list[int]]


def dump_clusterer(clusterer: Clusterer) -> ClustererState:
    clusters = clusterer.clusters.by_id.values()
    place = {cluster: number for number, cluster in enumerate(clusters)}
    return ClustererState(
        [StoredStory(c.id, list(c.members.values()), c.absorbed, c.compared, c.parted) for c in clusters],
        {
            term: [place[user] for user in users]
            for term, users in clusterer.clusters.index.stories.items()
            if len(users) > 1
        },
    )


def load_clusterer(state: ClustererState, tuning: Tuning | None = None) -> Clusterer:
    clusterer = Clusterer(tuning)
    clusters = [_restored(stored, clusterer.clusters) for stored in state.stories]
    for term, users in state.shared.items():
        clusterer.clusters.index.stories[term] = {clusters[place]: None for place in users}
    heapify(clusterer.clusters.oldest)
    return clusterer


def _restored(stored: StoredStory, cluster_set: ClusterSet) -> Cluster:
    cluster_set.by_id[stored.id] = cluster = Cluster(stored.id)
    for member in stored.members:
        cluster_set.index.add(cluster, member.wording.terms)
        cluster.members[member.article_id] = member
        cluster_set.home[member.article_id] = cluster
        cluster_set.oldest.append((member.published, member.article_id))
    cluster.absorbed = stored.absorbed
    cluster.compared, cluster.parted = stored.compared, stored.parted
    cluster_set.successors.update(dict.fromkeys(stored.absorbed, stored.id))
    return cluster
