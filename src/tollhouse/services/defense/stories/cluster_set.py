"""Which article is in which live story, under which id, and what has changed since somebody asked."""

from datetime import datetime
from hashlib import blake2b
from heapq import heappop, heappush

from msgspec import Struct

from tollhouse.services.defense.stories.inverted_index import Cluster, Member, Postings


class Changes(Struct):
    """`moved`: articles and the story they are now in. `merged`: stories that ended, and their successors.

    `split`: stories that began with articles of another, and that other.
    """

    moved: dict[str, str]
    merged: list[tuple[str, str]]
    split: list[tuple[str, str]]


class Shelf:
    """`clusters` by story id; `home` by article id; `successors` of ids that were merged away, a step each."""

    def __init__(self) -> None:
        self.postings = Postings()
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
