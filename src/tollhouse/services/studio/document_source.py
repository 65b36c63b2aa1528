"""The served studio document: reloaded when its file changes, with a copy of the last valid version on disk."""

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
from tollhouse.http.response import compute_etag
from tollhouse.logs import logger
from tollhouse.services.studio.document import DocumentError, StudioCatalogue, read_document

log = logger("studio")

POLL_SECONDS = 1.0
LAST_GOOD = "studio-last-good.yaml"

ServedFrom = Literal["file", "last-good-copy"]


class EditError(Struct, frozen=True):
    """Why the newest edit was rejected. `line` counts from 1; null if unknown."""

    line: int | None
    reason: str
    seen_at: str


class DocumentStatus(Struct, frozen=True):
    """Which version is served, since when, and the error in the newest edit, if any."""

    file: str
    version: str
    served_from: ServedFrom
    loaded_at: str
    problem: EditError | None


class NoDocumentError(SettingError):
    """Neither the file nor the copy of its last valid version can be served."""


class DocumentSource:
    """The current document. Raises NoDocumentError if there is no valid version at all."""

    def __init__(self, file: Path, data_dir: Path) -> None:
        self._file = file
        self._copy = data_dir / LAST_GOOD
        self._stamp = _stamp(file)
        self._problem: EditError | None = None
        self._served_from: ServedFrom = "file"
        try:
            raw = _read(file)
            self._serve(read_document(raw))
            self._save_copy(raw)
        except DocumentError as error:
            self._reject(error)
            try:
                self._serve(read_document(_read(self._copy)))
            except DocumentError:
                raise NoDocumentError(f"studio_file: {self._file}: {error}") from None
            self._served_from = "last-good-copy"

    @property
    def response(self) -> Response:
        return self._response

    def status(self) -> DocumentStatus:
        return DocumentStatus(self._file.name, self._version, self._served_from, self._loaded_at, self._problem)

    async def watch(self) -> None:
        """Poll the file for changes until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await asyncio.to_thread(self.poll)

    def poll(self) -> None:
        """Reload the file if it changed. An invalid edit is rejected and the served version stays."""
        stamp = _stamp(self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            raw = _read(self._file)
            catalogue = read_document(raw)
        except DocumentError as error:
            self._reject(error)
            return
        self._problem = None
        self._served_from = "file"
        self._serve(catalogue)
        self._save_copy(raw)
        log.info("studio document reloaded", version=catalogue.version)

    def _serve(self, catalogue: StudioCatalogue) -> None:
        body = msgspec.json.encode(catalogue)
        self._response = Response(body, etag=compute_etag(body))
        self._version = catalogue.version
        self._loaded_at = clock.iso(clock.now())

    def _save_copy(self, raw: bytes) -> None:
        """Replace the copy atomically. Without write access the service continues without a copy."""
        temporary = self._copy.with_name(f"{LAST_GOOD}.{secrets.token_hex(4)}")
        try:
            self._copy.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(raw)
            os.replace(temporary, self._copy)  # noqa: PTH105
        except OSError as error:
            log.warning("copy of the studio document not saved", error=str(error))
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _reject(self, error: DocumentError) -> None:
        self._problem = EditError(error.line or None, error.reason, clock.iso(clock.now()))
        log.error("studio document rejected", file=str(self._file), line=error.line, reason=error.reason)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DocumentError(0, f"the file cannot be read: {error.strerror}") from None


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """A value that changes with the file. Editors that replace the file change its inode."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
