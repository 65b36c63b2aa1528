"""The events of one source mode in the resolution window: their reports, resolved online, and their records."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.events.event import StoredEvent
from tollhouse.services.defense.events.event_builder import build_event
from tollhouse.services.defense.events.report import Report
from tollhouse.services.defense.events.resolver import Resolved, Resolver, Sighting

# New reports and changes of known ones are read this far back.
WINDOW = timedelta(hours=48)


class EventChanges(Struct, frozen=True):
    """The events that were built again, and the ids that ended.

    `merged` has the successor of an ended id, `split` the origin of a new one.
    """

    changed: set[str]
    removed: set[str]
    merged: dict[str, str]
    split: dict[str, str]


class EventSet:
    """The live events, without their stories and entities. `state` continues another process's work: see `restore`."""

    def __init__(self, state: bytes | None = None) -> None:
        self._resolver = Resolver(state)
        self._reports: dict[str, Report] = {}
        self._members: dict[str, tuple[str, ...]] = {}
        self.events: dict[str, StoredEvent] = {}

    def restore(self, events: Iterable[StoredEvent], reports: Mapping[str, Report]) -> None:
        """Take over the stored events of the window and their reports."""
        for event in events:
            members = tuple(report.id for report in event.reports if report.id in reports)
            if members:
                self._members[event.id] = members
                self._reports |= {report_id: reports[report_id] for report_id in members}
                self.events[event.id] = replace(event, story_id=None, entities=())

    def __contains__(self, event_id: str) -> bool:
        """Whether the resolver knows an event."""
        return event_id in self._resolver

    def report(self, report_id: str) -> Report | None:
        """A report of a live event."""
        return self._reports.get(report_id)

    def articles(self) -> dict[str, list[str]]:
        """The article ids of each event, by event id."""
        return {
            event_id: [self._reports[report_id].article_id for report_id in self._members[event_id]]
            for event_id in self.events
        }

    def update(self, reports: Iterable[Report], before: datetime) -> EventChanges:
        """Forget the events whose reports are all from before a time, then add reports, or replace them."""
        added = [report for report in reports if self._reports.get(report.id) != report]
        self._reports |= {report.id: report for report in added}
        self._resolver.expire(before)
        self._resolver.add(map(sighting, added))
        resolved = self._resolver.settle()
        event_of = {report_id: event_id for event_id, ids in resolved.events.items() for report_id in ids}
        merged = dict(resolved.merged)
        for ended in self._members.keys() - resolved.events.keys():
            successors = Counter(event_of[report_id] for report_id in self._members[ended] if report_id in event_of)
            if ended not in merged and successors:
                merged[ended] = successors.most_common(1)[0][0]
        changed = resolved.changed & resolved.events.keys()
        changed |= {event_of[report.id] for report in added if report.id in event_of}
        members = {event_id: self._members_of(event_id, resolved, event_of, merged) for event_id in changed}
        removed = self._forget(self._members.keys() - resolved.events.keys(), merged)
        self._members |= members
        for event_id in changed:
            event = build_event(event_id, [self._reports[report_id] for report_id in members[event_id]])
            if event:
                self.events[event_id] = event
            elif self.events.pop(event_id, None):
                removed.add(event_id)
        held = {report_id for ids in self._members.values() for report_id in ids}
        self._reports = {report_id: report for report_id, report in self._reports.items() if report_id in held}
        split = {new: origin for origin, new in resolved.split}
        return EventChanges(changed & self.events.keys(), removed, merged, split)

    def dump_state(self) -> bytes:
        """The resolver's state for the next process."""
        return self._resolver.dump_state()

    def _members_of(
        self, event_id: str, resolved: Resolved, event_of: Mapping[str, str], merged: Mapping[str, str]
    ) -> tuple[str, ...]:
        """The reports of an event, oldest first, with those that the resolver has forgotten already."""
        former = [event_id, *(old for old, new in merged.items() if new == event_id)]
        forgotten = [it for one in former for it in self._members.get(one, ()) if it not in event_of]
        ids = {report_id for report_id in (*forgotten, *resolved.events[event_id]) if report_id in self._reports}
        return tuple(sorted(ids, key=lambda report_id: (self._reports[report_id].first_reported_at, report_id)))

    def _forget(self, ended: Iterable[str], merged: Mapping[str, str]) -> set[str]:
        """Forget events; return those that were merged. The others expired, and stay stored."""
        removed = set()
        for event_id in ended:
            del self._members[event_id]
            if self.events.pop(event_id, None) and event_id in merged:
                removed.add(event_id)
        return removed


def in_time_order(reports: Iterable[Report]) -> Sequence[Report]:
    """Reports, oldest first."""
    return sorted(reports, key=lambda report: (report.first_reported_at, report.id))


def sighting(report: Report) -> Sighting:
    """What the resolver compares of a report."""
    return Sighting(
        id=report.id,
        url=report.url,
        title=report.title,
        has_headline=report.has_headline,
        family=report.family,
        reported_at=report.first_reported_at,
        day=report.day,
        countries=report.place.countries,
        places=report.place.places,
        killed=report.toll.killed,
        category=report.classified.category,
        actors=frozenset(report.actors),
        row_keys=frozenset(report.row_keys),
    )
