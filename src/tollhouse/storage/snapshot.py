"""Copies of several SQLite files as of one moment, while others write them, and putting such copies back."""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from tollhouse.storage.write_lock import take_turn

WAIT_SECONDS = 60.0
"""How long a file's writer is waited for: an ingest writes for seconds."""
BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite keeps beside a database. Left beside another one, it would be taken for that one's last writes."""


class CopyError(OSError):
    """A database cannot be copied: it is damaged or busy, or the disk is full."""


def copy_together(files: Mapping[str, Path], folder: Path) -> None:
    """Copy each database into `folder` under its name, all as a power cut at one moment would leave them.

    Writers wait only while that moment is taken. Raises CopyError.
    """
    with _told(), contextlib.ExitStack() as stack:
        readers = {name: stack.enter_context(closing(_open(file))) for name, file in files.items()}
        _begin_together(files.values(), readers.values())
        for name, reader in readers.items():
            _copy(reader, folder / name)


def version_of(file: Path, table: str) -> str:
    """How far the database has come along the migrations that `table` counts. Raises CopyError."""
    with _told(), closing(_open(file)) as connection:
        found: str = connection.execute(f"SELECT version_num FROM {table}").fetchone()[0]  # noqa: S608 - our name
        return found


def put_back(files: Mapping[Path, Path], in_the_way: Iterable[Path], aside: Path) -> None:
    """Copy each source to its place; what stands `in_the_way`, with all SQLite keeps beside it, is moved to `aside`.

    The copies are whole on the disk before anything is moved.
    """
    halves = {place: _half(source, place) for place, source in files.items()}
    for file in in_the_way:
        _move(file, aside)
    for place, half in halves.items():
        half.replace(place)
    for parent in {place.parent for place in halves}:
        _sync(parent)


def _begin_together(files: Iterable[Path], readers: Iterable[sqlite3.Connection]) -> None:
    """Begin to read all of them while none can be written: what comes next is in none of the copies."""
    with contextlib.ExitStack() as stack:
        for file in files:
            take_turn(stack.enter_context(closing(_open(file))), WAIT_SECONDS)
        for reader in readers:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()


def _open(file: Path) -> sqlite3.Connection:
    """Never makes a file that is not there."""
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=rw", timeout=0, isolation_level=None, uri=True)


def _copy(reader: sqlite3.Connection, target: Path) -> None:
    with closing(sqlite3.connect(target)) as copy:
        reader.backup(copy)
        # One file that needs nothing beside it; the server goes over to a log again.
        copy.execute("PRAGMA journal_mode=DELETE")
        found = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise CopyError(f"{target.name} is damaged: {found}")


@contextlib.contextmanager
def _told() -> Iterator[None]:
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
        found = file.with_name(f"{file.name}{ending}")
        if found.exists():
            aside.mkdir(parents=True, exist_ok=True)
            shutil.move(found, aside / found.name)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
