"""Errors as pages, for a person who opens an address in a browser; programs get problem+json."""

import html
import re
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from string import Template

from tollhouse.console.page_shell import HERE, PageShell
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Response
from tollhouse.http.request import HttpRequest
from tollhouse.http.response import problem_headers
from tollhouse.http.router import Route

SIMILAR = 0.6
LONGEST_PATH = 200
ALLOWED_SHOWN = 12
FIRST_SERVER_ERROR = 500
_TRY_AGAIN = "Try again in a moment."

_HELP = {
    "not-found": "Check the address, search the documentation, or start from one of the pages below.",
    "method-not-allowed": "This address answers other methods than the one your browser used.",
    "missing-credentials": "Programs call this address with a key. The pages below show the same data without one.",
    "invalid-key": "Check the key, or make a new one.",
    "payment-required": "A program can go on as said above. The pages below are free to read.",
    "rate-limited": "Wait, then load the page again.",
    "quota-exceeded": "Come back after the reset, or use a key of a plan with a higher limit.",
    "internal-error": "Try again. If it happens again, tell the operator the request id.",
}
_STATUS_HELP = {
    400: "Correct the address: a parameter is unknown or has a value that is not accepted.",
    401: "Send valid credentials with the call.",
    402: "A program can go on as said above. The pages below are free to read.",
    429: "Wait, then load the page again.",
}
_TITLES = {"not-found": "Page not found", "missing-credentials": "This address needs a key"}


class ErrorPages:
    """The pages of errors of one host. `paths` are the addresses that exist."""

    def __init__(self, shell: PageShell, paths: Iterable[str]) -> None:
        self._shell = shell
        self._pages = [link.path for link in (*shell.links, *shell.tools, *shell.footer)]
        self._paths = [path for path in paths if not path.startswith(("/console/", "/operator"))]

    def render(self, problem: Problem, request: HttpRequest, route: Route | None) -> Response:
        title = _TITLES.get(problem.code, problem.title)
        page = self._shell.page("", f"{title} · Tollhouse", self._main(problem, title, request, route))
        return replace(
            page,
            status=problem.status,
            headers=(*page.headers, *problem_headers(problem)),
            cache_control="no-store",
            etag=None,
            compressed={},
            head=(),
        )

    def _main(self, problem: Problem, title: str, request: HttpRequest, route: Route | None) -> str:
        after = problem.facts.get("retry_after_seconds")
        otherwise = _TRY_AGAIN if problem.status >= FIRST_SERVER_ERROR else "Correct the call and send it again."
        texts = {
            "status": str(problem.status),
            "title": html.escape(title),
            "detail": _described(problem, request, route) + self._allowed(problem),
            "help": html.escape(_HELP.get(problem.code) or _STATUS_HELP.get(problem.status, otherwise)),
            "wait": f" Try again in {after} seconds." if isinstance(after, int) else "",
            "links": self._links(problem, request, route),
            "pages": "".join(_link(link.path, link.text) for link in (*self._shell.links, *self._shell.tools)),
            "request_id": html.escape(request.id),
            "code": problem.code,
        }
        return Template((HERE / "pages" / "error.html").read_text("utf-8")).substitute(texts)

    def _allowed(self, problem: Problem) -> str:
        allowed = problem.facts.get("allowed") or []
        if not allowed:
            return ""
        names = ", ".join(f"<code>{html.escape(str(one))}</code>" for one in allowed[:ALLOWED_SHOWN])
        more = f" and {len(allowed) - ALLOWED_SHOWN} more" if len(allowed) > ALLOWED_SHOWN else ""
        return f" Accepted: {names}{more}."

    def _links(self, problem: Problem, request: HttpRequest, route: Route | None) -> str:
        """Where to go instead: similar addresses, a key, or the reference of the service."""
        if route is None and problem.code == "not-found":
            similar = get_close_matches(request.path, [*self._pages, *self._paths], n=3, cutoff=SIMILAR)
            return (
                f"<p>Did you mean one of these?</p>{_list((path, path) for path in dict.fromkeys(similar))}"
                if similar
                else ""
            )
        if route is None or route.service.name not in self._shell.prefixes:
            return ""
        links = [(f"{route.prefix}/docs", f"API reference of {route.service.title.removeprefix('Tollhouse: ')}")]
        links += [(page.path, page.title) for page in route.service.pages]
        if problem.status in {401, 402, 403, 429}:
            links.insert(0, ("/keys", "Keys and plans"))
        return _list(links)


def _list(links: Iterable[tuple[str, str]]) -> str:
    return f"<ul>{''.join(f'<li>{_link(*one)}</li>' for one in links)}</ul>"


def _link(path: str, text: str) -> str:
    return f'<a href="{html.escape(path)}">{html.escape(text)}</a>'


def _described(problem: Problem, request: HttpRequest, route: Route | None) -> str:
    """What happened, as HTML."""
    if route is None and problem.code == "not-found":
        return f"There is no page at <code>{html.escape(request.path[:LONGEST_PATH])}</code>."
    # Pairs of backticks enclose code.
    return re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(problem.detail))
