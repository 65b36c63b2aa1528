"""The command line in a forked process."""

import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.processes import ForkedProcess, run
from tollhouse.cli import main


def run_command(
    words: Sequence[str], cwd: Path, variables: Mapping[str, str], timeout: float, packages: Sequence[Path] = ()
) -> subprocess.CompletedProcess[str]:
    """What `tollhouse` with these words printed, with these folders of packages, and how it ended."""
    return run(_main, list(words), list(map(str, packages)), cwd=cwd, variables=variables, timeout=timeout)


def start_command(words: Sequence[str], cwd: Path, variables: Mapping[str, str], log: Path) -> ForkedProcess:
    """`tollhouse` with these words, still running; `log` is what it prints."""
    return ForkedProcess(_main, list(words), cwd=cwd, variables=variables, stdout=log, stderr=log)


def _main(words: list[str], packages: Sequence[str] = ()) -> None:
    # The library of commands warns where pytest is imported.
    warnings.filterwarnings("ignore", "Cyclopts application invoked without tokens")
    sys.path[:0] = packages
    sys.argv = ["tollhouse", *words]
    main()
