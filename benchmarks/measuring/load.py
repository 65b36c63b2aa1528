"""Asking for one address again and again on loopback: as fast as may be, or exactly so many times."""

import asyncio
import re
import subprocess
import sys
import time

import msgspec
import uvloop

CONNECTIONS = 32

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class Target(msgspec.Struct, frozen=True):
    """What to ask for with which key, and how long the body of each answer must be."""

    port: int
    path: str
    key: str
    body_bytes: int


class Load(msgspec.Struct):
    """What a run of requests came to. Latencies are milliseconds."""

    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float


def saturate(target: Target, seconds: int) -> Load:
    """As many requests as the server answers in this time. RuntimeError when one is no 200 or has another length."""
    command = [sys.executable, __file__, *map(str, msgspec.structs.astuple(target)), str(seconds)]
    return msgspec.json.decode(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout, type=Load)


def exactly(target: Target, requests: int) -> Load:
    """So many requests, each answer's status and length checked. RuntimeError when one is wrong."""
    return uvloop.run(_request_all(target, requests, float("inf")))


async def _request_all(target: Target, requests: float, seconds: float) -> Load:
    """Until one of the two bounds is reached: requests in all, or seconds."""
    head = f"GET {target.path} HTTP/1.1\r\nhost: 127.0.0.1:{target.port}\r\nauthorization: Bearer {target.key}\r\n\r\n"
    loop, begun = asyncio.get_running_loop(), time.perf_counter()
    run = _Run(head.encode(), target.body_bytes, requests, begun + seconds)
    connected = [
        await loop.create_connection(lambda: _Connection(run), "127.0.0.1", target.port) for _ in range(CONNECTIONS)
    ]
    await asyncio.gather(*(connection.ended for _, connection in connected))
    taken = time.perf_counter() - begun
    ordered, count = sorted(run.waits), len(run.waits)
    return Load(count, count / taken, ordered[count // 2] * 1e3, ordered[count * 99 // 100] * 1e3)


class _Run:
    """What the connections share. `left` is how many requests are still to be sent."""

    def __init__(self, head: bytes, body_bytes: int, left: float, until: float) -> None:
        self.head, self.body_bytes, self.left, self.until = head, body_bytes, left, until
        self.waits: list[float] = []


class _Connection(asyncio.Protocol):
    """Sends a request when the one before is answered: streams would take more of the processor than the server."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if not self._expected:
            self._begin += data
            body_at = self._begin.find(b"\r\n\r\n") + 4
            if body_at < 4:
                return
            length = _LENGTH.search(self._begin, 0, body_at)
            if not self._begin.startswith(b"HTTP/1.1 200 ") or not length or int(length[1]) != self._run.body_bytes:
                self._end(RuntimeError(f"wrong answer: {self._begin[:body_at].decode('latin-1')}"))
                return
            self._expected = body_at + self._run.body_bytes
        if self._received >= self._expected:
            self._run.waits.append(time.perf_counter() - self._sent)
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error or RuntimeError("the server closed the connection"))

    def _send(self) -> None:
        self._sent = time.perf_counter()
        if self._run.left <= 0 or self._sent >= self._run.until:
            self._end()
            return
        self._run.left -= 1
        self._begin, self._received, self._expected = b"", 0, 0
        self._transport.write(self._run.head)

    def _end(self, error: Exception | None = None) -> None:
        if not self.ended.done():
            self.ended.set_exception(error) if error else self.ended.set_result(None)
            self._transport.close()


def main() -> None:
    """The process of `saturate`: PORT PATH KEY BODY_BYTES SECONDS."""
    port, path, key, body_bytes, seconds = sys.argv[1:]
    load = uvloop.run(_request_all(Target(int(port), path, key, int(body_bytes)), float("inf"), float(seconds)))
    print(msgspec.json.encode(load).decode())


if __name__ == "__main__":
    main()
