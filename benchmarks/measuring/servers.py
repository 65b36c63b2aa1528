"""Starting the servers that are compared, each in a process group of its own, and stopping them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import psutil

BIN = Path(sys.executable).parent
STOP_WITHIN_SECONDS = 10.0
START_WITHIN_SECONDS = 120.0
POLL_SECONDS = 0.01

Headers = Mapping[str, str]


def free_port() -> int:
    """A port of the loopback interface that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextlib.contextmanager
def running(command: Sequence[str | Path], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a group of its own until the block ends; its standard error goes to `log`."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            stdout=errors,
            stderr=errors,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_WITHIN_SECONDS)
        # A server's parent may be gone before its workers.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def processor_seconds(pid: int) -> float:
    """The processor time that a server and the processes it started have used so far."""
    parent = psutil.Process(pid)
    spent = [each.cpu_times() for each in [parent, *parent.children(recursive=True)]]
    return sum(times.user + times.system for times in spent)


def tollhouse(port: int, data_dir: Path) -> list[str | Path]:
    """The command that serves the bundled recording."""
    return [BIN / "tollhouse", "serve", "--recorded", "--port", str(port), "--data-dir", str(data_dir)]


def new_key(data_dir: Path, log: Path) -> bytes:
    """What `tollhouse keys create` prints for an enterprise key whose limits no benchmark reaches."""
    command = [BIN / "tollhouse", "keys", "create", "--email", "bench@example.org", "--tier", "enterprise",
               "--per-minute", "100000000", "--data-dir", str(data_dir)]  # fmt: skip
    with log.open("wb") as errors:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=errors).stdout


def get(port: int, path: str, headers: Headers) -> tuple[int, list[tuple[str, str]], bytes]:
    """One GET on a connection of its own: status, headers, body."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    finally:
        connection.close()


def first_answer(
    process: subprocess.Popen[bytes], port: int, path: str, headers: Headers
) -> tuple[list[tuple[str, str]], bytes]:
    """The headers and body of the first 200. RuntimeError when the server ends or takes too long."""
    deadline = time.monotonic() + START_WITHIN_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server on port {port} ended with {process.returncode}")
        with contextlib.suppress(OSError, HTTPException):
            status, received, body = get(port, path, headers)
            if status == 200:
                return received, body
        time.sleep(POLL_SECONDS)
    raise RuntimeError(f"the server on port {port} did not answer 200 in {START_WITHIN_SECONDS:g} s")
