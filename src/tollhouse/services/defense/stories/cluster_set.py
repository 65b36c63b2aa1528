"""Live clusters of articles: membership, ids, changes, and an inverted index of their terms."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import islice

from msgspec import Struct

from tollhouse.services.defense.stories.tokens import Wording

RAREST_TERMS = 8
# Limit of clusters to visit: the rarest terms decide, and clusters that share only common ones are not worth it.
STEPS = 64


class Member(Struct, frozen=True, gc=False):
    """An article in a cluster."""

    article_id: str
    published: datetime
    wording: Wording


class Cluster(Struct, eq=False, gc=False):
    """A live story: its articles, and how often they use each term (`total` uses).

    `absorbed` are the ids of stories that were merged into it, directly or indirectly. `compared` and `parted` are its
    sizes when it was last compared with its neighbours and last tested for a split. It has no reference cycles, so
    that the garbage collector need not traverse tens of thousands of stories.
    """

    id: str
    counts: dict[str, int] = {}
    total: int = 0
    members: dict[str, Member] = {}
    absorbed: tuple[str, ...] = ()
    compared: int = 1
    parted: int = 1

    def sample(self, size: int) -> list[Member]:
        """At most `size` members, evenly spaced in order of arrival."""
        members = list(self.members.values())
        if len(members) <= size:
            return members
        return [members[i * len(members) // size] for i in range(size)]

    def serials(self) -> dict[str, set[str]]:
        """The serial numbers in its articles, by label ("day", "episode")."""
        numbers: dict[str, set[str]] = {}
        for member in self.members.values():
            for label, number in member.wording.serials.items():
                numbers.setdefault(label, set()).add(number)
        return numbers

    def disagrees(self, serials: Mapping[str, str]) -> bool:
        """Whether the cluster has serials with one of these labels, but not with this number."""
        if not serials:
            return False
        ours = self.serials()
        return any(number not in ours.get(label, (number,)) for label, number in serials.items())

    def conflicts_with(self, other: "Cluster") -> bool:
        """Whether both clusters have serials with one label and no number in common."""
        ours, theirs = self.serials(), other.serials()
        return any(not ours[label] & numbers for label, numbers in theirs.items() if label in ours)


class InvertedIndex:
    """Clusters by term: `stories[term]` in the order in which they began to use it; `total` entries in all."""

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

    def remove(self, cluster: Cluster, terms: dict[str, int]) -> None:
        counts = cluster.counts
        for term, count in terms.items():
            counts[term] -= count
            if not counts[term]:
                del counts[term]
                users = self.stories[term]
                del users[cluster]
                self.total -= 1
                if not users:
                    del self.stories[term]
            cluster.total -= count

    def users(self, rarest_first: Iterable[tuple[int, str, float, float]]) -> Iterator[Iterable[Cluster]]:
        """For each of the rarest terms the newest clusters that use it, within a fixed bound."""
        stories = self.stories
        terms_visited, steps = 0, STEPS
        for spread, term, _, _ in rarest_first:
            if not spread:
                yield ()
                continue
            terms_visited += 1
            if terms_visited > RAREST_TERMS or not steps:
                return
            users = reversed(stories[term])
            if spread <= steps:
                steps -= spread
                yield users
            else:
                yield islice(users, steps)
                steps = 0


class Changes(Struct):
    """`moved` has the new story of each article, `merged` (ended, successor) ids, `split` (new, original) ids."""

    moved: dict[str, str]
    merged: list[tuple[str, str]]
    split: list[tuple[str, str]]


class ClusterSet:
    """All live clusters: `by_id` (story id), by article id (`home`), and the `successors` of merged story ids."""

    def __init__(self) -> None:
        self.index = InvertedIndex()
        self.by_id: dict[str, Cluster] = {}
        self.home: dict[str, Cluster] = {}
        self.successors: dict[str, str] = {}
        self.oldest: list[tuple[datetime, str]] = []
        self.changes = Changes({}, [], [])

    def take_changes(self) -> Changes:
        """Return the changes since the last call."""
        changes, self.changes = self.changes, Changes({}, [], [])
        return changes

    def begin(self, member: Member) -> Cluster:
        """Create an empty cluster; its id is `story_` and 64 bits of its first article's hash, unlike any known id."""
        key, story_id = member.article_id, ""
        while not story_id or story_id in self.by_id or story_id in self.successors:
            story_id = f"story_{blake2b(key.encode(), digest_size=8).hexdigest()}"
            key += "\n"
        self.by_id[story_id] = cluster = Cluster(story_id)
        return cluster

    def add(self, cluster: Cluster, member: Member) -> None:
        self.index.add(cluster, member.wording.terms)
        cluster.members[member.article_id] = member
        if member.article_id not in self.home:
            heappush(self.oldest, (member.published, member.article_id))
        self.home[member.article_id] = cluster
        self.changes.moved[member.article_id] = cluster.id

    def move(self, member: Member, new: Cluster) -> None:
        self._remove(member, self.home[member.article_id])
        self.add(new, member)

    def merge(self, ended: Cluster, into: Cluster) -> None:
        for member in list(ended.members.values()):
            self.move(member, into)
        del self.by_id[ended.id]
        absorbed = (*ended.absorbed, ended.id)
        self.successors.update(dict.fromkeys(absorbed, into.id))
        into.absorbed += absorbed
        self.changes.merged.append((ended.id, into.id))

    def split(self, cluster: Cluster, members: list[Member]) -> Cluster:
        new = self.begin(members[0])
        for member in members:
            self.move(member, new)
        self.changes.split.append((new.id, cluster.id))
        return new

    def expire(self, before: datetime) -> list[str]:
        """Remove articles published before a time; return the ids of stories that became empty."""
        ended = []
        while self.oldest and self.oldest[0][0] < before:
            _, article_id = heappop(self.oldest)
            cluster = self.home.pop(article_id)
            self._remove(cluster.members[article_id], cluster)
            if not cluster.members:
                ended.append(cluster.id)
                del self.by_id[cluster.id]
                for story_id in cluster.absorbed:
                    del self.successors[story_id]
        return ended

    def _remove(self, member: Member, cluster: Cluster) -> None:
        self.index.remove(cluster, member.wording.terms)
        del cluster.members[member.article_id]
