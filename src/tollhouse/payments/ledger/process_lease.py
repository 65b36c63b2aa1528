"""Leases of the processes that share a ledger: each holds a locked file, and the lock ends with the process."""

import contextlib
import fcntl
import os
import secrets
from pathlib import Path
from typing import IO


def lease_directory(ledger: Path) -> Path:
    """The directory of lease files beside a ledger's file."""
    return ledger.with_name(f"{ledger.stem}-owners")


class ProcessLease:
    """This process's number among those that share a ledger, held until `unregister`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.owner, self._path, self._file = _register(folder)

    def unregister(self) -> None:
        """Release the process lease."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def is_alive(folder: Path, owner: int) -> bool:
    """Whether a process holds that number. Numbers are never reused."""
    path = _path(folder, owner)
    try:
        file = path.open("r+")
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        path.unlink(missing_ok=True)
        return False


def is_ledger_open(ledger: Path) -> bool:
    """Whether any process, such as a server or a command, has this ledger open."""
    folder = lease_directory(ledger)
    return any(is_alive(folder, int(path.stem)) for path in folder.glob("*.lock"))


def _register(folder: Path) -> tuple[int, Path, IO[str]]:
    while True:
        owner = secrets.randbits(31)
        path = _path(folder, owner)
        with contextlib.suppress(FileExistsError):
            file = path.open("x")
            if _lock(file, path):
                return owner, path, file
            file.close()


def _lock(file: IO[str], path: Path) -> bool:
    """Whether the lock is ours, on a file that still exists: another process may have deleted it as stale."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except OSError:
        return False


def _path(folder: Path, owner: int) -> Path:
    return folder / f"{owner}.lock"
