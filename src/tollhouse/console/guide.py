"""The guide: the documentation as pages of this server, and a reference of every operation it declares."""

import html
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from tollhouse.config.settings import Settings
from tollhouse.console import guide_contents as contents
from tollhouse.console.guide_reference import reference
from tollhouse.console.markdown import Heading, Text, leads_from, rendered
from tollhouse.console.page_shell import HTML, Frame
from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Endpoint, Request, Response
from tollhouse.http.response_writer import etag_of
from tollhouse.http.service import Service
from tollhouse.http.service_endpoints import file_operation
from tollhouse.http.terms import FREE

FILES = ("guide.css", "guide.js")
_FEWEST_LISTED = 3


def guide_operations(settings: Settings, services: Sequence[Service], frame: Frame) -> list[Endpoint]:
    """`/guide`, a page for each file of the documentation, and the reference of each service of this host."""
    guide = Guide(settings.root_url, services, frame)
    routes = {
        "/guide": guide.index,
        "/guide/headings.json": guide.headings,
        "/guide/{page}": guide.page,
        "/guide/decisions/{page}": guide.decision,
        "/guide/reference/{service}": guide.reference,
    }
    made = [_operation(path, handler, JSON if path.endswith(".json") else HTML) for path, handler in routes.items()]
    pictures = sorted((contents.folder() / "screenshots").glob("*.png"))
    return [*made, *(file_operation(f"/guide/screenshots/{one.name}", one, "image/png") for one in pictures)]


class Guide:
    """Each page is made when it is first asked for, and kept: neither the files nor the operations change."""

    def __init__(self, root: str, services: Sequence[Service], frame: Frame) -> None:
        self._root = root
        self._services = {service.name: service for service in services}
        self._frame = frame
        self._kept: dict[str, Response] = {}

    async def index(self, _asked: Request[None, None]) -> Response:
        """Every page, and a search over their headings."""
        return self._once("/guide", self._index)

    async def headings(self, _asked: Request[None, None]) -> Response:
        """What the search looks through: page, heading and address of each."""
        return self._once("/guide/headings.json", self._headings)

    async def page(self, request: Request[None, None]) -> Response:
        """One file. Raises Problem `not-found`."""
        return self._file(request.path["page"])

    async def decision(self, request: Request[None, None]) -> Response:
        """One decision. Raises Problem `not-found`."""
        return self._file(f"{contents.DECISIONS}/{request.path['page']}")

    async def reference(self, request: Request[None, None]) -> Response:
        """One service's operations. Raises Problem `not-found`."""
        service = self._services.get(request.path["service"])
        if service is None:
            raise Problem("not-found", "This host has no service of this name.")
        return self._once(reference_address(service), partial(self._reference, service))

    def _once(self, path: str, make: Callable[[], Response]) -> Response:
        if path not in self._kept:
            self._kept[path] = make()
        return self._kept[path]

    def _file(self, name: str) -> Response:
        if name not in contents.pages():
            raise Problem("not-found", "The guide has no page of this name.")
        path = contents.address(name)
        return self._once(path, lambda: self._sheet(path, contents.title(name), _text_of(name)))

    def _reference(self, service: Service) -> Response:
        usual = f' data-usual="{html.escape(self._root)}"'
        text = self._reference_text(service)
        return self._sheet(reference_address(service), f"{service.name}: reference", text, usual)

    def _reference_text(self, service: Service) -> Text:
        return reference(service, f"{self._root}{self._frame.prefixes[service.name]}")

    def _sheet(self, path: str, title: str, text: Text, attributes: str = "") -> Response:
        main = (
            f'<div class="guide">{self._navigation(path)}<article class="prose"{attributes}>'
            f'<p class="small"><a href="/guide">Guide</a></p>{text.body}</article>{_on_this_page(text.headings)}</div>'
        )
        return self._frame.page(path, f"{title} · Tollhouse", main, scripts=FILES)

    def _index(self) -> Response:
        lists = "".join(
            f'<section aria-labelledby="{_id(title)}"><h2 id="{_id(title)}">{title}</h2><ul>'
            f"{''.join(f'<li>{_link(path, text)}</li>' for path, text in links)}</ul></section>"
            for title, links in self._groups()
        )
        main = (
            '<div class="guide"><article><h1>Guide</h1>'
            '<p class="dim">How to use this server, how to pay, and how to run one. '
            "Every sample in it is executed by the project's tests.</p>"
            '<div class="field search" id="search" hidden><label for="words">Find a heading</label>'
            '<input id="words" type="search" autocomplete="off"><ul class="list" id="found"></ul></div>'
            f'<div class="cards">{lists}</div></article></div>'
        )
        return self._frame.page("/guide", "Guide · Tollhouse", main, scripts=FILES)

    def _headings(self) -> Response:
        texts = {contents.address(name): (contents.title(name), _text_of(name)) for name in contents.pages()}
        for service in self._services.values():
            texts[reference_address(service)] = (f"{service.name}: reference", self._reference_text(service))
        found = [
            {"page": title, "heading": heading.text, "address": f"{path}#{heading.anchor}"}
            for path, (title, text) in texts.items()
            for heading in text.headings
        ]
        body = msgspec.json.encode(found)
        return Response(body, JSON, etag_of(body), cache_control="public, max-age=300")

    def _navigation(self, here: str) -> str:
        lists = "".join(
            f"<h2>{title}</h2><ul>{''.join(f'<li>{_link(path, text, here)}</li>' for path, text in links)}</ul>"
            for title, links in self._groups()
        )
        return f'<nav class="guide-pages" aria-label="Pages of the guide">{lists}</nav>'

    def _groups(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The titles of the groups, each with the addresses and names of its pages."""
        found = [
            (group.title, [(contents.address(name), contents.title(name)) for name in group.names])
            for group in contents.groups()
        ]
        operations = [(reference_address(service), service.name) for service in self._services.values()]
        return [*found[:2], ("Every operation", operations), *found[2:]]


def _text_of(name: str) -> Text:
    return rendered(contents.source(name), leads_from(name, contents.pages().__contains__))


def reference_address(service: Service) -> str:
    """Where the reference of a service is served, on any host that has it."""
    return f"/guide/reference/{service.name}"


def _on_this_page(headings: Sequence[Heading]) -> str:
    listed = [heading for heading in headings if heading.depth == 2]
    if len(listed) < _FEWEST_LISTED:
        return ""
    items = "".join(f'<li><a href="#{html.escape(one.anchor)}">{html.escape(one.text)}</a></li>' for one in listed)
    return f'<nav class="guide-here" aria-label="On this page"><h2>On this page</h2><ul>{items}</ul></nav>'


def _link(path: str, text: str, here: str = "") -> str:
    current = ' aria-current="page"' if path == here else ""
    return f'<a href="{path}"{current}>{html.escape(text)}</a>'


def _id(title: str) -> str:
    return title.lower().replace(" ", "-")


def _operation(path: str, handler: Callable[[Request[None, None]], Awaitable[Response]], media_type: str) -> Endpoint:
    answers: dict[str, Any] = {media_type.partition(";")[0]: {}}
    return Endpoint(f"page {path}", "GET", path, path, handler, FREE, responses=answers, is_described=False)
