"""Processes forked from one that has imported Tollhouse: a start costs a tenth of what a new interpreter does."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

_CONTEXT = multiprocessing.get_context("forkserver")
# The first list is the only one that counts.
_CONTEXT.set_forkserver_preload(["tests.servers.processes", "tests.servers.preloaded"])
_DEVICE = "/dev/null"


class ForkedProcess:
    """A function in a process group of its own, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        function: Callable[..., None],
        *arguments: Any,
        cwd: Path,
        variables: Mapping[str, str] | None = None,
        stdout: Path,
        stderr: Path,
    ) -> None:
        chosen = dict(os.environ if variables is None else variables)
        call = (function, arguments, str(cwd), chosen, str(stdout), str(stderr))
        self._process = _CONTEXT.Process(target=_live, args=call)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, once it ended. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired(str(self._process), timeout or 0.0)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def kill_group(self) -> None:
        """Kill it with its children, as a power cut would, and wait for its end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.kill()
        self.wait()


def run(
    function: Callable[..., None],
    *arguments: Any,
    cwd: Path,
    variables: Mapping[str, str] | None = None,
    timeout: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """What a function printed in a process of its own, and how that ended."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "stdout", Path(folder) / "stderr"
        process = ForkedProcess(function, *arguments, cwd=cwd, variables=variables, stdout=out, stderr=err)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        texts = [file.read_text("utf-8") if file.exists() else "" for file in (out, err)]
        return subprocess.CompletedProcess([function.__qualname__, *map(str, arguments)], status, *texts)


@contextlib.contextmanager
def printing_process(function: Callable[..., None], *arguments: Any, cwd: Path) -> Iterator[TextIO]:
    """What a function prints in a process of its own, line by line; the process is killed at the end."""
    pipe = cwd / f"stdout-{uuid.uuid4().hex}"
    os.mkfifo(pipe)
    process = ForkedProcess(function, *arguments, cwd=cwd, stdout=pipe, stderr=cwd / "stderr.log")
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(pipe.open(encoding="utf-8"))
        # Before the pipe is closed: it is to die of the signal, not of what it prints.
        stack.callback(process.wait)
        stack.callback(process.kill)
        yield output


def _live(
    function: Callable[..., None],
    arguments: tuple[Any, ...],
    cwd: str,
    variables: dict[str, str],
    stdout: str,
    stderr: str,
) -> None:
    os.setsid()
    # What it starts itself, such as the workers of a server, begins with what is imported here.
    multiprocessing.set_start_method("fork", force=True)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(variables)
    os.dup2(os.open(_DEVICE, os.O_RDONLY), 0)
    for number, file in ((1, stdout), (2, stderr)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    function(*arguments)
