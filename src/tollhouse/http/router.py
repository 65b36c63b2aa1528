"""Which operation a path and a method mean, on which service."""

import re
from dataclasses import dataclass

from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint
from tollhouse.http.request import HttpRequest
from tollhouse.http.service import Service

_PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Route:
    """An operation where it is mounted: under `prefix`, empty at the root."""

    service: Service
    operation: Endpoint
    prefix: str


Methods = dict[str, Route]


class Router:
    """All the paths of one host."""

    def __init__(self) -> None:
        self._literal: dict[str, Methods] = {}
        self._patterns: list[tuple[re.Pattern[str], Methods]] = []
        self._templates: dict[str, Methods] = {}

    def mount(self, service: Service, prefix: str) -> None:
        """Put a service's operations under `prefix` (empty for the root)."""
        for endpoint in service.endpoints:
            self.add(service, endpoint, prefix)

    def add(self, service: Service, endpoint: Endpoint, prefix: str) -> None:
        """Add one endpoint, which counts as the service's."""
        self._methods(prefix + endpoint.path)[endpoint.method] = Route(service, endpoint, prefix)

    def find(self, request: HttpRequest) -> tuple[Route, dict[str, str]]:
        """The route and its path parameters. Raises Problem `not-found` or `method-not-allowed`."""
        methods, parameters = self._at(request.path)
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = allowed_methods(methods)
            raise Problem(
                "method-not-allowed",
                f"{request.method} does not work on this path; {', '.join(allowed)} does.",
                headers={"Allow": ", ".join(allowed)},
                allowed=allowed,
            )
        return route, parameters

    def allowed(self, path: str) -> list[str]:
        """The methods this path knows. Raises Problem `not-found`."""
        return allowed_methods(self._at(path)[0])

    def _methods(self, template: str) -> Methods:
        if "{" not in template:
            return self._literal.setdefault(template, {})
        if template not in self._templates:
            pattern = "".join(
                rf"(?P<{part}>[^/\x00-\x1f]{{1,200}})" if index % 2 else re.escape(part)
                for index, part in enumerate(_PARAMETER.split(template))
            )
            self._templates[template] = {}
            self._patterns.append((re.compile(pattern), self._templates[template]))
        return self._templates[template]

    def _at(self, path: str) -> tuple[Methods, dict[str, str]]:
        literal = self._literal.get(path)
        if literal is not None:
            return literal, {}
        for pattern, methods in self._patterns:
            match = pattern.fullmatch(path)
            if match:
                return methods, match.groupdict()
        raise Problem("not-found", "There is nothing at this path.")


def allowed_methods(methods: Methods) -> list[str]:
    """What `Allow` says: GET brings HEAD along, and OPTIONS always works."""
    return sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])})
