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
        while True:
            self.owner = secrets.randbits(31)
            self._path = _path(folder, self.owner)
            with contextlib.suppress(FileExistsError):
                self._file = self._path.open("x")
                if _lock(self._file, self._path):
                    return
                self._file.close()

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


def _lock(file: IO[str], path: Path) -> bool:
    """Whether the lock is ours, on a file that still exists: another process may have deleted it as stale."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except OSError:
        return False


def _path(folder: Path, owner: int) -> Path:
    return folder / f"{owner}.lock"
