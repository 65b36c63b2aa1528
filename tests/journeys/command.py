"""The command line in a forked process."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.processes import ForkedProcess, run
from tollhouse.cli import main


def run_command(
    words: Sequence[str], cwd: Path, variables: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """What `tollhouse` with these words printed, and how it ended."""
    return run(_main, list(words), cwd=cwd, variables=variables, timeout=timeout)


def start_command(words: Sequence[str], cwd: Path, variables: Mapping[str, str], log: Path) -> ForkedProcess:
    """`tollhouse` with these words, still running; `log` is what it prints."""
    return ForkedProcess(_main, list(words), cwd=cwd, variables=variables, stdout=log, stderr=log)


def _main(words: list[str]) -> None:
    sys.argv = ["tollhouse", *words]
    main()
