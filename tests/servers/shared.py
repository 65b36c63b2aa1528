"""A real server that all workers of one test run share: started by the first that asks, stopped with the run."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

FOLDER_VARIABLE = "PYTEST_SHARED_SERVERS"
START_SECONDS = 30.0
STOP_SECONDS = 10.0


def open_folder() -> None:
    """Called once, by the process that leads the run; the workers it starts inherit the variable."""
    folder = tempfile.mkdtemp(prefix="tollhouse-servers-")
    # A server that refuses to run as root runs as nobody, who must be able to reach its own folder in here.
    Path(folder).chmod(0o711)
    os.environ[FOLDER_VARIABLE] = folder
    _spare_the_processor(Path(folder))


def _spare_the_processor(folder: Path) -> None:
    """Three things that every process of the tests would do over again, and that no test is about.

    It would compile the sources, where the machine's owner wants no bytecode kept; for each HTTP client, also of
    plain http, it would parse the machine's certificate authorities (25 ms): here it finds none; and it would share
    out the parser's small matrices among threads that wait for each other.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    (folder / "no-authorities").mkdir()
    os.environ["SSL_CERT_DIR"] = str(folder / "no-authorities")


def close_folder() -> None:
    """Called once, by the process that leads the run, when every worker is done."""
    folder = Path(os.environ.pop(FOLDER_VARIABLE))
    for record in folder.glob("*.json"):
        _stop(**json.loads(record.read_text()))
    shutil.rmtree(folder, ignore_errors=True)


def port_of(name: str, start: Callable[[Path, int], subprocess.Popen[bytes]], stop_signal: signal.Signals) -> int:
    """The port on 127.0.0.1 where the run's `name` listens. `start` gets an empty folder and a free port."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    record = folder / f"{name}.json"
    with _only_one(folder / f"{name}.lock"):
        if record.exists():
            return int(json.loads(record.read_text())["port"])
        home = folder / name
        home.mkdir(mode=0o711)
        port = free_port()
        server = start(home, port)
        record.write_text(json.dumps({"pid": server.pid, "port": port, "stop_signal": int(stop_signal)}))
        _wait_until_listening(server, port, home)
        # It outlives this worker: close_folder stops it, by its id, so Python need not warn that it still runs.
        server.returncode = 0
        return port


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first who asks fills, for all workers of the run; nobody changes it afterwards."""
    folder = Path(os.environ[FOLDER_VARIABLE]) / name
    with _only_one(folder.with_suffix(".lock")):
        if not folder.exists():
            half = folder.with_suffix(".making")
            half.mkdir()
            make(half)
            half.rename(folder)
    return folder


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_listening(server: subprocess.Popen[bytes], port: int, home: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert server.poll() is None, f"the server ended at once:\n{_logs(home)}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"nothing listens on port {port} after {START_SECONDS} s:\n{_logs(home)}")


def _logs(home: Path) -> str:
    return "\n".join(log.read_text(errors="replace") for log in home.glob("*.log"))


def _stop(pid: int, port: int, stop_signal: int) -> None:
    """The server may be the child of a worker that is gone, so it cannot be waited for, only watched."""
    try:
        server = psutil.Process(pid)
        assert str(port) in " ".join(server.cmdline()), f"process {pid} is no longer the server on port {port}"
        server.send_signal(stop_signal)
        deadline = time.monotonic() + STOP_SECONDS
        while server.is_running() and server.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > deadline:
                server.kill()
                return
            time.sleep(0.02)
    except psutil.NoSuchProcess:
        return
