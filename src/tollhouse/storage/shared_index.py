"""A search index on disk that one process of a machine writes and every process reads.

The writer is the process that holds the folder's lock, until it ends. It changes an index of its own, the work folder,
and publishes it: a folder of hard links to the index's files, which never changes, and which the file `current` then
names. Readers map the files of a publication into memory, so that processes share one copy of them.
They see whole publications only, whenever the writer stops.

    <layout>/lock           held by the writer
    <layout>/work/          the writer's index
    <layout>/00000017-0a1b/ a publication: segments, meta.json, publication.json
    <layout>/current        the name of the newest publication
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct
from tantivy import Index, IndexWriter, Schema, Searcher, TextAnalyzer

from tollhouse.logs import logger
from tollhouse.memory import return_free_memory

log = logger("index")

# A new index has few segments with this much memory, which is allocated as needed; changes need less.
BUILD_BYTES, CHANGE_BYTES = 900_000_000, 128_000_000
# A reader has as many further publications' time to open the one that it has read the name of.
PUBLICATIONS_KEPT = 2
ATTEMPTS = 10

_META, _MANAGED, _PUBLICATION, _CURRENT, _WORK = "meta.json", ".managed.json", "publication.json", "current", "work"


class Publication(Struct, frozen=True):
    """The files of a publication with their sizes in bytes, and what the writer states about it."""

    about: bytes
    files: dict[str, int]


class _Deletes(Struct):
    opstamp: int


class _Segment(Struct):
    segment_id: str
    deletes: _Deletes | None = None


class _Meta(Struct):
    segments: list[_Segment]


class SharedIndex:
    """An index in `folder`, which processes of one machine may share, or in the memory of this process.

    `layout` names a folder in it. Indexes of other layouts are deleted unless a process writes them. One thread at a
    time may call the methods. A `Searcher` may be used in any thread, and shows its publication while it exists.
    """

    def __init__(
        self,
        folder: Path | None,
        columns: Schema,
        *,
        layout: str,
        tokenizers: Mapping[str, TextAnalyzer] | None = None,
        sort_by: str | None = None,
    ) -> None:
        self._columns = columns
        self._tokenizers = tokenizers or {}
        self._sort_by = sort_by
        self._folder = folder / layout if folder else None
        self._lock: IO[str] | None = None
        self._writer: IndexWriter | None = None
        self._work: Index | None = None
        self._name = ""
        self._is_readable = False
        # Whether the work folder has changes that were committed and not published.
        self._is_dirty = False
        self.searcher: Searcher = self._create(None).searcher()
        self.about = b""
        if folder and self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)
            _delete_unlocked(path for path in folder.iterdir() if path != self._folder)
            self.reload()

    @property
    def is_writer(self) -> bool:
        return self._folder is None or self._lock is not None

    def reload(self) -> bool:
        """Show the newest publication. Returns whether it is another one than before."""
        if self._folder is None:
            return False
        failed = None
        for _ in range(ATTEMPTS):
            name = _read_name(self._folder / _CURRENT)
            if name == self._name:
                return False
            if self._show(name):
                return True
            if name == failed:
                break
            # Read once more: it may have been replaced and deleted meanwhile.
            failed = name
        self._name, self._is_readable, self.about = name, False, b""
        return True

    def take_writer(self) -> bool:
        """Whether this process is the writer now. Changes that a former writer has not published are lost."""
        if self._folder and self._lock is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = _try_lock(self._folder / "lock")
            if self._lock:
                for unfinished in self._folder.glob("tmp-*"):
                    shutil.rmtree(unfinished, ignore_errors=True)
                self.reload()
        return self.is_writer

    @property
    def writer(self) -> IndexWriter:
        """For changes to the work folder, visible after `publish`. Only in the process that is the writer."""
        assert self.is_writer
        if self._writer is None:
            if self._work is None:
                self._work = self._open_work()
            self._writer = self._work.writer(CHANGE_BYTES if self._is_readable else BUILD_BYTES, 1)
        return self._writer

    def clear(self) -> None:
        """Begin a new index. The last publication is shown until the next."""
        assert self.is_writer
        self._release_writer()
        self._work = self._create(self._empty_work())
        self._writer = self._work.writer(BUILD_BYTES, 1)
        self._is_dirty = True

    def commit(self) -> None:
        """Free the memory of the changes since the last publication, without showing them."""
        self._is_dirty = True
        self.writer.commit()

    def publish(self, about: bytes) -> None:
        """Show all changes since the last publication at once, in every process."""
        self.writer.commit()
        self._is_dirty = False
        self._publish_work(about)

    def tidy(self) -> bool:
        """Publish the segments that were merged since the last publication. Returns whether there were any."""
        if self._folder is None or self._work is None or self._is_dirty or not self._is_readable:
            return False
        if _segment_files(self._folder / _WORK) == _segment_files(self._folder / self._name):
            return False
        self._publish_work(self.about)
        return True

    def merge_segments(self) -> None:
        """Wait until tantivy has merged what it wants to merge, show the result, and return memory to the system."""
        self.writer.wait_merging_threads()
        self._writer = None
        if self._folder is None:
            self._publish_work(self.about)
        else:
            self.tidy()
        # Filling an index needs twice its size.
        return_free_memory()

    def adopt(self, folder: Path) -> None:
        """Publish the folder of a snapshot, on the same file system, in place of everything before."""
        assert self.is_writer
        self._release_writer()
        self._publish_folder(folder)

    def copy_publication(self, folder: Path) -> None:
        """The shown publication as hard links in a new folder."""
        assert self._folder
        shutil.copytree(self._folder / self._name, folder, copy_function=os.link)

    def scratch(self) -> Path | None:
        """A path for a new folder on the same file system; None for an index in memory."""
        return self._folder / f"tmp-{secrets.token_hex(8)}" if self._folder else None

    def close(self) -> None:
        """Let another process write. The index cannot be changed here afterwards."""
        self._release_writer()
        if self._lock:
            self._lock.close()
            self._lock = None

    def __del__(self) -> None:
        # A process that stops before its tasks began closes nothing.
        if getattr(self, "_lock", None):
            self.close()

    def _release_writer(self) -> None:
        # The work folder's own lock is released with the last reference.
        self._writer = self._work = None

    def _publish_work(self, about: bytes) -> None:
        assert self._work
        self._work.reload()
        if self._folder is None:
            self.searcher, self.about = self._work.searcher(), about
            return
        new = self._folder / "new"
        for _ in range(ATTEMPTS):
            with suppress(FileNotFoundError):
                # A file may be deleted after a merge while it is linked.
                _publish_files(self._folder / _WORK, new, about)
                break
        else:
            raise OSError(f"the files of {self._folder / _WORK} are deleted while they are read")
        self._publish_folder(new)

    def _publish_folder(self, new: Path) -> None:
        """Make a complete folder the newest publication, and show it."""
        assert self._folder
        stored = sorted(path.name for path in self._folder.iterdir() if path.name[:8].isdecimal())
        number = int(stored[-1][:8]) + 1 if stored else 1
        # A number may come back after publications were lost; a name must not.
        name = f"{number:08d}-{secrets.token_hex(4)}"
        new.rename(self._folder / name)
        note = self._folder / "next"
        note.write_text(name, "utf-8")
        note.replace(self._folder / _CURRENT)
        self.reload()
        for old in stored[: 1 - PUBLICATIONS_KEPT]:
            shutil.rmtree(self._folder / old, ignore_errors=True)

    def _show(self, name: str) -> bool:
        assert self._folder
        path = self._folder / name
        try:
            publication = read_publication(path)
            reader = self._prepare(Index.open(str(path)))
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.warning("stored index cannot be read", folder=str(path), error=str(error))
            return False
        self.searcher, self.about = reader.searcher(), publication.about
        self._name, self._is_readable = name, True
        return True

    def _open_work(self) -> Index:
        """The work folder as the last publication; empty without one."""
        if self._folder is None or not self._is_readable:
            return self._create(self._empty_work())
        work = self._empty_work()
        assert work
        names = [_META, *_segment_files(self._folder / self._name)]
        for name in names:
            os.link(self._folder / self._name / name, work / name)
        # tantivy deletes only files that are listed here.
        (work / _MANAGED).write_bytes(msgspec.json.encode(names))
        return self._prepare(Index.open(str(work)))

    def _empty_work(self) -> Path | None:
        if self._folder is None:
            return None
        work = self._folder / _WORK
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        return work

    def _create(self, folder: Path | None) -> Index:
        return self._prepare(Index(self._columns, path=str(folder) if folder else None, sort_by_field=self._sort_by))

    def _prepare(self, index: Index) -> Index:
        # Otherwise a thread of its own would read the folder again and again.
        index.config_reader("manual")
        index.reload()
        for name, analyzer in self._tokenizers.items():
            index.register_tokenizer(name, analyzer)
        return index


def read_publication(folder: Path) -> Publication:
    """What is published in a folder. Raises OSError if a file is missing or has another size, MsgspecError."""
    publication = msgspec.json.decode((folder / _PUBLICATION).read_bytes(), type=Publication)
    for name, size in publication.files.items():
        if (folder / name).stat().st_size != size:
            raise OSError(f"{name} has not its {size} bytes")
    return publication


def write_publication(folder: Path, publication: Publication) -> None:
    """Note what a folder publishes, after its files."""
    with (folder / _PUBLICATION).open("wb") as file:
        file.write(msgspec.json.encode(publication))
        file.flush()
        os.fsync(file.fileno())


def _publish_files(work: Path, new: Path, about: bytes) -> None:
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    meta = (work / _META).read_bytes()
    (new / _META).write_bytes(meta)
    files = {_META: len(meta)}
    for name in _segment_files(new, work):
        os.link(work / name, new / name)
        files[name] = (new / name).stat().st_size
    write_publication(new, Publication(about, files))


def _segment_files(index: Path, files: Path | None = None) -> list[str]:
    """The files, here or in another folder, of the segments that an index's meta.json names; sorted."""
    segments = msgspec.json.decode((index / _META).read_bytes(), type=_Meta).segments
    removed = {each.segment_id.replace("-", ""): each.deletes.opstamp if each.deletes else None for each in segments}
    names = []
    for path in (files or index).iterdir():
        segment, _, suffix = path.name.partition(".")
        if segment in removed and (not suffix.endswith("del") or suffix == f"{removed[segment]}.del"):
            names.append(path.name)
    return sorted(names)


def _delete_unlocked(folders: Iterable[Path]) -> None:
    for folder in folders:
        lock = _try_lock(folder / "lock")
        if lock:
            shutil.rmtree(folder, ignore_errors=True)
            lock.close()


def _read_name(note: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return note.read_text("utf-8")
    return ""


def _try_lock(path: Path) -> IO[str] | None:
    """Lock a file until the process ends. None if another process has locked or deleted it."""
    try:
        lock = path.open("w")
    except OSError:
        return None
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock.fileno()).st_nlink:
            return lock
    lock.close()
    return None
