"""Resolve reports into events online: stable ids, merges and splits, and a state that survives a restart.

Reports with the same headline are one; the others are compared by words, countries, places, deaths, provider rows and
time, some also by meaning (see `occurrence.Tuning`). Each batch is merged greedily, best pair first, with the live
groups that share rare words.
The result depends on no clock, randomness or hash order.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from heapq import heapify, heappop, heappush

import msgspec
import numpy as np
from msgspec import Struct

from tollhouse.services.defense.article import LONGEST_APART, has_foreign_letters, headline_key
from tollhouse.services.defense.events.classifier import title_vectors
from tollhouse.services.defense.events.occurrence import (
    FEEBLE,
    VECTOR_SCALE,
    Group,
    GroupIndex,
    Headline,
    Stream,
    Tuning,
    Vector,
    absorb,
    agreement,
    build_group,
    sum_up,
    total,
    union,
)
from tollhouse.services.defense.events.report import event_id
from tollhouse.services.defense.ingest.url_title import headline_words
from tollhouse.services.defense.stories.cluster import term_counts

# An event takes no follow-ups this long after its newest report, or once so many groups changed later.
RETENTION = timedelta(days=4)
LIVE_GROUPS = 60_000
BATCH = 256

_DAY_SECONDS = 86_400
_NUMBERS = {
    "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
    "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
}  # fmt: skip


class Sighting(Struct, frozen=True, gc=False):
    """What one report says, as far as resolution needs it.

    `id` is the report's. `countries` are weights by alpha-2 code with a sum of at most 1; `places` are names below
    country level. `row_keys` are hashes of what names a provider row: day, code, actors and place; rows without two
    actors or a city identify nothing and are left out.
    """

    id: str
    url: str
    title: str
    has_headline: bool
    reported_at: datetime
    countries: Mapping[str, float] = {}
    places: tuple[str, ...] = ()
    killed: int | None = None
    row_keys: tuple[int, ...] = ()


class Resolved(Struct, frozen=True):
    """The live events with the ids of their reports, oldest first, and what changed since the last `settle`.

    `merged` and `split` are pairs of an id that was in an earlier `events` and its successor.
    """

    events: dict[str, tuple[str, ...]]
    changed: set[str]
    merged: list[tuple[str, str]]
    split: list[tuple[str, str]]


# A pair of groups in order of merging: the negative score, their ids, and how many headlines they had.
_Pair = tuple[float, str, str, int, Group, Group]


class _StoredGroup(Struct, frozen=True, array_like=True):
    id: str
    headlines: list[list[str]]
    absorbed: tuple[str, ...]


class _State(Struct, frozen=True):
    reports: list[Sighting]
    groups: list[_StoredGroup]
    stream: Stream


class Resolver:
    """The live events. `add` is idempotent by report id; the caller runs `expire` with its own clock.

    A new resolver continues from another's `dump_state`.
    """

    def __init__(self, state: bytes | None = None, tuning: Tuning | None = None) -> None:
        self._tuning = tuning or Tuning()
        self._index = GroupIndex()
        self._reports: dict[str, Sighting] = {}
        self._headline_of: dict[str, Headline] = {}
        self._by_key: dict[str, Headline] = {}
        self._vectors: dict[Headline, Vector] = {}
        self._retired: set[str] = set()
        self._changed: set[str] = set()
        self._merged: dict[str, str] = {}
        self._split: list[tuple[str, str]] = []
        if state is not None:
            self._load(msgspec.msgpack.decode(state, type=_State))

    def __len__(self) -> int:
        return len(self._index.groups)

    def __contains__(self, event_id: str) -> bool:
        return event_id in self._index.groups

    def add(self, sightings: Iterable[Sighting]) -> None:
        """Add new reports and those that changed. A changed report leaves its event if it no longer fits."""
        fresh = {sighting.id: sighting for sighting in sightings if self._reports.get(sighting.id) != sighting}
        ordered = sorted(fresh.values(), key=lambda sighting: (sighting.reported_at, sighting.id))
        for start in range(0, len(ordered), BATCH):
            self._resolve(ordered[start : start + BATCH])

    def expire(self, before: datetime) -> None:
        """Forget events whose newest report is older than a time, and the least recently changed above LIVE_GROUPS."""
        day = _days(before)
        groups = list(self._index.groups.values())
        surplus = groups[: max(0, len(groups) - LIVE_GROUPS)]
        for group in [*surplus, *(group for group in groups[len(surplus) :] if group.last_day < day)]:
            self._index.drop(group)
            self._changed.discard(group.id)
            self._retired.difference_update(group.absorbed)
            for headline in (*group.headlines, *group.composed):
                self._forget(headline)

    def settle(self) -> Resolved:
        """The live events, and what changed since the last call."""
        events: dict[str, tuple[str, ...]] = {}
        for group in self._index.groups.values():
            group.was_settled = True
            reports = [self._reports[i] for headline in (*group.headlines, *group.composed) for i in headline.reports]
            if len(reports) > 1:
                reports.sort(key=lambda sighting: (sighting.reported_at, sighting.id))
            events[group.id] = tuple([sighting.id for sighting in reports])
        merged = [(old, self._successor(old)) for old in self._merged]
        split = [(old, self._successor(new)) for old, new in self._split]
        resolved = Resolved(
            events,
            self._changed & events.keys(),
            [(old, new) for old, new in merged if new in events and old != new],
            [(old, new) for old, new in split if new in events and old != new],
        )
        self._changed, self._merged, self._split = set(), {}, []
        return resolved

    def dump_state(self) -> bytes:
        """All that a new resolver needs to continue. Call it after `settle`."""
        groups = [
            _StoredGroup(
                group.id, [headline.reports for headline in (*group.headlines, *group.composed)], group.absorbed
            )
            for group in self._index.groups.values()
        ]
        state = _State(list(self._reports.values()), groups, self._index.stream)
        return msgspec.msgpack.Encoder(order="deterministic").encode(state)

    def _successor(self, identity: str) -> str:
        while identity in self._merged and identity not in self._index.groups:
            identity = self._merged[identity]
        return identity

    def _load(self, state: _State) -> None:
        self._reports = {sighting.id: sighting for sighting in state.reports}
        self._index.stream = state.stream
        stored = [(group, [self._read(reports) for reports in group.headlines]) for group in state.groups]
        for group, own in stored:
            live = build_group(group.id, own, self._index.weigh)
            live.absorbed, live.was_settled = group.absorbed, True
            self._retired.update(group.absorbed)
            self._index.enter(live)

    def _resolve(self, batch: Sequence[Sighting]) -> None:
        formerly = {sighting.id: self._remove(sighting.id) for sighting in batch if sighting.id in self._reports}
        headlines: list[Headline] = []
        copied: dict[Group, None] = {}
        for sighting in batch:
            self._reports[sighting.id] = sighting
            original = self._by_key.get(headline_key(sighting.title)) if sighting.has_headline else None
            if original is None or abs(_days(sighting.reported_at) - original.first_day) > LONGEST_APART.days:
                headlines.append(self._read([sighting.id]))
                continue
            if group := self._index.group_of.get(original):
                self._index.drop(group)
                copied[group] = None
            original.reports.append(sighting.id)
            self._headline_of[sighting.id] = original
            self._sum_reports(original)
        for group in copied:
            sum_up(group, self._index.weigh)
            self._index.enter(group)
        # All at once is faster.
        self._vectors = dict(zip(headlines, self._embed(headlines), strict=True))
        self._index.count(headlines)
        fresh = [self._begin(headline) for headline in headlines]
        self._merge_all([group for group in fresh if group.headlines])
        for headline in headlines:
            self._join_by_rows(self._index.group_of[headline])
        for sighting in batch:
            group = self._index.group_of[self._headline_of[sighting.id]]
            self._changed.add(group.id)
            self._follow(formerly.get(sighting.id, ""), group)

    def _read(self, reports: Sequence[str]) -> Headline:
        """A headline of reports that have the same."""
        first = self._reports[reports[0]]
        terms = _terms(first) if first.has_headline else ()
        key = headline_key(first.title) if terms else ""
        headline = Headline(key, list(reports), terms)
        self._sum_reports(headline)
        self._headline_of.update(dict.fromkeys(reports, headline))
        if key:
            self._by_key[key] = headline
        return headline

    def _embed(self, headlines: Sequence[Headline]) -> list[Vector]:
        titles = [self._reports[headline.reports[0]].title for headline in headlines]
        vectors = np.rint(title_vectors(titles) * VECTOR_SCALE)
        vectors[[has_foreign_letters(title) for title in titles]] = 0
        return list(vectors)

    def _vector(self, headline: Headline) -> Vector:
        """The text vector of a headline: that of a headline of the current batch is known."""
        known = self._vectors.get(headline)
        return self._embed([headline])[0] if known is None else known

    def _sum_reports(self, headline: Headline) -> None:
        reports = [self._reports[identity] for identity in headline.reports]
        countries = total([report.countries for report in reports])
        headline.countries = (
            countries if len(reports) == 1 else {key: countries[key] / len(reports) for key in countries}
        )
        headline.places = union([report.places for report in reports])
        headline.killed = tuple(sorted({report.killed for report in reports if report.killed is not None}))
        headline.row_keys = union([report.row_keys for report in reports])
        days = [_days(report.reported_at) for report in reports]
        headline.first_day, headline.last_day = min(days), max(days)

    def _begin(self, headline: Headline) -> Group:
        """A new event. Its id is that of its page, unless an event that the page left has it."""
        url, number = self._reports[headline.reports[0]].url, 1
        identity = event_id(url)
        while identity in self._index.groups or identity in self._retired:
            number += 1
            identity = f"conflict_{sha256(f'{url} {number}'.encode()).hexdigest()[:16]}"
        group = build_group(identity, [headline], self._index.weigh)
        self._index.enter(group)
        return group

    def _merge_all(self, fresh: Sequence[Group]) -> None:
        """Merge the best pair of groups until no pair agrees enough."""
        neighbours: dict[Group, dict[Group, None]] = {group: {} for group in fresh}
        heap: list[_Pair] = []
        for group in fresh:
            others = [other for other in self._index.candidates(group) if other not in neighbours[group]]
            heap += self._compare(group, others, neighbours)
        heapify(heap)
        while heap:
            *_, size, one, other = heappop(heap)
            # A group that was merged has other headlines now, or none.
            if len(one.headlines) + len(other.headlines) != size or not (one.headlines and other.headlines):
                continue
            survivor, gone = self._merge(one, other)
            around = neighbours.pop(survivor) | neighbours.pop(gone)
            neighbours[survivor] = {}
            alive = (group for group in around if group.headlines and group is not survivor)
            for pair in self._compare(survivor, alive, neighbours):
                heappush(heap, pair)

    def _compare(
        self, group: Group, others: Iterable[Group], neighbours: dict[Group, dict[Group, None]]
    ) -> list[_Pair]:
        """The pairs that agree enough to merge. Those that may do so later become neighbours."""
        pairs: list[_Pair] = []
        for other in others:
            score = agreement(group, other, self._index.stream.crowd, self._tuning, self._vector)
            if score >= FEEBLE:
                neighbours[group][other] = None
                neighbours.setdefault(other, {})[group] = None
            if score >= 1.0:
                first, second = sorted((group.id, other.id))
                pairs.append((-score, first, second, len(group.headlines) + len(other.headlines), group, other))
        return pairs

    def _merge(self, one: Group, other: Group) -> tuple[Group, Group]:
        """Merge two groups. The id that was served, else the older, else the larger group's, stays."""
        survivor, gone = sorted((one, other), key=lambda g: (not g.was_settled, g.first_day, -len(g.headlines), g.id))
        self._index.drop(survivor)
        self._index.drop(gone)
        absorb(survivor, gone, self._vector)
        gone.headlines, gone.composed = [], []
        self._index.enter(survivor)
        if gone.was_settled:
            self._retire(gone.id, survivor)
        self._changed.discard(gone.id)
        self._changed.add(survivor.id)
        return survivor, gone

    def _join_by_rows(self, group: Group) -> None:
        """Join reports without words to the event with which they share most provider rows."""
        shared = self._index.sharing_rows(group)
        if not group.headlines and shared:
            self._merge(group, max(shared, key=lambda other: (shared[other], len(other.headlines), other.id)))
        elif group.headlines:
            for other in shared:
                if not other.headlines and other.composed:
                    group, _ = self._merge(group, other)

    def _remove(self, report: str) -> str:
        """Take a report out of its event; the event's id if it was served, else empty."""
        headline = self._headline_of.pop(report)
        group = self._index.group_of[headline]
        self._index.drop(group)
        headline.reports.remove(report)
        if headline.reports:
            self._sum_reports(headline)
        else:
            self._index.uncount(headline)
            self._forget(headline)
            (group.headlines if headline.terms else group.composed).remove(headline)
            group.vector = None
        if group.headlines or group.composed:
            sum_up(group, self._index.weigh)
            self._index.enter(group)
            self._changed.add(group.id)
        else:
            self._changed.discard(group.id)
            self._retired.difference_update(group.absorbed)
        return group.id if group.was_settled else ""

    def _forget(self, headline: Headline) -> None:
        if self._by_key.get(headline.key) is headline:
            del self._by_key[headline.key]
        for report in headline.reports:
            del self._reports[report], self._headline_of[report]

    def _follow(self, old: str, group: Group) -> None:
        """Record that a report of the event `old` is in another group now."""
        if old in {"", group.id}:
            return
        if old not in self._index.groups:
            self._retire(old, group)
        elif not group.was_settled:
            self._split.append((old, group.id))

    def _retire(self, old: str, group: Group) -> None:
        self._merged[old] = group.id
        self._retired.add(old)
        group.absorbed += (old,)


def _days(moment: datetime) -> float:
    """Days since 1970."""
    return moment.timestamp() / _DAY_SECONDS


def _terms(sighting: Sighting) -> tuple[str, ...]:
    """The distinct words of the title and of the headline in the URL, which often has others; numbers as digits."""
    words = [*term_counts(sighting.title), *term_counts(" ".join(headline_words(sighting.url)))]
    return tuple(dict.fromkeys([_NUMBERS.get(word, word) for word in words]))
