"""The clusterer as plain data, so that a restart or another process goes on exactly where it stopped.

Every order that decides a tie is kept: of articles in a story, of stories under a word.
"""

from heapq import heapify

from msgspec import Struct

from tollhouse.services.defense.stories.cluster_set import Shelf
from tollhouse.services.defense.stories.clusterer import Clusterer, Tuning
from tollhouse.services.defense.stories.inverted_index import Cluster, Member


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
    clusters = clusterer.shelf.clusters.values()
    place = {cluster: number for number, cluster in enumerate(clusters)}
    return Snapshot(
        [StoredStory(c.id, list(c.members.values()), c.absorbed, c.compared, c.parted) for c in clusters],
        {
            term: [place[user] for user in users]
            for term, users in clusterer.shelf.postings.stories.items()
            if len(users) > 1
        },
    )


def load(snapshot: Snapshot, tuning: Tuning | None = None) -> Clusterer:
    clusterer = Clusterer(tuning)
    clusters = [_restored(stored, clusterer.shelf) for stored in snapshot.stories]
    for term, users in snapshot.shared.items():
        clusterer.shelf.postings.stories[term] = {clusters[place]: None for place in users}
    heapify(clusterer.shelf.oldest)
    return clusterer


def _restored(stored: StoredStory, shelf: Shelf) -> Cluster:
    shelf.clusters[stored.id] = cluster = Cluster(stored.id)
    for member in stored.members:
        shelf.postings.add(cluster, member.wording.terms)
        cluster.members[member.article_id] = member
        shelf.home[member.article_id] = cluster
        shelf.oldest.append((member.published, member.article_id))
    cluster.absorbed = stored.absorbed
    cluster.compared, cluster.parted = stored.compared, stored.parted
    shelf.successors.update(dict.fromkeys(stored.absorbed, stored.id))
    return cluster
