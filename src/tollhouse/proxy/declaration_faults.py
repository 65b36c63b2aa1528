"""Contradictions within a declaration of a proxied API: the key and the reason of each."""

import re
from collections.abc import Iterator
from decimal import Decimal
from urllib.parse import urlsplit

from tollhouse.money import MICROS_PER_USD
from tollhouse.proxy.declared import FREE_ACCESS, Head, RouteRule, UpstreamPart, pattern_of, shape
from tollhouse.proxy.openapi_document import METHODS

MAX_ROUTES = 1_000
MAX_FREE_PER_DAY = 1_000_000_000
MAX_BODY_BYTES = 1_099_511_627_776
MAX_BUFFER_BYTES = 67_108_864

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_UNIT = re.compile(r"[A-Za-z][A-Za-z -]{0,39}")
_ENTITLEMENT = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_PARAMETER = re.compile(r"\{(\w+)(:path)?\}")
# The toll and the HTTP client set these themselves.
_OWN_HEADERS = frozenset({
    "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
    "tollhouse-caller",
})  # fmt: skip

Fault = tuple[str, str]


def head_faults(head: Head) -> Iterator[Fault]:
    """What is wrong outside of `[upstream]` and the routes."""
    yield from _amount_faults(("price_usd", head.price_usd))
    if not head.title.strip():
        yield "title", "is required: a few words"
    yield from _range_fault("free_per_day", head.free_per_day, 0, MAX_FREE_PER_DAY)
    for key in ("access", "other_routes"):
        if getattr(head, key) in ("anyone", "payer") and not head.price_usd:
            yield "price_usd", f"is required where {key} is {getattr(head, key)}"
    if not (head.upstream.openapi or head.routes or head.other_routes != "none"):
        yield "other_routes", "nothing would be served: name an openapi document, routes, or who may call every path"
    if len(head.routes) > MAX_ROUTES:
        yield "routes", f"there may be at most {MAX_ROUTES}"


def upstream_faults(upstream: UpstreamPart) -> Iterator[Fault]:
    """What is wrong in `[upstream]`."""
    for name in upstream.headers:
        if not _HEADER.fullmatch(name):
            yield f"upstream.headers.{name}", "is not the name of a header"
        if name.lower() in _OWN_HEADERS:
            yield f"upstream.headers.{name}", "cannot be set: this server sets it itself"
    if len({name.lower() for name in upstream.headers}) < len(upstream.headers):
        yield "upstream.headers", "a header may be set once"
    for key in ("connect_seconds", "answer_seconds", "pause_seconds"):
        if not 0 < getattr(upstream, key) <= 3_600:
            yield f"upstream.{key}", "must be above 0, at most 3600"
    if fault := url_fault(upstream.url):
        yield "upstream.url", fault
    yield from _range_fault("upstream.total_seconds", upstream.total_seconds, 0, 86_400)
    yield from _range_fault("upstream.body_limit_bytes", upstream.body_limit_bytes, 0, MAX_BODY_BYTES)
    yield from _range_fault("upstream.buffer_bytes", upstream.buffer_bytes, 1_024, MAX_BUFFER_BYTES)


def url_fault(url: str) -> str:
    """Why an upstream cannot be at this URL, "" when it can."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_whole = False
    if not is_whole or not url.isascii() or re.search(r"[\s\x00-\x1f\\{}]", url):
        return "must be an http:// or https:// URL"
    if "?" in url or "#" in url:
        return "must not have a query or a fragment"
    if parts.username is not None or parts.password is not None:
        return "must not have a user or a password; set the header Authorization in [upstream.headers]"
    return ""


def rules_faults(head: Head, rules: dict[str, RouteRule]) -> Iterator[Fault]:
    """What is wrong in the routes."""
    seen: dict[tuple[str, str, bool], str] = {}
    for key, rule in rules.items():
        where = f"routes.{key}"
        if fault := next(_pattern_faults(key), ""):
            yield where, fault
            continue
        pattern = pattern_of(key)
        same = (pattern.method, shape(pattern.template), pattern.is_open)
        if same in seen:
            yield where, f"is the same route as {seen[same]}"
        seen[same] = key
        for faults in (_price_faults(head, rule), _measure_faults(rule), _access_faults(head, rule)):
            yield from ((f"{where}.{name}", fault) for name, fault in faults)


def _price_faults(head: Head, rule: RouteRule) -> Iterator[Fault]:
    amounts = ("price_usd", "max_usd", "usd_per_unit", "usd_per_kilobyte")
    yield from _amount_faults(*((name, getattr(rule, name)) for name in amounts))
    access, price = rule.access_in(head), head.price_usd if rule.price_usd is None else rule.price_usd
    if rule.offered and access in ("anyone", "payer") and not price and not rule.is_measured:
        yield "price_usd", f"must be above 0 where access is {access}"
    if rule.is_measured and not rule.max_usd:
        yield "max_usd", "is required where the cost is known only from the answer"
    if rule.max_usd is not None and not rule.is_measured:
        yield "max_usd", "needs cost_header, units_header or usd_per_kilobyte"
    if rule.max_usd is not None and (rule.price_usd or 0) > rule.max_usd:
        yield "max_usd", "must not be below price_usd"
    if rule.is_measured and access == FREE_ACCESS:
        yield "access", "a route that is free has no cost"


def _measure_faults(rule: RouteRule) -> Iterator[Fault]:
    """What is wrong in how the cost of an answer is known."""
    if sum(map(bool, (rule.cost_header, rule.units_header, rule.usd_per_kilobyte is not None))) > 1:
        yield "cost_header", "only one of cost_header, units_header and usd_per_kilobyte can be set"
    if bool(rule.units_header) != (rule.usd_per_unit is not None):
        yield "usd_per_unit", "units_header and usd_per_unit need each other"
    for name in ("cost_header", "units_header"):
        if getattr(rule, name) and not _HEADER.fullmatch(getattr(rule, name)):
            yield name, "is not the name of a header"
    if rule.unit and (not rule.units_header or not _UNIT.fullmatch(rule.unit)):
        yield "unit", "is the noun for a unit of units_header, such as row"


def _access_faults(head: Head, rule: RouteRule) -> Iterator[Fault]:
    access, free = rule.access_in(head), rule.free_per_day
    yield from _range_fault("free_per_day", free or 0, 0, MAX_FREE_PER_DAY)
    if free is not None and access != "anyone":
        yield "free_per_day", f"has no meaning where access is {access}"
    if rule.entitlement and (access != "key" or not _ENTITLEMENT.fullmatch(rule.entitlement)):
        yield "entitlement", "is a name in lower-case letters, for a route whose access is key"
    if not rule.counted and access != "key":
        yield "counted", f"has no meaning where access is {access}; a route that costs nothing has access free"


def _amount_faults(*amounts: tuple[str, Decimal | None]) -> Iterator[Fault]:
    for key, amount in amounts:
        if amount is not None and (not amount.is_finite() or not 0 <= amount <= 1_000 or amount * MICROS_PER_USD % 1):
            yield key, "must be between 0 and 1000, with at most 6 decimals"


def _range_fault(key: str, value: float, lowest: int, highest: int) -> Iterator[Fault]:
    if not lowest <= value <= highest:
        yield key, f"must be between {lowest} and {highest}"


def _pattern_faults(key: str) -> Iterator[str]:
    """Why the key of a rule is no pattern."""
    method, _, path = key.rpartition(" ")
    plain, names = _PARAMETER.sub("", path), [name for name, _ in _PARAMETER.findall(path)]
    if method and method not in METHODS:
        yield f"the method must be one of {', '.join(METHODS)}, or left out"
    if not path.startswith("/") or re.search(r"[\x00-\x20\x7f?#%\\]|//", path):
        yield "must be a path that begins with a slash, after a method: GET /v1/*"
    if "*" in path.removesuffix("/*"):
        yield "a * stands for the rest of the path: only at the end, after a slash"
    if any(part in (".", "..") for part in path.split("/")):
        yield "must not have the segments . or .."
    if "{" in plain or "}" in plain or not all(name.isascii() for name in names):
        yield "a parameter is written {name}, with letters, digits and underscores"
    if ":path}" in path.removesuffix(":path}"):
        yield "only the last segment can be {name:path}"
    if len(set(names)) < len(names) or any(not name[0].isalpha() for name in names):
        yield "each parameter needs a name of its own, a letter first"
