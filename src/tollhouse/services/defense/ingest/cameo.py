"""What a CAMEO event code means here: its category, and a label in plain words of our own."""

from functools import cache, lru_cache
from importlib.resources import files

import msgspec

from tollhouse.services.defense.events.event import Category

# Actor types that carry arms: military, rebels, insurgents, separatists, unaligned and international armed groups.
ARMED_TYPES = frozenset({"MIL", "REB", "INS", "SEP", "UAF", "IMG"})

_ECONOMIC = frozenset({"061", "071", "085", "162", "1621", "163", "1211", "1311", "1312"})


def category(code: str) -> Category | None:
    """The category a code stands for by itself; None for violence, which the classifier has to judge first."""
    if code.startswith("14"):
        return "Protests"
    if code in _ECONOMIC:
        return "Economic"
    return None if is_violence(code) else "Political"


def is_violence(code: str) -> bool:
    """Whether the code claims assault (18), fighting (19) or mass violence (20); one such URL in nine is a battle."""
    return code.startswith(("18", "19", "20"))


def is_strike(code: str) -> bool:
    """Whether the code is one force using arms against another: fire, shelling, air strikes, broken truces."""
    return code.startswith(("190", "193", "194", "195", "196"))


def is_riot(code: str) -> bool:
    """Whether the protest was violent."""
    return code.startswith("145")


@lru_cache(maxsize=1024)
def label(code: str) -> str:
    """A code's label, else its base code's, else its root's; "Event" when even that is unknown."""
    labels = _labels()
    return next((labels[code[:length]] for length in (4, 3, 2) if code[:length] in labels), "Event")


@cache
def _labels() -> dict[str, str]:
    table = files("tollhouse.services.defense").joinpath("data", "cameo_labels.json").read_bytes()
    return msgspec.json.decode(table, type=dict[str, str])
