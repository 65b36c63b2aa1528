"""The guide: the documentation as pages of this server, its search, the pages of problem codes, and the references."""

import asyncio
import html
import posixpath
import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tollhouse.config.settings import Settings
from tollhouse.console.guide_result import GuideResult
from tollhouse.console.markdown import Heading, RenderedText, ResolveLink, render
from tollhouse.console.page_shell import HTML, PageShell
from tollhouse.console.reference import reference_path, reference_title, render_overview, render_reference
from tollhouse.errors import CODES, Problem
from tollhouse.http.endpoint import JSON, Endpoint, Request, Response
from tollhouse.http.response import json_response
from tollhouse.http.service import Service
from tollhouse.http.service_endpoints import file_operation, page_endpoint
from tollhouse.http.terms import FREE

DECISIONS = "decisions"
SCREENSHOTS = "screenshots/"
FILES = ("guide.css", "guide.js")
LEAST_HEADINGS_LISTED = 3
RESULTS = 20
SUGGESTIONS = 8
# The address of the documentation's samples, and its page that stands outside its folder.
DOCS_ADDRESS = "http://127.0.0.1:8000"
CHANGELOG = "changelog"
SEARCH = "/guide/search"
# The group that is folded in the navigation of other pages.
_LAST = "Decisions"

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|//")
_TAG = re.compile(r"(<[^>]*>)")
_SAMPLE_ADDRESS = re.compile(r"(?:http://)?(?:127\.0\.0\.1|localhost):8000(?!\d|:)(/[a-z]\w*)?")
_SAMPLE_KEY = "th_live_…"


class PageGroup(Struct, frozen=True):
    """Pages that belong together. A page's name is its path in docs/ without the ending."""

    title: str
    pages: tuple[str, ...]


class Contents(Struct, frozen=True):
    """docs/contents.toml. The samples of the pages in `own_server` are for a server of the reader's own."""

    groups: list[PageGroup]
    own_server: frozenset[str]


class GuideQuery(Struct, frozen=True, forbid_unknown_fields=True):
    q: Annotated[str, Meta(max_length=200, description="Words to find")] = ""


class GuideResults(Struct, frozen=True):
    """The sections of the guide with these words, the best first; with some of them where none has every word."""

    query: str
    has_every_word: bool
    count: int
    results: list[GuideResult]


@cache
def docs_folder() -> Path:
    """The documentation: in the package when installed, beside `src` in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "docs"
    return installed if installed.exists() else package.parents[1] / "docs"


@cache
def _contents() -> Contents:
    return msgspec.convert(tomllib.loads((docs_folder() / "contents.toml").read_text("utf-8")), Contents)


@cache
def page_groups() -> tuple[PageGroup, ...]:
    """The groups of docs/contents.toml, and the decisions in their order."""
    decisions = sorted(f"{DECISIONS}/{path.stem}" for path in (docs_folder() / DECISIONS).glob("*.md"))
    return (*_contents().groups, PageGroup(_LAST, tuple(decisions)))


def page_names() -> list[str]:
    return [name for group in page_groups() for name in group.pages]


def read_page(name: str) -> str:
    """The Markdown of a page. The changelog stands beside docs/ in a checkout, and in it when installed."""
    file = docs_folder() / f"{name}.md"
    if name == CHANGELOG and not file.exists():
        file = docs_folder().parent / "CHANGELOG.md"
    return file.read_text("utf-8")


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
        if name == CHANGELOG:
            path = path.removeprefix("docs/")
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
        self._is_public = bool(settings.public_url)
        self._services = {service.name: service for service in services}
        self._shell = shell
        self._rendered: dict[str, Response] = {}
        self._texts: dict[str, RenderedText] = {}
        self._search: Callable[[str, int], tuple[list[GuideResult], bool]] | None = None

    def endpoints(self) -> list[Endpoint]:
        """`/guide`, a page for each file of the documentation, each service's reference, and each problem code."""
        routes: list[tuple[str, Callable[[Request[Any, Any]], Response], str]] = [
            ("/guide", lambda _: self._once("/guide", self._overview), HTML),
            ("/guide/{page}", lambda request: self._page(request.path["page"]), HTML),
            ("/guide/decisions/{page}", lambda request: self._page(f"{DECISIONS}/{request.path['page']}"), HTML),
            ("/guide/reference/{service}", self._reference, HTML),
            ("/problems/{code}", self._problem, HTML),
        ]
        screenshots = sorted((docs_folder() / SCREENSHOTS).glob("*.png"))
        # A service's reference is also its `/docs`, where programs and people look for one.
        at_root = [one for one in self._services.values() if not self._shell.prefixes.get(one.name)]
        is_shared = len(self._services) > len(at_root)
        routes += [
            (f"{self._shell.prefixes.get(service.name, '')}/docs", partial(self._reference_of, service), HTML)
            for service in self._services.values()
            if service not in at_root or not is_shared
        ]
        if is_shared:
            routes.append(("/docs", lambda _: self._once("/docs", self._every_reference), HTML))
        return [
            self._search_endpoint(),
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
        return self._once(path, lambda: self._article(path, page_title(name), self._text(name)))

    def _text(self, name: str) -> RenderedText:
        if name not in self._texts:
            text = render(read_page(name), resolve_links_of(name))
            is_own = name in _contents().own_server
            self._texts[name] = text if is_own else RenderedText(self._addressed(text.body), text.headings)
        return self._texts[name]

    def _reference(self, request: Request[Any, Any]) -> Response:
        service = self._services.get(request.path["service"])
        if service is None:
            raise Problem("not-found", "This host has no service with this name.")
        return self._reference_of(service)

    def _reference_of(self, service: Service, _request: Request[Any, Any] | None = None) -> Response:
        path, title = reference_path(service), reference_title(service)
        return self._once(
            path, lambda: self._article(path, title, self._reference_text(service), scripts=("try_call.js",))
        )

    def _every_reference(self) -> Response:
        """Every operation of the host, each with a link to its reference."""
        text = render_overview([(one, self._shell.prefixes.get(one.name, "")) for one in self._services.values()])
        return self._article("/docs", "API reference", text)

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
        path = reference_path(service)
        if path not in self._texts:
            prefix = self._shell.prefixes.get(service.name, "")
            text = render_reference(service, f"{DOCS_ADDRESS}/{service.name}", prefix)
            self._texts[path] = RenderedText(self._addressed(text.body), text.headings)
        return self._texts[path]

    def _addressed(self, body: str) -> str:
        """The page with this server's address in place of that of the documentation, and a place for the reader's key.

        Without a public URL, the page's script puts the address at which the reader found it into the marked places.
        """
        root = html.escape(self._root)
        shown = root if self._is_public else f'<span data-fill="address">{root}</span>'

        def address(match: re.Match[str]) -> str:
            path = match[1] or ""
            return shown + self._shell.prefixes.get(path.removeprefix("/"), path)

        def filled(text: str) -> str:
            return _SAMPLE_ADDRESS.sub(address, text).replace(
                _SAMPLE_KEY, f'<span data-fill="key">{_SAMPLE_KEY}</span>'
            )

        body = body.replace(f'href="{DOCS_ADDRESS}/', 'href="/')
        return "".join(part if part.startswith("<") else filled(part) for part in _TAG.split(body))

    def _article(self, path: str, title: str, text: RenderedText, scripts: Sequence[str] = ()) -> Response:
        main = (
            f'<div class="guide">{self._navigation(path)}<article class="prose">'
            f"{text.body}{self._neighbours(path)}</article>{_on_this_page(text.headings)}</div>"
        )
        return self._shell.page(path, f"{title} · Tollhouse", main, scripts=(*FILES, *scripts))

    def _neighbours(self, path: str) -> str:
        """Links to the page before and after, in the order of the contents."""
        links = [link for _, group in self._groups() for link in group]
        at = next((place for place, (other, _) in enumerate(links) if other == path), None)
        if at is None:
            return ""
        before = links[at - 1] if at else None
        after = links[at + 1] if at + 1 < len(links) else None
        named = [(before, "prev", "Previous"), (after, "next", "Next")]
        shown = "".join(
            f'<a rel="{rel}" href="{html.escape(link[0])}"><span class="small dim">{label}</span>'
            f"{html.escape(link[1])}</a>"
            for link, rel, label in named
            if link
        )
        return f'<nav class="neighbours" aria-label="Previous and next page">{shown}</nav>'

    def _overview(self) -> Response:
        lists = "".join(
            f'<section aria-labelledby="{_id(title)}"><h2 id="{_id(title)}">{title}</h2>{_list(links)}</section>'
            for title, links in self._groups()
        )
        main = (
            '<div class="guide"><article><h1>Guide</h1>'
            '<p class="dim">How to use this server, how to pay, and how to run one. '
            f"The project's tests run every sample.</p>{_search_form()}"
            f'<div class="cards">{lists}</div></article></div>'
        )
        return self._shell.page("/guide", "Guide · Tollhouse", main, scripts=FILES)

    def _search_endpoint(self) -> Endpoint:
        async def search(request: Request[GuideQuery, None]) -> Response:
            words = request.query.q.strip()
            is_page = request.media_type != JSON
            results, has_every_word = await asyncio.to_thread(self._find, words, RESULTS if is_page else SUGGESTIONS)
            if is_page:
                return self._results_page(words, results, has_every_word=has_every_word)
            return json_response(GuideResults(words, has_every_word, len(results), results))

        responses: dict[str, Any] = {HTML.partition(";")[0]: {}, JSON: {}}
        return Endpoint(
            "searchGuide", "GET", SEARCH, "Search the guide", search, FREE,
            query=GuideQuery, responses=responses, is_described=False,
        )  # fmt: skip

    def _find(self, words: str, limit: int) -> tuple[list[GuideResult], bool]:
        if self._search is None:
            # Most processes never search: the engine is imported with the first one.
            from tollhouse.console.guide_search import GuideIndex, sections_of

            # The pages and the references of this host, rendered and indexed on the first search.
            pages = [(page_title(name), page_path(name), self._text(name)) for name in page_names()]
            references = [
                (reference_title(one), reference_path(one), self._reference_text(one))
                for one in self._services.values()
            ]
            index = GuideIndex([each for page in (*pages, *references) for each in sections_of(*page)])
            self._search = index.search
        return self._search(words, limit)

    def _results_page(self, words: str, results: Sequence[GuideResult], *, has_every_word: bool) -> Response:
        items = "".join(
            f'<li><a class="title" href="{html.escape(one.address)}">{html.escape(one.heading)}</a> '
            f'<span class="dim small">{html.escape(one.page)}</span><p class="small">{_excerpt(one)}</p></li>'
            for one in results
        )
        count = (
            f"{len(results)} section{'' if len(results) == 1 else 's'}"
            if len(results) < RESULTS
            else f"The best {RESULTS}"
        )
        part = "" if has_every_word else "No section has all of these words. "
        said = f"{part}{count} for “{html.escape(words)}”" if results else "No section of the guide has these words."
        status = f'<p class="dim" role="status">{said}</p>' if words else ""
        main = (
            f'<div class="guide">{self._navigation(SEARCH, words)}<article class="prose"><h1>Search the guide</h1>'
            f'{status}<ol class="list results">{items}</ol></article></div>'
        )
        return self._shell.page(SEARCH, "Search · Guide · Tollhouse", main, scripts=FILES)

    def _navigation(self, current: str, words: str = "") -> str:
        lists = "".join(
            f"<details{' open' if any(path == current for path, _ in links) or title != _LAST else ''}>"
            f"<summary>{title}</summary>{_list(links, current)}</details>"
            for title, links in self._groups()
        )
        return (
            f'<div class="guide-side">{_search_form(words)}<nav class="guide-pages" aria-label="Pages of the guide">'
            f'<a href="/guide">All pages</a>{lists}</nav></div>'
        )

    def _groups(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The titles of the groups, each with the paths and titles of its pages."""
        groups = [
            (group.title, [(page_path(name), page_title(name)) for name in group.pages]) for group in page_groups()
        ]
        references = [(reference_path(service), service.name) for service in self._services.values()]
        return [*groups[:2], ("API reference", references), *groups[2:]]


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


def _search_form(words: str = "") -> str:
    return (
        f'<form class="guide-search" role="search" action="{SEARCH}">'
        '<label for="words" class="unseen">Search the guide</label>'
        f'<input id="words" name="q" type="search" maxlength="200" placeholder="Search the guide ( / )" '
        f'value="{html.escape(words)}"></form>'
    )


def _excerpt(result: GuideResult) -> str:
    pieces = ((html.escape(piece.text), piece.is_match) for piece in result.excerpt)
    return "".join(f"<mark>{text}</mark>" if is_match else text for text, is_match in pieces)


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
