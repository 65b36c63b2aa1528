"""What all commands share: their common options, how they run, and how they print."""

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from tollhouse import logs
from tollhouse.admission.context import AppContext, open_context
from tollhouse.config.settings import Settings
from tollhouse.services import load_settings


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Where:
    """Where the settings and the data are."""

    config: Annotated[str | None, Parameter(help="Settings file (default: tollhouse.toml, if it exists)")] = None
    data_dir: Annotated[str | None, Parameter(help="Directory of the databases (default: data)")] = None

    def settings(self, **overrides: object) -> Settings:
        """The settings in effect. Raises SettingError."""
        return load_settings(self.config, data_dir=self.data_dir, **overrides)

    def open(self) -> AbstractAsyncContextManager[AppContext]:
        """Open the databases and all that services share, without handling requests."""
        return open_context(self.settings(), answers_calls=False)


HERE = Where()


def run(command: Coroutine[object, object, None]) -> None:
    """Run a command that is a coroutine; only warnings and errors are logged."""
    logs.configure("warning")
    asyncio.run(command)


def print_json(value: Any) -> None:
    """Print one JSON document on a line of standard output."""
    print(msgspec.json.encode(value).decode(), flush=True)


def print_progress(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr)
