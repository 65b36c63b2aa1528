"""Which toll a request meets: of a table of routes, or of the handler that the application would call."""

import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from inspect import getdoc
from typing import Any
from urllib.parse import quote

from tollhouse.errors import Problem
from tollhouse.http.paid_paths import SIWX_PATH, X402_PATH
from tollhouse.http.request import Scope, below
from tollhouse.middleware.toll import MARK, Toll

LONGEST_ID = 120

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})

_RULE = re.compile(r"(?:([A-Z]+) )?(/\S*)")
_PARAMETER = re.compile(r"\{(\w+)(:path)?\}")
_OVERLOOKED = re.compile(r"(?:/|\\|%2f|%5c)+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TolledRoute:
    """A route with terms. `path` is its template; `handler` is None for a rule of a table.

    Below `paid_prefix` (`/x402`, `/siwx`) each call is paid, and the application gets the path without it.
    """

    toll: Toll
    method: str
    path: str
    handler: Callable[..., Any] | None = None
    paid_prefix: str = ""

    @property
    def id(self) -> str:
        """Its name in logs and statistics."""
        return f"{self.method} {self.path}"[:LONGEST_ID]

    @property
    def parameters(self) -> list[str]:
        return [parameter[1] for parameter in _PARAMETER.finditer(self.path)]

    @property
    def summary(self) -> str:
        """The first line of the handler's docstring, else the route."""
        text = (getdoc(self.handler) or "").partition("\n")[0] if self.handler is not None else ""
        return text.removesuffix(".") or f"{self.method} {self.path}"


class Rule:
    """A line of a table: `GET /reports/{id}`, or `/reports/{id}` for every method. `{rest:path}` has slashes."""

    def __init__(self, text: str, toll: Toll | None) -> None:
        rule = _RULE.fullmatch(text)
        if rule is None or (rule[1] and rule[1] not in METHODS):
            raise ValueError(f"{text!r} is not a route such as 'GET /reports/{{id}}'")
        self.toll = toll
        self.method, self.path = rule[1] or "", rule[2]
        self._exactly = re.compile(_pattern(self.path)).fullmatch
        self._loosely = re.compile(_pattern(_loose(self.path)), re.IGNORECASE).fullmatch

    def covers(self, method: str, path: str) -> bool:
        return self._has(method) and self._exactly(path) is not None

    def nearly_covers(self, method: str, path: str) -> bool:
        """Whether a server could take the path for one of this route: another case, more slashes."""
        return self._has(method) and self._loosely(_loose(path)) is not None

    def _has(self, method: str) -> bool:
        return self.method in {"", method} or (method == "HEAD" and self.method == "GET")


def _pattern(template: str) -> str:
    text, position = "", 0
    for parameter in _PARAMETER.finditer(template):
        text += re.escape(template[position : parameter.start()]) + (".*" if parameter[2] else "[^/]+")
        position = parameter.end()
    return text + re.escape(template[position:])


class Routes:
    """The routes of an application. The first rule of the table that covers a request decides, then its handler."""

    def __init__(self, app: Any, table: Mapping[str, Toll | None]) -> None:
        """Raises ValueError for a rule that is not a route, and where no request could have a toll."""
        self._rules = [Rule(text, toll) for text, toll in table.items()]
        self._handler_of = handler_finder(app)
        if not self._rules and self._handler_of is None:
            raise ValueError(
                "this application does not say which handler a request reaches: give TollMiddleware a table of `routes`"
            )

    def find(self, scope: Scope) -> tuple[TolledRoute, Scope] | None:
        """The toll of a request, and the scope for the application; None where it has none.

        Raises Problem `invalid-request` for a path that the application may take for that of a rule.
        """
        path = local_path(scope)
        for prefix in (X402_PATH, SIWX_PATH):
            if path.startswith(f"{prefix}/"):
                below = _without_prefix(scope, prefix)
                tolled = self._tolled(below)
                if tolled is not None and tolled.toll.price is not None:
                    return replace(tolled, paid_prefix=prefix), below
        tolled = self._tolled(scope)
        return None if tolled is None else (tolled, scope)

    def _tolled(self, scope: Scope) -> TolledRoute | None:
        """Raises Problem `invalid-request`."""
        method, path = scope["method"], local_path(scope)
        if method not in METHODS:
            return None
        for rule in self._rules:
            if rule.covers(method, path):
                return TolledRoute(rule.toll, method, rule.path) if rule.toll else None
        for rule in self._rules:
            if rule.toll and rule.nearly_covers(method, path):
                raise Problem("invalid-request", f"Send the path as it is declared: {rule.path}", allowed=[rule.path])
        match = self._handler_of(scope) if self._handler_of else None
        if match is None:
            return None
        handler, template = match
        toll = getattr(handler, MARK, None)
        return TolledRoute(toll, method, template or "/", handler) if toll else None


def local_path(scope: Scope) -> str:
    """The decoded path below the one at which the application is mounted, as frameworks match it."""
    return below(scope.get("root_path", "").rstrip("/"), scope["path"])


def _without_prefix(scope: Scope, prefix: str) -> Scope:
    """The scope of the same request for the path below a prefix."""
    root: str = scope.get("root_path", "").rstrip("/")
    path: str = scope["path"]
    base = root if path.startswith(f"{root}{prefix}/") else ""
    below = base + path[len(base) + len(prefix) :]
    return {**scope, "path": below, "raw_path": quote(below).encode()}


Finder = Callable[[Scope], tuple[Any, str] | None]


def handler_finder(app: Any) -> Finder | None:
    """What tells the handler of a request, and the template of its path; None where the application does not say.

    Starlette, FastAPI and Litestar do. Middleware around them is looked through.
    """
    while app is not None:
        if hasattr(app, "asgi_router"):
            return _LitestarHandlers(app)
        if hasattr(app, "routes") and all(hasattr(route, "matches") for route in app.routes):
            return _StarletteHandlers(app)
        app = getattr(app, "app", None)
    return None


class _StarletteHandlers:
    """Asks each route of the application whether it matches, as the application does."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, scope: Scope) -> tuple[Any, str] | None:
        return _matched(self._app.routes, dict(scope), "")


def _matched(routes: Any, scope: MutableMapping[str, Any], prefix: str) -> tuple[Any, str] | None:
    partial = None
    for route in routes:
        match, child = route.matches(scope)
        # Match.FULL is 2; a PARTIAL one has another method, and answers only if no other route matches.
        if match.value == 2:
            return _of_route(route, {**scope, **child}, child, prefix)
        partial = partial or (match.value == 1 and route)
    return None


def _of_route(route: Any, scope: Scope, child: Mapping[str, Any], prefix: str) -> tuple[Any, str] | None:
    template = prefix + getattr(route, "path", "")
    if hasattr(route, "effective_candidates"):
        # FastAPI's included routers are matched by a router of their own.
        _, child, inner, context = route._match(scope)  # noqa: SLF001 - there is no public way
        if context is None:
            return _of_route(inner, scope, child, prefix)
        return inner.endpoint, prefix + (getattr(context, "path", None) or inner.path)
    nested = getattr(child.get("endpoint"), "routes", None) or getattr(route, "routes", None)
    if nested and "endpoint" in child:
        return _matched(nested, scope, template)
    handler = child.get("endpoint")
    return None if handler is None else (handler, re.sub(r"\{(\w+):\w+\}", r"{\1}", template))


class _LitestarHandlers:
    """Asks the application's router."""

    def __init__(self, app: Any) -> None:
        self._router = app.asgi_router

    def __call__(self, scope: Scope) -> tuple[Any, str] | None:
        from litestar.exceptions import HTTPException
        from litestar.utils import normalize_path

        try:
            _, handler, _, _, template = self._router.handle_routing(
                path=normalize_path(local_path(scope)), method=scope["method"]
            )
        except HTTPException:
            return None
        return handler.fn, re.sub(r"\{(\w+):\w+\}", r"{\1}", template)


def _loose(path: str) -> str:
    """The path without what servers overlook: repeated and encoded slashes, a slash at the end, `;` and after."""
    return _OVERLOOKED.sub("/", path.partition(";")[0]).rstrip("/") or "/"
