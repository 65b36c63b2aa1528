"""`tollhouse evaluate`: how good the serving code is, measured on labelled files."""

import sys
from pathlib import Path
from typing import Any

import msgspec
from cyclopts import App

from tollhouse.catalogue import evaluate_search
from tollhouse.services.defense import evaluate_conflict, evaluate_entities, evaluate_stories

evaluate = App(name="evaluate", help="Measure the code that serves against labelled files.")


@evaluate.command
def conflict(labels: Path, *exports: Path) -> None:
    """Print precision, recall, F1 and Brier of "this URL's event is a battle" as JSON."""
    _print(evaluate_conflict.evaluate(labels, list(exports), _tell))


@evaluate.command
def stories(file: Path) -> None:
    """Print B-cubed F1, precision and recall of the clustering, and articles per second, as JSON."""
    _print(evaluate_stories.evaluate(file, _tell))


@evaluate.command
def entities(file: Path) -> None:
    """Print strict F1, precision and recall of the entities, by type too, and tokens per second, as JSON."""
    _print(evaluate_entities.evaluate(file, _tell))


@evaluate.command
def search(products: Path, judgments: Path) -> None:
    """Print nDCG@10 of a catalogue's search on rated queries, recall@100 and the time a query takes, as JSON."""
    _print(evaluate_search.evaluate(products, judgments, _tell))


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


def _print(result: Any) -> None:
    print(msgspec.json.encode(result).decode())
