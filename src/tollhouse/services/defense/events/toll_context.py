"""What the words around a death tell: an event that kills, illness and age, or something else.

A logistic regression for each reads the text vector of a headline without its words of death and its numbers. The
weights come from tools/train_toll_context.py.
"""

import re
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollhouse.vectors import text_vectors

CONTEXTS = ("event", "illness", "other")
_DEATHS = re.compile(
    r"\b(?:kill\w*|dead\w*|die[sd]?|dying|deaths?|fatal\w*|tolls?|slain|slay\w*|massacre\w*|murder\w*|homicide\w*"
    r"|execut\w*|hang\w*|behead\w*|perish\w*|succumb\w*|drown\w*|lives?|lost|gun(?:s|ned)? down|assassinat\w*"
    r"|bod(?:y|ies)|lynch\w*|[0-9]+)\b",
    re.IGNORECASE,
)


class Context(NamedTuple):
    """Log odds of each class."""

    event: float
    illness: float
    other: float


def read_context(title: str) -> Context:
    vector = text_vectors().embed([without_deaths(title)])[0].astype(np.float64)
    return Context(*(_weights() @ np.append(vector, 1.0)).round(6).tolist())


def without_deaths(title: str) -> str:
    return _DEATHS.sub(" ", title)


@cache
def _weights() -> NDArray[np.float64]:
    path = resources.files("tollhouse.services.defense") / "data" / "toll_context.npz"
    with resources.as_file(path) as file, np.load(file) as stored:
        weights: NDArray[np.float64] = stored["weights"].astype(np.float64)
        return weights
