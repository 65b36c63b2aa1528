"""The live groups, the weights of words (TF-IDF of the stream itself), and which groups to compare with a new one."""

from collections.abc import Mapping, Sequence
from itertools import islice
from math import exp, log, sqrt
from operator import itemgetter

from msgspec import Struct

from tollhouse.services.defense.events.occurrence import Group, Headline, total
from tollhouse.services.defense.users import Users, with_user, without_user

# Bounds of the groups that are compared with a new one, and of those looked at for each word: the latest.
CANDIDATES = 16
USERS_PER_TERM = 64
# Document frequencies are applied again after this share of new headlines.
NEW_SHARE = 0.25
# Headlines this many days ago count 1/e in the crowd.
CROWD_DAYS = 2.0
# Counts of words are halved at this number of headlines, so that they follow the stream.
MOST_COUNTED = 200_000


class Stream(Struct):
    """What is known of the stream; stored with the groups, so that a restart changes no score.

    `counts` is the number of headlines with each word, of `total`, including expired ones. `idf` are the inverse
    document frequencies in use, `rare` that of other words, computed when `weighed` headlines were known. `crowd` is
    the number of headlines about `day`, older ones counting less.
    """

    counts: dict[str, int] = {}
    total: int = 0
    idf: dict[str, float] = {}
    rare: float = 1.0
    weighed: int = 0
    crowd: float = 0.0
    day: float = 0.0


def _keys(group: Group) -> tuple[str | int, ...]:
    return (*group.weights, *group.row_keys)


class GroupIndex:
    """Groups by id, the most recently changed last; by headline; and by each of their words and provider rows."""

    def __init__(self, stream: Stream | None = None) -> None:
        self.groups: dict[str, Group] = {}
        self.group_of: dict[Headline, Group] = {}
        self.stream = stream or Stream()
        self._users: dict[str | int, Users[Group]] = {}

    def count(self, headlines: Sequence[Headline]) -> None:
        """Count new headlines and their words, and weigh all live ones again if many came since the last time."""
        stream = self.stream
        for headline in headlines:
            for term in headline.terms:
                stream.counts[term] = stream.counts.get(term, 0) + 1
            stream.total += 1
            later = max(0.0, headline.first_day - stream.day)
            stream.crowd = stream.crowd * exp(-later / CROWD_DAYS) + 1
            stream.day += later
        if stream.total <= (1 + NEW_SHARE) * stream.weighed:
            return
        if stream.total > MOST_COUNTED:
            stream.counts = {term: number // 2 for term, number in stream.counts.items() if number > 1}
            stream.total //= 2
        stream.idf = {term: log((1 + stream.total) / (0.5 + n)) for term, n in stream.counts.items() if n > 1}
        stream.rare, stream.weighed = log((1 + stream.total) / 1.5), stream.total
        for group in self.groups.values():
            group.weights = total([self.weigh(headline) for headline in group.headlines] or [{}])

    def uncount(self, headline: Headline) -> None:
        """Take back a headline that no report carries any more."""
        for term in headline.terms:
            self.stream.counts[term] = self.stream.counts.get(term, 1) - 1
        self.stream.total -= 1

    def weigh(self, headline: Headline) -> Mapping[str, float]:
        """The TF-IDF weights of a headline's words, of unit length."""
        idf, rare = self.stream.idf, self.stream.rare
        weights = {term: weight if (weight := idf.get(term, rare)) > 0.05 else 0.05 for term in headline.terms}
        length = sqrt(sum([weight * weight for weight in weights.values()])) or 1.0
        return {term: weight / length for term, weight in weights.items()}

    def enter(self, group: Group) -> None:
        """Add a group, or a group that changed after `drop`."""
        self.groups[group.id] = group
        # Most words have one user: they share its tuple.
        alone = (group,)
        for key in _keys(group):
            users = self._users.get(key)
            self._users[key] = with_user(users, group) if users else alone
        for headline in (*group.headlines, *group.composed):
            self.group_of[headline] = group

    def drop(self, group: Group) -> None:
        """Remove a group; call it before the group changes."""
        del self.groups[group.id]
        for key in _keys(group):
            if others := without_user(self._users[key], group):
                self._users[key] = others
            else:
                del self._users[key]
        for headline in (*group.headlines, *group.composed):
            del self.group_of[headline]

    def sharing_rows(self, group: Group) -> dict[Group, int]:
        """The other groups by the number of provider rows in common."""
        shared: dict[Group, int] = {}
        for key in sorted(group.row_keys):
            for other in self._users[key]:
                if other is not group:
                    shared[other] = shared.get(other, 0) + 1
        return shared

    def candidates(self, group: Group) -> list[Group]:
        """The other groups worth comparing, by rare words in common: bounded, however many groups live."""
        overlap: dict[Group, float] = {}
        shared = [(term, weight) for term, weight in group.weights.items() if len(self._users[term]) > 1]
        for term, weight in sorted(shared):
            for other in islice(reversed(self._users[term]), USERS_PER_TERM):
                overlap[other] = overlap.get(other, 0.0) + weight * weight
        for key in sorted(group.row_keys):
            for other in islice(reversed(self._users[key]), USERS_PER_TERM):
                overlap[other] = overlap.get(other, 0.0) + 1.0
        overlap.pop(group, None)
        return [other for other, _ in sorted(overlap.items(), key=itemgetter(1), reverse=True)[:CANDIDATES]]
