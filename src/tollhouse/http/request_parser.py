"""Parsers of query strings and JSON bodies into the declared types. An error names the parameter."""

import re
from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Struct, inspect

from tollhouse.errors import Problem, invalid_parameter

Read = TypeVar("Read", bound=Struct)

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,32})?([eE][+-]?[0-9]{1,3})?")
_NO_INTEGER = re.compile(r"Expected `(int|int \| null)`, got `float`")
_JSON_TYPES = re.compile(r"application/(json|[\w.+-]+\+json)\s*(;.*)?", re.IGNORECASE)


@lru_cache(maxsize=4096)
def parse_query(raw: bytes, shape: type[Read] | None) -> Read | None:
    """Parse the query string as `shape`. Raises Problem `invalid-parameter`."""
    given = _pairs(raw)
    if shape is None:
        if given:
            raise invalid_parameter(next(iter(given)), "This endpoint takes no query parameters.")
        return None
    fields = _fields(shape)
    values: dict[str, Any] = {}
    for name, texts in given.items():
        if name not in fields:
            raise invalid_parameter(name, f"Unknown parameter `{name}`.", sorted(fields))
        values[name] = _value(name, texts, fields[name])
    try:
        return msgspec.convert(values, shape)
    except msgspec.ValidationError as error:
        raise _bad_parameter(error, fields) from None


def parse_body(raw: bytes, content_type: str, shape: type[Read]) -> Read:
    """Parse the JSON body as `shape`. Raises Problem `unsupported-media-type` or `invalid-body`."""
    if not _JSON_TYPES.fullmatch(content_type.strip()):
        raise Problem(
            "unsupported-media-type", "Send the body as `Content-Type: application/json`.", allowed=["application/json"]
        )
    try:
        return _decoded(raw, shape)
    except msgspec.ValidationError as error:
        raise _bad_body(error) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        cause = str(error).removeprefix("JSON is malformed: ")
        detail = "is nested too deeply" if isinstance(error, RecursionError) else f"is not JSON: {cause}"
        raise Problem("invalid-body", f"The body {detail}.") from None


def _decoded(raw: bytes, shape: type[Read]) -> Read:
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as error:
        if not _NO_INTEGER.match(str(error)):
            raise
        # In JSON Schema 2.0 is an integer, and some languages write integers so.
        return msgspec.convert(_whole(msgspec.json.decode(raw)), shape)


def _whole(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return {name: _whole(each) for name, each in value.items()} if isinstance(value, dict) else value


def _pairs(raw: bytes) -> dict[str, list[str]]:
    """Names and values in the order sent. A value that is not UTF-8 is refused."""
    given: dict[str, list[str]] = {}
    for pair in raw.split(b"&"):
        if pair:
            name, _, value = pair.partition(b"=")
            key = _text(name, "a parameter's name")
            given.setdefault(key, []).append(_text(value, key))
    return given


def _text(raw: bytes, name: str) -> str:
    try:
        text = unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8")
    except UnicodeDecodeError:
        raise invalid_parameter(name, "The value must be UTF-8.") from None
    if "\x00" in text:
        raise invalid_parameter(name, "The value must not contain a NUL character.")
    return text


@lru_cache(maxsize=256)
def _fields(shape: type[Struct]) -> dict[str, inspect.Type]:
    described = inspect.type_info(shape)
    assert isinstance(described, inspect.StructType)
    return {field.encode_name: _without_null(field.type) for field in described.fields}


def _without_null(declared: inspect.Type) -> inspect.Type:
    if isinstance(declared, inspect.Metadata):
        return _without_null(declared.type)
    if isinstance(declared, inspect.UnionType):
        return _without_null(next(part for part in declared.types if not isinstance(part, inspect.NoneType)))
    return declared


def _value(name: str, texts: list[str], declared: inspect.Type) -> Any:
    if isinstance(declared, inspect.ListType):
        return [_single(name, text, _without_null(declared.item_type)) for text in texts]
    if len(texts) > 1:
        raise invalid_parameter(name, f"`{name}` may be given once.")
    if isinstance(declared, inspect.TupleType):
        parts, kinds = texts[0].split(","), declared.item_types
        if len(parts) != len(kinds):
            raise invalid_parameter(name, f"`{name}` takes {len(kinds)} comma-separated values.")
        return [_single(name, part, _without_null(kind)) for part, kind in zip(parts, kinds, strict=True)]
    return _single(name, texts[0], declared)


def _single(name: str, text: str, declared: inspect.Type) -> Any:
    pattern, parse, expected = _PARSERS.get(type(declared), (None, str, ""))
    if pattern and not pattern.fullmatch(text):
        raise invalid_parameter(name, f"`{name}` must be {expected}.")
    value = parse(text)
    if isinstance(value, float) and not isfinite(value):
        raise invalid_parameter(name, f"`{name}` is out of range.")
    return value


_PARSERS: dict[type[inspect.Type], tuple[re.Pattern[str] | None, Callable[[str], Any], str]] = {
    inspect.IntType: (_INTEGER, int, "a whole number"),
    inspect.FloatType: (_NUMBER, float, "a number"),
    inspect.BoolType: (re.compile("true|false"), lambda text: text == "true", "`true` or `false`"),
}


def _bad_parameter(error: msgspec.ValidationError, fields: dict[str, inspect.Type]) -> Problem:
    message, name = _message_and_member(error)
    missing = re.search(r"missing required field `(\w+)`", message)
    if missing:
        return invalid_parameter(missing[1], f"`{missing[1]}` is required.")
    declared = fields.get(name)
    if isinstance(declared, inspect.LiteralType):
        allowed = [str(value) for value in declared.values]
        return invalid_parameter(name, f"`{name}` must be one of: {', '.join(allowed)}.", allowed)
    return invalid_parameter(name, f"`{name}`: {message[0].lower()}{message[1:]}.")


def _bad_body(error: msgspec.ValidationError) -> Problem:
    message, name = _message_and_member(error)
    missing = re.search(r"missing required field `(\w+)`", message)
    unknown = re.search(r"unknown field `(.+)`$", message)
    inside = f"{name}." if name else ""
    if member := missing or unknown:
        name = f"{inside}{member[1]}"
        detail = f"`{name}` is required." if missing else f"Unknown member `{name}`."
        return Problem("invalid-body", detail, parameter=name)
    if not name:
        return Problem("invalid-body", f"The body: {message[0].lower()}{message[1:]}.")
    return Problem("invalid-body", f"`{name}`: {message[0].lower()}{message[1:]}.", parameter=name)


def _message_and_member(error: msgspec.ValidationError) -> tuple[str, str]:
    message, _, where = str(error).partition(" - at `$")
    name = where.rstrip("`").lstrip(".")
    return message, re.sub(r"\[.*", "", name)
