"""Loads settings from the file, the environment and the command line; the only reader of the environment."""

import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from tollhouse.config.section import Declaration, Section, declarations, known, requirement
from tollhouse.config.settings import SECTIONS, SettingError, Settings

T = TypeVar("T")

PREFIX = "TOLLHOUSE_"
DEFAULT_FILE = "tollhouse.toml"
_FORMER_NAMES = {"admin_token": "operator_token"}
_METRICS_DIR = "PROMETHEUS_MULTIPROC_DIR"


def load(config: str | None = None, sections: Sequence[type[Section]] = (), **overrides: Any) -> Settings:
    """Defaults, then the file, the environment and the overrides that are not None. Raises SettingError.

    `sections` are those that services declare.
    """
    declared = declarations([*SECTIONS, *sections])
    values = {**_renamed(_from_file(config)), **_renamed(from_environment(os.environ, declared))}
    values |= {name: value for name, value in overrides.items() if value is not None}
    for name in values:
        if name not in declared:
            raise SettingError(f"{name}: there is no such setting")
    settings = _convert({name: values[name] for name in declarations(SECTIONS) if name in values}, Settings, declared)
    settings = replace(settings, sections=tuple(_convert(known(values, kind), kind, declared) for kind in sections))
    try:
        settings.trusted_networks()
    except ValueError as error:
        raise SettingError(f"trusted_proxies: {error}") from None
    price = settings.x402_price_usd
    if not price.is_finite() or price <= 0 or price * 1_000_000 % 1:
        raise SettingError("x402_price_usd: must be greater than zero, in whole millionths of a dollar")
    return settings


def export(settings: Settings) -> None:
    """Write the settings into the environment, for worker processes."""
    for name, value in _values(settings).items():
        if value is not None and value != {}:
            os.environ[PREFIX + name.upper()] = _as_text(value)


def masked(settings: Settings) -> dict[str, Any]:
    """The settings with every secret masked, for `tollhouse settings`."""
    declared = declarations([*SECTIONS, *map(type, settings.sections)])
    return {name: _masked(declared[name], value) for name, value in _values(settings).items()}


def from_environment(environment: Mapping[str, str], declared: Mapping[str, Declaration]) -> dict[str, Any]:
    """The settings among the variables. A list is written `a,b`, a table `a=x,b=y`, a table of tables as JSON."""
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        if variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX).lower()
            values[name] = _from_text(text, declared[name].type) if name in declared else text
    return values


def has_display() -> bool:
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def variables(**added: str) -> dict[str, str]:
    """The variables of the environment, for what names one of its own, and for processes that inherit them."""
    return {**os.environ, **added}


def share_metrics(folder: Path) -> None:
    """Let the worker processes add up their metrics in files of `folder` (multiprocess mode of prometheus-client)."""
    os.environ[_METRICS_DIR] = str(folder.resolve())


def metrics_folder() -> str:
    """Where this process shares its metrics with the workers beside it; empty where it is alone."""
    return os.environ.get(_METRICS_DIR, "")


def _convert(values: Mapping[str, Any], kind: type[T], declared: Mapping[str, Declaration]) -> T:
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        message = str(error)
        path = re.search(r"`\$\.(\w+)(.*)`$", message)
        if not path:
            raise SettingError(message) from None
        required = requirement(declared[path[1]].type)
        reason = f"must be {required}" if required else message.partition(" - at `")[0]
        place = _entry(values[path[1]], declared[path[1]].type) + path[2].replace("[...]", "")
        raise SettingError(f"{path[1]}{place if not required else ''}: {reason}") from None


def _entry(value: Any, kind: Any) -> str:
    """The names of the table and its tables in which something is not of this type, each after a dot."""
    if get_origin(kind) is dict and isinstance(value, dict):
        for name, item in value.items():
            try:
                msgspec.convert(item, get_args(kind)[1], strict=False)
            except msgspec.ValidationError:
                return f".{name}{_entry(item, get_args(kind)[1])}"
    return ""


def _values(settings: Settings) -> dict[str, Any]:
    holders = [(settings, SECTIONS), *((section, (type(section),)) for section in settings.sections)]
    return {
        name: msgspec.to_builtins(getattr(holder, name)) for holder, kinds in holders for name in declarations(kinds)
    }


def _from_file(config: str | None) -> dict[str, Any]:
    path = Path(config or DEFAULT_FILE)
    if config is None and not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingError(f"the settings file {path} cannot be read: {error}") from None


def _renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of one source, with former names replaced by those of today."""
    for former, name in _FORMER_NAMES.items():
        if former in values and name in values:
            raise SettingError(f"{former}: is the former name of {name}; set only {name}")
    return {_FORMER_NAMES.get(name, name): value for name, value in values.items()}


def _from_text(text: str, annotation: Any) -> Any:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if get_origin(annotation) is tuple:
        return parts
    if get_origin(annotation) is not dict:
        return text
    if get_args(annotation)[1] is str:
        pairs = [part.partition("=") for part in parts]
        return {key.strip(): value.strip() for key, _, value in pairs}
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _as_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(value)
    if isinstance(value, dict) and any(isinstance(item, dict) for item in value.values()):
        return msgspec.json.encode(value).decode()
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _masked(declared: Declaration, value: Any) -> Any:
    if declared.secrecy == "secret" and value:
        return "***"
    if declared.secrecy == "has_password":
        # Up to the last @, since a password may contain one; and where drivers take it as a parameter.
        without = re.sub(r"(?<=://)([^/@:]*):.*@", r"\1:***@", value)
        return re.sub(r"([?&]\w*pass\w*=)[^&]*", r"\1***", without, flags=re.IGNORECASE)
    return value
