"""Requests to URLs of strangers: they resolve, validate, and connect to that address.

The Host header keeps the name. Proxies from the environment and redirects are not followed, because their targets are
not validated.
"""

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import httpx2

from tollhouse.http_client.connection import Exchange, Framing, Headers, RequestFailed
from tollhouse.http_client.pool import ConnectionPool, Origin, encode_head
from tollhouse.http_client.targets import Resolve, TargetRules, parse_target, resolve_public_addresses

IDLE_CONNECTIONS = 512
_REMEMBERED_URLS = 4_096
_ERRORS = {
    "unreachable": httpx2.ConnectError,
    "tls": httpx2.ConnectError,
    "cut": httpx2.ReadError,
    "invalid": httpx2.RemoteProtocolError,
}


class ValidatedClient:
    """Sends requests to URLs that the rules allow, over connections to validated addresses."""

    def __init__(self, rules: TargetRules, resolve: Resolve, tls: ssl.SSLContext | None = None) -> None:
        async def addresses(origin: Origin) -> list[str]:
            scheme = "https" if origin.is_https else "http"
            return await resolve_public_addresses(scheme, origin.host, rules, resolve)

        self._pool = ConnectionPool(tls or httpx2.create_ssl_context(), IDLE_CONNECTIONS, addresses)
        self._parse: Callable[[str], httpx2.URL] = lru_cache(_REMEMBERED_URLS)(lambda url: parse_target(url, rules))

    async def send(self, method: str, url: str, headers: Headers, body: bytes, *, may_repeat: bool) -> Exchange:
        """Send a request; the exchange once the head of its answer is there. Raises TargetRefused and RequestFailed.

        `headers` are without Host and Content-Length.
        """
        target = self._parse(url)
        is_https = target.scheme == "https"
        origin = Origin(is_https, target.raw_host.decode(), target.port or (443 if is_https else 80))
        framing = Framing(len(body), method == "HEAD", expects_continue=False)
        headers = [(b"Host", target.netloc), *headers]
        if body or method not in {"GET", "HEAD"}:
            headers.append((b"Content-Length", b"%d" % len(body)))
        head = encode_head(method.encode(), target.raw_path, headers)
        return await self._pool.send(origin, head, body, framing, may_repeat=may_repeat)

    async def close(self) -> None:
        await self._pool.close()


class ValidatedTransport(httpx2.AsyncBaseTransport):
    """For an `httpx2.AsyncClient(transport=…)`. Raises TargetRefused where it may not call."""

    def __init__(self, rules: TargetRules, resolve: Resolve, tls: ssl.SSLContext | None = None) -> None:
        self._client = ValidatedClient(rules, resolve, tls)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; the response, its body not read yet. Raises TargetRefused or httpx2.TransportError."""
        headers = [one for one in request.headers.raw if one[0].lower() not in _OWN_HEADERS]
        body = await request.aread()
        with _as_httpx2():
            exchange = await self._client.send(
                request.method, str(request.url), headers, body, may_repeat=request.method in {"GET", "HEAD"}
            )
        return httpx2.Response(exchange.status, headers=exchange.headers, stream=_Body(exchange))

    async def aclose(self) -> None:
        await self._client.close()


_OWN_HEADERS = {b"host", b"content-length", b"transfer-encoding"}


class _Body(httpx2.AsyncByteStream):
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx2():
            async for piece in self._exchange:
                yield piece

    async def aclose(self) -> None:
        await self._exchange.aclose()


@contextmanager
def _as_httpx2() -> Iterator[None]:
    try:
        yield
    except RequestFailed as failure:
        raise _ERRORS[failure.kind](str(failure)) from failure
