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
BESIDE = ("", "-wal", "-shm", "-journal")
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


def put_back(files: Mapping[Path, Path], in_the_way: Iterable[Path], aside: Path) -> None:
    """Copy each source to its place; move the files `in_the_way`, with SQLite's files beside them, to `aside`.

    All copies are complete on disk before anything is moved.
    """
    halves = {place: _half(source, place) for place, source in files.items()}
    for file in in_the_way:
        _move(file, aside)
    for place, half in halves.items():
        half.replace(place)
    for parent in {place.parent for place in halves}:
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


def _half(source: Path, place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    half = place.with_name(f"{place.name}.half")
    shutil.copyfile(source, half)
    _sync(half)
    return half


def _move(file: Path, aside: Path) -> None:
    for ending in BESIDE:
        existing = file.with_name(f"{file.name}{ending}")
        if existing.exists():
            aside.mkdir(parents=True, exist_ok=True)
            shutil.move(existing, aside / existing.name)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
