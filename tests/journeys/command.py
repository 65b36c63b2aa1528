"""One command to its end, forked from a process that has imported the command line: a tenth of what a start costs."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tollhouse.cli import main

_NURSERY = multiprocessing.get_context("forkserver")
_NURSERY.set_forkserver_preload(["tollhouse.cli", "tests.journeys.command"])


def ended(
    words: Sequence[str], cwd: Path, variables: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """What `tollhouse` with these words printed and answered, in a process with that folder and those variables."""
    with tempfile.TemporaryDirectory() as folder:
        told = [Path(folder) / "stdout", Path(folder) / "stderr"]
        process = _NURSERY.Process(target=_live, args=(list(words), str(cwd), dict(variables), *map(str, told)))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["tollhouse", *words], timeout)
        out, err = (file.read_text("utf-8") if file.exists() else "" for file in told)
        return subprocess.CompletedProcess(["tollhouse", *words], process.exitcode, out, err)


def _live(words: list[str], cwd: str, variables: dict[str, str], out: str, err: str) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(variables)
    for number, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.argv = ["tollhouse", *words]
    main()
