"""Evaluate the served battle classifier on labelled URLs: `tollhouse evaluate conflict`."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from tollhouse.services.defense.ingest.classification import is_violence
from tollhouse.services.defense.ingest.conflict_model import (
    MODEL,
    THRESHOLD,
    battle_probability,
    features,
    probability,
    url_key,
)
from tollhouse.services.defense.ingest.export_parser import BadRow, Row, parse_export, unpack_export

# Unpacked bytes; a 15-minute export holds about one million.
LARGEST_EXPORT = 50_000_000
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


def evaluate(
    labels_path: Path, export_paths: Sequence[Path], progress: Callable[[str], None]
) -> dict[str, float | int | None]:
    """Precision, recall, F1 and Brier score of "this URL is a battle", over the `n` labelled URLs in the exports.

    A score is None where it would divide by zero. `cross_validated` of the `n` URLs were trained on; they are scored
    by weights trained without their fold. `not_found` labels are in no export.
    """
    labels, bad = read_labels(labels_path.read_bytes().splitlines())
    for fault in bad:
        progress(f"{labels_path.name}, line {fault.line}: skipped, {fault.reason}")
    rows = rows_by_url(export_paths)
    known = [label for label in labels if label.url in rows]
    progress(f"{len(known)} of {len(labels)} labelled URLs are in the {len(export_paths)} export files")
    probabilities = [_predict(label.url, rows[label.url]) for label in known]
    return {
        **scores(probabilities, [label.is_battle for label in known], THRESHOLD),
        "n": len(known),
        "threshold": THRESHOLD,
        "positives": sum(label.is_battle for label in known),
        "cross_validated": sum(url_key(label.url) in MODEL.fold_of for label in known),
        "not_found": len(labels) - len(known),
        "malformed": len(bad),
    }


def read_labels(lines: Iterable[bytes]) -> tuple[list[Labelled], list[BadRow]]:
    """The labels of a JSON Lines file and its malformed lines. The last line of a URL wins."""
    labels: dict[str, Labelled] = {}
    bad: list[BadRow] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            labelled = msgspec.json.decode(line, type=Labelled)
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


def _predict(url: str, rows: Sequence[Row]) -> float:
    # Ingestion runs the classifier only on URLs with violent codes.
    if not any(is_violence(row.code) for row in rows):
        return 0.0
    fold = MODEL.fold_of.get(url_key(url))
    if fold is None:
        return battle_probability(url, rows)
    return probability(MODEL.folds[fold], features(url, rows))
