"""Which processes live: each holds a locked file, and the lock dies with it, however that ends."""

import contextlib
import fcntl
import os
import secrets
from pathlib import Path
from typing import IO


def owners_of(ledger: Path) -> Path:
    """The folder of locked files beside a ledger's file."""
    return ledger.with_name(f"{ledger.stem}-owners")


class OwnerLock:
    """This process's number among those that share a ledger, held until `release`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.owner, self._path, self._file = _take(folder)

    def release(self) -> None:
        """Be counted among the dead."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def is_dead(folder: Path, owner: int) -> bool:
    """Whether nobody holds that number. A number is never given out twice, so the dead stay dead."""
    path = _path(folder, owner)
    try:
        file = path.open("r+")
    except FileNotFoundError:
        return True
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        path.unlink(missing_ok=True)
        return True


def is_anyone_there(ledger: Path) -> bool:
    """Whether a process lives that has opened this ledger's file: a server, a worker, a command."""
    folder = owners_of(ledger)
    return not all(is_dead(folder, int(path.stem)) for path in folder.glob("*.lock"))


def _take(folder: Path) -> tuple[int, Path, IO[str]]:
    while True:
        owner = secrets.randbits(31)
        path = _path(folder, owner)
        with contextlib.suppress(FileExistsError):
            file = path.open("x")
            if _lock(file, path):
                return owner, path, file
            file.close()


def _lock(file: IO[str], path: Path) -> bool:
    """Whether the lock is ours, on a file that is still there: another process may have taken it for a dead one's."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except OSError:
        return False


def _path(folder: Path, owner: int) -> Path:
    return folder / f"{owner}.lock"
