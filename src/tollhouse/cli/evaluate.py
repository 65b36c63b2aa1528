"""`tollhouse evaluate`: measure the serving code against labelled files."""

import asyncio
from importlib import import_module
from pathlib import Path
from typing import Literal

from cyclopts import App

from tollhouse import logs
from tollhouse.catalogue import evaluate_search
from tollhouse.cli.options import print_json, print_progress
from tollhouse.questions import evaluation
from tollhouse.services.defense import evaluate_entities, evaluate_stories
from tollhouse.services.defense import evaluation as reports

evaluate = App(name="evaluate", help="Measure the serving code against labelled files.")


@evaluate.command
def conflict(labels: Path, *exports: Path) -> None:
    """Print precision, recall, F1 and Brier for "this URL's event is a battle"."""
    print_json(reports.evaluate_conflict(labels, list(exports), print_progress))


@evaluate.command
def events(gold: Path, *exports: Path) -> None:
    """Print B-cubed F1, precision and recall of reports resolved into events. Without exports, from the gold titles."""
    print_json(reports.evaluate_events(gold, list(exports), print_progress))


@evaluate.command
def relevance(gold: Path, *exports: Path) -> None:
    """Print precision and recall of "this report is served by default" for labelled URLs."""
    print_json(reports.evaluate_relevance(gold, list(exports), print_progress))


@evaluate.command
def stories(file: Path) -> None:
    """Print B-cubed F1, precision and recall of the clustering, and articles per second."""
    print_json(evaluate_stories.evaluate(file, print_progress))


@evaluate.command
def entities(file: Path) -> None:
    """Print strict F1, precision and recall of the entities, in total and by type, and tokens per second."""
    print_json(evaluate_entities.evaluate(file, print_progress))


@evaluate.command
def places(gold: Path, *exports: Path) -> None:
    """Print the share of labelled reports that are placed in the right country."""
    print_json(reports.evaluate_places(gold, list(exports), print_progress))


@evaluate.command
def tolls(file: Path) -> None:
    """Print how often the number of killed read from a headline is exact, wrong, missed or invented."""
    print_json(reports.evaluate_tolls(file, print_progress))


@evaluate.command
def search(products: Path, judgments: Path) -> None:
    """Print nDCG@10 and recall@100 of a catalogue's search on rated queries, and the time per query."""
    print_json(evaluate_search.evaluate(products, judgments, print_progress))


# Where each service answers a conversation about its bundled data.
_ANSWERERS = {
    "infra": "tollhouse.services.infra.assistant.assistant",
    "defense": "tollhouse.services.defense.chat.snapshot",
    "mattress": "tollhouse.services.mattress.evaluation",
}


@evaluate.command
def questions(service: Literal["infra", "defense", "mattress"], gold: Path) -> None:
    """Print how many labelled questions are answered exactly, partly, wrongly or refused, and every answer."""
    logs.configure("warning")
    ask: evaluation.Ask = import_module(_ANSWERERS[service]).ask
    print_json(asyncio.run(evaluation.evaluate(gold, ask, print_progress)))
