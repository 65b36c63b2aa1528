"""Trains the battle classifier from the bundled labels and the GDELT exports they were read from.

Usage: PYTHONPATH=src python -m tools.train_conflict EXPORT… (raw or zipped export files; the labels name them)
Rewrites src/tollhouse/services/defense/data/conflict_model.json; the same input makes the same file.
"""

import sys
from pathlib import Path

import msgspec

from tollhouse.services.defense.ingest.category_agreement import agreements, read_categories
from tollhouse.services.defense.ingest.conflict_labels import read_labels
from tollhouse.services.defense.ingest.conflict_training import train
from tollhouse.services.defense.ingest.rows_by_url import rows_by_url

DATA = Path(__file__).parents[1] / "src/tollhouse/services/defense/data"
PROVENANCE: dict[str, str | int] = {
    "events": "The GDELT Project, export files of 24 October 2019 and 13 to 15 November 2020",
    "labels": "conflict_labels.jsonl: 65 URLs of 2019 by one reader, 279 of 2020 read one by one by a language model",
    "category_labels": "category_labels.jsonl, the same model: 111 URLs drawn at random (seed 20201115), 47 by code",
    "labelled_on": "2026-11-21",
    "randomness": "none: the prior's weights start Newton's method, CRC-32 of place or URL draws the folds",
}


def main(exports: list[Path]) -> None:
    labels, bad = read_labels((DATA / "conflict_labels.jsonl").read_bytes().splitlines())
    if bad:
        raise SystemExit(f"conflict_labels.jsonl, line {bad[0].line}: {bad[0].reason}")
    rows_of = rows_by_url(exports)
    reads = read_categories((DATA / "category_labels.jsonl").read_bytes().splitlines())
    model = train(labels, rows_of, agreements(reads, rows_of), PROVENANCE)
    packed = msgspec.json.format(msgspec.json.encode(model), indent=1)
    (DATA / "conflict_model.json").write_bytes(packed + b"\n")
    sys.stderr.write(f"{model.provenance}, threshold {model.threshold}\n")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main([Path(argument) for argument in sys.argv[1:]])
