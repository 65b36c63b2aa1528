"""Usage counters of one machine: a file with a slot for each subject, shared by processes through byte-range locks.

The file is a header, a table of chains, and slots. A subject's digest chooses its chain; a chain's lock is taken for
one change and ends with its process. A slot is appended when a subject is new, or replaces one of its chain whose
windows are over. Processes that share the file write each count at once; one that counts alone writes twice a second.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import IO, NamedTuple
from zlib import crc32

from tollhouse import clock
from tollhouse.errors import OperatorError
from tollhouse.logs import logger
from tollhouse.storage.counters import Result, Tally, uncountable
from tollhouse.storage.counters_before import FORMER_FILE, former_tallies, remove_former

log = logger("storage")

COUNTS_FILE = "usage.counts"
LOCK_SECONDS = 2.0
"""How long a call waits for another process."""
LOCK_TRIES = 8
"""How often a lock is tried at once, which takes longer than a change: then its holder does not run at the moment."""
RETRY_SECONDS = 0.001
WRITE_SECONDS = 0.5
"""After a crash, a process that counts alone misses the counts of this time at most."""
WRITTEN_AT_ONCE = 256
"""More at once would keep other calls waiting: each takes about 10 microseconds."""
MOST_PLACES = 20_000
USUALLY_UNWRITTEN = 4_096
"""From so many on, a count of another subject writes two, as long as the disk takes them."""
MOST_UNWRITTEN = 100_000

_MAGIC = b"tollhouse usage counts 1\n"
_CHAINS_AT = 4_096
_CHAINS = 1 << 19
_SLOTS_AT = _CHAINS_AT + _CHAINS * 8
_SLOT_BYTES = 176
_POINTER = Struct("<Q")
_CHECKSUM = Struct("<I")
# The digest, the next slot of the chain, the day, the requests of the day, and the length of the packed window.
_SLOT = Struct("<16sQIIB")
_ADVANCE_BYTES = 3
"""At the end of a slot: `advance_ends`."""


class FolderInUseError(OperatorError):
    """Another server counts in this folder."""


class _Subject(NamedTuple):
    """Where a subject is counted: the offsets of its chain, of its slot in the file, 0 before it has one, and the next.

    Of processes that share the file another one may have given the slot to another subject.
    """

    digest: bytes
    chain_at: int
    slot_at: int = 0
    next_at: int = 0


class _Slot(NamedTuple):
    """What a slot holds. `tally` is None if it was not wholly written."""

    at: int
    digest: bytes
    next_at: int
    tally: Tally | None


class FileCounters:
    """Locks the folder: exclusively, or together with those that are `shared` too.

    A process that counts alone goes on in memory while the disk is full.
    """

    def __init__(self, folder: Path, *, shared: bool = False) -> None:
        self._is_shared = shared
        self._lock = _hold(folder, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        try:
            self._file = _open(folder)
        except BaseException:
            self._lock.close()
            raise
        # Every write to this descriptor goes to the end of the file.
        self._end = os.open(folder / COUNTS_FILE, os.O_WRONLY | os.O_APPEND)
        self._subjects: dict[str, _Subject] = {}
        # Of a process that counts alone: what the file does not hold yet, and some of what it holds.
        self._unwritten: dict[str, Tally] = {}
        self._written: dict[str, Tally] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_disk_full = False

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        try:
            if not self._is_shared:
                return rule(self._unwritten.get(subject) or self._load(subject))
            known = self._subjects.get(subject) or _subject(subject)
            if not self._try_lock(known.chain_at, LOCK_TRIES):
                await self._wait_for_lock(known.chain_at)
            try:
                slot = self._find(known)
                tally = (slot and slot.tally) or Tally()
                result = rule(tally)
                self._store(subject, known, slot, tally)
                return result
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 8, known.chain_at)
        except OSError as error:
            log.error("usage counts unavailable", error=str(error))  # noqa: TRY400 - the caller has its cause
            raise uncountable() from error

    async def close(self) -> None:
        """Write what is not written, and unlock the folder."""
        if self._timer:
            self._timer.cancel()
        self._write_some(len(self._unwritten))
        os.close(self._end)
        os.close(self._file)
        self._lock.close()

    def _try_lock(self, at: int, tries: int) -> bool:
        for _ in range(tries):
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 8, at)
            except (BlockingIOError, PermissionError):
                continue
            return True
        return False

    async def _wait_for_lock(self, at: int) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LOCK_SECONDS
        while loop.time() < deadline:
            await asyncio.sleep(RETRY_SECONDS)
            if self._try_lock(at, 1):
                return
        raise TimeoutError("another process holds the lock of a usage count")

    def _load(self, subject: str) -> Tally:
        """The tally of a subject, which is about to change. Raises OSError."""
        if len(self._unwritten) >= MOST_UNWRITTEN:
            raise OSError("too many usage counts are not written")
        if len(self._unwritten) >= USUALLY_UNWRITTEN and not self._is_disk_full:
            self._write_some(2)
        tally = self._written.pop(subject, None)
        if tally is None:
            slot = self._find(self._subjects.get(subject) or _subject(subject))
            tally = (slot and slot.tally) or Tally()
        self._unwritten[subject] = tally
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._write_parts)
        return tally

    def _write_parts(self, remaining: int | None = None) -> None:
        """Write what is unwritten now, in parts between which calls are answered."""
        remaining = len(self._unwritten) if remaining is None else remaining
        self._write_some(min(remaining, WRITTEN_AT_ONCE))
        remaining -= WRITTEN_AT_ONCE
        loop = asyncio.get_running_loop()
        if remaining > 0 and not self._is_disk_full:
            self._timer = loop.call_later(0, self._write_parts, remaining)
        else:
            self._timer = loop.call_later(WRITE_SECONDS, self._write_parts) if self._unwritten else None

    def _write_some(self, most: int) -> None:
        """Write up to so many counts; those that cannot be written stay. Counting goes on in memory."""
        for subject in list(islice(self._unwritten, most)):
            known, tally = self._subjects.get(subject) or _subject(subject), self._unwritten[subject]
            try:
                # No other process changes the slots that this one knows: they need not be read.
                slot = _Slot(known.slot_at, known.digest, known.next_at, tally) if known.slot_at else self._find(known)
                self._store(subject, known, slot, tally)
            except OSError as error:
                if not self._is_disk_full:
                    log.warning("usage counts not written", error=str(error))
                self._is_disk_full = True
                return
            self._is_disk_full = False
            del self._unwritten[subject]
            if len(self._written) >= MOST_PLACES:
                self._written.clear()
            self._written[subject] = tally

    def _store(self, subject: str, known: _Subject, slot: _Slot | None, tally: Tally) -> None:
        """Write the tally, and remember where. Raises OSError."""
        at, next_at = self._write(known, slot, tally)
        if at not in {0, known.slot_at}:
            if len(self._subjects) >= MOST_PLACES:
                self._subjects.clear()
            self._subjects[subject] = known._replace(slot_at=at, next_at=next_at)

    def _find(self, known: _Subject) -> _Slot | None:
        """The subject's slot. Raises OSError."""
        if known.slot_at:
            slot = self._read(known.slot_at)
            if slot and slot.digest == known.digest:
                return slot
        return next((slot for slot in self._chain(known.chain_at) if slot.digest == known.digest), None)

    def _chain(self, chain_at: int) -> Iterator[_Slot]:
        """The slots of a chain. In a damaged file it may end early; it never ends in a circle."""
        read: set[int] = set()
        at = self._pointer(chain_at)
        while at and at not in read and (slot := self._read(at)):
            read.add(at)
            yield slot
            at = slot.next_at

    def _pointer(self, at: int) -> int:
        packed = os.pread(self._file, _POINTER.size, at)
        value: int = _POINTER.unpack(packed)[0] if len(packed) == _POINTER.size else 0
        return value if _SLOTS_AT <= value < 1 << 62 else 0

    def _read(self, at: int) -> _Slot | None:
        packed = os.pread(self._file, _SLOT_BYTES, at)
        if len(packed) < _CHECKSUM.size + _SLOT.size:
            return None
        digest, next_at, day, used, length = _SLOT.unpack_from(packed, _CHECKSUM.size)
        end = _CHECKSUM.size + _SLOT.size + length
        next_at = next_at if _SLOTS_AT <= next_at < 1 << 62 else 0
        if _CHECKSUM.unpack_from(packed)[0] != crc32(packed[_CHECKSUM.size : end]):
            return _Slot(at, digest, next_at, None)
        tally = Tally.from_packed(day, used, packed[_CHECKSUM.size + _SLOT.size : end])
        tally.advance_ends = int.from_bytes(packed[_SLOT_BYTES - _ADVANCE_BYTES :], "little")
        return _Slot(at, digest, next_at, tally)

    def _write(self, known: _Subject, slot: _Slot | None, tally: Tally) -> tuple[int, int]:
        """Write the tally to its slot, to one of its chain that is over, or to a new one; its offset, and the next.

        What counts nothing needs no slot: then 0.
        """
        if slot is None:
            if not tally.used and not tally.buckets:
                return 0, 0
            now = clock.seconds()
            chain = list(self._chain(known.chain_at))
            slot = next((one for one in chain if one.tally is None or one.tally.is_over(now)), None)
            if slot is not None:
                # It may be the known slot of another subject.
                self._subjects.clear()
        if slot is not None:
            packed = _pack(known.digest, slot.next_at, tally)
            if os.pwrite(self._file, packed, slot.at) != len(packed):
                raise OSError("no room for a usage count")
            return slot.at, slot.next_at
        next_at = chain[0].at if chain else 0
        packed = _pack(known.digest, next_at, tally)
        if os.write(self._end, packed) != _SLOT_BYTES:
            raise OSError("no room for a usage count")
        at = os.lseek(self._end, 0, os.SEEK_CUR) - _SLOT_BYTES
        os.pwrite(self._file, _POINTER.pack(at), known.chain_at)
        return at, next_at


def _subject(subject: str) -> _Subject:
    digest = blake2b(subject.encode(), digest_size=16).digest()
    return _Subject(digest, _CHAINS_AT + int.from_bytes(digest[:4], "little") % _CHAINS * 8)


def _pack(digest: bytes, next_at: int, tally: Tally) -> bytes:
    sliding = tally.packed_sliding() if tally.buckets else b""
    body = _SLOT.pack(digest, next_at, tally.day, tally.used, len(sliding)) + sliding
    packed = (_CHECKSUM.pack(crc32(body)) + body).ljust(_SLOT_BYTES - _ADVANCE_BYTES, b"\0")
    return packed + tally.advance_ends.to_bytes(_ADVANCE_BYTES, "little")


def _open(folder: Path) -> int:
    """The descriptor of the file. One that is damaged is set aside, and a new one is begun."""
    path = folder / COUNTS_FILE
    with _one_process_at_a_time(folder):
        if path.exists() and not _is_whole(path):
            aside = path.with_name(f"{COUNTS_FILE}.aside-{int(clock.seconds())}")
            path.rename(aside)
            log.warning("usage counts begin anew: the file was damaged and is set aside", file=str(aside))
        if not path.exists():
            _make(path)
        return os.open(path, os.O_RDWR)


def _is_whole(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC and path.stat().st_size >= _SLOTS_AT


def _make(path: Path) -> None:
    """Make the file, with the counts of an earlier version if there are any."""
    partial = path.with_name(f"{COUNTS_FILE}.partial")
    chains: dict[int, int] = {}
    with partial.open("wb") as file:
        file.write(_MAGIC)
        file.truncate(_SLOTS_AT)
        file.seek(_SLOTS_AT)
        for number, (subject, tally) in enumerate(former_tallies(path.with_name(FORMER_FILE))):
            known, at = _subject(subject), _SLOTS_AT + number * _SLOT_BYTES
            file.write(_pack(known.digest, chains.get(known.chain_at, 0), tally))
            chains[known.chain_at] = at
        for chain_at, at in chains.items():
            file.seek(chain_at)
            file.write(_POINTER.pack(at))
    partial.rename(path)
    remove_former(path.with_name(FORMER_FILE))


@contextlib.contextmanager
def _one_process_at_a_time(folder: Path) -> Iterator[None]:
    with (folder / "usage-open.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _hold(folder: Path, how: int) -> IO[str]:
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "usage.lock").open("w")
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise FolderInUseError(
            f"another server is using {folder}: stop it, give this server its own --data-dir, "
            "or share the counters of both through `redis_url`"
        ) from None
    return file
