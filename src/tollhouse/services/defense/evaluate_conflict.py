"""Evaluate the served classifier on labelled URLs: `tollhouse evaluate conflict` and `tollhouse evaluate relevance`."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from tollhouse.services.defense.events.classifier import ClassifierInput, classify_reports, model
from tollhouse.services.defense.ingest.export_parser import BadRow, Row, parse_export, unpack_export
from tollhouse.services.defense.ingest.url_title import title_from_url

# Unpacked bytes; a 15-minute export holds about one million.
LARGEST_EXPORT = 50_000_000
Label = TypeVar("Label", "Labelled", "LabelledRelevance")
BATTLES = frozenset({"armed_conflict", "political_violence"})


class Labelled(Struct, frozen=True):
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


def evaluate(
    labels_path: Path, export_paths: Sequence[Path], progress: Callable[[str], None]
) -> dict[str, float | int | None]:
    """Precision, recall, F1 and Brier score of "this URL is a battle", over the `n` labelled URLs in the exports.

    A URL counts as a battle at the threshold that serves. A score is None where it would divide by zero. `not_found`
    labels are in no export.
    """
    labels, bad = read_labels(labels_path.read_bytes().splitlines(), Labelled)
    _report_faults(labels_path, bad, progress)
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
        "malformed": len(bad),
    }


def evaluate_relevance(
    labels_path: Path, export_paths: Sequence[Path], progress: Callable[[str], None]
) -> dict[str, float | int | None]:
    """Precision and recall of "this report is served by default", over the `n` labelled reports.

    A report is a URL with rows in the exports, or with a title in its label. `not_found` labels have neither.
    """
    labels, bad = read_labels(labels_path.read_bytes().splitlines(), LabelledRelevance)
    _report_faults(labels_path, bad, progress)
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
        "malformed": len(bad),
    }


def read_labels(lines: Iterable[bytes], kind: type[Label]) -> tuple[list[Label], list[BadRow]]:
    """The labels of a JSON Lines file and its malformed lines. The last line of a URL wins."""
    labels: dict[str, Label] = {}
    bad: list[BadRow] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            labelled = msgspec.json.decode(line, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
            bad.append(BadRow(number, str(fault)))
        else:
            labels[labelled.url] = labelled
    return list(labels.values()), bad


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


def _report_faults(path: Path, bad: Sequence[BadRow], progress: Callable[[str], None]) -> None:
    for fault in bad:
        progress(f"{path.name}, line {fault.line}: skipped, {fault.reason}")
