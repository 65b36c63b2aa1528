"""Rows of a service over its API, and gold expressions worked out over them.

A gold expression is Python over the plain rows of one service and a few helpers (`infra.py`, `defense.py`,
`mattress.py`). The expressions are the project's own files, never input of a user, so Python evaluates them.
"""

import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping
from typing import Any

Names = dict[str, Any]

REFUSE = "refuse"
"""The right answer to a question that has none in the data."""

ATTEMPTS = 5
"""How often a request is sent when the rate limit refuses it."""

BUILTINS: Names = {
    function.__name__: function
    for function in (
        abs, all, any, bool, dict, enumerate, float, int, isinstance, len, list, max, min, range, round, set, sorted,
        str, sum, tuple, zip,
    )
}  # fmt: skip


def evaluate(gold: str, names: Mapping[str, Any]) -> float | str | list[Any]:
    """The value of a gold expression: a number, a list (a set comes sorted) or `REFUSE`.

    Yes is 1 and no is 0. Raises TypeError for any other value.
    """
    if gold.strip("'\"") == REFUSE:
        return REFUSE
    # One dictionary for globals and locals: names inside a comprehension are looked up among the globals.
    value = eval(gold, {"__builtins__": BUILTINS, "Counter": Counter, **names})  # noqa: S307
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, int | float | list):
        return value
    raise TypeError(f"{gold}: the value is a {type(value).__name__}, not a number or a list")


def fetch(url: str, key: str | None = None) -> Any:
    """The JSON document at `url`; a 429 is waited out."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    for _ in range(ATTEMPTS):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            if refusal.code != 429:
                raise
            time.sleep(int(refusal.headers.get("Retry-After", "1")))
    raise RuntimeError(f"{url} was refused {ATTEMPTS} times")
