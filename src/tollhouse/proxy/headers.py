"""Which headers a proxied request and its answer keep, lose and gain (RFC 9110, section 7.6)."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network

from tollhouse.http.request import HttpRequest, address_of
from tollhouse.http_client.connection import Headers

CALLER = b"tollhouse-caller"

_HOP_BY_HOP = frozenset({
    b"connection", b"http2-settings", b"keep-alive", b"proxy-authenticate", b"proxy-authentication-info",
    b"proxy-authorization", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip

# Credentials for this server, what this server says itself, and what makes some servers take another method or path
# than the one that was paid for.
_NOT_FORWARDED = _HOP_BY_HOP | {
    b"access-control-expose-headers", b"authorization", b"content-length", b"expect", b"forwarded", b"host",
    b"payment-identifier", b"payment-signature", b"sign-in-with-x", b"x-forwarded-for", b"x-forwarded-host",
    b"x-forwarded-port", b"x-forwarded-prefix", b"x-forwarded-proto", b"x-forwarded-server", b"x-http-method",
    b"x-http-method-override", b"x-method-override", b"x-original-url", b"x-payment", b"x-real-ip", b"x-request-id",
    b"x-rewrite-url", b"x-visit-token",
}  # fmt: skip
_OWN_PREFIXES = (b"tollhouse-", b"x-agent-")

# What this server says itself, and what would change how browsers treat its other pages.
_NOT_RETURNED = _HOP_BY_HOP | {
    b"access-control-allow-credentials", b"access-control-allow-headers", b"access-control-allow-methods",
    b"access-control-allow-origin", b"access-control-max-age", b"alt-svc", b"clear-site-data", b"content-length",
    b"payment-required", b"payment-response", b"ratelimit", b"ratelimit-policy", b"service-worker-allowed",
    b"strict-transport-security", b"www-authenticate", b"x-credits-tier", b"x-payment-response", b"x-ratelimit-limit",
    b"x-ratelimit-remaining", b"x-ratelimit-reset", b"x-request-id",
}  # fmt: skip
_ACTIVE_TYPES = (b"text/html", b"application/xhtml+xml", b"image/svg+xml", b"text/xml", b"application/xml")
# Documents of the upstream have no access to this server's pages, whose origin they share.
_SANDBOX = (b"content-security-policy", b"sandbox allow-downloads allow-forms allow-popups allow-scripts")


def named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """The lower-case names of the headers that are for this connection only (RFC 9110, section 7.6.1)."""
    values = [value for name, value in headers if name == b"connection"]
    return {part.strip().lower() for value in values for part in value.split(b",")} if values else set()


def forwarded(
    request: HttpRequest,
    prefix: str,
    added: Sequence[tuple[bytes, bytes]],
    trusted: Sequence[IPv4Network | IPv6Network],
    *,
    passes_cookies: bool,
) -> Headers:
    """The headers of the request to the upstream. `added` replace what the client sent under the same names."""
    received: list[tuple[bytes, bytes]] = request.scope["headers"]
    dropped = {name for name, _ in added}
    if b"connection" in request.headers:
        dropped |= named_by_connection(received)
    if not passes_cookies:
        dropped.add(b"cookie")
    headers = [one for one in received if (name := _forwarded_name(one[0])) is not None and name not in dropped]
    is_trusted = bool(trusted) and _is_in(request.peer, trusted)
    via, host = request.header(b"via"), request.header(b"host")
    headers += [
        (b"x-forwarded-for", _joined(request.header(b"x-forwarded-for") if is_trusted else "", request.peer)),
        (b"x-forwarded-proto", (is_trusted and _first(request, b"x-forwarded-proto")) or _scheme(request)),
        (b"x-forwarded-host", (is_trusted and _first(request, b"x-forwarded-host")) or host.encode("latin-1")),
        (b"x-request-id", request.id.encode()),
        (b"via", _joined(via, "1.1 tollhouse")),
    ]
    if prefix:
        headers.append((b"x-forwarded-prefix", prefix.encode()))
    return [*headers, *added]


@lru_cache(maxsize=1_024)
def _forwarded_name(name: bytes) -> bytes | None:
    """The name to compare with; None for what is never forwarded. Some gateways take an underscore for a hyphen."""
    key = name.replace(b"_", b"-")
    return None if key in _NOT_FORWARDED or key.startswith(_OWN_PREFIXES) or key == b"via" else key


@lru_cache(maxsize=1_024)
def _is_returned(name: bytes) -> bool:
    return name not in _NOT_RETURNED and not name.startswith(b"tollhouse-")


def returned(headers: Headers, *, keeps_length: bool, passes_cookies: bool) -> Headers:
    """The headers of the answer that are passed on."""
    passed: Headers = []
    media_type = b""
    names: set[bytes] = set()
    for one in headers:
        name = one[0]
        if name == b"connection":
            names = named_by_connection(headers)
        elif name == b"content-type":
            media_type = one[1].lower()
        is_passed = _is_returned(name) or (keeps_length and name == b"content-length")
        if is_passed and (passes_cookies or name != b"set-cookie"):
            passed.append(one)
    if names:
        passed = [one for one in passed if one[0] not in names]
    return [*passed, _SANDBOX] if media_type.startswith(_ACTIVE_TYPES) else passed


def rewritten(headers: Headers, upstream_url: str, public: str) -> Headers:
    """The headers with the addresses of redirects in the upstream changed to those below the path `public`."""
    return [
        (name, _address(value.decode("latin-1"), upstream_url, public).encode("latin-1"))
        if name in {b"location", b"content-location"}
        else (name, value)
        for name, value in headers
    ]


def _address(location: str, upstream_url: str, public: str) -> str:
    base = upstream_url.rstrip("/")
    path = "/" + base.partition("://")[2].partition("/")[2] if "/" in base.partition("://")[2] else ""
    for start in (base, path):
        if location == start or (location.startswith((f"{start}/", f"{start}?")) and not location.startswith("//")):
            return public + location[len(start) :] or "/"
    return location


def _joined(before: str, last: str) -> bytes:
    return (f"{before}, {last}" if before else last).encode("latin-1")


def _first(request: HttpRequest, name: bytes) -> bytes:
    """The header's first value: what the proxy nearest to the client says."""
    return request.header(name).partition(",")[0].strip().encode("latin-1")


def _scheme(request: HttpRequest) -> bytes:
    scheme: str = request.scope.get("scheme") or "http"
    return scheme.encode()


def _is_in(peer: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    try:
        address = address_of(peer)
    except ValueError:
        return False
    return any(address in network for network in networks)
