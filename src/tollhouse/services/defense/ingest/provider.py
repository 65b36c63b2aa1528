"""GDELT's 15-minute exports over HTTP: what is newest, what was missed, and the files themselves, verified."""

import re
from hashlib import md5
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct

from tollhouse.services.defense.ingest.fetching import fetch
from tollhouse.services.defense.ingest.upstream import UpstreamFailure

LIST_CAP_BYTES = 64 * 1024
FILE_CAP_BYTES = 32 * 1024 * 1024
# A server that grants no range sends ten years of lines; more than this is refused.
MASTER_CAP_BYTES = 256 * 1024 * 1024
MASTER_TAIL_BYTES = 2 * 1024 * 1024
DEADLINE_SECONDS = 60.0

_LINE = re.compile(r"([0-9]{1,12}) ([0-9a-f]{32}) (https?://\S+/([0-9]{14})\.export\.CSV\.zip)")


class ExportFile(Struct, frozen=True):
    """One export as the provider's lists announce it."""

    slot: str
    size: int
    md5: str
    url: str


class Provider:
    """The provider at `base_url`. Every method raises UpstreamFailure."""

    def __init__(self, client: httpx2.AsyncClient, base_url: str) -> None:
        self._client = client
        self._base = base_url.rstrip("/") + "/"

    async def newest(self) -> ExportFile:
        """The export that `lastupdate.txt` announces."""
        listed = self._listed(await self._get("lastupdate.txt", LIST_CAP_BYTES))
        if not listed:
            raise UpstreamFailure("malformed", "lastupdate.txt names no export")
        return listed[-1]

    async def missed(self, after: str, until: str) -> list[ExportFile]:
        """The exports between two slots, from the end of the master list, oldest first."""
        listed = self._listed(await self._get("masterfilelist.txt", MASTER_CAP_BYTES, MASTER_TAIL_BYTES))
        return sorted((file for file in listed if after < file.slot <= until), key=lambda file: file.slot)

    async def download(self, file: ExportFile) -> bytes:
        """The export's bytes, of the announced size and MD5."""
        if file.size > FILE_CAP_BYTES:
            raise UpstreamFailure(
                "too-large", f"{file.slot}: announced with {file.size} bytes, more than {FILE_CAP_BYTES}"
            )
        raw = await self._get(self._path(file.url), file.size)
        if len(raw) != file.size or md5(raw, usedforsecurity=False).hexdigest() != file.md5:
            raise UpstreamFailure("malformed", f"{file.slot}: {len(raw)} bytes whose MD5 is not the announced one")
        return raw

    async def _get(self, path: str, cap_bytes: int, last_bytes: int = 0) -> bytes:
        got = await fetch(
            self._client,
            self._base + path,
            cap_bytes=cap_bytes,
            deadline_seconds=DEADLINE_SECONDS,
            last_bytes=last_bytes,
        )
        if got.status not in (200, 206):
            raise UpstreamFailure("status", f"{path} answered {got.status}", got.retry_after_seconds)
        return got.body

    def _listed(self, text: bytes) -> list[ExportFile]:
        lines = text.decode("ascii", "replace")
        return [ExportFile(slot, int(size), digest, url) for size, digest, url, slot in _LINE.findall(lines)]

    def _path(self, url: str) -> str:
        """The file's name alone: files come from the configured place, whatever host a list names."""
        return urlsplit(url).path.rpartition("/")[2]
