"""Train what surrounds words of death in headlines: events that kill, illness and age, or something else.

Usage: python tools/train_toll_context.py TITLES.csv...
Each line of TITLES.csv is a date and a headline. Rewrites data/toll_context.npz of the defense service; same input,
same weights up to rounding. The weights are the mean of those of each file, so that no collection outweighs another.
Those that are there were trained on the first 21,295 headlines of A Million News Headlines (ABC, 2003; Rohit Kulkarni,
CC0, doi.org/10.7910/DVN/SYBGZL), and on 26,211 titles from addresses of 18 September 2018 (The GDELT Project,
gdeltproject.org). No headline is labelled by hand: the words below label the clear ones, and are then left out of the
text where they are words of death, so that the rest of the headline has to tell. One logistic regression for each
class, by Newton's method, classes of equal weight.
"""

import csv
import re
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tollhouse.services.defense.events.toll_verbs import CONTEXTS, without_deaths
from tollhouse.vectors import text_vectors

OUTPUT = Path(__file__).parents[1] / "src/tollhouse/services/defense/data/toll_context.npz"
RIDGE, STEPS = 3.0, 15
_ILLNESS = re.compile(
    r"\b(?:cancer|tumou?r|illness|disease|virus|epidemic|outbreak|pandemic|sars|aids|hiv|flu|influenza|pneumonia"
    r"|dementia|alzheimers?|stroke|heart attack|natural causes|obituary|tributes?|mourns?|legend|funeral|vaccine"
    r"|smoking|obesity|suicide rate|health)\b|\b(?:dies|died|dead|death)\b.*\b(?:aged|at) (?:[6-9][0-9]|1[0-9]{2})\b"
)
_NUMBER = r"(?:[0-9]+|two|three|four|five|six|seven|eight|nine|ten|dozens?)"
_EVENT = re.compile(
    r"\b(?:kill(?:s|ed)?|shot dead|stabbed to death|murder(?:ed|s)?|fatal(?:ly|ities)?|drown(?:s|ed)|slain|manslaughter"
    r"|(?:dies?|died|dead|deaths?) (?:in|after|when|as)|found dead|executed|massacre|beheaded|lynch\w*|inquest|coroner"
    rf"|homicide|bod(?:y|ies) (?:found|recovered)|{_NUMBER} (?:\w+ )?(?:dead|die))\b"
)
_DEATH = re.compile(r"kill|dead\b|die[sd]?\b|death|fatal|slain|murder|drown")


def main(*paths: str) -> None:
    weights = np.mean([_train(Path(path)) for path in paths], axis=0)
    np.savez(OUTPUT, weights=weights.round(4).astype(np.float32))


def _train(path: Path) -> NDArray[np.float64]:
    """The weights of each class, from the clear headlines of one file."""
    titles = sorted({row[1].lower() for row in _rows(path)})
    labels = [_label(title) for title in titles]
    clear = [number for number, label in enumerate(labels) if label]
    vectors = text_vectors().embed([without_deaths(titles[number]) for number in clear]).astype(np.float64)
    print(path.name, {name: labels.count(name) for name in CONTEXTS}, file=sys.stderr)
    return np.array([_fit(vectors, np.array([labels[number] == name for number in clear], float)) for name in CONTEXTS])


def _rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        return [row for row in csv.reader(lines) if len(row) > 1]


def _label(title: str) -> str:
    """A class, or nothing for a headline with words of death that is not clear."""
    if _ILLNESS.search(title):
        return "illness"
    if _EVENT.search(title):
        return "event"
    return "" if _DEATH.search(title) else "other"


def _fit(vectors: NDArray[np.float64], answers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of a logistic regression, the constant last."""
    inputs = np.c_[vectors, np.ones(len(vectors))]
    share = np.where(answers == 1, 0.5 / answers.mean(), 0.5 / (1 - answers.mean()))
    ridge = RIDGE * np.r_[np.ones(vectors.shape[1]), 0]
    weights = np.zeros(inputs.shape[1])
    for _ in range(STEPS):
        guesses = 1 / (1 + np.exp(-inputs @ weights))
        slope = inputs.T @ (share * (guesses - answers)) + ridge * weights
        curvature = (inputs * (share * guesses * (1 - guesses))[:, None]).T @ inputs + np.diag(ridge)
        weights -= np.linalg.solve(curvature, slope)
    return weights


if __name__ == "__main__":
    main(*sys.argv[1:])
