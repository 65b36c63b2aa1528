"""An HTTP transport that reaches validated addresses only: it resolves, validates, and connects to that address.

TLS and the Host header keep the name, so certificates are verified against it. Proxies from the environment and
redirects are not followed, because their targets are not validated.
"""

import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore2
import httpx2

from tollhouse.webhooks.target_validation import (
    Resolve,
    TargetRefused,
    TargetRules,
    parse_target,
    resolve_public_addresses,
)

CONNECT_SECONDS = 5.0
ADDRESSES_TRIED = 3
# The pool checks every idle connection with every request.
IDLE_CONNECTIONS = 20
IDLE_SECONDS = 5.0

_ERRORS: tuple[tuple[type[Exception], type[httpx2.TransportError]], ...] = (
    (httpcore2.ConnectTimeout, httpx2.ConnectTimeout),
    (httpcore2.TimeoutException, httpx2.ReadTimeout),
    (httpcore2.ConnectError, httpx2.ConnectError),
    (httpcore2.NetworkError, httpx2.ReadError),
    (httpcore2.ProtocolError, httpx2.RemoteProtocolError),
)


class TlsFailed(httpx2.ConnectError):
    """The other end does not speak TLS, or its certificate is not valid for the name."""


class VettedTransport(httpx2.AsyncBaseTransport):
    """For an `httpx2.AsyncClient(transport=…)`, or on its own. Raises TargetRefused where it may not call."""

    def __init__(self, rules: TargetRules, resolve: Resolve, tls: ssl.SSLContext | None = None) -> None:
        self._rules = rules
        context = tls or httpx2.create_ssl_context()
        self._pools = {scheme: _pool(scheme, rules, resolve, context) for scheme in ("https", "http")}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; the response, its body not read yet. Raises TargetRefused or httpx2.TransportError."""
        url = parse_target(str(request.url), self._rules)
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        core_request = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _as_httpx2():
            response = await self._pools[url.scheme].handle_async_request(core_request)
        return httpx2.Response(
            response.status, headers=response.headers, stream=_Body(response), extensions=response.extensions
        )

    async def aclose(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            await pool.aclose()


class _VettedNetwork(httpcore2.AsyncNetworkBackend):
    """Opens connections for one scheme. A pool never uses one name's connections for another."""

    def __init__(self, scheme: str, rules: TargetRules, resolve: Resolve) -> None:
        self._scheme = scheme
        self._rules = rules
        self._resolve = resolve
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the overridden method's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        within = CONNECT_SECONDS if timeout is None else min(timeout, CONNECT_SECONDS)
        addresses = await resolve_public_addresses(self._scheme, host, self._rules, self._resolve)
        failure: Exception = TargetRefused("the host name does not resolve")
        for address in addresses[:ADDRESSES_TRIED]:
            try:
                stream = await self._network.connect_tcp(address, port, within, local_address, socket_options)
                return _ClosingStream(stream)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure


class _ClosingStream(httpcore2.AsyncNetworkStream):
    """A connection that is closed if a deadline passes during its TLS handshake."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self.read = stream.read  # type: ignore[method-assign]
        self.write = stream.write  # type: ignore[method-assign]
        self.aclose = stream.aclose  # type: ignore[method-assign]
        self.get_extra_info = stream.get_extra_info  # type: ignore[method-assign]

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the overridden method's
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except httpcore2.ConnectError as error:
            raise TlsFailed(str(error)) from error
        except BaseException:
            await self._stream.aclose()
            raise


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: httpcore2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx2():
            async for part in self._response.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._response.aclose()


def _pool(scheme: str, rules: TargetRules, resolve: Resolve, context: ssl.SSLContext) -> httpcore2.AsyncConnectionPool:
    return httpcore2.AsyncConnectionPool(
        ssl_context=context,
        max_connections=None,
        max_keepalive_connections=IDLE_CONNECTIONS,
        keepalive_expiry=IDLE_SECONDS,
        network_backend=_VettedNetwork(scheme, rules, resolve),
    )


@contextmanager
def _as_httpx2() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        for core_error, http_error in _ERRORS:
            if isinstance(error, core_error):
                raise http_error(str(error)) from error
        raise
