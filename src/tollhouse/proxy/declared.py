"""What a declaration of a proxied API contains."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from tollhouse.money import MICROS_PER_USD
from tollhouse.proxy.openapi_document import OpenApiDocument

Access = Literal["free", "key", "anyone", "payer"]
FREE_ACCESS: Access = "free"
OtherRoutes = Literal["none", "free", "key", "anyone", "payer"]


class Secret(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A value that is not in the declaration: in a variable of the environment, or in a file."""

    env: str = ""
    file: str = ""


class UpstreamPart(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[upstream]`: where the API is, how it is called, and what it may take.

    `url` may have a path, which goes before the path of each request. `openapi` is the path of its OpenAPI document,
    relative to the declaration. `headers` are set on each request, `caller_key` signs the header that says who calls.
    With `passes_authentication` its own 401, 402 and 407 are passed on, and with `passes_cookies` its cookies. Times
    are in seconds; `total_seconds` 0 is no limit.
    """

    url: str
    openapi: str = ""
    headers: dict[str, str | Secret] = {}
    caller_key: str | Secret = ""
    passes_cookies: bool = False
    passes_authentication: bool = False
    ca_file: str = ""
    connect_seconds: float = 5
    answer_seconds: float = 30
    pause_seconds: float = 60
    total_seconds: float = 0
    body_limit_bytes: int = 10 * 1_048_576
    buffer_bytes: int = 1_048_576


class RouteRule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[routes."GET /v1/*"]`: what differs for the routes of a pattern. What is left out is as for every other route.

    A route that is not `offered` answers 404. `counted` False: a call with a key does not count against its plan.
    `cost_header` has the cost of an answer in USD, `units_header` its units at `usd_per_unit`; with these or
    `usd_per_kilobyte`, a call costs at most `max_usd`.
    """

    offered: bool = True
    access: Access | None = None
    price_usd: Decimal | None = None
    max_usd: Decimal | None = None
    cost_header: str = ""
    units_header: str = ""
    unit: str = ""
    usd_per_unit: Decimal | None = None
    usd_per_kilobyte: Decimal | None = None
    free_per_day: int | None = None
    entitlement: str = ""
    counted: bool = True

    @property
    def is_measured(self) -> bool:
        return bool(self.cost_header or self.units_header or self.usd_per_kilobyte is not None)

    def access_in(self, head: "Head") -> Access:
        return self.access or head.usual_access


class Head(Struct, frozen=True, forbid_unknown_fields=True):
    """A declaration as its file has it, with the routes not yet read."""

    title: str
    upstream: UpstreamPart
    description: str = ""
    licence: str = "unknown"
    access: Access | None = None
    price_usd: Decimal | None = None
    free_per_day: int = 100
    other_routes: OtherRoutes = "none"
    routes: dict[str, Any] = {}

    @property
    def usual_access(self) -> Access:
        """Who may call the routes that say nothing else."""
        return self.access or ("key" if self.price_usd is None else "anyone")


class Pattern(Struct, frozen=True):
    """The key of a rule: an empty `method` is every one. A pattern that `is_open` stands for every path below it.

    `template` is the path as a route has it; of an open pattern, the part before the `*`.
    """

    method: str
    template: str
    is_open: bool

    @property
    def key(self) -> str:
        return f"{self.method} {self.template}{'*' if self.is_open else ''}".strip()

    def covers(self, method: str, template: str) -> bool:
        if self.method not in ("", method):
            return False
        if self.is_open:
            return template.startswith(self.template) or f"{template}/" == self.template
        return shape(template) == shape(self.template)

    @property
    def rank(self) -> tuple[bool, int, bool]:
        """Of two rules about a route, the one that ranks higher applies."""
        return not self.is_open, len(self.template), bool(self.method)


class ProxyDeclaration(Struct, frozen=True):
    """A proxied API. `headers` and `caller_key` have their values; `document` is None without an OpenAPI document."""

    name: str
    path: Path
    head: Head
    rules: dict[Pattern, RouteRule]
    headers: dict[str, str]
    caller_key: str
    document: OpenApiDocument | None

    def rule(self, method: str, template: str) -> tuple[Pattern | None, RouteRule]:
        """What the rules say of a route: the closest pattern that covers it, and its rule."""
        covering = [pattern for pattern in self.rules if pattern.covers(method, template)]
        closest = max(covering, key=lambda one: one.rank, default=None)
        return closest, RouteRule() if closest is None else self.rules[closest]


def shape(template: str) -> str:
    """The template without the names of its parameters: templates of equal shape are the same route."""
    return re.sub(r"\{[^{}]*\}", "{}", template)


def micros(amount: Decimal) -> int:
    """USD as micro-USD, as the declaration's checks have them whole."""
    return int(amount * MICROS_PER_USD)


def pattern_of(key: str) -> Pattern:
    """The pattern that the key of a valid rule is."""
    method, _, path = key.rpartition(" ")
    return Pattern(method, path.removesuffix("*"), path.endswith("*"))
