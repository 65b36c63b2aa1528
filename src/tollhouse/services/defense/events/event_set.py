"""The events of one source mode in the resolution window: their reports, resolved online, and their records.

An event is built from all its reports, with the reason for the value of every field.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from sys import intern
from typing import Generic, TypeVar

import msgspec
import numpy as np
import zstandard
from msgspec import Struct
from numpy.typing import NDArray

from tollhouse.services.defense.article import Article, count_source_families, has_foreign_letters, mark_copies
from tollhouse.services.defense.events.classifier import Classified, combine, title_vectors
from tollhouse.services.defense.events.event import EventRecord, EventReport, FatalitiesBasis, StoredEvent, TitleBasis
from tollhouse.services.defense.events.place import Location, decide_place
from tollhouse.services.defense.events.report import UNCODED, Report, ReportHeadline, composed_title
from tollhouse.services.defense.events.resolver import Resolved, Resolver, Sighting
from tollhouse.services.defense.events.toll import best_toll
from tollhouse.services.defense.stories.story import summarize

# Pages without provider rows make an event from this confidence of the category.
SURE = 0.7
# Two states clash if this many reports' rows agree.
FEWEST_CLASHING = 2
PROBABLE = 0.5
# Titles agree with a code's label from this cosine of their text vectors on.
LEAST_AGREEMENT = 0.25

_TITLE_REASONS: dict[TitleBasis, str] = {
    "page": "the page's own title",
    "feed": "the publisher's feed",
    "url": "derived from the URL: the export has no headline",
}


def build_event(event_id: str, reports: Sequence[Report]) -> StoredEvent | None:
    """Build the event of these reports (at least one, oldest first); None if no place is known.

    None also if none of the reports has provider rows and they do not make sure that there is an event.
    """
    classified = combine([report.classified for report in reports])
    place = decide_place([report.place for report in reports])
    if place is None or not (any(report.row_ids for report in reports) or _is_sure(classified, place)):
        return None
    supporting = [report for report in reports if report.classified.category == classified.category] or list(reports)
    subcategory, goldstein, coded = _coded(supporting, classified)
    title, basis = _title(reports, subcategory, place)
    has_headline = any(report.title for report in reports)
    families = _families(reports)
    deaths, fatalities = _deaths(reports, families)
    clash = _clash(supporting, families, classified)
    day, days = _day(reports, classified)
    source_count = count_source_families(families)
    reasons = {
        "category": classified.why,
        "subcategory": coded,
        "confidence": f"{classified.confidence:.2f}, the probability that {classified.category} is right",
        "title": _TITLE_REASONS[basis] if has_headline else _COMPOSED,
        "geo": f"{place.why}; confidence {place.confidence:.2f}",
        "event_date": days,
        "fatalities": fatalities,
        "source_count": f"reports: {len(reports)}, independent publishers: {source_count}",
    }
    if clash:
        reasons["is_state_on_state"] = clash
    basis_of_deaths: FatalitiesBasis = "not_reported" if deaths is None else "headline"
    return StoredEvent(
        id=event_id,
        title=title,
        title_basis=basis,
        event_date=day,
        category=classified.category,
        subcategory=subcategory,
        geo=place.geo,
        country_code=place.country_code,
        fatalities=deaths or 0,
        fatalities_basis=basis_of_deaths,
        confidence=classified.confidence,
        goldstein=goldstein,
        is_state_on_state=bool(clash),
        is_violent=classified.category == "Battles"
        or (classified.category == "Protests" and any(report.is_riot for report in supporting)),
        relevance=classified.relevance,
        is_relevant=classified.is_relevant,
        source_urls=list(dict.fromkeys(report.url for report in reports)),
        source_count=source_count,
        first_reported_at=min(report.first_reported_at for report in reports),
        last_reported_at=max(report.last_reported_at for report in reports),
        reasons=reasons,
        has_headline=has_headline,
        is_retrospective=classified.is_retrospective,
        reports=[_entry(report) for report in reports],
    )


_COMPOSED = "composed from the rows: no headline is known and the URL has no words"


def _is_sure(classified: Classified, place: Location) -> bool:
    return classified.is_relevant and classified.confidence >= SURE and place.confidence >= PROBABLE


def _entry(report: Report) -> EventReport:
    return EventReport(
        id=report.id,
        reported_at=report.first_reported_at,
        publisher=report.publisher,
        title=report.title,
        url=report.url,
        fatalities=report.toll.killed,
        row_ids=report.row_ids,
    )


def _coded(supporting: Sequence[Report], classified: Classified) -> tuple[str, float, str]:
    """Subcategory and Goldstein value of these reports, and why.

    The value is that of the code that decides most of them. Four of five codes do not say what the title does, so that
    the subcategory is the label of the most frequent code that the titles agree with.
    """
    codes = Counter(report.code for report in supporting if report.code)
    if not codes:
        return UNCODED[classified.category], 0.0, "no provider row has a code of the category"
    reports = {report.code: report for report in reversed(supporting)}
    ranked = codes.most_common()
    goldstein = reports[ranked[0][0]].goldstein
    titles = [report.title for report in supporting if report.title and not has_foreign_letters(report.title)]
    meaning = title_vectors(titles).mean(axis=0) if titles else None
    for code, count in ranked:
        label = reports[code].subcategory
        if meaning is None or meaning @ _label_vector(label) >= LEAST_AGREEMENT:
            share = (
                f"in {count} of {len(supporting)} reports of the category" if len(supporting) > 1 else "in the report"
            )
            return label, goldstein, f"CAMEO code {code} decides {share}"
    given = ", ".join(f"{code} ({reports[code].subcategory})" for code, _ in ranked[:2])
    why = f"no label of the provider's codes is as similar to the titles as needed ({LEAST_AGREEMENT}): {given}"
    return UNCODED[classified.category], goldstein, why


@lru_cache(maxsize=512)
def _label_vector(label: str) -> NDArray[np.float32]:
    vector: NDArray[np.float32] = title_vectors([label])[0]
    return vector


def _title(reports: Sequence[Report], subcategory: str, place: Location) -> tuple[str, TitleBasis]:
    """The headline that agrees most with the others, among those of pages and feeds if there are any.

    A title in letters other than Latin only where there is no other.
    """
    titled = [report for report in reports if report.title]
    titled = [report for report in titled if not has_foreign_letters(report.title)] or titled
    if not titled:
        return composed_title(subcategory, place.name, reports[0].url), "url"
    best = [report for report in titled if report.title_basis != "url"] or titled
    title, _ = summarize(list(map(_article, best))) if len(best) > 1 else (best[0].title, "")
    return title, next((report.title_basis for report in best if report.title == title), best[0].title_basis)


def _families(reports: Sequence[Report]) -> list[str]:
    """The publisher family of each report; copies of one text have the family of its original."""
    if len(reports) == 1:
        return [reports[0].family]
    return [article.family for article in mark_copies(map(_article, reports))]


def _article(report: Report) -> Article:
    return Article(
        id=report.id,
        url=report.url,
        title=report.title,
        publisher=report.publisher,
        family=report.family,
        published=report.first_reported_at,
        source="gdelt",
    )


def _deaths(reports: Sequence[Report], families: Sequence[str]) -> tuple[int | None, str]:
    toll = best_toll([(family, report.toll) for family, report in zip(families, reports, strict=True)])
    if toll is None:
        return None, "no headline gives a number of deaths in this event"
    killed = {report.toll.killed for report in reports if report.toll.killed is not None}
    verb = "gives" if toll.publishers == 1 else "give"
    why = f"{toll.publishers} of {toll.counted} publishers whose headlines give a number {verb} {toll.killed} killed"
    others = ", ".join(map(str, sorted(killed - {toll.killed})))
    return toll.killed, f"{why}: “{toll.words}”" + (f"; other figures: {others}" if others else "")


def _clash(supporting: Sequence[Report], families: Sequence[str], classified: Classified) -> str:
    """Why the event is a strike between two states; empty if it is none."""
    if classified.category != "Battles" or classified.confidence < PROBABLE:
        return ""
    reporting: dict[tuple[str, str], int] = Counter(pair for report in supporting for pair in report.clashes)
    (one, other), count = max(reporting.items(), key=lambda item: item[1], default=(("", ""), 0))
    if count < FEWEST_CLASHING or count_source_families(families) < FEWEST_CLASHING:
        return ""
    return f"the rows of {count} reports set governments or armed forces of {one} and {other} against each other"


def _day(reports: Sequence[Report], classified: Classified) -> tuple[date, str]:
    """The day that most reports give, the earliest among equals, and why.

    It is the beginning of the time that the headlines name, if they are about the past.
    """
    if classified.is_retrospective and classified.named_day:
        return classified.named_day, "the headlines or addresses name a time in the past; this is its first day"
    days = Counter(report.day for report in reports)
    day = min(days, key=lambda day: (-days[day], day))
    return day, f"{days[day]} of {len(reports)} reports give this day" if len(reports) > 1 else "the day of the report"


Item = TypeVar("Item")

# Items of the first batch from which the others are compressed: most of an item is like others.
EXAMPLES = 32
LEVEL = 1


class PackedItems(Generic[Item]):
    """Compresses items of one type for this process alone; equal items have equal packed bytes."""

    def __init__(self, type_: type[Item]) -> None:
        self._decoder = msgspec.json.Decoder(type_)
        self._compressor: zstandard.ZstdCompressor | None = None
        self._decompressor = zstandard.ZstdDecompressor()

    def pack(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Compress items from their JSON."""
        if not bodies:
            return []
        if self._compressor is None:
            examples = zstandard.ZstdCompressionDict(
                b"".join(bodies[:EXAMPLES]), dict_type=zstandard.DICT_TYPE_RAWCONTENT
            )
            examples.precompute_compress(level=LEVEL)
            self._compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=examples)
            self._decompressor = zstandard.ZstdDecompressor(dict_data=examples)
        # What the library returns keeps the memory of the largest possible result: a copy has the size of its own.
        return [bytes(memoryview(self._compressor.compress(body))) for body in bodies]

    def unpack(self, packed: bytes) -> bytes:
        """The JSON of an item."""
        return self._decompressor.decompress(packed)

    def read(self, packed: bytes) -> Item:
        return self._decoder.decode(self.unpack(packed))


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
