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
# Whether there is a fault, its key, and its reason.
_Check = tuple[object, str, str]


def head_faults(head: Head) -> Iterator[Fault]:
    """What is wrong outside of `[upstream]` and the routes."""
    yield from _amount_faults(("price_usd", head.price_usd))
    sold = ("anyone", "payer")
    serves = head.upstream.openapi or head.routes or head.other_routes != "none"
    yield from _faults(
        (not head.title.strip(), "title", "is required: a few words"),
        (not 0 <= head.free_per_day <= MAX_FREE_PER_DAY, "free_per_day", f"must be between 0 and {MAX_FREE_PER_DAY}"),
        (head.access in sold and not head.price_usd, "price_usd", f"is required where access is {head.access}"),
        (
            head.other_routes in sold and not head.price_usd,
            "price_usd",
            f"is required where other_routes is {head.other_routes}",
        ),
        (
            not serves,
            "other_routes",
            "nothing would be served: name an openapi document, routes, or who may call every path",
        ),
        (len(head.routes) > MAX_ROUTES, "routes", f"there may be at most {MAX_ROUTES}"),
    )


def upstream_faults(upstream: UpstreamPart) -> Iterator[Fault]:
    """What is wrong in `[upstream]`."""
    fault = url_fault(upstream.url)
    for name in upstream.headers:
        yield from _faults(
            (not _HEADER.fullmatch(name), f"upstream.headers.{name}", "is not the name of a header"),
            (
                name.lower() in _OWN_HEADERS,
                f"upstream.headers.{name}",
                "cannot be set: this server sets it itself",
            ),
        )
    for key in ("connect_seconds", "answer_seconds", "pause_seconds"):
        yield from _faults(
            (not 0 < getattr(upstream, key) <= 3_600, f"upstream.{key}", "must be above 0, at most 3600")
        )
    yield from _faults(
        (fault, "upstream.url", fault),
        (
            len({name.lower() for name in upstream.headers}) < len(upstream.headers),
            "upstream.headers",
            "a header may be set once",
        ),
        (not 0 <= upstream.total_seconds <= 86_400, "upstream.total_seconds", "must be between 0 and 86400"),
        (
            not 0 <= upstream.body_limit_bytes <= MAX_BODY_BYTES,
            "upstream.body_limit_bytes",
            f"must be between 0 and {MAX_BODY_BYTES}",
        ),
        (
            not 1_024 <= upstream.buffer_bytes <= MAX_BUFFER_BYTES,
            "upstream.buffer_bytes",
            f"must be between 1024 and {MAX_BUFFER_BYTES}",
        ),
    )


def url_fault(url: str) -> str:
    """Why an upstream cannot be at this URL, "" when it can."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return "must be an http:// or https:// URL"
    faults = _faults(
        (
            not is_whole or not url.isascii() or re.search(r"[\s\x00-\x1f\\{}]", url),
            "",
            "must be an http:// or https:// URL",
        ),
        ("?" in url or "#" in url, "", "must not have a query or a fragment"),
        (
            parts.username is not None or parts.password is not None,
            "",
            "must not have a user or a password; set the header Authorization in [upstream.headers]",
        ),
    )
    return next((reason for _, reason in faults), "")


def rules_faults(head: Head, rules: dict[str, RouteRule]) -> Iterator[Fault]:
    """What is wrong in the routes."""
    seen: dict[tuple[str, str, bool], str] = {}
    for key, rule in rules.items():
        where = f"routes.{key}"
        if fault := _pattern_fault(key):
            yield where, fault
            continue
        pattern = pattern_of(key)
        same = (pattern.method, shape(pattern.template), pattern.is_open)
        if same in seen:
            yield where, f"is the same route as {seen[same]}"
        seen[same] = key
        for faults in (_price_faults(head, rule), _access_faults(head, rule)):
            yield from ((f"{where}.{name}", fault) for name, fault in faults)


def _price_faults(head: Head, rule: RouteRule) -> Iterator[Fault]:
    amounts = ("price_usd", "max_usd", "usd_per_unit", "usd_per_kilobyte")
    yield from _amount_faults(*((name, getattr(rule, name)) for name in amounts))
    access, price = rule.access_in(head), head.price_usd if rule.price_usd is None else rule.price_usd
    measures = (rule.cost_header, rule.units_header, rule.usd_per_kilobyte is not None)
    yield from _faults(
        (
            rule.offered and access in ("anyone", "payer") and not price and not rule.is_measured,
            "price_usd",
            f"must be above 0 where access is {access}",
        ),
        (
            rule.is_measured and not rule.max_usd,
            "max_usd",
            "is required where the cost is known only from the answer",
        ),
        (
            rule.max_usd is not None and not rule.is_measured,
            "max_usd",
            "needs cost_header, units_header or usd_per_kilobyte",
        ),
        (
            rule.max_usd is not None and (rule.price_usd or 0) > rule.max_usd,
            "max_usd",
            "must not be below price_usd",
        ),
        (
            sum(map(bool, measures)) > 1,
            "cost_header",
            "only one of cost_header, units_header and usd_per_kilobyte can be set",
        ),
        (
            bool(rule.units_header) != (rule.usd_per_unit is not None),
            "usd_per_unit",
            "units_header and usd_per_unit need each other",
        ),
        *(
            (header and not _HEADER.fullmatch(header), name, "is not the name of a header")
            for name, header in (("cost_header", rule.cost_header), ("units_header", rule.units_header))
        ),
        (
            rule.unit and (not rule.units_header or not _UNIT.fullmatch(rule.unit)),
            "unit",
            "is the noun for a unit of units_header, such as row",
        ),
        (rule.is_measured and access == FREE_ACCESS, "access", "a route that is free has no cost"),
    )


def _access_faults(head: Head, rule: RouteRule) -> Iterator[Fault]:
    access, free = rule.access_in(head), rule.free_per_day
    yield from _faults(
        (
            free is not None and not 0 <= free <= MAX_FREE_PER_DAY,
            "free_per_day",
            f"must be between 0 and {MAX_FREE_PER_DAY}",
        ),
        (free is not None and access != "anyone", "free_per_day", f"has no meaning where access is {access}"),
        (
            rule.entitlement and (access != "key" or not _ENTITLEMENT.fullmatch(rule.entitlement)),
            "entitlement",
            "is a name in lower-case letters, for a route whose access is key",
        ),
        (
            not rule.counted and access != "key",
            "counted",
            f"has no meaning where access is {access}; a route that costs nothing has access free",
        ),
    )


def _amount_faults(*amounts: tuple[str, Decimal | None]) -> Iterator[Fault]:
    for key, amount in amounts:
        if amount is not None and (not amount.is_finite() or not 0 <= amount <= 1_000 or amount * MICROS_PER_USD % 1):
            yield key, "must be between 0 and 1000, with at most 6 decimals"


def _pattern_fault(key: str) -> str:
    """Why the key of a rule is no pattern, "" when it is one."""
    method, _, path = key.rpartition(" ")
    plain, names = _PARAMETER.sub("", path), [name for name, _ in _PARAMETER.findall(path)]
    checks = _faults(
        (method and method not in METHODS, "", f"the method must be one of {', '.join(METHODS)}, or left out"),
        (
            not path.startswith("/") or re.search(r"[\x00-\x20\x7f?#%\\]|//", path),
            "",
            "must be a path that begins with a slash, after a method: GET /v1/*",
        ),
        (
            "*" in path.removesuffix("/*"),
            "",
            "a * stands for the rest of the path: only at the end, after a slash",
        ),
        (any(part in (".", "..") for part in path.split("/")), "", "must not have the segments . or .."),
        (
            "{" in plain or "}" in plain or not all(name.isascii() for name in names),
            "",
            "a parameter is written {name}, with letters, digits and underscores",
        ),
        (":path}" in path.removesuffix(":path}"), "", "only the last segment can be {name:path}"),
        (
            len(set(names)) < len(names) or any(not name[0].isalpha() for name in names),
            "",
            "each parameter needs a name of its own, a letter first",
        ),
    )
    return next((reason for _, reason in checks), "")


def _faults(*checks: _Check) -> Iterator[Fault]:
    return ((key, reason) for is_fault, key, reason in checks if is_fault)
