"""An item as it is kept: checked against the schema, each member in its one form."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tollhouse.catalogue.field_values import Comparable, comparable, key
from tollhouse.catalogue.schema import CURRENT_PRICE, DISCOUNT, Field, Schema

Item = dict[str, Any]

MAX_ID = 200
MAX_KEYWORD = 1_000
MAX_TEXT = 100_000
MAX_LIST = 200
MAX_BODY = 1_000_000


class BadItem(ValueError):
    """An item that the schema refuses; `field` names the member."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}")
        self.field = field


def prepared(schema: Schema, item: Mapping[str, Any]) -> Item:
    """The item as it is kept: members that are null, and those the store stamps, left out. Raises BadItem."""
    declared = {"id", *(field.name for field in schema.fields)}
    unknown = next((name for name in item if name not in declared), None)
    if unknown is not None:
        raise BadItem(str(unknown)[:60], "is no field of this catalogue")
    kept: Item = {"id": _identity(item.get("id"))}
    for field in schema.fields:
        value = item.get(field.name)
        if field.name in (schema.created, schema.updated):
            continue
        if value is not None:
            kept[field.name] = _value(field, value)
        elif field.required:
            raise BadItem(field.name, "is missing")
    if len(packed(kept)) > MAX_BODY:
        raise BadItem("the item", f"is larger than {MAX_BODY} bytes")
    return kept


def packed(item: Item) -> bytes:
    """An item's bytes, the same for equal items."""
    return msgspec.json.encode(item, order="deterministic")


def shown(schema: Schema, item: Item, fields: tuple[str, ...] | None = None) -> Item:
    """The members of an item that a reader may see, in the schema's order; of `fields` where they are given."""
    wanted = schema.exported if fields is None else [name for name in schema.exported if name in {"id", *fields}]
    return {name: item[name] for name in wanted if name in item}


def compared(schema: Schema, item: Item, name: str) -> list[Comparable]:
    """What a field is filtered, counted and ordered by: nothing where it is missing, several for a list."""
    if name == CURRENT_PRICE:
        price = prices(schema, item)
        return [price[1]] if price else []
    if name == DISCOUNT:
        price = prices(schema, item)
        return [1 - price[1] / price[0] if price[0] else 0.0] if price else []
    value = item.get(name)
    if value is None:
        return []
    field = schema.by_name[name]
    return [comparable(field.type, each) for each in (value if isinstance(value, list) else [value])]


def prices(schema: Schema, item: Item) -> tuple[int, int] | None:
    """The list price and the price to pay now, in micros of the currency; None without a price."""
    if schema.price is None or item.get(schema.price) is None:
        return None
    price = int(comparable("money", item[schema.price]))
    sale = item.get(schema.sale_price) if schema.sale_price else None
    return price, price if sale is None else int(comparable("money", sale))


def _identity(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID or not value.isprintable():
        raise BadItem("id", f"must be 1 to {MAX_ID} printable characters")
    return value


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
    except (ValueError, TypeError, RecursionError, OverflowError) as fault:
        raise BadItem(field.name, str(fault)) from None
    return _number(field, value)


def _number(field: Field, value: Any) -> Any:
    if field.type != "timestamp" and isinstance(value, str):
        raise BadItem(field.name, "must be a JSON value of its type, not text")
    return value


def _keyword(value: Any) -> str:
    text = _text(value, MAX_KEYWORD)
    if not key(text):
        raise ValueError("is empty")
    return text


def _keywords(value: Any) -> list[str]:
    """Each once, in whatever case: a product must not be counted twice under one value."""
    if not isinstance(value, list | tuple) or len(value) > MAX_LIST:
        raise ValueError(f"must be a list of at most {MAX_LIST} texts")
    once: dict[str, str] = {}
    for each in value:
        once.setdefault(key(_keyword(each)), each)
    return list(once.values())


def _text(value: Any, longest: int) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")  # noqa: TRY004 - a reason for the importer's report
    if len(value) > longest:
        raise ValueError(f"is longer than {longest} characters")
    value.encode()
    return value
