"""`tollhouse evaluate`: how good the serving code is, measured on labelled files."""

import sys
from pathlib import Path

import msgspec
from cyclopts import App

from tollhouse.services.defense import evaluate_conflict

evaluate = App(name="evaluate", help="Measure the code that serves against labelled files.")


@evaluate.command
def conflict(labels: Path, *exports: Path) -> None:
    """Print precision, recall, F1 and Brier of "this URL's event is a battle" as JSON."""
    result = evaluate_conflict.evaluate(labels, list(exports), lambda text: print(text, file=sys.stderr))
    print(msgspec.json.encode(result).decode())
