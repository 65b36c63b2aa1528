"""Snapshots of a shared index in a folder or in object storage, from which another machine starts.

    <prefix>/<revision>-<token>.json    a snapshot: what the writer states about it, and its files by name
    <prefix>/files/<hash>               the files, which snapshots share

Files are named by their content (BLAKE2b), so a snapshot uploads only what is new since the last, and a damaged
file is noticed. A snapshot is written after its files. The two newest stay, and the files that they name.
"""

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b, file_digest
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.config.section import SettingError
from tollhouse.storage.shared_index import Publication, write_publication

SNAPSHOTS_KEPT = 2
_DIGITS = 12


class Snapshot(Struct, frozen=True):
    """`files` are hashes by name."""

    about: bytes
    files: dict[str, str]


def open_location(url: str) -> "Location":
    """A folder by its path, or any file system of fsspec by its URL. Raises SettingError without its package."""
    if "://" not in url:
        return FolderLocation(Path(url))
    try:
        from fsspec.core import url_to_fs

        system, root = url_to_fs(url)
    except (ImportError, ValueError) as error:
        hint = "pip install 'tollhouse[fsspec]', and s3fs for s3://"
        raise SettingError(f"index_snapshots: {url.partition('://')[0]}:// needs a package: {hint} ({error})") from None
    return RemoteLocation(system, root)


class FolderLocation:
    """A folder, such as one on a network file system. Names in a location are relative, with slashes.

    To read or download a missing name raises FileNotFoundError; to delete it does nothing. A file appears whole under
    its name, or not at all.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        """The last parts of the names in a folder, in order; empty for one that is missing."""
        with suppress(FileNotFoundError):
            return sorted(path.name for path in (self._root / folder).iterdir() if not path.name.startswith("."))
        return []

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        self._place(name, lambda file: file.write_bytes(data))

    def upload(self, file: Path, name: str) -> None:
        self._place(name, lambda new: shutil.copyfile(file, new))

    def download(self, name: str, file: Path) -> None:
        shutil.copyfile(self._root / name, file)

    def delete(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def _place(self, name: str, fill: Any) -> None:
        """Never half a file under its name."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
            fill(Path(file.name))
        Path(file.name).replace(path)


class RemoteLocation:
    """A file system of fsspec, whose objects appear whole."""

    def __init__(self, system: Any, root: str) -> None:
        self._system = system
        self._root = root.rstrip("/")

    def names(self, folder: str) -> list[str]:
        # Listings are cached otherwise.
        self._system.invalidate_cache()
        with suppress(FileNotFoundError):
            return sorted(PurePosixPath(path).name for path in self._system.ls(self._path(folder), detail=False))
        return []

    def read(self, name: str) -> bytes:
        return bytes(self._system.cat_file(self._path(name)))

    def write(self, name: str, data: bytes) -> None:
        self._system.pipe_file(self._path(name), data)

    def upload(self, file: Path, name: str) -> None:
        self._system.put_file(str(file), self._path(name))

    def download(self, name: str, file: Path) -> None:
        self._system.get_file(self._path(name), str(file))

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._system.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


Location = FolderLocation | RemoteLocation


class SnapshotStore:
    """The snapshots of one index. `prefix` names it, its layout and its database."""

    def __init__(self, location: Location, prefix: str) -> None:
        self._location = location
        self._prefix = prefix

    def revisions(self) -> list[tuple[int, str]]:
        """Revision and token of the snapshots, the newest first."""
        names = [name.removesuffix(".json") for name in self._location.names(self._prefix) if name.endswith(".json")]
        pairs = [name.partition("-") for name in sorted(names, reverse=True) if name[:_DIGITS].isdecimal()]
        return [(int(number), token) for number, _, token in pairs]

    def save(self, publication: Path, about: bytes, revision: int, token: str) -> int:
        """Upload a folder's files, then the snapshot; delete older ones. Returns the number of bytes uploaded."""
        files = {path.name: _hash(path) for path in publication.iterdir() if not path.name.startswith(".")}
        files.pop("publication.json", None)
        stored = set(self._location.names(f"{self._prefix}/files"))
        uploaded = 0
        for name, digest in files.items():
            if digest not in stored:
                self._location.upload(publication / name, f"{self._prefix}/files/{digest}")
                uploaded += (publication / name).stat().st_size
        self._location.write(self._name(revision, token), msgspec.json.encode(Snapshot(about, files)))
        self._delete_older()
        return uploaded

    def load(self, revision: int, token: str, folder: Path) -> None:
        """Download a snapshot as a publication into a new folder. Raises OSError, MsgspecError, or of the location."""
        snapshot = self._read(revision, token)
        folder.mkdir(parents=True)
        for name, digest in snapshot.files.items():
            file = folder / PurePosixPath(name).name
            self._location.download(f"{self._prefix}/files/{digest}", file)
            if _hash(file) != digest:
                raise OSError(f"the file {digest} of the snapshot is damaged")
        sizes = {name: (folder / name).stat().st_size for name in snapshot.files}
        write_publication(folder, Publication(snapshot.about, sizes))

    def _read(self, revision: int, token: str) -> Snapshot:
        return msgspec.json.decode(self._location.read(self._name(revision, token)), type=Snapshot)

    def _delete_older(self) -> None:
        """Another machine may delete the same ones."""
        revisions = self.revisions()
        remaining = self._files(revisions[:SNAPSHOTS_KEPT])
        for revision, token in revisions[SNAPSHOTS_KEPT:]:
            files = self._files([(revision, token)])
            self._location.delete(self._name(revision, token))
            for digest in files - remaining:
                self._location.delete(f"{self._prefix}/files/{digest}")

    def _files(self, revisions: Sequence[tuple[int, str]]) -> set[str]:
        files: set[str] = set()
        for revision, token in revisions:
            with suppress(FileNotFoundError):
                files |= set(self._read(revision, token).files.values())
        return files

    def _name(self, revision: int, token: str) -> str:
        return f"{self._prefix}/{revision:0{_DIGITS}d}-{token}.json"


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=20)).hexdigest()
