"""Evaluate events, their categories, relevance, places and tolls on labelled reports: `tollhouse evaluate`."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Literal, Self, TypeVar

from msgspec import Struct

from tollhouse.labelled_lines import read_lines
from tollhouse.services.defense.article import Article, article_id, find_publisher
from tollhouse.services.defense.evaluate_stories import bcubed
from tollhouse.services.defense.events.classifier import ClassifierInput, classify_reports, model
from tollhouse.services.defense.events.event_set import sighting
from tollhouse.services.defense.events.place import decide_place, read_place
from tollhouse.services.defense.events.report import Page, Report, event_id, read_reports
from tollhouse.services.defense.events.resolver import RETENTION, Resolver, Sighting
from tollhouse.services.defense.events.toll import read_toll
from tollhouse.services.defense.ingest.export_parser import Row, parse_export, unpack_export
from tollhouse.services.defense.ingest.url_title import title_from_url

# Unpacked bytes; a 15-minute export holds about one million.
LARGEST_EXPORT = 50_000_000
Label = TypeVar("Label", "LabelledCategory", "LabelledRelevance")
BATTLES = frozenset({"armed_conflict", "political_violence"})


class LabelledCategory(Struct, frozen=True):
    """A labelled URL. `file` is the export that names it; `basis` is `rows` if the URL has no words to judge by."""

    url: str
    label: Literal[
        "armed_conflict",
        "political_violence",
        "conflict_analysis_or_statement",
        "protest",
        "crime_accident_or_unrelated",
    ]
    file: str = ""
    basis: str = "url"

    @property
    def is_battle(self) -> bool:
        return self.label in BATTLES


class LabelledRelevance(Struct, frozen=True):
    """A labelled URL. `title` is the page's title if the label gives one, else the URL's words are the title."""

    url: str
    relevant: bool
    title: str = ""


def evaluate_conflict(
    labels_path: Path, export_paths: Sequence[Path], progress: Callable[[str], None]
) -> dict[str, float | int | None]:
    """Precision, recall, F1 and Brier score of "this URL is a battle", over the `n` labelled URLs in the exports.

    A URL counts as a battle at the threshold that serves. A score is None where it would divide by zero. `not_found`
    labels are in no export.
    """
    labels, malformed = _read_labels(labels_path, LabelledCategory, progress)
    rows = rows_by_url(export_paths)
    known = [label for label in labels if label.url in rows]
    progress(f"{len(known)} of {len(labels)} labelled URLs are in the {len(export_paths)} export files")
    answers = classify_reports([_report(label.url, "", rows[label.url]) for label in known])
    threshold = model().thresholds["Battles"]
    return {
        **scores(
            [answer.probabilities["Battles"] for answer in answers], [label.is_battle for label in known], threshold
        ),
        "n": len(known),
        "threshold": threshold,
        "positives": sum(label.is_battle for label in known),
        "not_found": len(labels) - len(known),
        "malformed": malformed,
    }


def evaluate_relevance(
    labels_path: Path, export_paths: Sequence[Path], progress: Callable[[str], None]
) -> dict[str, float | int | None]:
    """Precision and recall of "this report is served by default", over the `n` labelled reports.

    A report is a URL with rows in the exports, or with a title in its label. `not_found` labels have neither.
    """
    labels, malformed = _read_labels(labels_path, LabelledRelevance, progress)
    rows = rows_by_url(export_paths)
    known = [label for label in labels if label.title or label.url in rows]
    progress(f"{len(known)} of {len(labels)} labels have a title or rows in the {len(export_paths)} export files")
    answers = classify_reports([_report(label.url, label.title, rows.get(label.url, [])) for label in known])
    threshold = model().thresholds["relevance"]
    measured = scores([answer.relevance for answer in answers], [label.relevant for label in known], threshold)
    return {
        "precision": measured["precision"],
        "recall": measured["recall"],
        "brier": measured["brier"],
        "n": len(known),
        "threshold": threshold,
        "served": sum(answer.is_relevant for answer in answers),
        "not_found": len(labels) - len(known),
        "malformed": malformed,
    }


def _read_labels(path: Path, kind: type[Label], progress: Callable[[str], None]) -> tuple[list[Label], int]:
    """The labels of a file, of which the last of a URL counts, and how many lines are malformed."""
    lines, malformed = read_lines(path, kind, progress)
    return list({line.url: line for line in lines}.values()), malformed


def rows_by_url(exports: Iterable[Path]) -> dict[str, list[Row]]:
    """All rows of each URL in raw or zipped exports, each event once. ValueError names an unreadable file."""
    rows: dict[str, dict[str, Row]] = {}
    for path in exports:
        try:
            parsed = parse_export(unpack_export(path.read_bytes(), LARGEST_EXPORT))
        except ValueError as fault:
            raise ValueError(f"{path}: {fault}") from fault
        for row in parsed.rows:
            rows.setdefault(row.url, {})[row.id] = row
    return {url: list(events.values()) for url, events in rows.items()}


def scores(probabilities: Sequence[float], truth: Sequence[bool], threshold: float) -> dict[str, float | None]:
    """Precision, recall and F1 at a threshold and the Brier score (1950, 0 is best), rounded to four places."""
    predicted = [p >= threshold for p in probabilities]
    right = sum(call and is_battle for call, is_battle in zip(predicted, truth, strict=True))
    error = sum((p - is_battle) ** 2 for p, is_battle in zip(probabilities, truth, strict=True))
    return {
        "precision": _ratio(right, sum(predicted)),
        "recall": _ratio(right, sum(truth)),
        "f1": _ratio(2 * right, sum(predicted) + sum(truth)),
        "brier": _ratio(error, len(truth)),
    }


def _ratio(part: float, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _report(url: str, title: str, rows: Sequence[Row]) -> ClassifierInput:
    """The report as ingestion makes it. A URL without words has a composed title."""
    known = title or title_from_url(url, {row.geo_name for row in rows})
    return ClassifierInput(known or "", url, rows, has_headline=bool(known))


class LabelledReport(Struct, frozen=True):
    """One line: a report's URL and its gold event, None for none. Without exports `published` is an ISO 8601 time."""

    url: str
    event: str | int | None = None
    title: str = ""
    published: str = ""

    @property
    def moment(self) -> datetime | None:
        try:
            moment = datetime.fromisoformat(self.published)
        except ValueError:
            return None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def evaluate_events(
    gold: Path, exports: Sequence[Path], progress: Callable[[str], None], resolver: Resolver | None = None
) -> dict[str, float | int | None]:
    """b3_f1, b3_precision and b3_recall of the labelled reports, `articles` and the gold `events` among them.

    A report without an event is scored as one of its own: joining it to others is wrong. `with_event_b3_f1` leaves
    such reports out, and `pair_precision` and `pair_recall` count pairs of reports of one event, because most reports
    are alone in a random sample. `not_found` labels are in no export and have no title and time themselves.
    """
    lines, malformed = read_lines(gold, LabelledReport, progress)
    # The first line of a URL counts.
    labels = {line.url: line for line in reversed(lines)}
    rows = rows_by_url(exports)
    pages = [Page(url, own) for url, own in rows.items()]
    pages += [_page(line, at) for line in labels.values() if line.url not in rows and (at := line.moment)]
    reports = [report for report in read_reports(pages) if isinstance(report, Report)]
    predicted = resolve(map(sighting, reports), progress, resolver or Resolver())
    scored = [line for line in labels.values() if event_id(line.url) in predicted]
    truth = [f"event {line.event}" if line.event is not None else f"alone {line.url}" for line in scored]
    served = [predicted[event_id(line.url)] for line in scored]
    named = [number for number, line in enumerate(scored) if line.event is not None]
    precision, recall = bcubed(truth, served)
    return {
        "b3_f1": _f1(precision, recall),
        "b3_precision": precision,
        "b3_recall": recall,
        "articles": len(scored),
        "events": len({truth[number] for number in named}),
        "with_event_b3_f1": _f1(*bcubed([truth[number] for number in named], [served[number] for number in named])),
        **_pairs(truth, served),
        "resolved_articles": len(predicted),
        "resolved_events": len(set(predicted.values())),
        "not_found": len(labels) - len(scored),
        "malformed": malformed,
    }


def resolve(sightings: Iterable[Sighting], progress: Callable[[str], None], resolver: Resolver) -> dict[str, str]:
    """The last event of each report, streamed by the time of the report."""
    predicted: dict[str, str] = {}

    def keep() -> None:
        for event, reports in resolver.settle().events.items():
            predicted.update(dict.fromkeys(reports, event))

    ordered = sorted(sightings, key=lambda s: (s.reported_at, s.id))
    for day, own in groupby(ordered, key=lambda s: s.reported_at.date()):
        for moment, batch in groupby(own, key=lambda s: s.reported_at):
            resolver.expire(moment - RETENTION)
            resolver.add(batch)
        keep()
        progress(f"{day}: {len(predicted)} reports, {len(resolver)} live events")
    return predicted


def _page(line: LabelledReport, moment: datetime) -> Page:
    """A labelled page that is in no export."""
    title = line.title or title_from_url(line.url) or ""
    publisher = find_publisher(line.url)
    article = Article(article_id(line.url), line.url, title, publisher.name, publisher.family, moment, "gkg")
    return Page(line.url, (), (title, "page"), article)


def _pairs(truth: Sequence[str], served: Sequence[str]) -> dict[str, float | None]:
    def count(labels: Iterable[object]) -> int:
        return sum(number * (number - 1) // 2 for number in Counter(labels).values())

    both, gold, predicted = count(zip(truth, served, strict=True)), count(truth), count(served)
    return {
        "pair_precision": both / predicted if predicted else None,
        "pair_recall": both / gold if gold else None,
    }


def _f1(precision: float | None, recall: float | None) -> float | None:
    return 2 * precision * recall / (precision + recall) if precision and recall else None


class LabelledPlace(Struct, frozen=True):
    """A labelled report; `country` is ISO 3166-1 alpha-2, or None where the reader could not tell it."""

    url: str = ""
    title: str = ""
    country: str | None = None

    def __post_init__(self: Self) -> None:
        if not (self.url or self.title):
            raise ValueError("a line needs a `url` or a `title`")


def evaluate_places(
    gold_path: Path, export_paths: Sequence[Path], progress: Callable[[str], None]
) -> dict[str, float | int | None]:
    """Share of the `n` labelled reports that are placed in the right country; None without any.

    Each line is one report: its title, else that of its URL, and its rows in the exports. `undecided` reports have no
    evidence and count as wrong. `accuracy_with_rows` and `provider_accuracy` compare the same `with_rows` reports:
    the served country, and the one that the provider's rows mention most.
    """
    lines, malformed = read_lines(gold_path, LabelledPlace, progress)
    gold = [line for line in lines if line.country]
    rows = rows_by_url(export_paths)
    right = undecided = with_rows = right_with_rows = provider_right = 0
    pages = [Page(line.url, rows.get(line.url, ()), (line.title, "page") if line.title else None) for line in gold]
    for line, page, report in zip(gold, pages, read_reports(pages), strict=True):
        # A page without rows makes no report by itself, but its title and address may still place it.
        title = line.title or title_from_url(line.url) or ""
        evidence = report.place if isinstance(report, Report) else read_place(title, (), line.url)
        place = decide_place([evidence])
        is_right = place is not None and place.country_code == line.country
        right += is_right
        undecided += place is None
        if page.rows:
            with_rows += 1
            right_with_rows += is_right
            provider_right += _most_mentioned(page.rows) == line.country
    progress(f"{with_rows} of {len(gold)} labelled reports are in the {len(export_paths)} export files")
    return {
        "accuracy": _ratio(right, len(gold)),
        "n": len(gold),
        "undecided": undecided,
        "with_rows": with_rows,
        "accuracy_with_rows": _ratio(right_with_rows, with_rows),
        "provider_accuracy": _ratio(provider_right, with_rows),
        "malformed": malformed,
    }


def _most_mentioned(rows: Sequence[Row]) -> str:
    counts: dict[str, int] = {}
    for piece in read_place("", rows, "").evidence:
        if piece.kind == "action":
            counts[piece.country] = round(1000 * piece.amount)
    return max(counts, key=lambda code: (counts[code], code), default="")


class LabelledTitle(Struct, frozen=True):
    """A headline and the number of people that it says were killed; null where it gives none."""

    title: str
    fatalities: int | None


def evaluate_tolls(path: Path, progress: Callable[[str], None]) -> dict[str, float | int]:
    """Compare each headline's toll with its label.

    `exact`, `wrong` and `missed` are shares of the headlines with a number, `invented` of those without one.
    `with_toll`, `n` and `malformed` are counts.
    """
    counts: Counter[str] = Counter()
    lines, malformed = read_lines(path, LabelledTitle, progress)
    for line in lines:
        counts[_outcome(line.fatalities, read_toll(line.title).killed)] += 1
    with_toll = counts["exact"] + counts["wrong"] + counts["missed"]
    without = counts["invented"] + counts["rightly_none"]
    progress(f"{with_toll} headlines with a toll, {without} without")
    shares = {name: round(counts[name] / with_toll, 4) if with_toll else 0.0 for name in ("exact", "wrong", "missed")}
    invented = round(counts["invented"] / without, 4) if without else 0.0
    return {**shares, "invented": invented, "with_toll": with_toll, "n": with_toll + without, "malformed": malformed}


def _outcome(expected: int | None, read: int | None) -> str:
    if expected is None:
        return "rightly_none" if read is None else "invented"
    if read is None:
        return "missed"
    return "exact" if read == expected else "wrong"
