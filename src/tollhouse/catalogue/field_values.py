"""What a field's values are compared by: one key for all spellings of a word, whole numbers for money and moments."""

import math
import unicodedata
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from tollhouse.catalogue.schema import FieldType

MICROS = 1_000_000
# Micros stay below 2**53: aggregations count in doubles.
MAX_MONEY = 9_000_000_000
MAX_INTEGER = 2**53
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Comparable = str | int | float


def key(text: str) -> str:
    """One text for all spellings that differ in case, in width, or in the space between words."""
    if text.isascii():
        # The same, much sooner.
        return " ".join(text.lower().split())
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def comparable(kind: FieldType, value: Any) -> Comparable:
    """What a value of an item, or of a filter, is compared by. Raises ValueError when it is no value of this type."""
    if kind in ("keyword", "keywords"):
        return key(_text(value))
    if kind == "boolean":
        return _boolean(value)
    if kind == "timestamp":
        return _moment(value)
    if kind == "money":
        return _micros(value)
    number = _decimal(value)
    if kind == "integer":
        return _bounded(number, MAX_INTEGER)
    return float(number) + 0.0  # -0.0 is 0.0


def bound(kind: FieldType, value: Any, *, is_minimum: bool) -> int | float:
    """One end of a range, in the unit of `comparable`: a minimum of 4.5 is 5 among whole numbers, a maximum 4.

    An end beyond every possible value is taken, since nothing is wrong with asking for less than a million. Raises
    ValueError when it is neither a number nor a moment.
    """
    if kind == "timestamp":
        return _moment(value)
    number = _decimal(value)
    if kind == "number":
        return float(number)
    largest = Decimal(MAX_INTEGER if kind == "integer" else MAX_MONEY * MICROS) + 1
    exact = number * MICROS if kind == "money" else number
    clipped = max(-largest, min(largest, exact))
    return math.ceil(clipped) if is_minimum else math.floor(clipped)


def shown(kind: FieldType, number: float) -> float:
    """A compared number as an item shows it."""
    plain = number / MICROS if kind == "money" else number
    return int(plain) if plain == int(plain) else plain


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("is no text")  # noqa: TRY004 - a value that does not fit, like any other
    if not value.isascii():
        value.encode()  # half of a surrogate pair is no text: a ValueError
    return value


def _boolean(value: Any) -> int:
    known = {"true": 1, "1": 1, "false": 0, "0": 0}
    if isinstance(value, bool | str) and str(value).lower() in known:
        return known[str(value).lower()]
    raise ValueError("is neither true nor false")


def _moment(value: Any) -> int:
    """Microseconds since 1970."""
    try:
        moment = datetime.fromisoformat(_text(value))
    except ValueError:
        raise ValueError("is no moment such as 2026-01-31T08:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("is a moment without an offset from UTC, such as Z")
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * MICROS + since.microseconds


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("is no number")  # noqa: TRY004 - as above
    try:
        number = Decimal(str(value)) if len(str(value)) <= 40 else Decimal("nan")
    except (InvalidOperation, ValueError):
        raise ValueError("is no number") from None
    # An exponent of a million digits would take a minute to multiply.
    if not number.is_finite() or abs(number.adjusted()) > 300:
        raise ValueError("is no number that can be reckoned with")
    return number


def _micros(value: Any) -> int:
    if isinstance(value, float) and abs(value) <= MAX_MONEY:
        micros = round(value * MICROS)
        # The same answer as the exact way below gives, much sooner.
        if micros / MICROS == value:
            return micros
    return _bounded(_decimal(value) * MICROS, MAX_MONEY * MICROS)


def _bounded(number: Decimal, largest: int) -> int:
    if abs(number) > largest:
        raise ValueError("is too large")
    if number != number.to_integral_value():
        raise ValueError("has too many decimals")
    return int(number)
