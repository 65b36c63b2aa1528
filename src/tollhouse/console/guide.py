"""The guide: the documentation as pages of this server, the pages of problem codes, and the API references."""

import html
import posixpath
import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.config.settings import Settings
from tollhouse.console.markdown import Heading, RenderedText, ResolveLink, render
from tollhouse.console.page_shell import HTML, PageShell
from tollhouse.console.reference import reference_path, reference_title, render_reference
from tollhouse.errors import CODES, Problem
from tollhouse.http.endpoint import JSON, Endpoint, Request, Response
from tollhouse.http.response import compute_etag
from tollhouse.http.service import Service
from tollhouse.http.service_endpoints import file_operation, page_endpoint

DECISIONS = "decisions"
SCREENSHOTS = "screenshots/"
FILES = ("guide.css", "guide.js")
LEAST_HEADINGS_LISTED = 3

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|//")


class PageGroup(Struct, frozen=True):
    """Pages that belong together. A page's name is its path in docs/ without the ending."""

    title: str
    pages: tuple[str, ...]


@cache
def docs_folder() -> Path:
    """The documentation: in the package when installed, beside `src` in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "docs"
    return installed if installed.exists() else package.parents[1] / "docs"


@cache
def page_groups() -> tuple[PageGroup, ...]:
    """The groups of docs/contents.toml, and the decisions in their order."""
    contents = tomllib.loads((docs_folder() / "contents.toml").read_text("utf-8"))
    decisions = sorted(f"{DECISIONS}/{path.stem}" for path in (docs_folder() / DECISIONS).glob("*.md"))
    return (*msgspec.convert(contents["groups"], list[PageGroup]), PageGroup("Decisions", tuple(decisions)))


def page_names() -> list[str]:
    return [name for group in page_groups() for name in group.pages]


def read_page(name: str) -> str:
    """The Markdown of a page."""
    return (docs_folder() / f"{name}.md").read_text("utf-8")


@cache
def page_title(name: str) -> str:
    return read_page(name).partition("\n")[0].removeprefix("# ").strip()


def page_path(name: str) -> str:
    return f"/guide/{name}"


def resolve_links_of(name: str) -> ResolveLink:
    """How links of the page `name` resolve: to other pages and to screenshots, but to no other file.

    A link whose text is the name of a file gets the title of the page instead.
    """
    folder = posixpath.dirname(name)

    def resolve(target: str, text: str) -> tuple[str | None, str]:
        if _SCHEME.match(target) or target.startswith(("#", "/")):
            return target, text
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(folder, path))
        if path.startswith(SCREENSHOTS):
            return f"/guide/{path}", text
        page = path.removesuffix(".md")
        if page != path and page in page_names():
            address = page_path(page) + (f"#{anchor}" if anchor else "")
            return address, page_title(page) if text.endswith(".md") else text
        return "/guide" if path in ("../README.md", DECISIONS) else None, text

    return resolve


class Guide:
    """The pages of the guide of one host. Each is rendered on its first request and then kept."""

    def __init__(self, settings: Settings, services: Sequence[Service], shell: PageShell) -> None:
        self._root = settings.root_url
        self._services = {service.name: service for service in services}
        self._shell = shell
        self._rendered: dict[str, Response] = {}

    def endpoints(self) -> list[Endpoint]:
        """`/guide`, a page for each file of the documentation, each service's reference, and each problem code."""
        routes: list[tuple[str, Callable[[Request[Any, Any]], Response], str]] = [
            ("/guide", lambda _: self._once("/guide", self._index), HTML),
            ("/guide/headings.json", lambda _: self._once("/guide/headings.json", self._headings), JSON),
            ("/guide/{page}", lambda request: self._page(request.path["page"]), HTML),
            ("/guide/decisions/{page}", lambda request: self._page(f"{DECISIONS}/{request.path['page']}"), HTML),
            ("/guide/reference/{service}", self._reference, HTML),
            ("/problems/{code}", self._problem, HTML),
        ]
        screenshots = sorted((docs_folder() / SCREENSHOTS).glob("*.png"))
        # A service's reference is also its `/docs`, where programs and people look for one.
        routes += [
            (f"{self._shell.prefixes.get(service.name, '')}/docs", partial(self._reference_of, service), HTML)
            for service in self._services.values()
        ]
        return [
            *(_endpoint(path, handler, media_type) for path, handler, media_type in routes),
            *(file_operation(f"/guide/{SCREENSHOTS}{one.name}", one, "image/png") for one in screenshots),
        ]

    def _once(self, path: str, build: Callable[[], Response]) -> Response:
        if path not in self._rendered:
            self._rendered[path] = build()
        return self._rendered[path]

    def _page(self, name: str) -> Response:
        if name not in page_names():
            raise Problem("not-found", "The guide has no page with this name.")
        path = page_path(name)
        return self._once(path, lambda: self._article(path, page_title(name), _render_page(name)))

    def _reference(self, request: Request[Any, Any]) -> Response:
        service = self._services.get(request.path["service"])
        if service is None:
            raise Problem("not-found", "This host has no service with this name.")
        return self._reference_of(service)

    def _reference_of(self, service: Service, _request: Request[Any, Any] | None = None) -> Response:
        path, title = reference_path(service), reference_title(service)
        # The script puts the address at which the visitor reads the page in place of this one.
        root = f' data-default-root="{html.escape(self._root)}"'
        return self._once(
            path, lambda: self._article(path, title, self._reference_text(service), root, ("try_call.js",))
        )

    def _problem(self, request: Request[Any, Any]) -> Response:
        """The section of docs/problems.md about one code."""
        code = request.path["code"]
        if code not in CODES:
            raise Problem("not-found", "There is no problem with this code.")
        status, title = CODES[code]
        text = f"# {title}\n\n`{code}`, status {status}\n\n{_problem_sections().get(code, '')}"
        body = render(text, resolve_links_of("problems")).body
        main = f'<div class="prose"><p class="small"><a href="{page_path("problems")}">All problems</a></p>{body}</div>'
        return self._once(
            f"/problems/{code}", lambda: self._shell.page(f"/problems/{code}", f"{code} · Tollhouse", main)
        )

    def _reference_text(self, service: Service) -> RenderedText:
        return render_reference(service, f"{self._root}{self._shell.prefixes.get(service.name, '')}")

    def _article(
        self, path: str, title: str, text: RenderedText, attributes: str = "", scripts: Sequence[str] = ()
    ) -> Response:
        main = (
            f'<div class="guide">{self._navigation(path)}<article class="prose"{attributes}>'
            f'<p class="small"><a href="/guide">Guide</a></p>{text.body}</article>{_on_this_page(text.headings)}</div>'
        )
        return self._shell.page(path, f"{title} · Tollhouse", main, scripts=(*FILES, *scripts))

    def _index(self) -> Response:
        lists = "".join(
            f'<section aria-labelledby="{_id(title)}"><h2 id="{_id(title)}">{title}</h2>{_list(links)}</section>'
            for title, links in self._groups()
        )
        main = (
            '<div class="guide"><article><h1>Guide</h1>'
            '<p class="dim">How to use this server, how to pay, and how to run one. '
            "The project's tests run every sample.</p>"
            '<div class="field search" id="search" hidden><label for="words">Search the headings</label>'
            '<input id="words" type="search" autocomplete="off"><ul class="list" id="found"></ul></div>'
            f'<div class="cards">{lists}</div></article></div>'
        )
        return self._shell.page("/guide", "Guide · Tollhouse", main, scripts=FILES)

    def _headings(self) -> Response:
        """The headings of all pages, which the search of the index reads."""
        texts = {page_path(name): (page_title(name), _render_page(name)) for name in page_names()}
        for service in self._services.values():
            texts[reference_path(service)] = (reference_title(service), self._reference_text(service))
        body = msgspec.json.encode([
            {"page": title, "heading": heading.text, "address": f"{path}#{heading.anchor}"}
            for path, (title, text) in texts.items()
            for heading in text.headings
        ])  # fmt: skip
        return Response(body, JSON, compute_etag(body), cache_control="public, max-age=300")

    def _navigation(self, current: str) -> str:
        lists = "".join(f"<h2>{title}</h2>{_list(links, current)}" for title, links in self._groups())
        return f'<nav class="guide-pages" aria-label="Pages of the guide">{lists}</nav>'

    def _groups(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The titles of the groups, each with the paths and titles of its pages."""
        groups = [
            (group.title, [(page_path(name), page_title(name)) for name in group.pages]) for group in page_groups()
        ]
        references = [(reference_path(service), service.name) for service in self._services.values()]
        return [*groups[:2], ("API reference", references), *groups[2:]]


def _render_page(name: str) -> RenderedText:
    return render(read_page(name), resolve_links_of(name))


@cache
def _problem_sections() -> dict[str, str]:
    """docs/problems.md by its second-level headings."""
    _, *parts = read_page("problems").split("\n## ")
    headed = [part.partition("\n") for part in parts]
    return {heading.strip().strip("`"): text.strip() for heading, _, text in headed}


def _on_this_page(headings: Sequence[Heading]) -> str:
    links = [(f"#{heading.anchor}", heading.text) for heading in headings if heading.level == 2]
    if len(links) < LEAST_HEADINGS_LISTED:
        return ""
    return f'<nav class="guide-here" aria-label="On this page"><h2>On this page</h2>{_list(links)}</nav>'


def _list(links: Sequence[tuple[str, str]], current: str = "") -> str:
    marked = ' aria-current="page"'
    items = "".join(
        f'<li><a href="{html.escape(path)}"{marked if path == current else ""}>{html.escape(text)}</a></li>'
        for path, text in links
    )
    return f"<ul>{items}</ul>"


def _id(title: str) -> str:
    return title.lower().replace(" ", "-")


def _endpoint(path: str, handler: Callable[[Request[Any, Any]], Response], media_type: str) -> Endpoint:
    async def handle(request: Request[Any, Any]) -> Response:
        return handler(request)

    return page_endpoint(path, handle, media_type)
