"""A receiver of webhooks that behaves as it is told, keeps all that it got, and can be told otherwise at any time."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from tests.fakes.background_server import listen, run_in_background

Mode = Literal[
    "ok", "slow", "hang", "drip", "drip-body", "error", "gone", "busy", "redirect", "disconnect", "huge", "garbage"
]


@dataclass(frozen=True)
class Told:
    """One request as it came. `path` tells endpoints of one receiver apart."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class Receiver:
    """`modes` holds the behaviour of single paths, `mode` that of all others."""

    port: int
    scheme: str = "http"
    mode: Mode = "ok"
    modes: dict[str, Mode] = field(default_factory=dict)
    retry_after: str = "120"
    location: str = ""
    slow_seconds: float = 0.3
    told: list[Told] = field(default_factory=list)
    taken: list[Told] = field(default_factory=list)
    connections: int = 0
    server_names: list[str | None] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def mode_of(self, path: str) -> Mode:
        return self.modes.get(path, self.mode)


def receiver(tls: ssl.SSLContext | None = None) -> AbstractContextManager[Receiver]:
    """A receiver on loopback in a thread of its own, so that it lives while tests and other processes come and go."""
    return run_in_background(_received(tls))


@asynccontextmanager
async def _received(tls: ssl.SSLContext | None) -> AsyncIterator[Receiver]:
    state = Receiver(port=0, scheme="https" if tls else "http")
    if tls:
        tls.sni_callback = lambda _socket, name, _context: state.server_names.append(name)
    async with listen(partial(_connection, state), tls) as state.port:
        yield state


async def _connection(state: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    state.connections += 1
    try:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            while True:
                told = await _read(reader)
                state.told.append(told)
                state.at_once += 1
                state.most_at_once = max(state.most_at_once, state.at_once)
                try:
                    if not await _answer(state, told, writer):
                        return
                finally:
                    state.at_once -= 1
    finally:
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> Told:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    _, path, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return Told(path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _answer(state: Receiver, told: Told, writer: asyncio.StreamWriter) -> bool:
    """Whether the connection goes on."""
    mode = state.mode_of(told.path)
    if mode in {"ok", "slow", "drip-body", "huge"}:
        await asyncio.sleep(state.slow_seconds if mode == "slow" else 0)
        state.taken.append(told)
    if mode in _WITHOUT_ANSWER:
        await _WITHOUT_ANSWER[mode](writer)
        return False
    status, headers, body = {
        "ok": (204, {}, b""),
        "slow": (200, {}, b"thank you"),
        "error": (500, {}, b"oh no"),
        "gone": (410, {}, b""),
        "busy": (429, {"Retry-After": state.retry_after}, b""),
        "redirect": (307, {"Location": state.location or state.url("/elsewhere")}, b""),
    }[mode]
    await _send(writer, status, headers, body)
    return True


async def _hang(_writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3_600)


async def _drip(writer: asyncio.StreamWriter) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nX-Slowly: " + b"x" * 3_600:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)


async def _drip_body(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3600\r\n\r\n")
    for _ in range(3_600):
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def _pour(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def _stammer(writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\xff not HTTP at all\r\n\r\n")
    await writer.drain()


async def _say_nothing(_writer: asyncio.StreamWriter) -> None:
    """The connection is closed without an answer."""


_WITHOUT_ANSWER = {
    "hang": _hang,
    "drip": _drip,
    "drip-body": _drip_body,
    "huge": _pour,
    "garbage": _stammer,
    "disconnect": _say_nothing,
}


async def _send(writer: asyncio.StreamWriter, status: int, headers: dict[str, str], body: bytes) -> None:
    told = headers if status == 204 else {"Content-Length": str(len(body)), **headers}
    lines = [f"HTTP/1.1 {status} Test", *(f"{name}: {value}" for name, value in told.items()), "", ""]
    writer.write("\r\n".join(lines).encode() + body)
    await writer.drain()
