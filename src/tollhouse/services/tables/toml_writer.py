"""A declaration as the TOML file that a person reads and edits."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.money import usd
from tollhouse.services.tables.declaration import Field, Source

_TELLS = (
    "# What this service is, and what it costs. Start the server again after a change here; a change of the table",
    "# itself is taken in while it serves. docs/own-service.md explains every key.",
)


class Front(Struct, frozen=True):
    """What is said of the service as a whole. `price_micros` is micro-USD a request."""

    title: str
    description: str
    licence: str
    source: str
    price_micros: int
    free_per_day: int


def written(front: Front, table: Source, fields: dict[str, Field]) -> str:
    """The text of the file."""
    head = {
        "title": front.title,
        "description": front.description,
        "licence": front.licence,
        "source": front.source,
        "price_usd": usd(front.price_micros),
        "free_per_day": front.free_per_day,
    }
    told: dict[str, Any] = {name: value for name, value in head.items() if value != ""}
    parts = [*_TELLS, "", *_pairs(told), "", "[table]", *_pairs(_told(table))]
    for name, field in fields.items():
        parts += ["", f"[fields.{name}]", *_pairs(_told(field))]
    return "\n".join(parts) + "\n"


def _told(shape: Struct) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(shape)
    return told


def _pairs(members: dict[str, Any]) -> Iterator[str]:
    return (f"{name} = {_value(value)}" for name, value in members.items())


def _value(value: Any) -> str:
    if isinstance(value, str):
        # JSON's escapes are TOML's; the one character it leaves alone is forbidden there.
        return json.dumps(value.encode(errors="replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_values(value))}]"
    return str(value) if isinstance(value, int) else f"{value:g}"


def _values(values: Iterable[Any]) -> Iterator[str]:
    return map(_value, values)
