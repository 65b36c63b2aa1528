"""GDELT's 15-minute files over real HTTP, with the faults that a provider has."""

import hashlib
import io
import re
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files

_RECORDING = files("tollhouse.services.defense").joinpath("data", "recording")
_DAY = re.compile(r"/2020/\d{1,2}/\d{1,2}/")


def recent_slots(count: int) -> list[str]:
    """The last `count` quarters of an hour that are over, oldest first."""
    moment = datetime.now(UTC)
    newest = moment.replace(minute=moment.minute // 15 * 15, second=0, microsecond=0)
    return [(newest - timedelta(minutes=15 * ago)).strftime("%Y%m%d%H%M%S") for ago in reversed(range(count))]


def export(slot: str, number: int) -> bytes:
    """A zipped export of `slot`: the recording's `number`-th file with its dates moved, and none in addresses."""
    recorded = sorted(entry.name for entry in _RECORDING.iterdir() if entry.name.endswith(".zip"))[number]
    with zipfile.ZipFile(io.BytesIO(_RECORDING.joinpath(recorded).read_bytes())) as archive:
        text = archive.read(archive.namelist()[0]).decode("utf-8")
    lines = []
    for line in text.splitlines():
        columns = line.split("\t")
        columns[0] = f"{slot[2:12]}{columns[0]}"
        columns[1], columns[59] = slot[:8], slot
        columns[60] = _DAY.sub("/", columns[60])
        lines.append("\t".join(columns))
    return _zipped(f"{slot}.export.CSV", lines)


def knowledge(slot: str, titles: Mapping[str, str]) -> bytes:
    """A zipped Knowledge Graph file of `slot`: one row for each page, with its title."""
    return _zipped(f"{slot}.gkg.csv", [gkg_row(slot, n, url, titles[url]) for n, url in enumerate(titles, 1)])


def gkg_row(slot: str, number: int, url: str, title: str) -> str:
    """One row of the Knowledge Graph (GKG 2.1 codebook): the page, its tone and its title."""
    columns = [""] * 27
    columns[0], columns[1], columns[2] = f"{slot}-{number}", slot, "1"
    columns[3], columns[4] = url.split("/")[2], url
    columns[15] = "-3.5,1.5,5.0,6.5,20.0,0.5,200"
    columns[26] = f"<PAGE_TITLE>{title}</PAGE_TITLE>"
    return "\t".join(columns)


def _zipped(name: str, lines: list[str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, "\n".join(lines) + "\n")
    return packed.getvalue()


def _md5(raw: bytes) -> str:
    return hashlib.md5(raw, usedforsecurity=False).hexdigest()


class FakeGdelt:
    """A provider on a free port. `status` answers everything so while it is set."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.digests: dict[str, str] = {}
        self.graphs: dict[str, bytes] = {}
        self.graph_digests: dict[str, str] = {}
        self.requests: list[tuple[str, str]] = []
        self.status: int | None = None
        self.retry_after: int | None = None
        self.hangs_up = False
        self.grants_ranges = True
        self.url = ""

    def publish(self, slot: str, number: int, md5: str | None = None) -> None:
        """Announce a slot, with an MD5 other than its own if one is given."""
        raw = export(slot, number)
        self.files[slot] = raw
        self.digests[slot] = md5 or _md5(raw)

    def publish_pages(self, slot: str, titles: Mapping[str, str], md5: str | None = None) -> None:
        """Have a slot, best before it is announced, come with the titles of pages, by address."""
        self.graphs[slot] = knowledge(slot, titles)
        self.graph_digests[slot] = md5 or _md5(self.graphs[slot])

    def downloads(self) -> list[str]:
        """The slots whose file was asked for, in that order."""
        return [path[1:15] for path, _ in list(self.requests) if path.endswith(".export.CSV.zip")]

    def asked(self, name: str) -> list[str]:
        """The Range header of every request for a file."""
        return [ranged for path, ranged in list(self.requests) if path == f"/{name}"]

    def listed(self, slots: list[str]) -> bytes:
        """The lines of a list: each slot with its export, mentions and knowledge graph, under the provider's name."""
        lines = []
        for slot in slots:
            place = f"http://data.gdeltproject.org/gdeltv2/{slot}"
            other = _md5(slot.encode())
            graph = self.graphs.get(slot)
            lines += [
                f"{len(self.files[slot])} {self.digests[slot]} {place}.export.CSV.zip",
                f"123 {other} {place}.mentions.CSV.zip",
                f"{len(graph) if graph else 456} {self.graph_digests.get(slot, other)} {place}.gkg.csv.zip",
            ]
        return "".join(f"{line}\n" for line in lines).encode()

    def body_of(self, path: str) -> bytes | None:
        """What stands at a path now."""
        slots = sorted(self.files)
        if path == "/lastupdate.txt":
            return self.listed(slots[-1:])
        if path == "/masterfilelist.txt":
            return self.listed(slots)
        if path.endswith(".gkg.csv.zip"):
            return self.graphs.get(path[1:15])
        return self.files.get(path[1:15]) if path.endswith(".export.CSV.zip") else None


@contextmanager
def fake_gdelt() -> Iterator[FakeGdelt]:
    """A provider that answers until the block ends."""
    provider = FakeGdelt()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ranged = self.headers.get("Range", "")
            provider.requests.append((self.path, ranged))
            if provider.hangs_up:
                self.close_connection = True
                return
            if provider.status:
                self._answer(provider.status, b"out of order")
                return
            body = provider.body_of(self.path)
            if body is None:
                self._answer(404, b"")
            elif ranged.startswith("bytes=-") and provider.grants_ranges:
                self._answer(206, body[-int(ranged.removeprefix("bytes=-")) :])
            else:
                self._answer(200, body)

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            if provider.retry_after is not None and status >= 400:
                self.send_header("Retry-After", str(provider.retry_after))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        provider.url = f"http://127.0.0.1:{http.server_port}/"
        serving = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        serving.start()
        try:
            yield provider
        finally:
            http.shutdown()
            serving.join()
