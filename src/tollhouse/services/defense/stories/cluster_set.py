"""Clusters."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import islice

from msgspec import Struct

from tollhouse.services.defense.stories.tokens import Wording

RAREST_TERMS = 8
# The rarest terms decide; what only the commoner ones would bring in is not worth the walk.
STEPS = 64


class Member(Struct, frozen=True, gc=False):
    """An article as the clusterer keeps it."""

    article_id: str
    published: datetime
    wording: Wording


class Cluster(Struct, eq=False, gc=False):
    """A story while it can still change: its articles and how often they use each word, `total` words in all.

    `absorbed` are the ids of stories that were merged into it, directly or not.
    `compared` and `parted` are its sizes when it was last held against its neighbours and tried for two stories.
    Nothing in it leads back to it, so that the garbage collector need not walk tens of thousands of stories and words.
    """

    id: str
    counts: dict[str, int] = {}
    total: int = 0
    members: dict[str, Member] = {}
    absorbed: tuple[str, ...] = ()
    compared: int = 1
    parted: int = 1

    def sample(self, size: int) -> list[Member]:
        """At most `size` members, evenly spaced in the order of arrival."""
        members = list(self.members.values())
        if len(members) <= size:
            return members
        return [members[i * len(members) // size] for i in range(size)]

    def serials(self) -> dict[str, set[str]]:
        """The numbers that its articles give to each kind of instalment."""
        found: dict[str, set[str]] = {}
        for member in self.members.values():
            for label, number in member.wording.serials.items():
                found.setdefault(label, set()).add(number)
        return found

    def disagrees(self, serials: Mapping[str, str]) -> bool:
        """It tells of numbered instalments of the same kind, and of none with this number."""
        if not serials:
            return False
        ours = self.serials()
        return any(number not in ours.get(label, (number,)) for label, number in serials.items())

    def is_at_odds(self, other: "Cluster") -> bool:
        """Both tell of numbered instalments of one kind, and no number is in both."""
        ours, theirs = self.serials(), other.serials()
        return any(not ours[label] & numbers for label, numbers in theirs.items() if label in ours)


class InvertedIndex:
    """`stories[term]` are the clusters that use it, in the order in which they began to; `total` is their sum."""

    def __init__(self) -> None:
        self.stories: dict[str, dict[Cluster, None]] = {}
        self.total = 0

    def add(self, cluster: Cluster, terms: dict[str, int]) -> None:
        counts = cluster.counts
        for term, count in terms.items():
            if term in counts:
                counts[term] += count
            else:
                counts[term] = count
                self.stories.setdefault(term, {})[cluster] = None
                self.total += 1
            cluster.total += count

    def take(self, cluster: Cluster, terms: dict[str, int]) -> None:
        counts = cluster.counts
        for term, count in terms.items():
            counts[term] -= count
            if not counts[term]:
                del counts[term]
                self._forget(cluster, term)
            cluster.total -= count

    def users(self, rarest_first: Iterable[tuple[int, str, float, float]]) -> Iterator[Iterable[Cluster]]:
        """The newest users of each of the rarest terms, bounded however large the stories and the index are."""
        stories = self.stories
        walked, left = 0, STEPS
        for spread, term, _, _ in rarest_first:
            if not spread:
                yield ()
                continue
            walked += 1
            if walked > RAREST_TERMS or not left:
                return
            users = reversed(stories[term])
            if spread <= left:
                left -= spread
                yield users
            else:
                yield islice(users, left)
                left = 0

    def _forget(self, cluster: Cluster, term: str) -> None:
        users = self.stories[term]
        del users[cluster]
        self.total -= 1
        if not users:
            del self.stories[term]


class Changes(Struct):
    """`moved`: articles and the story they are now in. `merged`: stories that ended, and their successors.

    `split`: stories that began with articles of another, and that other.
    """

    moved: dict[str, str]
    merged: list[tuple[str, str]]
    split: list[tuple[str, str]]


class ClusterSet:
    """`clusters` by story id; `home` by article id; `successors` of ids that were merged away, a step each."""

    def __init__(self) -> None:
        self.postings = InvertedIndex()
        self.clusters: dict[str, Cluster] = {}
        self.home: dict[str, Cluster] = {}
        self.successors: dict[str, str] = {}
        self.oldest: list[tuple[datetime, str]] = []
        self.changes = Changes({}, [], [])

    def asked(self) -> Changes:
        """What changed since the last call."""
        changes, self.changes = self.changes, Changes({}, [], [])
        return changes

    def found(self, member: Member) -> Cluster:
        """A new, empty story named after the article that it begins with."""
        story_id = self._fresh_id(member.article_id)
        self.clusters[story_id] = cluster = Cluster(story_id)
        return cluster

    def put(self, cluster: Cluster, member: Member) -> None:
        self.postings.add(cluster, member.wording.terms)
        cluster.members[member.article_id] = member
        if member.article_id not in self.home:
            heappush(self.oldest, (member.published, member.article_id))
        self.home[member.article_id] = cluster
        self.changes.moved[member.article_id] = cluster.id

    def move(self, member: Member, new: Cluster) -> None:
        self._take(member, self.home[member.article_id])
        self.put(new, member)

    def merge(self, ended: Cluster, into: Cluster) -> None:
        for member in list(ended.members.values()):
            self.move(member, into)
        del self.clusters[ended.id]
        absorbed = (*ended.absorbed, ended.id)
        self.successors.update(dict.fromkeys(absorbed, into.id))
        into.absorbed += absorbed
        self.changes.merged.append((ended.id, into.id))

    def split(self, cluster: Cluster, leaving: list[Member]) -> Cluster:
        new = self.found(leaving[0])
        for member in leaving:
            self.move(member, new)
        self.changes.split.append((new.id, cluster.id))
        return new

    def expire(self, before: datetime) -> list[str]:
        """Lets go of the articles published earlier; answers with the stories that have none left."""
        ended = []
        while self.oldest and self.oldest[0][0] < before:
            _, article_id = heappop(self.oldest)
            cluster = self.home.pop(article_id)
            self._take(cluster.members[article_id], cluster)
            if not cluster.members:
                ended.append(cluster.id)
                self._forget(cluster)
        return ended

    def _take(self, member: Member, cluster: Cluster) -> None:
        self.postings.take(cluster, member.wording.terms)
        del cluster.members[member.article_id]

    def _forget(self, cluster: Cluster) -> None:
        del self.clusters[cluster.id]
        for story_id in cluster.absorbed:
            del self.successors[story_id]

    def _fresh_id(self, article_id: str) -> str:
        """`story_` and 64 bits of the article's hash. A story that was merged away keeps its id to itself."""
        key = article_id
        while True:
            story_id = f"story_{blake2b(key.encode(), digest_size=8).hexdigest()}"
            if story_id not in self.clusters and story_id not in self.successors:
                return story_id
            key += "\n"
