"""How a page reaches a browser: the one frame around every page, its files, and what it may load."""

import html
import json
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from string import Template
from typing import Any

from msgspec import Struct

from tollhouse.http.endpoint import Endpoint, Response
from tollhouse.http.response_writer import etag_of
from tollhouse.http.service_endpoints import file_operation

HTML = "text/html; charset=utf-8"

_HERE = Path(__file__).parent
_ALLOWED = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
POLICY = (
    (b"content-security-policy", _ALLOWED),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)

_JAVASCRIPT = "text/javascript; charset=utf-8"
_KINDS = {".js": _JAVASCRIPT, ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".json": "application/json"}
_VENDORED = ("d3/d3.min.js", "topojson-client/topojson-client.min.js", "world-atlas/countries-110m.json")
DRAWING = ("d3.min.js",)
MAPPING = ("d3.min.js", "topojson-client.min.js")


class Link(Struct, frozen=True):
    """One entry of the navigation."""

    path: str
    text: str


class Frame(Struct, frozen=True):
    """What all pages of one host have alike: where its services are, and which pages there are."""

    prefixes: dict[str, str]
    links: tuple[Link, ...]

    def page(self, path: str, title: str, main: str, *, scripts: Sequence[str] = (), facts: Any = None) -> Response:
        """A whole page around `main`, which is HTML already; `scripts` are run in this order; styles go ahead."""
        body = _shell().substitute(
            title=html.escape(title),
            files=_files_at(),
            navigation="".join(_entry(link, path) for link in self.links),
            services=html.escape(json.dumps(self.prefixes)),
            facts=html.escape(json.dumps(facts)),
            scripts="".join(_script(name) for name in scripts if name.endswith(".js")),
            styles="".join(_style(name) for name in scripts if name.endswith(".css")),
            main=main,
        )
        encoded = body.encode()
        return Response(encoded, HTML, etag_of(encoded), POLICY)


def fragment(name: str) -> str:
    """The part of a page that is its own, from `pages/`."""
    return (_HERE / "pages" / f"{name}.html").read_text("utf-8")


def files() -> list[Endpoint]:
    """Every file the pages load, under an address that changes when any of them does."""
    return [
        file_operation(f"{_files_at()}/{name}", path, _KINDS[path.suffix]) for name, path in sorted(_loaded().items())
    ]


@cache
def _files_at() -> str:
    digest = blake2b(digest_size=6)
    for name, path in sorted(_loaded().items()):
        digest.update(name.encode() + path.read_bytes())
    return f"/console/{digest.hexdigest()}"


@cache
def _loaded() -> Mapping[str, Path]:
    own = {path.name: path for path in (_HERE / "static").iterdir() if path.suffix in _KINDS}
    vendored = [_HERE / "vendor" / name for name in _VENDORED]
    return own | {path.name: path for path in vendored}


@cache
def _shell() -> Template:
    return Template(fragment("shell"))


def _entry(link: Link, path: str) -> str:
    # A page of the guide, or of the tables, stands under the entry that leads to all of them.
    is_under = link.path != "/" and path.startswith(f"{link.path}/")
    current = ' aria-current="page"' if link.path == path else ' aria-current="true"' if is_under else ""
    return f'<li><a href="{link.path}"{current}>{html.escape(link.text)}</a></li>'


def _style(name: str) -> str:
    return f'<link rel="stylesheet" href="{_files_at()}/{name}">'


def _script(name: str) -> str:
    """The vendored ones are classic scripts; ours are modules. Both run in order, after the page is read."""
    kind = "defer" if name in MAPPING else 'type="module"'
    return f'<script {kind} src="{_files_at()}/{name}"></script>'
