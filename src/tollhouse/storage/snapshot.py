"""Consistent copies of several SQLite files while they are written, and their restore."""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from tollhouse.storage.database import begin_immediate

WAIT_SECONDS = 60.0
"""How long to wait for a writer: an ingest writes for seconds."""
SIDE_FILES = ("", "-wal", "-shm", "-journal")
"""Files of one SQLite database. Beside another database, SQLite would apply them to it."""


class CopyError(OSError):
    """A database cannot be copied: it is damaged or busy, or the disk is full."""


def copy_together(files: Mapping[str, Path], folder: Path) -> None:
    """Copy each database into `folder` under its name, all in their state at one moment.

    Writers wait only while the snapshot starts. Raises CopyError.
    """
    with _as_copy_error(), contextlib.ExitStack() as stack:
        readers = {name: stack.enter_context(closing(_open(file))) for name, file in files.items()}
        _begin_together(files.values(), readers.values())
        for name, reader in readers.items():
            _copy(reader, folder / name)


def version_of(file: Path, table: str) -> str:
    """The schema version in `table` of a database. Raises CopyError."""
    with _as_copy_error(), closing(_open(file)) as connection:
        version: str = connection.execute(f"SELECT version_num FROM {table}").fetchone()[0]  # noqa: S608 - our name
        return version


def replace_files(files: Mapping[Path, Path], existing: Iterable[Path], aside: Path) -> None:
    """Replace files. `files` maps targets to sources; `existing`, with SQLite's side files, move to `aside`.

    All copies are complete on disk before anything is moved.
    """
    partials = {target: _copy_beside(source, target) for target, source in files.items()}
    for file in existing:
        _move(file, aside)
    for target, partial in partials.items():
        partial.replace(target)
    for parent in {target.parent for target in partials}:
        _sync(parent)


def _begin_together(files: Iterable[Path], readers: Iterable[sqlite3.Connection]) -> None:
    """Start the read transactions of all files while none can be written."""
    with contextlib.ExitStack() as stack:
        for file in files:
            begin_immediate(stack.enter_context(closing(_open(file))), WAIT_SECONDS)
        for reader in readers:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()


def _open(file: Path) -> sqlite3.Connection:
    """Open an existing file; never create one."""
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=rw", timeout=0, isolation_level=None, uri=True)


def _copy(reader: sqlite3.Connection, target: Path) -> None:
    with closing(sqlite3.connect(target)) as copy:
        reader.backup(copy)
        # A single file without a log beside it; the server switches to WAL mode again.
        copy.execute("PRAGMA journal_mode=DELETE")
        result = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
    if result != "ok":
        raise CopyError(f"{target.name} is damaged: {result}")


@contextlib.contextmanager
def _as_copy_error() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise CopyError(f"the databases cannot be copied: {error}") from error


def _copy_beside(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.partial")
    shutil.copyfile(source, partial)
    # Keys, tokens and databases are for the server's user alone.
    partial.chmod(0o600)
    _sync(partial)
    return partial


def _move(file: Path, aside: Path) -> None:
    for ending in SIDE_FILES:
        part = file.with_name(f"{file.name}{ending}")
        if part.exists():
            aside.mkdir(parents=True, exist_ok=True)
            shutil.move(part, aside / part.name)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
