"""Which live stories use which word, and what each of them is made of."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
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


class Postings:
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
