"""Snapshots of a catalogue's index in shared storage: a new machine starts from the newest, and from later changes."""

import asyncio
import shutil
import time
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct

from tollhouse.catalogue import store
from tollhouse.logs import logger
from tollhouse.storage.database import Transaction
from tollhouse.storage.index_snapshots import SnapshotStore, open_location
from tollhouse.storage.shared_index import SharedIndex

log = logger("catalogue")

SAVE_SECONDS = 300.0


class IndexState(Struct, frozen=True):
    """What an index shows: the epoch, which every database has its own of, the revision, and its change set's token.

    While an index is built for the first time, `progress` are the rows in it and the rows in the database.
    """

    epoch: str = ""
    revision: int = 0
    token: str = ""
    progress: tuple[int, int] | None = None

    @classmethod
    def decode(cls, about: bytes) -> "IndexState":
        return msgspec.json.decode(about, type=cls) if about else cls()


class IndexSnapshots:
    """The snapshots of one catalogue and one layout. They are of use only to the database whose changes they show."""

    def __init__(self, url: str, catalogue: str, layout: str) -> None:
        self._location = open_location(url)
        self._catalogue = catalogue
        self._folder = f"{quote(catalogue, safe='')}/{layout}"
        self._next_save = 0.0
        self._seen: tuple[int, str] | None = None
        self._saving: asyncio.Task[None] | None = None

    async def restore(self, connection: Transaction, index: SharedIndex, now: IndexState) -> None:
        """Publish the newest snapshot whose later changes lead to `now`, if there is one."""
        try:
            snapshots = self._store(now.epoch)
            for revision, token in await asyncio.to_thread(snapshots.revisions):
                is_own = await store.read_token(connection, self._catalogue, revision) == token
                if revision <= now.revision and is_own and await self._download(snapshots, index, revision, token):
                    return
        except Exception as error:  # noqa: BLE001 - every storage has errors of its own
            log.warning("snapshots not readable", catalogue=self._catalogue, error=str(error))

    async def save_if_due(self, index: SharedIndex, state: IndexState) -> None:
        """Begin to upload what the index shows, if no snapshot has appeared for some minutes.

        So of several machines one uploads, and another continues when it ends.
        """
        if not index.is_writer or time.monotonic() < self._next_save or (self._saving and not self._saving.done()):
            return
        self._next_save = time.monotonic() + SAVE_SECONDS
        copy = index.scratch()
        if copy and state.revision:
            await asyncio.to_thread(index.copy_publication, copy)
            self._saving = asyncio.create_task(asyncio.to_thread(self._save, copy, index.about, state))

    async def finish(self) -> None:
        """Wait for an upload that has begun."""
        if self._saving:
            await self._saving

    async def _download(self, snapshots: SnapshotStore, index: SharedIndex, revision: int, token: str) -> bool:
        folder = index.scratch()
        if folder is None:
            return False
        started = time.monotonic()
        try:
            await asyncio.to_thread(snapshots.load, revision, token, folder)
            await asyncio.to_thread(index.adopt, folder)
        except Exception as error:  # noqa: BLE001 - as above
            log.warning("snapshot not usable", catalogue=self._catalogue, revision=revision, error=str(error))
            shutil.rmtree(folder, ignore_errors=True)
            return False
        seconds = round(time.monotonic() - started, 1)
        log.info("index from a snapshot", catalogue=self._catalogue, revision=revision, seconds=seconds)
        return True

    def _save(self, copy: Path, about: bytes, state: IndexState) -> None:
        try:
            snapshots = self._store(state.epoch)
            newest = next(iter(snapshots.revisions()), None)
            is_active = newest != self._seen
            self._seen = newest
            if newest and (is_active or newest == (state.revision, state.token)):
                return
            uploaded = snapshots.save(copy, about, state.revision, state.token)
            self._seen = state.revision, state.token
            log.info("snapshot saved", catalogue=self._catalogue, revision=state.revision, uploaded_bytes=uploaded)
        except Exception as error:  # noqa: BLE001 - as above
            log.warning("snapshot not saved", catalogue=self._catalogue, error=str(error))
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _store(self, epoch: str) -> SnapshotStore:
        return SnapshotStore(self._location, f"{self._folder}/{epoch}")
