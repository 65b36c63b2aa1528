"""Build one event from all its reports, with the reason for the value of every field."""

from collections import Counter
from collections.abc import Sequence
from datetime import date
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tollhouse.services.defense.article import Article
from tollhouse.services.defense.events.classifier import Classified, combine, title_vectors
from tollhouse.services.defense.events.event import EventReport, FatalitiesBasis, StoredEvent, TitleBasis
from tollhouse.services.defense.events.place import Location, decide_place
from tollhouse.services.defense.events.report import UNCODED, Report, composed_title
from tollhouse.services.defense.events.toll import best_toll
from tollhouse.services.defense.ingest.page_title import has_foreign_letters
from tollhouse.services.defense.publishers import count_source_families, mark_copies
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
    return UNCODED[classified.category], goldstein, f"the provider's code {given} does not agree with the title"


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
        return classified.named_day, "the headlines name a time in the past; this is its first day"
    days = Counter(report.day for report in reports)
    day = min(days, key=lambda day: (-days[day], day))
    return day, f"{days[day]} of {len(reports)} reports give this day" if len(reports) > 1 else "the day of the report"
