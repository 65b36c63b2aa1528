"""The document that is served: the file as last right, taken in again when it changes, kept over restarts."""

import asyncio
import contextlib
import os
import secrets
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.config.settings import SettingError
from tollhouse.http.endpoint import Response
from tollhouse.http.response_writer import etag_of
from tollhouse.logs import logger
from tollhouse.services.studio.document import DocumentError, StudioCatalogue, read_document

log = logger("studio")

LOOK_EVERY_SECONDS = 1.0
LAST_GOOD = "studio-last-good.yaml"

Source = Literal["file", "last-good-copy"]


class Fault(Struct, frozen=True):
    """Why the newest edit is not served. `line` counts from 1, null where none can be named."""

    line: int | None
    reason: str
    seen_at: str


class Standing(Struct, frozen=True):
    """What is served, since when, and what is wrong with the newest edit, if anything."""

    file: str
    version: str
    served_from: Source
    loaded_at: str
    problem: Fault | None


class NoDocumentError(SettingError):
    """There is neither a good file nor a good copy of one: nothing can be served."""


class Shelf:
    """One document and what became of its edits. Raises NoDocumentError when there is nothing to serve at all."""

    def __init__(self, file: Path, data_dir: Path) -> None:
        self._file = file
        self._copy = data_dir / LAST_GOOD
        self._stamp = _stamp(file)
        self._problem: Fault | None = None
        self._source: Source = "file"
        try:
            raw = _read(file)
            self._put(raw, read_document(raw))
        except DocumentError as error:
            self._refuse(error)
            self._put_copy(error)

    @property
    def answer(self) -> Response:
        """The document as it is sent."""
        return self._answer

    def standing(self) -> Standing:
        """What `/health` tells."""
        return Standing(self._file.name, self._version, self._source, self._loaded_at, self._problem)

    async def follow(self) -> None:
        """Take the file in again whenever it changes, for ever."""
        while True:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Take the file in if it changed; a broken one is refused and what is served stays."""
        stamp = _stamp(self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            raw = _read(self._file)
            catalogue = read_document(raw)
        except DocumentError as error:
            self._refuse(error)
            return
        self._problem = None
        self._source = "file"
        self._put(raw, catalogue)
        log.info("studio document taken in", version=catalogue.version)

    def _put(self, raw: bytes, catalogue: StudioCatalogue) -> None:
        self._serve(catalogue)
        self._keep(raw)

    def _put_copy(self, error: DocumentError) -> None:
        """Serve the copy of the last good edit, which an earlier run kept."""
        try:
            self._serve(read_document(_read(self._copy)))
        except DocumentError:
            raise NoDocumentError(f"studio_file: {self._file}: {error}") from None
        self._source = "last-good-copy"

    def _serve(self, catalogue: StudioCatalogue) -> None:
        body = msgspec.json.encode(catalogue)
        self._answer = Response(body, etag=etag_of(body))
        self._version = catalogue.version
        self._loaded_at = clock.iso(clock.now())

    def _keep(self, raw: bytes) -> None:
        """Keep a copy in one step, so that no worker ever reads half of it. Without a place for it, serving goes on."""
        half = self._copy.with_name(f"{LAST_GOOD}.{secrets.token_hex(4)}")
        try:
            self._copy.parent.mkdir(parents=True, exist_ok=True)
            half.write_bytes(raw)
            os.replace(half, self._copy)  # noqa: PTH105
        except OSError as error:
            log.warning("no copy of the studio document kept", error=str(error))
            with contextlib.suppress(OSError):
                half.unlink(missing_ok=True)

    def _refuse(self, error: DocumentError) -> None:
        self._problem = Fault(error.line or None, error.reason, clock.iso(clock.now()))
        log.error("studio document refused", file=str(self._file), line=error.line, reason=error.reason)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DocumentError(0, f"the file cannot be read: {error.strerror}") from None


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """What changes when the file does; an editor that replaces the file changes the inode."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
