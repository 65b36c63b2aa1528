"""How well the served classifier tells battles from the rest, on labelled URLs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from tollhouse.services.defense.ingest.cameo import is_violence
from tollhouse.services.defense.ingest.conflict_features import features
from tollhouse.services.defense.ingest.conflict_labels import read_labels
from tollhouse.services.defense.ingest.conflict_model import probability, url_key
from tollhouse.services.defense.ingest.conflict_probability import MODEL, THRESHOLD, battle_probability
from tollhouse.services.defense.ingest.conflict_scores import scores
from tollhouse.services.defense.ingest.export_row import Row
from tollhouse.services.defense.ingest.rows_by_url import rows_by_url


def evaluate(
    labels_path: Path, export_paths: Sequence[Path], progress: Callable[[str], None]
) -> dict[str, float | int | None]:
    """precision, recall, f1 and brier of "this URL is a battle", over the `n` labelled URLs found in the exports.

    precision, recall, f1 and brier are None where they divide by nothing. `cross_validated` of the `n` were trained
    on and are judged by weights learnt without their fold; `not_found` labels are in no export.
    """
    labels, bad = read_labels(labels_path.read_bytes().splitlines())
    for fault in bad:
        progress(f"{labels_path.name}, line {fault.line}: skipped, {fault.reason}")
    rows_of = rows_by_url(export_paths)
    found = [label for label in labels if label.url in rows_of]
    progress(f"{len(found)} of {len(labels)} labelled URLs are in the {len(export_paths)} export files")
    said = [_judge(label.url, rows_of[label.url]) for label in found]
    return {
        **scores(said, [label.is_battle for label in found], THRESHOLD),
        "n": len(found),
        "threshold": THRESHOLD,
        "positives": sum(label.is_battle for label in found),
        "cross_validated": sum(url_key(label.url) in MODEL.fold_of for label in found),
        "not_found": len(labels) - len(found),
        "malformed": len(bad),
    }


def _judge(url: str, rows: Sequence[Row]) -> float:
    # The feed asks the classifier about these alone.
    if not any(is_violence(row.code) for row in rows):
        return 0.0
    fold = MODEL.fold_of.get(url_key(url))
    if fold is None:
        return battle_probability(url, rows)
    return probability(MODEL.folds[fold], features(url, rows))
