"""Online clustering of articles into stories.

Articles arrive in batches. Each new wording is a cluster of its own at first; then the most similar pair of new and
touched clusters is merged, again and again, until none is similar enough: average link on sums of vectors, in which a
mean over more pairs needs less similarity. Old clusters that have grown are compared with their neighbours, too, and
merge if they turn out to be one story. Only clusters that share rare words or directions of their static vectors are
compared. The result depends on no clock, randomness or hash order.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from itertools import combinations
from typing import Self

import numpy as np
from msgspec import Struct

from tollhouse.services.defense.article import Article
from tollhouse.services.defense.stories.cluster import (
    BEST_LARGE,
    LARGE,
    LONG,
    STATIC_SCALE,
    TEXT_CHARS,
    TITLE_CHARS,
    Cluster,
    Frequencies,
    Index,
    Vector,
    Wording,
    serials,
    similarity,
    term_counts,
    text_term_counts,
    users_of,
    words,
)
from tollhouse.services.defense.stories.story import LiveStory
from tollhouse.vectors import text_vectors

# Stories that report one event need this share of the similarity that makes clusters one story.
REPORTED = 0.5
WINDOW = timedelta(hours=36)
BATCH = 128
# A cluster's neighbours are looked for again when it has grown by this factor.
GROWTH = 1.5
# All terms are weighed again when the wordings have doubled since, from this number on.
FIRST_WEIGHING = 32


class StoredWording(Struct, frozen=True, array_like=True):
    """A wording in storage: what cannot be read from its title and text again, and these."""

    title: str
    text: str
    weights: bytes
    text_weights: bytes
    articles: dict[str, datetime]


def _stored(wording: Wording) -> StoredWording:
    return StoredWording(wording.title, wording.text, wording.weights, wording.text_weights, wording.articles)


class StoredStory(Struct, frozen=True, array_like=True):
    id: str
    wordings: list[StoredWording]
    absorbed: tuple[str, ...]
    searched: int


class ClustererState(Struct, frozen=True):
    """The clusterer as plain data, stories in the order in which they began.

    `shared` has the positions in `stories` of the users of each term with several, in the index's order.
    """

    stories: list[StoredStory]
    shared: dict[str, list[int]]
    weighed_at: int


class Clusterer:
    """The live stories. `add` is idempotent by article id; the caller runs `expire` with its own clock."""

    def __init__(self) -> None:
        self._index = Index()
        self._frequencies = Frequencies()
        self._weighed_at = 0
        self._began = self._known = 0
        self._by_id: dict[str, Cluster] = {}
        self._by_wording: dict[int, Cluster] = {}
        self._wording_of: dict[str, int] = {}
        self._oldest: list[tuple[datetime, str]] = []
        self._successors: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, articles: Iterable[Article]) -> list[tuple[str, str]]:
        """Add new articles to stories, in the order given; return the stories that ended, each with its successor."""
        merged: list[tuple[str, str]] = []
        new = [article for article in articles if article.id not in self._wording_of]
        self._known = self._began
        for start in range(0, len(new), BATCH):
            begun = self._begin(new[start : start + BATCH])
            self._weigh(begun)
            self._merge_similar(begun, merged)
        return merged

    def join(self, groups: Iterable[Sequence[str]]) -> list[tuple[str, str]]:
        """Merge the stories of each group of articles, which report one event; return those that ended with successors.

        They need less similarity for that than others, REPORTED.
        """
        merged: list[tuple[str, str]] = []
        self._known = self._began
        for articles in groups:
            keys = [self._wording_of[identity] for identity in articles if identity in self._wording_of]
            clusters = list(dict.fromkeys(self._by_wording[key] for key in keys))
            pairs = _Pairs(REPORTED)
            for one, other in combinations(clusters, 2):
                pairs.add(one, other)
            while grown := self._merge_pairs(pairs, merged):
                for cluster in grown:
                    pairs.compare(cluster)
        return merged

    def expire(self, before: datetime) -> dict[str, str]:
        """Remove articles published before a time; return the story that each of them was in."""
        expired: dict[str, str] = {}
        while self._oldest and self._oldest[0][0] < before:
            _, article_id = heappop(self._oldest)
            key = self._wording_of.pop(article_id)
            cluster = self._by_wording[key]
            expired[article_id] = cluster.id
            wording = cluster.wordings[key]
            del wording.articles[article_id]
            if not wording.articles:
                self._remove(wording, cluster)
        return expired

    def story_of(self, article_id: str) -> str | None:
        key = self._wording_of.get(article_id)
        return None if key is None else self._by_wording[key].id

    def current(self, story_id: str) -> str | None:
        """The live story with this id or the one it was merged into; None if it ended."""
        return story_id if story_id in self._by_id else self._successors.get(story_id)

    def stories(self) -> Iterator[LiveStory]:
        for cluster in self._by_id.values():
            times = {id_: time for wording in cluster.wordings.values() for id_, time in wording.articles.items()}
            yield LiveStory(cluster.id, list(times), min(times.values()), max(times.values()))

    def dump(self) -> ClustererState:
        """The state from which `load` makes an equal clusterer."""
        clusters = list(self._by_id.values())
        place = {cluster: number for number, cluster in enumerate(clusters)}
        return ClustererState(
            [StoredStory(c.id, list(map(_stored, c.wordings.values())), c.absorbed, c.searched) for c in clusters],
            {
                term: [place[user] for user in users]
                for term, users in sorted(self._index.users.items())
                if len(users) > 1
            },
            self._weighed_at,
        )

    @classmethod
    def load(cls, state: ClustererState) -> Self:
        clusterer = cls()
        vectors = iter(text_vectors().embed([wording.title for stored in state.stories for wording in stored.wordings]))
        clusters = [clusterer._restore(stored, vectors) for stored in state.stories]
        for term, users in state.shared.items():
            clusterer._index.users[term] = users_of([clusters[place] for place in users])
        heapify(clusterer._oldest)
        clusterer._weighed_at = state.weighed_at
        return clusterer

    def _begin(self, articles: Sequence[Article]) -> list[Cluster]:
        """Clusters of the wordings that are new, one each."""
        begun: list[Cluster] = []
        vectors = text_vectors().embed([article.title[:TITLE_CHARS] for article in articles])
        for article, vector in zip(articles, vectors, strict=True):
            if article.id in self._wording_of:
                continue
            wording = read_wording(article.id, article.title, article.text)
            known = self._by_wording.get(wording.key)
            if known is None:
                cluster = self._begin_story(wording, article.id)
                cluster.static = _static(vector)
                begun.append(cluster)
            else:
                wording = known.wordings[wording.key]
            wording.articles[article.id] = article.published
            self._wording_of[article.id] = wording.key
            heappush(self._oldest, (article.published, article.id))
        return begun

    def _begin_story(self, wording: Wording, name: str) -> Cluster:
        """A cluster that has its wording to come; its id is `story_` and 64 bits of its first article's hash."""
        story_id = ""
        while not story_id or story_id in self._by_id or story_id in self._successors:
            story_id = f"story_{blake2b(name.encode(), digest_size=8).hexdigest()}"
            name += "\n"
        self._began += 1
        self._by_id[story_id] = cluster = Cluster(story_id, self._began)
        self._frequencies.add(wording.terms())
        cluster.wordings[wording.key] = wording
        self._by_wording[wording.key] = cluster
        return cluster

    def _weigh(self, begun: Sequence[Cluster]) -> None:
        """Weigh the new wordings, or all if the stream has doubled, and index the new ones."""
        count = self._frequencies.wordings
        if count >= max(FIRST_WEIGHING, 2 * self._weighed_at):
            self._weighed_at = count
            again = set(begun)
            for cluster in self._by_id.values():
                if cluster not in again:
                    cluster.weigh(self._frequencies)
        for cluster in begun:
            for wording in list(cluster.wordings.values()):
                wording.weigh(self._frequencies)
                cluster.add((wording,), None)
                self._index.add(cluster, wording.terms())

    def _merge_similar(self, begun: Sequence[Cluster], merged: list[tuple[str, str]]) -> None:
        """Merge the most similar pairs among the new clusters, what resembles them, and what has grown thereby."""
        large = [cluster for cluster in self._by_id.values() if cluster.size >= LARGE and cluster.static is not None]
        means = np.array([c.static * np.float32(c.rank) for c in large if c.static is not None])
        search: list[Cluster] = [cluster for cluster in begun if cluster.title or cluster.text]
        pairs = _Pairs()
        while search:
            near = _nearest(search, large, means)
            for cluster, others in zip(search, near, strict=True):
                cluster.searched = cluster.size
                for other in (*self._index.candidates(cluster), *others):
                    if other is not cluster and other.id in self._by_id:
                        pairs.add(cluster, other)
            search = []
            while grown := self._merge_pairs(pairs, merged):
                for cluster in grown:
                    pairs.compare(cluster)
                search = [c for c in dict.fromkeys((*search, *grown)) if c.id in self._by_id]
            search = [cluster for cluster in search if cluster.size >= GROWTH * cluster.searched]

    def _merge_pairs(self, pairs: "_Pairs", merged: list[tuple[str, str]]) -> list[Cluster]:
        """Merge the pairs that are one story, the most similar first; return the clusters that have grown."""
        grown: dict[Cluster, None] = {}
        while pair := pairs.best():
            # A story that callers know keeps its id; of two such the larger one, or the older one.
            into, ended = sorted(pair, key=lambda cluster: (cluster.order > self._known, -cluster.size, cluster.order))
            self._merge(ended, into)
            if ended.order <= self._known:
                merged.append((ended.id, into.id))
            pairs.join(ended, into)
            grown.pop(ended, None)
            grown[into] = None
        return list(grown)

    def _merge(self, ended: Cluster, into: Cluster) -> None:
        into.add(ended.wordings.values(), ended.static)
        self._by_wording.update(dict.fromkeys(ended.wordings, into))
        self._index.remove(ended, ended.title.keys() | ended.text.keys())
        self._index.add(into, ended.title.keys() | ended.text.keys())
        del self._by_id[ended.id]
        absorbed = (*ended.absorbed, ended.id) if ended.order <= self._known else ended.absorbed
        self._successors.update(dict.fromkeys(absorbed, into.id))
        into.absorbed += absorbed

    def _remove(self, wording: Wording, cluster: Cluster) -> None:
        terms = wording.terms()
        (vector,) = text_vectors().embed([wording.title])
        cluster.remove(wording, _static(vector))
        self._index.remove(cluster, terms - cluster.title.keys() - cluster.text.keys())
        self._frequencies.add(terms, -1)
        del self._by_wording[wording.key]
        if not cluster.wordings:
            del self._by_id[cluster.id]
            for story_id in cluster.absorbed:
                del self._successors[story_id]

    def _restore(self, stored: StoredStory, vectors: Iterator[Vector]) -> Cluster:
        self._began += 1
        self._by_id[stored.id] = cluster = Cluster(stored.id, self._began, absorbed=stored.absorbed)
        for item, vector in zip(stored.wordings, vectors, strict=False):
            wording = read_wording(next(iter(item.articles)), item.title, item.text)
            wording.weights, wording.text_weights, wording.articles = item.weights, item.text_weights, item.articles
            cluster.add((wording,), _static(vector))
            self._by_wording[wording.key] = cluster
            self._frequencies.add(wording.terms())
            self._wording_of.update(dict.fromkeys(item.articles, wording.key))
            self._oldest += [(published, article_id) for article_id, published in item.articles.items()]
        self._index.add(cluster, cluster.title.keys() | cluster.text.keys())
        cluster.searched = stored.searched
        self._successors.update(dict.fromkeys(stored.absorbed, stored.id))
        return cluster


class _Pairs:
    """Pairs of clusters, the most similar first. A pair is compared again only when its turn comes."""

    def __init__(self, least: float = 1.0) -> None:
        self._least = least
        self._heap: list[tuple[float, int, int, int, Cluster, Cluster]] = []
        self._neighbours: dict[Cluster, dict[Cluster, None]] = {}
        self._into: dict[Cluster, Cluster] = {}

    def add(self, one: Cluster, other: Cluster) -> None:
        if other not in self._neighbours.setdefault(one, {}):
            self._neighbours[one][other] = self._neighbours.setdefault(other, {})[one] = None
            self._push(one, other)

    def best(self) -> tuple[Cluster, Cluster] | None:
        """The most similar pair of those that are one story."""
        while self._heap:
            _, _, _, sizes, one, other = heappop(self._heap)
            one, other = self._current(one), self._current(other)
            if one is not other:
                if one.size + other.size == sizes:
                    return one, other
                self._push(one, other)
        return None

    def join(self, ended: Cluster, into: Cluster) -> None:
        """Give a cluster the neighbours of another that was merged into it."""
        self._into[ended] = into
        for other in self._neighbours.pop(ended):
            del self._neighbours[other][ended]
            if other is not into:
                self._neighbours[into][other] = self._neighbours[other][into] = None

    def compare(self, cluster: Cluster) -> None:
        """Compare a cluster that has grown with its neighbours."""
        for other in self._neighbours[cluster]:
            self._push(cluster, other)

    def _current(self, cluster: Cluster) -> Cluster:
        while cluster in self._into:
            cluster = self._into[cluster]
        return cluster

    def _push(self, one: Cluster, other: Cluster) -> None:
        if one.order > other.order:
            one, other = other, one
        if (score := similarity(one, other, self._least)) >= self._least:
            heappush(self._heap, (-score, one.order, other.order, one.size + other.size, one, other))


def _nearest(search: Sequence[Cluster], large: Sequence[Cluster], means: Vector) -> list[list[Cluster]]:
    """For each cluster the large ones that its static vector fits best."""
    if not large:
        return [[] for _ in search]
    none = np.zeros(means.shape[1], np.float32)
    scores = np.array([none if cluster.static is None else cluster.static for cluster in search]) @ means.T
    best = np.argsort(-scores, axis=1, kind="stable")[:, : BEST_LARGE + 1]
    return [[large[place] for place in row if scores[n, place] > 0] for n, row in enumerate(best)]


_NO_TERMS: Mapping[str, int] = {}


def _static(vector: Vector) -> Vector | None:
    """A title's vector in integers, None if no word is known."""
    return np.rint(vector * STATIC_SCALE) if vector.any() else None


def read_wording(article_id: str, title: str, text: str) -> Wording:
    """The wording of an article; one without any term is like no other."""
    title = title[:TITLE_CHARS]
    text = text[:TEXT_CHARS].removeprefix(title).strip()
    counts = term_counts(title)
    whole = f"{title} {text}".strip()
    text_counts = text_term_counts(whole) if len(words(whole)) >= LONG else _NO_TERMS
    same = " ".join(words(whole.casefold())) if text_counts or counts else f"\n{article_id}"
    key = int.from_bytes(blake2b(same.encode(), digest_size=8).digest(), "big")
    title_terms, text_terms = (tuple(Counter(terms).elements()) for terms in (counts or text_counts, text_counts))
    return Wording(key, title, text, title_terms, text_terms, serials(title))
