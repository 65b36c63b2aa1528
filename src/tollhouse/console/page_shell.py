"""The page shell: the HTML around every page, the files that pages load, and the policy they run under."""

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from posixpath import dirname, join, normpath
from string import Template
from typing import Any

from msgspec import Struct

from tollhouse import __version__
from tollhouse.http.endpoint import Endpoint, Response
from tollhouse.http.response import compute_etag
from tollhouse.http.service_endpoints import file_operation

HTML = "text/html; charset=utf-8"

HERE: Path = Path(__file__).parent
_ALLOWED = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
POLICY = (
    (b"content-security-policy", _ALLOWED),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)

KEY_STATE = "key_state.js"
"""The module that every page loads."""
_IMPORT = re.compile(r'^(?:import|export)\b[^;"]*"(\.{1,2}/[^"]+\.js)"', re.MULTILINE)
# What precedes the path of a link to this host.
_LINK = re.compile(r'(?<=\s)(?:href|src|action|data-files|data-keyed-call)="(?=/(?!/))')
_MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
_VENDORED = (
    "topojson-client/topojson-client.min.js",
    "world-atlas/countries-110m.json",
    "world-atlas/countries-50m.json",
)


class Link(Struct, frozen=True):
    path: str
    text: str


class PageFiles:
    """The scripts, styles and data that a host's pages load, under an address that changes when any of them does.

    The console's own files stand at the top; the files of a declaring package in a folder named after the package.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._files: dict[str, Path] = {path.name: path for path in (HERE / "vendor" / name for name in _VENDORED)}
        for folder in dict.fromkeys([HERE / "static", *folders]):
            place = self.place(folder)
            self._files |= {f"{place}{path.name}": path for path in folder.iterdir() if path.suffix in _MEDIA_TYPES}
        digest = blake2b(digest_size=6)
        for name, path in sorted(self._files.items()):
            digest.update(name.encode() + path.read_bytes())
        self.address = f"/console/{digest.hexdigest()}"

    @staticmethod
    def place(folder: Path) -> str:
        """Where the files of a folder stand below the address: `x/` for the folder `x/pages` of a package."""
        return "" if folder.parent == HERE else f"{folder.parent.name}/"

    def names(self, file: Path, scripts: Sequence[str]) -> list[str]:
        """The scripts and styles beside a page's `file`, or the console's (`../`), as their addresses end."""
        place = self.place(file.parent)
        return [name.removeprefix("../") if name.startswith("../") else f"{place}{name}" for name in scripts]

    def imported(self, scripts: Iterable[str]) -> list[str]:
        """The modules that these import, directly or through others. Preloaded, they come in one round trip."""
        names = list(dict.fromkeys(scripts))
        count = len(names)
        for name in names:
            text = self._files[name].read_text("utf-8")
            imports = dict.fromkeys(normpath(join(dirname(name), path)) for path in _IMPORT.findall(text))
            names += [one for one in imports if one in self._files and one not in names]
        return names[count:]

    def endpoints(self) -> list[Endpoint]:
        return [
            file_operation(f"{self.address}/{name}", path, _MEDIA_TYPES[path.suffix])
            for name, path in sorted(self._files.items())
        ]


class PageShell(Struct, frozen=True):
    """What the pages of one host share: where its services are mounted, its navigation, and its files.

    `tools` are the links at the end of the navigation, `footer` those at the foot of every page, beside the names of
    the data's `sources`. `keyed_call` is the path of an example call that needs a key, empty where the host has none.
    `has_visits`: the pages can be read without a key. `root_path` is the path of the root, empty at a host of its own.
    """

    prefixes: dict[str, str]
    keyed_call: str
    links: tuple[Link, ...]
    tools: tuple[Link, ...]
    footer: tuple[Link, ...]
    sources: tuple[str, ...]
    files: PageFiles
    has_visits: bool = False
    root_path: str = ""

    def page(self, path: str, title: str, main: str, scripts: Sequence[str] = (), facts: Any = None) -> Response:
        """A whole page around `main`, which is HTML. The scripts run in their order, as modules."""
        address = self.files.address
        loaded = [f'<script type="module" src="{address}/{name}"></script>' for name in scripts if name.endswith(".js")]
        modules = [KEY_STATE, *(name for name in scripts if name.endswith(".js"))]
        preloads = [f'<link rel="modulepreload" href="{address}/{name}">' for name in self.files.imported(modules)]
        styles = [f'<link rel="stylesheet" href="{address}/{name}">' for name in scripts if name.endswith(".css")]
        text = _shell().substitute(
            title=html.escape(title),
            files=address,
            version=__version__,
            navigation="".join(_entry(link, path) for link in self.links),
            tools="".join(_entry(link, path) for link in self.tools),
            footer=" · ".join(f'<a href="{link.path}">{html.escape(link.text)}</a>' for link in self.footer),
            sources=html.escape(f"Data: {', '.join(self.sources)}. " if self.sources else ""),
            services=html.escape(json.dumps(self.prefixes)),
            visits="yes" if self.has_visits else "no",
            keyed_call=html.escape(self.keyed_call),
            facts=html.escape(json.dumps(facts)),
            scripts="".join(loaded),
            styles="".join([*styles, *preloads]),
            main=main,
            root=html.escape(self.root_path),
        )
        if self.root_path:
            text = _LINK.sub(lambda link: link[0] + html.escape(self.root_path), text)
        body = text.encode()
        return Response(body, HTML, compute_etag(body), POLICY)


def fill_template(file: Path, texts: Mapping[str, str]) -> str:
    """The HTML of a file with these texts in it, escaped."""
    return Template(file.read_text("utf-8")).substitute({name: html.escape(text) for name, text in texts.items()})


@cache
def _shell() -> Template:
    return Template((HERE / "pages" / "shell.html").read_text("utf-8"))


def _entry(link: Link, path: str) -> str:
    # A page of the guide, or of a group, belongs to the entry that leads to all of them.
    is_under = link.path != "/" and path.startswith(f"{link.path}/")
    current = ' aria-current="page"' if link.path == path else ' aria-current="true"' if is_under else ""
    return f'<li><a href="{link.path}"{current}>{html.escape(link.text)}</a></li>'
