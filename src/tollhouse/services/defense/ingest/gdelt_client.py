"""GDELT's 15-minute files over HTTP: what is newest, what was missed, and the files themselves, verified."""

import re
from hashlib import md5
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct

from tollhouse.services.defense.ingest.fetcher import fetch
from tollhouse.services.defense.ingest.upstream_error import UpstreamFailure

LIST_CAP_BYTES = 64 * 1024
FILE_CAP_BYTES = 32 * 1024 * 1024
# A server that grants no range sends ten years of lines; more than this is refused.
MASTER_CAP_BYTES = 256 * 1024 * 1024
MASTER_TAIL_BYTES = 2 * 1024 * 1024
DEADLINE_SECONDS = 60.0

_LINE = re.compile(r"([0-9]{1,12}) ([0-9a-f]{32}) (https?://\S+/([0-9]{14})\.(export|gkg)\.(?:CSV|csv)\.zip)")


class File(Struct, frozen=True):
    """One file as the provider's lists announce it."""

    size: int
    md5: str
    url: str


class Slot(Struct, frozen=True):
    """What the provider publishes for 15 minutes: the events, and the pages they were read from, if announced."""

    name: str
    export: File
    gkg: File | None


class Provider:
    """The provider at `base_url`. Every method raises UpstreamFailure."""

    def __init__(self, client: httpx2.AsyncClient, base_url: str) -> None:
        self._client = client
        self._base = base_url.rstrip("/") + "/"

    async def newest(self) -> Slot:
        """The slot that `lastupdate.txt` announces."""
        listed = self._listed(await self._get("lastupdate.txt", LIST_CAP_BYTES))
        if not listed:
            raise UpstreamFailure("malformed", "lastupdate.txt names no export")
        return listed[-1]

    async def missed(self, after: str, until: str) -> list[Slot]:
        """The slots between two slots, from the end of the master list, oldest first."""
        listed = self._listed(await self._get("masterfilelist.txt", MASTER_CAP_BYTES, MASTER_TAIL_BYTES))
        return [slot for slot in listed if after < slot.name <= until]

    async def download(self, file: File) -> bytes:
        """The file's bytes, of the announced size and MD5."""
        name = _name(file)
        if file.size > FILE_CAP_BYTES:
            raise UpstreamFailure("too-large", f"{name}: announced with {file.size} bytes, more than {FILE_CAP_BYTES}")
        raw = await self._get(name, file.size)
        if len(raw) != file.size or md5(raw, usedforsecurity=False).hexdigest() != file.md5:
            raise UpstreamFailure("malformed", f"{name}: {len(raw)} bytes whose MD5 is not the announced one")
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

    def _listed(self, text: bytes) -> list[Slot]:
        """The slots whose export is announced, oldest first."""
        slots: dict[str, dict[str, File]] = {}
        for size, digest, url, slot, kind in _LINE.findall(text.decode("ascii", "replace")):
            slots.setdefault(slot, {})[kind] = File(int(size), digest, url)
        whole = ((name, found) for name, found in sorted(slots.items()) if "export" in found)
        return [Slot(name, found["export"], found.get("gkg")) for name, found in whole]


def _name(file: File) -> str:
    """The file's name alone: files come from the configured place, whatever host a list names."""
    return urlsplit(file.url).path.rpartition("/")[2]
