"""Items of a catalogue: validation against the schema, visible members, and the values that are compared."""

import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any, TypeVar

import msgspec

from tollhouse.catalogue.schema import CURRENT_PRICE, DISCOUNT, Field, FieldType, Schema

MICROS = 1_000_000
# Up to so much, the error of a float is below half a micro.
EXACT_MONEY = 2**31
# Micros stay below 2**53: aggregations use doubles.
MAX_MONEY = 9_000_000_000
MAX_INTEGER = 2**53
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Comparable = str | int | float

Item = dict[str, Any]
T = TypeVar("T")

MAX_ID = 200
MAX_KEYWORD = 1_000
MAX_TEXT = 100_000
MAX_LIST = 200
MAX_BODY = 1_000_000


def batches(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """The values in order, at most `size` at a time."""
    remaining = iter(values)
    while batch := list(islice(remaining, size)):
        yield batch


def key(text: str) -> str:
    """The same text for all spellings that differ in case, width or spaces."""
    if text.isascii():
        # The same result, much faster.
        return " ".join(text.lower().split())
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def comparable(kind: FieldType, value: Any) -> Comparable:
    """The comparable form of a value of an item or a filter. Raises ValueError if the value does not have the type."""
    if kind in ("keyword", "keywords"):
        return key(_as_text(value))
    if kind == "boolean":
        return _as_boolean(value)
    if kind == "timestamp":
        return _as_micros_since_epoch(value)
    if kind == "money":
        return _as_micros(value)
    number = _as_decimal(value)
    if kind == "integer":
        return _bounded(number, MAX_INTEGER)
    return float(number) + 0.0  # -0.0 is 0.0


def bound(kind: FieldType, value: Any, *, is_minimum: bool) -> int | float:
    """The comparable form of one end of a range. For integers, a minimum of 4.5 is 5 and a maximum of 4.5 is 4.

    An end outside the possible values is clipped. Raises ValueError if it is neither a number nor a timestamp.
    """
    if kind == "timestamp":
        return _as_micros_since_epoch(value)
    number = _as_decimal(value)
    if kind == "number":
        return float(number)
    largest = Decimal(MAX_INTEGER if kind == "integer" else MAX_MONEY * MICROS) + 1
    exact = number * MICROS if kind == "money" else number
    clipped = max(-largest, min(largest, exact))
    return math.ceil(clipped) if is_minimum else math.floor(clipped)


def display_number(kind: FieldType, number: float) -> float:
    """The number that an item shows for a comparable value."""
    plain = number / MICROS if kind == "money" else number
    return int(plain) if plain == int(plain) else plain


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("is not text")  # noqa: TRY004 - a value that does not fit, like any other
    if not value.isascii():
        value.encode()  # raises ValueError for a lone surrogate
    return value


def _as_boolean(value: Any) -> int:
    known = {"true": 1, "1": 1, "false": 0, "0": 0}
    if isinstance(value, bool | str) and str(value).lower() in known:
        return known[str(value).lower()]
    raise ValueError("is neither true nor false")


def _as_micros_since_epoch(value: Any) -> int:
    """Microseconds since 1970."""
    try:
        moment = datetime.fromisoformat(_as_text(value))
    except ValueError:
        raise ValueError("is not a timestamp such as 2026-01-31T08:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("has no UTC offset such as Z")
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * MICROS + since.microseconds


def _as_decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("is not a number")  # noqa: TRY004 - as above
    try:
        number = Decimal(str(value)) if len(str(value)) <= 40 else Decimal("nan")
    except (InvalidOperation, ValueError):
        raise ValueError("is not a number") from None
    # A huge exponent would take minutes to multiply.
    if not number.is_finite() or abs(number.adjusted()) > 300:
        raise ValueError("is not a finite number of reasonable size")
    return number


def _as_micros(value: Any) -> int:
    if isinstance(value, float) and abs(value) < EXACT_MONEY:
        micros = round(value * MICROS)
        # The same result as the exact computation below, much faster.
        if micros / MICROS == value:
            return micros
    return _bounded(_as_decimal(value) * MICROS, MAX_MONEY * MICROS)


def _bounded(number: Decimal, largest: int) -> int:
    if abs(number) > largest:
        raise ValueError("is too large")
    if number != number.to_integral_value():
        raise ValueError("has too many decimals")
    return int(number)


class InvalidItem(ValueError):
    """An item does not match the schema. `field` is the member."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}")
        self.field = field


def prepare_item(schema: Schema, item: Mapping[str, Any]) -> Item:
    """Validate an item. Drops null members and timestamps that the database sets. Raises InvalidItem."""
    declared = {"id", *(field.name for field in schema.fields)}
    unknown = next((name for name in item if name not in declared), None)
    if unknown is not None:
        raise InvalidItem(str(unknown)[:60], "is not a field of this catalogue")
    identity = item.get("id")
    if not isinstance(identity, str) or not 0 < len(identity) <= MAX_ID or not identity.isprintable():
        raise InvalidItem("id", f"must be 1 to {MAX_ID} printable characters")
    result: Item = {"id": identity}
    for field in schema.fields:
        value = item.get(field.name)
        if field.name in (schema.created, schema.updated):
            continue
        if value is not None:
            result[field.name] = _value(field, value)
        elif field.required:
            raise InvalidItem(field.name, "is missing")
    if len(encode_item(result)) > MAX_BODY:
        raise InvalidItem("the item", f"is larger than {MAX_BODY} bytes")
    return result


def encode_item(item: Item) -> bytes:
    """Encode an item; equal items have equal bytes."""
    return msgspec.json.encode(item, order="deterministic")


def visible_members(schema: Schema, item: Item) -> Item:
    """The exported members of an item in the schema's order."""
    return {name: item[name] for name in schema.exported if name in item}


def comparable_values(schema: Schema, item: Item, name: str) -> list[Comparable]:
    """The values by which a field is filtered, counted and sorted: none if it is missing, several for a list."""
    if name in (CURRENT_PRICE, DISCOUNT):
        prices = item_prices(schema, item)
        if not prices or name == CURRENT_PRICE:
            return [prices[1]] if prices else []
        return [1 - prices[1] / prices[0] if prices[0] else 0.0]
    value = item.get(name)
    if value is None:
        return []
    field = schema.by_name[name]
    return [comparable(field.type, each) for each in (value if isinstance(value, list) else [value])]


def item_prices(schema: Schema, item: Item) -> tuple[int, int] | None:
    """The price and the current price in micros; None without a price."""
    if schema.price is None or item.get(schema.price) is None:
        return None
    price = int(comparable("money", item[schema.price]))
    sale = item.get(schema.sale_price) if schema.sale_price else None
    return price, price if sale is None else int(comparable("money", sale))


def _value(field: Field, value: Any) -> Any:
    try:
        if field.type == "json":
            msgspec.json.encode(value)
            return value
        if field.type == "text":
            return _text(value, MAX_TEXT)
        if field.type == "keywords":
            return _keywords(value)
        if field.type == "keyword":
            return _keyword(value)
        comparable(field.type, value)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise InvalidItem(field.name, str(error)) from None
    if field.type != "timestamp" and isinstance(value, str):
        raise InvalidItem(field.name, "must be a JSON value of its type, not text")
    return value


def _keyword(value: Any) -> str:
    text = _text(value, MAX_KEYWORD)
    if not key(text):
        raise ValueError("is empty")
    return text


def _keywords(value: Any) -> list[str]:
    """Without values that repeat an earlier one in another case: facets count an item once per value."""
    if not isinstance(value, list | tuple) or len(value) > MAX_LIST:
        raise ValueError(f"must be a list of at most {MAX_LIST} texts")
    distinct: dict[str, str] = {}
    for each in value:
        distinct.setdefault(key(_keyword(each)), each)
    return list(distinct.values())


def _text(value: Any, longest: int) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")  # noqa: TRY004 - a reason for the importer's report
    if len(value) > longest:
        raise ValueError(f"is longer than {longest} characters")
    value.encode()
    return value
