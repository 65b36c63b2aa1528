"""TOML files that declare a service: read strictly, with errors that name the file, the line and the key."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import fields as members_of

# The name of a catalogue in the database is up to 40 characters, with the table's shape at its end.
MAX_SERVICE_NAME = 28

# Paths at the root of a host besides the services' prefixes. A test compares them with what is mounted there.
ROOT_PATHS = frozenset({
    "a2a", "alerts", "api", "ask", "board", "chat", "console", "discovery", "docs", "facilitator", "feeds",
    "guide", "health", "keys", "llms", "mattresses", "mcp", "metrics", "operator", "problems", "status",
    "studio-catalogue", "tables",
    "value-chain", "wallet",
})  # fmt: skip

_SERVICE = re.compile(rf"[a-z][a-z0-9-]{{0,{MAX_SERVICE_NAME - 1}}}")


class DeclarationError(ValueError):
    """An invalid declaration; the message names the file and, where it can, the line and the key."""


def declaration_files(folder: Path, taken: Iterable[str]) -> Iterator[Path]:
    """Every TOML file of a folder, by name. None may be called like one of the `taken` services.

    Raises DeclarationError for the first with an invalid name.
    """
    for path in sorted(folder.glob("*.toml")):
        if fault := service_fault(path.stem, taken):
            raise DeclarationError(f"{path}: {fault}")
        yield path


def read_text(path: Path) -> str:
    """The text of a declaration. Raises DeclarationError."""
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise DeclarationError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DeclarationError(f"{path}: is not UTF-8") from None


class DeclarationText(Struct, frozen=True):
    """A declaration's text, to locate errors in it."""

    path: Path
    text: str

    def members(self) -> dict[str, Any]:
        """The text as TOML. Raises DeclarationError."""
        try:
            return tomllib.loads(self.text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise DeclarationError(f"{self.path}: is not valid TOML: {error}") from None

    def converted(self, raw: Any, shape: Any, within: str) -> Any:
        """The members as their type. Raises DeclarationError that names the key and what it may be."""
        try:
            return msgspec.convert(raw, shape)
        except msgspec.ValidationError as error:
            message, _, where = str(error).partition(" - at `$")
            key = ".".join(filter(None, (within, where.strip("`.")))).replace(".fields[...]", "")
            raise self.error(*_clearer(key, message, shape)) from None

    def error(self, key: str, fault: str) -> DeclarationError:
        """The error with the line of its key, where that can be located."""
        line = self._line(key)
        return DeclarationError(f"{self.path}{f', line {line}' if line else ''}: {key}: {fault}")

    def _line(self, key: str) -> int | None:
        """The line of `fields.price.type`: in the part headed `[fields.price]`, the one that begins `type =`."""
        part, _, last = key.rpartition(".")
        here, headed = "", None
        for number, line in enumerate(self.text.splitlines(), start=1):
            if heading := re.match(r"\s*\[([^\[\]]+)\]", line):
                here = heading[1].replace('"', "").strip()
                headed = number if here in (key, part) and part else headed
                if here == key:
                    return number
            elif here == part and re.match(rf"\s*\"?{re.escape(last)}\"?\s*=", line):
                return number
        return headed


def _clearer(key: str, message: str, shape: Any) -> tuple[str, str]:
    """The key at fault and the message, with what is allowed."""
    if unknown := re.search(r"unknown field `(.*)`", message):
        known = ", ".join(member.name for member in members_of(_part(shape, key)))
        return f"{key}.{unknown[1]}".lstrip("."), f"unknown key; known keys are {known}"
    if missing := re.search(r"missing required field `(\w+)`", message):
        return f"{key}.{missing[1]}".lstrip("."), "is required"
    part, _, name = key.rpartition(".")
    # The type may be optional: then its values are those of a part.
    parts = get_args(get_type_hints(_part(shape, part)).get(name))
    allowed = [value for each in parts for value in (get_args(each) or (each,)) if isinstance(value, str)]
    plain = f"{message[0].lower()}{message[1:]}"
    return key or "the file", f"must be one of {', '.join(allowed)}" if allowed and "enum" in message else plain


def _part(shape: Any, key: str) -> Any:
    """The type of the table that a key names, which is the whole or one of its members."""
    member = get_type_hints(shape).get(key.rpartition(".")[2])
    return member if isinstance(member, type) and issubclass(member, Struct) else shape


def service_fault(name: str, taken: Iterable[str]) -> str:
    """Why a service cannot be called this, "" when it can."""
    if not _SERVICE.fullmatch(name) or name.endswith("-"):
        return f"a service's name is 1 to {MAX_SERVICE_NAME} lower-case letters, digits and hyphens, a letter first"
    if name in {*taken, *ROOT_PATHS}:
        return f"the name {name} is taken by the server itself"
    return ""


def toml_lines(members: dict[str, Any]) -> Iterator[str]:
    """A line `name = value` for each member."""
    return (f"{name} = {_value(value)}" for name, value in members.items())


def _value(value: Any) -> str:
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for one character that TOML forbids.
        return json.dumps(value.encode(errors="replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return str(value) if isinstance(value, int) else f"{value:g}"
