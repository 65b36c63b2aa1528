"""The events of one source mode in the resolution window: their reports, resolved online, and their records."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from sys import intern

import msgspec
from msgspec import Struct

from tollhouse.services.defense.events.event import EventRecord, StoredEvent
from tollhouse.services.defense.events.event_builder import build_event
from tollhouse.services.defense.events.packed_items import PackedItems
from tollhouse.services.defense.events.report import Report, ReportHeadline
from tollhouse.services.defense.events.resolver import Resolved, Resolver, Sighting

# New reports and changes of known ones are read this far back.
WINDOW = timedelta(hours=48)


class EventChanges(Struct, frozen=True):
    """The events that were built again, and the ids that ended.

    `changed` has the packed events, `merged` the successor of an ended id, `split` the origin of a new one.
    """

    changed: dict[str, bytes]
    removed: set[str]
    merged: dict[str, str]
    split: dict[str, str]


class _HeldReport(Struct, frozen=True, gc=False):
    """A report of a live event; `packed` is all of it."""

    article_id: str
    reported_at: datetime
    packed: bytes


class EventSet:
    """The live events, without their stories and entities. `state` continues another process's work: see `restore`.

    `events` have neither titles, reasons, addresses nor reports; `build` makes a whole event.
    """

    def __init__(self, state: bytes | None = None) -> None:
        self._resolver = Resolver(state)
        self.packed = PackedItems(Report)
        self.packed_events = PackedItems(StoredEvent)
        self._reports: dict[str, _HeldReport] = {}
        self._report_of: dict[str, str] = {}
        self._members: dict[str, tuple[str, ...]] = {}
        self.events: dict[str, EventRecord] = {}

    def restore(self, events: Iterable[StoredEvent], reports: Mapping[str, bytes]) -> None:
        """Take over the stored events of the window and their reports, as JSON by id."""
        for event in events:
            members = tuple(report.id for report in event.reports if report.id in reports)
            if members:
                self._members[event.id] = members
                for packed in self.packed.pack([reports[report_id] for report_id in members]):
                    self._hold(self.packed.read(packed), packed)
                self.events[event.id] = _record(event)

    def __contains__(self, event_id: str) -> bool:
        """Whether the resolver knows an event."""
        return event_id in self._resolver

    def report_of(self, article_id: str) -> str | None:
        """The id of an article's report in a live event."""
        return self._report_of.get(article_id)

    def headline(self, report_id: str) -> ReportHeadline | None:
        """The headline of a report of a live event."""
        held = self._reports.get(report_id)
        return msgspec.json.decode(self.packed.unpack(held.packed), type=ReportHeadline) if held else None

    def articles(self) -> dict[str, list[str]]:
        """The article ids of each event, by event id."""
        return {
            event_id: [self._reports[report_id].article_id for report_id in self._members[event_id]]
            for event_id in self.events
        }

    def build(self, event_id: str) -> bytes | None:
        """The packed event of its reports; None if they do not make one."""
        members = self._members[event_id]
        event = build_event(event_id, [self.packed.read(self._reports[report_id].packed) for report_id in members])
        if event is None:
            return None
        self.events[event_id] = _record(event)
        (packed,) = self.packed_events.pack([msgspec.json.encode(event)])
        return packed

    def update(self, reports: Iterable[tuple[Report, bytes]], before: datetime) -> EventChanges:
        """Forget the events whose reports are all from before a time, then add reports, or replace them.

        Each report comes with its packed form.
        """
        added: set[str] = set()
        sightings: list[Sighting] = []
        for report, packed in reports:
            known = self._reports.get(report.id)
            if known is None or known.packed != packed:
                self._hold(report, packed)
                added.add(report.id)
                sightings.append(sighting(report))
        self._resolver.expire(before)
        self._resolver.add(sightings)
        resolved = self._resolver.settle()
        event_of = {report_id: event_id for event_id, ids in resolved.events.items() for report_id in ids}
        merged = dict(resolved.merged)
        for ended in self._members.keys() - resolved.events.keys():
            successors = Counter(event_of[report_id] for report_id in self._members[ended] if report_id in event_of)
            if ended not in merged and successors:
                merged[ended] = successors.most_common(1)[0][0]
        changed = resolved.changed & resolved.events.keys()
        changed |= {event_of[report_id] for report_id in added if report_id in event_of}
        members = {event_id: self._members_of(event_id, resolved, event_of, merged) for event_id in changed}
        removed = self._forget(self._members.keys() - resolved.events.keys(), merged)
        self._members |= members
        built: dict[str, bytes] = {}
        for event_id in changed:
            if packed_event := self.build(event_id):
                built[event_id] = packed_event
            elif self.events.pop(event_id, None):
                removed.add(event_id)
        held = {report_id for ids in self._members.values() for report_id in ids}
        for report_id in self._reports.keys() - held:
            article_id = self._reports.pop(report_id).article_id
            if self._report_of.get(article_id) == report_id:
                del self._report_of[article_id]
        split = {new: origin for origin, new in resolved.split}
        return EventChanges(built, removed, merged, split)

    def dump_state(self) -> bytes:
        """The resolver's state for the next process."""
        return self._resolver.dump_state()

    def _hold(self, report: Report, packed: bytes) -> None:
        self._reports[report.id] = _HeldReport(report.article_id, report.first_reported_at, packed)
        self._report_of[report.article_id] = report.id

    def _members_of(
        self, event_id: str, resolved: Resolved, event_of: Mapping[str, str], merged: Mapping[str, str]
    ) -> tuple[str, ...]:
        """The reports of an event, oldest first, with those that the resolver has forgotten already."""
        former = [event_id, *(old for old, new in merged.items() if new == event_id)]
        forgotten = [it for one in former for it in self._members.get(one, ()) if it not in event_of]
        ids = {report_id for report_id in (*forgotten, *resolved.events[event_id]) if report_id in self._reports}
        return tuple(sorted(ids, key=lambda report_id: (self._reports[report_id].reported_at, report_id)))

    def _forget(self, ended: Iterable[str], merged: Mapping[str, str]) -> set[str]:
        """Forget events; return those that were merged. The others expired, and stay stored."""
        removed = set()
        for event_id in ended:
            del self._members[event_id]
            if self.events.pop(event_id, None) and event_id in merged:
                removed.add(event_id)
        return removed


_NO_REASONS: dict[str, str] = {}
_NO_ADDRESSES: list[str] = []


def _record(event: StoredEvent) -> EventRecord:
    """What stories need of an event."""
    values = {name: getattr(event, name) for name in EventRecord.__struct_fields__}
    values |= {"title": "", "reasons": _NO_REASONS, "source_urls": _NO_ADDRESSES, "story_id": None, "entities": ()}
    values["subcategory"] = intern(event.subcategory)
    return EventRecord(**values)


def sighting(report: Report) -> Sighting:
    """What the resolver compares of a report."""
    return Sighting(
        id=report.id,
        url=report.url,
        title=report.title,
        has_headline=report.has_headline,
        reported_at=report.first_reported_at,
        countries=_shared(tuple(report.place.countries.items())),
        places=report.place.places,
        killed=report.toll.killed,
        row_keys=tuple([int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) for key in report.row_keys]),
    )


# Many reports say the same of countries, and a mapping takes 300 bytes.
@lru_cache(maxsize=4096)
def _shared(countries: tuple[tuple[str, float], ...]) -> Mapping[str, float]:
    return dict(countries)
