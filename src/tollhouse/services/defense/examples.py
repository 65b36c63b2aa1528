"""Examples for the description, out of the bundled recording of November 2020."""

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec


@cache
def example(name: str) -> Any:
    """The example of this name in data/examples.json."""
    return _all()[name]


@cache
def _all() -> dict[str, Any]:
    raw = files("tollhouse.services.defense").joinpath("data", "examples.json").read_bytes()
    return msgspec.json.decode(raw, type=dict[str, Any])
