"""Directories of persistent indexes, each locked by one process at a time."""

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from tollhouse.catalogue.index import LAYOUT
from tollhouse.catalogue.schema import Schema
from tollhouse.catalogue.search_engine import TantivyEngine
from tollhouse.logs import logger

log = logger("catalogue")

MAX_PROCESSES = 256


class IndexRevision(Struct, frozen=True):
    """Epoch and revision that an index shows. Every database has its own epoch."""

    epoch: str = ""
    revision: int = 0

    def is_before(self, later: "IndexRevision") -> bool:
        """Whether the later revision can be reached by applying changes."""
        return self.epoch == later.epoch and 0 < self.revision <= later.revision


class IndexDirectory:
    """The first numbered directory under `folder` that no other process has locked, for this schema only.

    Directories of former schemas are deleted unless a process has locked them.
    """

    def __init__(self, folder: Path, schema: Schema) -> None:
        declared = msgspec.json.encode((LAYOUT, schema), order="deterministic")
        own = folder / hashlib.sha256(declared).hexdigest()[:16]
        self._lock, self._path = _lock_first_free(own)
        self._revision_file = self._path / "revision.json"
        for former in folder.iterdir():
            if former != own:
                _delete_unlocked(former)

    def engine(self, schema: Schema) -> TantivyEngine:
        """Open the engine in this directory; an empty one if there is none or it cannot be read."""
        try:
            return TantivyEngine(schema, self._path / "index")
        except (ValueError, OSError) as error:
            log.warning("stored catalogue index cannot be read; rebuilding", error=str(error))
            self._revision_file.unlink(missing_ok=True)
            shutil.rmtree(self._path / "index", ignore_errors=True)
            return TantivyEngine(schema, self._path / "index")

    def read_revision(self) -> IndexRevision:
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._revision_file.read_bytes(), type=IndexRevision)
        return IndexRevision()

    def save_revision(self, revision: IndexRevision) -> None:
        """Save the revision after the index shows it. An older one means that changes are applied again: harmless."""
        temporary = self._revision_file.with_suffix(".new")
        temporary.write_bytes(msgspec.json.encode(revision))
        temporary.replace(self._revision_file)

    def close(self) -> None:
        self._lock.close()

    def __del__(self) -> None:
        # A process that stops before its tasks began closes nothing.
        if hasattr(self, "_lock"):
            self._lock.close()


def _delete_unlocked(schemas: Path) -> None:
    """Delete the unlocked directories, and the folder itself if it is then empty."""
    for path in schemas.iterdir():
        lock = _try_lock(path)
        if lock:
            shutil.rmtree(path)
            lock.close()
    with suppress(OSError):
        schemas.rmdir()


def _lock_first_free(folder: Path) -> tuple[IO[str], Path]:
    for number in range(MAX_PROCESSES):
        path = folder / str(number)
        path.mkdir(parents=True, exist_ok=True)
        lock = _try_lock(path)
        if lock:
            return lock, path
    raise OSError(f"more than {MAX_PROCESSES} processes use the catalogue index in {folder}")


def _try_lock(path: Path) -> IO[str] | None:
    """Lock a directory until the process ends. None if another process has locked or deleted it."""
    import fcntl

    try:
        lock = (path / "held").open("w")
    except OSError:
        return None
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock.fileno()).st_nlink:
            return lock
    lock.close()
    return None
