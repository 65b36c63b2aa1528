"""Cursors: the place of a page's last item in an order, from which the next page continues.

<value in the order's column>~<id>    ids and texts as `index.text_place` writes them
"""

import math
import re
from contextlib import suppress

from tollhouse.catalogue.items import Comparable
from tollhouse.catalogue.schema import Field
from tollhouse.errors import invalid_parameter

FIRST = "*"
MAX_CURSOR = 10_000
_TEXT = re.compile("x[0-9a-f]*")
_WHOLE = re.compile("-?[0-9]{1,19}")


def read_cursor(cursor: str, field: Field) -> tuple[Comparable, str]:
    """The value and the id after which a page begins. Raises Problem `invalid-parameter`."""
    written, _, identity = cursor.partition("~")
    with suppress(ValueError):
        value = _value(written, field)
        if _TEXT.fullmatch(identity):
            return value, identity
    raise invalid_parameter("cursor", "Invalid `cursor`. Use the `next_cursor` of a page in the same order.")


def write_cursor(value: Comparable, identity: str) -> str:
    return f"{value}~{identity}".replace("e+", "e")


def _value(written: str, field: Field) -> Comparable:
    """Raises ValueError."""
    if field.type in ("keyword", "keywords"):
        if _TEXT.fullmatch(written):
            return written
    elif field.type == "number":
        if not math.isnan(number := float(written)):
            return number
    elif _WHOLE.fullmatch(written) and abs(whole := int(written)) < 2**63:
        return whole
    raise ValueError("is of another order")
