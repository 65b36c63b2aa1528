"""Shared by all commands: common options, running with the databases open, and printing."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec
from cyclopts import Parameter

from tollhouse import logs
from tollhouse.admission.context import AppContext, open_context
from tollhouse.config.settings import Settings
from tollhouse.services import load_settings

T = TypeVar("T")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """The options of every command: the settings file and the data directory."""

    config: Annotated[str | None, Parameter(help="Settings file (default: tollhouse.toml, if it exists)")] = None
    data_dir: Annotated[str | None, Parameter(help="Directory of the databases (default: data)")] = None

    def settings(self, **overrides: object) -> Settings:
        """The settings in effect. Raises SettingError."""
        return load_settings(self.config, data_dir=self.data_dir, **overrides)

    def run(self, work: Callable[[AppContext], Awaitable[T]]) -> T:
        """Open the databases and everything that services share, and return the result of `work`. Log only warnings."""

        async def opened() -> T:
            async with open_context(self.settings(), answers_calls=False) as context:
                return await work(context)

        logs.configure("warning")
        return asyncio.run(opened())


DEFAULTS = CommonOptions()


def seconds_of(moment: datetime) -> float:
    """Seconds since 1970 of a time, in UTC where it names no zone."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def print_json(value: Any) -> None:
    """Print one JSON document on a line of standard output."""
    print(msgspec.json.encode(value).decode(), flush=True)


def print_lines(values: Iterable[Any]) -> None:
    """Print one JSON document per line."""
    for value in values:
        print_json(value)


def print_progress(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr)
