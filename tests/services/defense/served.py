"""What a test serves from: events in lists, counted and indexed as those of a feed are."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tantivy import Document

from tollhouse.services.defense.brief.capability import SHOWN_EVENTS, AreaNaming, Battles, named_areas
from tollhouse.services.defense.brief.live_events import EventCounts
from tollhouse.services.defense.events import index_rows
from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.events.index_updates import LAYOUT, EventEntry, EventView, window_row
from tollhouse.storage.shared_index import SharedIndex


def survey(events: Iterable[Event]) -> Battles:
    """What capability gaps need of the battles among these events."""
    battles = [event for event in events if event.category == "Battles"]
    by_area: dict[str, list[tuple[Event, Sequence[str]]]] = {}
    for event in battles:
        for area, words in named_areas(event).items():
            by_area.setdefault(area, []).append((event, words))
    naming = {
        area: AreaNaming(
            len(matches),
            Counter(word for _, words in matches for word in words),
            sorted(matches, key=lambda match: (-match[0].metrics.significance, match[0].id))[:SHOWN_EVENTS],
        )
        for area, matches in by_area.items()
    }
    return Battles(len(battles), max((event.event_date for event in battles), default=None), naming)


def count_events(events: Iterable[Event]) -> EventCounts:
    counted = [(event.category, event.metrics.severity_tier, event.geo.country) for event in events]
    return EventCounts(*(Counter(values) for values in zip(*counted, strict=True))) if counted else EventCounts()


def index_entries(entries: Iterable[EventEntry]) -> EventView:
    """An index in memory of these events alone."""
    index = SharedIndex(None, index_rows.columns(), layout=LAYOUT)
    for entry in entries:
        index.writer.add_document(Document.from_dict(window_row(entry, ""), index_rows.columns()))
    index.publish(b"")
    return EventView(index.searcher)
