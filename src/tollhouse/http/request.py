"""HTTP requests as they arrive, with limits on the size of head and body, and the address of their client."""

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from random import getrandbits
from typing import Any
from urllib.parse import quote, unquote

from tollhouse.errors import Problem

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_REQUEST_ID = re.compile(r"[A-Za-z0-9._~-]{1,128}")
_HOST = re.compile(r"(?:[A-Za-z0-9._~-]+|\[([0-9A-Fa-f:.]+)\])(?::([0-9]{0,5}))?")


class HttpRequest:
    """Method, path, headers and the body's stream. Repeated headers are joined with a comma, as HTTP allows.

    `path` is the path below `root_path`, at which another application has mounted this one.
    """

    __slots__ = (
        "_disconnected",
        "_watching",
        "has_reader",
        "has_version_1_0",
        "headers",
        "headers_bytes",
        "id",
        "is_uploading",
        "listening",
        "method",
        "path",
        "peer",
        "query",
        "receive",
        "root_path",
        "scope",
        "upload",
    )

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.query: bytes = scope["query_string"]
        self.root_path, self.path = split_path(scope)
        self.peer: str = scope["client"][0] if scope.get("client") else ""
        self.listening: str = scope["server"][0] if scope.get("server") else ""
        self.has_version_1_0: bool = scope.get("http_version", "") in {"1", "1.0"}
        self.receive = receive
        self.has_reader = False
        self.is_uploading = False
        self.upload: Upload | None = None
        self._disconnected: asyncio.Future[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        headers: dict[bytes, str] = {}
        size = 0
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            text = value.decode("latin-1")
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        self.headers = headers
        self.headers_bytes = size
        given = headers.get(b"x-request-id")
        # An id for logs. It grants nothing, so it may be guessable and is cheap to make.
        self.id: str = given if given and _REQUEST_ID.fullmatch(given) else f"{getrandbits(64):016x}"

    def header(self, name: bytes) -> str:
        """The header's value, empty when it was not sent."""
        return self.headers.get(name, "")

    @property
    def raw_path(self) -> bytes:
        """The path below the mount as it was sent, percent-encoded."""
        raw: bytes = (self.scope.get("raw_path") or quote(self.scope["path"]).encode()).partition(b"?")[0]
        is_below = not self.root_path or decode_path(raw.decode("latin-1")) == self.path
        return raw if is_below else b"/" + raw.split(b"/", self.root_path.count("/") + 1)[-1]

    def watch_disconnect(self) -> None:
        """Watch for a disconnect from now on, or from the end of an upload in progress."""
        if self._disconnected is None:
            self._disconnected = asyncio.get_running_loop().create_future()
        if self._watching is None and not self.is_uploading and not self._disconnected.done():
            self.has_reader = True
            self._watching = asyncio.ensure_future(self._until_disconnect(self._disconnected))

    def end_upload(self, *, is_disconnected: bool) -> None:
        """The body is read, as far as it is going to be."""
        self.is_uploading = False
        if not is_disconnected:
            if self._disconnected is not None:
                self.watch_disconnect()
            return
        self._disconnected = self._disconnected or asyncio.get_running_loop().create_future()
        if not self._disconnected.done():
            self._disconnected.set_result(None)

    def call_on_disconnect(self, callback: Callable[[], object]) -> None:
        self.watch_disconnect()
        assert self._disconnected is not None
        self._disconnected.add_done_callback(lambda _: callback())

    async def wait_for_disconnect(self) -> None:
        self.watch_disconnect()
        assert self._disconnected is not None
        await asyncio.shield(self._disconnected)

    def is_disconnected(self) -> bool:
        """Whether the client disconnected since `watch_disconnect`."""
        return self._disconnected is not None and self._disconnected.done()

    def end(self) -> None:
        """The request was answered: stop watching."""
        if self._watching is not None:
            self._watching.cancel()

    async def _until_disconnect(self, disconnected: "asyncio.Future[None]") -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        if not disconnected.done():
            disconnected.set_result(None)


def split_path(scope: Scope) -> tuple[str, str]:
    """The path at which the application is mounted, empty at the root, and the decoded path below it.

    Frameworks differ: in ASGI `path` begins with `root_path`; Litestar takes the mount away, from `path` alone.
    """
    path, raw, root = scope["path"], scope.get("raw_path"), scope.get("root_path", "").rstrip("/")
    whole = decode_path(raw.decode("latin-1").partition("?")[0]) if raw else path
    if not root and whole == path:
        return "", whole
    rest, given = below(root, whole), below(root, path).rstrip("/")
    mount = rest.rstrip("/").removesuffix(given)
    is_mount = mount and mount + given == rest.rstrip("/") and "//" not in mount and "%2f" not in rest.lower()
    return (root + mount, rest[len(mount) :] or "/") if is_mount else (root, rest)


def below(root: str, path: str) -> str:
    """The path without the root, where it begins with it."""
    return path[len(root) :] or "/" if path == root or path.startswith(f"{root}/") else path


def decode_path(text: str) -> str:
    """The decoded path; a percent-encoded slash stays encoded, so that it cannot forge a segment."""
    return unquote(re.sub("%2[fF]", "%252F", text), errors="replace") if "%" in text else text


HEADERS_LIMIT_BYTES = 16_384
ADDRESS_LIMIT_BYTES = 8_192
LAST_PORT = 65_535
DRAINED_BYTES = 1_048_576
DRAIN_SECONDS = 1.0


def check_head(request: HttpRequest) -> None:
    """Raises Problem `uri-too-long` or `headers-too-large`."""
    if len(request.path) + len(request.query) > ADDRESS_LIMIT_BYTES:
        raise Problem("uri-too-long", f"The path and query may have at most {ADDRESS_LIMIT_BYTES} bytes.")
    if request.headers_bytes > HEADERS_LIMIT_BYTES:
        raise Problem("headers-too-large", f"The headers may have at most {HEADERS_LIMIT_BYTES} bytes together.")


def check_host(request: HttpRequest) -> None:
    """Raises Problem `invalid-request` unless there is exactly one valid `Host`, which HTTP/1.0 may leave out."""
    host = request.header(b"host")
    # Two headers were joined with a comma, which no host contains.
    if not _is_host(host) and (host or not request.has_version_1_0):
        raise Problem("invalid-request", "Send exactly one valid `Host` header (RFC 9112, section 3.2).")


@lru_cache(maxsize=256)
def _is_host(text: str) -> bool:
    match = _HOST.fullmatch(text)
    if match is None or int(match[2] or 0) > LAST_PORT:
        return False
    try:
        return match[1] is None or IPv6Address(match[1]) is not None
    except ValueError:
        return False


def check_upgrade(request: HttpRequest) -> None:
    """Raises Problem `upgrade-not-supported` for a WebSocket; another upgrade may be ignored (RFC 9110, 7.8)."""
    if request.header(b"upgrade").strip().lower() == "websocket":
        raise Problem("upgrade-not-supported", "WebSockets are not passed on. Use HTTP, such as server-sent events.")


def check_content_encoding(request: HttpRequest) -> None:
    """Raises Problem `unsupported-media-type` for a compressed body: a compressed body could expand without limit."""
    if request.header(b"content-encoding").strip().lower() not in {"", "identity"}:
        raise Problem(
            "unsupported-media-type",
            "Send the body without Content-Encoding.",
            headers={"Accept-Encoding": "identity"},
            allowed=["identity"],
        )


async def receive_body(request: HttpRequest, limit_bytes: int, deadline_seconds: float) -> bytes:
    """The body, if it arrives in time and in size. Raises Problem `payload-too-large` or `request-timeout`."""
    request.has_reader = True
    check_length(request, limit_bytes)
    try:
        async with asyncio.timeout(deadline_seconds):
            return await _collected(request, limit_bytes)
    except TimeoutError:
        raise Problem(
            "request-timeout",
            f"The body did not arrive within {deadline_seconds:g} seconds.",
            headers={"Connection": "close"},
        ) from None


def check_length(request: HttpRequest, limit_bytes: int) -> None:
    """Raises Problem `payload-too-large` for a declared length beyond the limit."""
    if declared_length(request) > limit_bytes:
        raise too_large(limit_bytes)


async def drain_body(request: HttpRequest) -> None:
    """Read a short body that no handler reads; unread bytes would reset the connection.

    A client that sent `Expect: 100-continue` has sent no body yet.
    """
    length = declared_length(request)
    announces_body = length > 0 or b"transfer-encoding" in request.headers
    if request.has_reader or length > DRAINED_BYTES or b"expect" in request.headers or not announces_body:
        return
    await drain(request)


async def drain(request: HttpRequest) -> None:
    """Read the rest of a body, if it is short and comes soon."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            remaining, more = DRAINED_BYTES, True
            while more and remaining > 0:
                message = await request.receive()
                remaining -= len(message.get("body", b""))
                more = message.get("more_body", False)


def declared_length(request: HttpRequest) -> int:
    """The length of the body that the head declares; 0 where it declares none."""
    declared = request.header(b"content-length")
    return int(declared) if declared.isdecimal() and len(declared) < 20 else 0


async def _collected(request: HttpRequest, limit_bytes: int) -> bytes:
    body = bytearray()
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Problem("invalid-request", "The connection closed before the body was complete.")
        body += message.get("body", b"")
        if len(body) > limit_bytes:
            raise too_large(limit_bytes)
        more = message.get("more_body", False)
    return bytes(body)


def too_large(limit_bytes: int) -> Problem:
    return Problem(
        "payload-too-large",
        f"The body may have at most {limit_bytes} bytes.",
        headers={"Connection": "close"},
        limit_bytes=limit_bytes,
    )


class Upload:
    """Yields the body once, no faster than it is taken. `length` is its number of bytes, None where it is not known.

    Making one and reading it raise Problem `payload-too-large` beyond the limit; reading raises `request-timeout` if no
    more arrives within `pause_seconds`, and `invalid-request` if the client disconnects. From its end on, the request
    watches for the disconnect of the client. `on_progress`, if it is set, is called whenever a piece is taken.
    """

    def __init__(self, request: HttpRequest, limit_bytes: int, pause_seconds: float) -> None:
        check_length(request, limit_bytes)
        has_stream = b"transfer-encoding" in request.headers
        self.length = None if has_stream or b"content-length" not in request.headers else declared_length(request)
        self.is_empty = not has_stream and not self.length
        self.on_progress: Callable[[], None] | None = None
        self._request = request
        self._limit_bytes = limit_bytes
        self._pause_seconds = pause_seconds
        self._ahead: deque[bytes] | None = None if self.is_empty else deque()
        self._received = 0
        self._is_read = self.is_empty
        request.is_uploading = not self.is_empty

    async def peek(self, limit_bytes: int) -> bytes:
        """The whole body where it has at most `limit_bytes`, else about so much of it; all of it is yielded again."""
        if self._ahead is None:
            return b""
        size = sum(map(len, self._ahead))
        while size < limit_bytes and not self._is_read:
            piece = await self._receive()
            size += len(piece)
            self._ahead.append(piece)
        return b"".join(self._ahead)

    @property
    def whole(self) -> bytes | None:
        """The body, if all of it is in memory."""
        return b"".join(self._ahead or ()) if self._is_read else None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.on_progress is not None:
            self.on_progress()
        if self._ahead:
            return self._ahead.popleft()
        if self._is_read:
            raise StopAsyncIteration
        return await self._receive()

    async def drain(self) -> None:
        """Read what little is still to come, after an answer that came before it: see `drain_body`."""
        if self._is_read or self._request.is_disconnected() or not self._request.has_reader:
            return
        await drain(self._request)

    async def _receive(self) -> bytes:
        self._request.has_reader = True
        try:
            async with asyncio.timeout(self._pause_seconds):
                message = await self._request.receive()
        except TimeoutError:
            raise Problem(
                "request-timeout",
                f"No more of the body arrived within {self._pause_seconds:g} seconds.",
                headers={"Connection": "close"},
            ) from None
        except asyncio.CancelledError:
            # No one takes the rest.
            self._request.end_upload(is_disconnected=False)
            raise
        if message["type"] == "http.disconnect":
            self._request.end_upload(is_disconnected=True)
            raise Problem("invalid-request", "The connection closed before the body was complete.")
        piece: bytes = message.get("body", b"")
        self._received += len(piece)
        if self._received > self._limit_bytes:
            raise too_large(self._limit_bytes)
        if not message.get("more_body", False) or self._received == self.length:
            self._is_read = True
            self._request.end_upload(is_disconnected=False)
        return piece


MAX_CACHED_HEADER = 200
"""Longer headers are read each time, so that callers cannot fill the memory with them."""
MAX_ADDRESS = 64

Prefix = IPv4Address | IPv6Network


def address_reader(trusted: Sequence[IPv4Network | IPv6Network]) -> Callable[[str, str], str]:
    """`client_address` with these trusted networks; it caches what it read for short headers."""
    read = partial(client_address, trusted=trusted)
    cached = lru_cache(maxsize=4096)(read)

    def client(peer: str, forwarded_for: str) -> str:
        if not trusted:
            return cached(peer, "")
        return (cached if len(forwarded_for) <= MAX_CACHED_HEADER else read)(peer, forwarded_for)

    return client


def client_address(peer: str, forwarded_for: str, trusted: Sequence[IPv4Network | IPv6Network]) -> str:
    """Walk X-Forwarded-For from the right while each hop is trusted; the first that is not is the client.

    IPv4-mapped IPv6 folds to IPv4, IPv6 to its /64 (one household). A hop that is no address ends the walk.
    """
    current = _parsed(peer)
    if current is None:
        return peer or "unknown"
    for hop in reversed(forwarded_for.split(",") if forwarded_for else []):
        if not any(current in network for network in trusted):
            break
        parsed = _parsed(hop.strip())
        if parsed is None:
            break
        current = parsed
    return str(network_of(current))


def network_of(address: IPv4Address | IPv6Address) -> Prefix:
    """An IPv4 address, or the /64 of an IPv6 address: one household."""
    return IPv6Network((address, 64), strict=False) if isinstance(address, IPv6Address) else address


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return address_of(text) if len(text) <= MAX_ADDRESS else None
    except ValueError:
        return None


@lru_cache(maxsize=4_096)
def address_of(text: str) -> IPv4Address | IPv6Address:
    """An address, IPv4 where it is one mapped to IPv6. Raises ValueError."""
    address = ip_address(text.partition("%")[0])
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
