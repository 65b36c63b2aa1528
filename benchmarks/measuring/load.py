"""Asking for one address again and again on loopback: as fast as may be with wrk, or exactly so many times."""

import asyncio
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec

CONNECTIONS = 32
LONGEST_HEAD = 4_096

# Latencies are microseconds. The bytes include the heads.
_SUMMARY = """done = function(summary, latency)
  local e = summary.errors
  io.write(string.format("SUMMARY %d %d %d %d %d %d\\n", summary.requests, summary.duration, summary.bytes,
    e.connect + e.read + e.write + e.timeout + e.status, latency:percentile(50), latency:percentile(99)))
end
"""
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


def saturate(target: Target, seconds: int, folder: Path) -> Load:
    """As many requests as the server answers in this time. RuntimeError when one is no 200 or has another length."""
    if shutil.which("wrk"):
        return _with_wrk(target, seconds, folder)
    command = [
        sys.executable,
        __file__,
        str(target.port),
        target.path,
        target.key,
        str(target.body_bytes),
        str(seconds),
    ]
    halves = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    loads = [msgspec.json.decode(half.communicate()[0], type=Load) for half in halves]
    return Load(
        sum(load.requests for load in loads),
        sum(load.per_second for load in loads),
        sum(load.p50_ms for load in loads) / len(loads),
        max(load.p99_ms for load in loads),
    )


def exactly(target: Target, requests: int) -> Load:
    """So many requests, each answer's status and length checked. RuntimeError when one is wrong."""
    return asyncio.run(_asked(target, requests, None))


def _with_wrk(target: Target, seconds: int, folder: Path) -> Load:
    script = folder / "summary.lua"
    script.write_text(_SUMMARY, "utf-8")
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(script), "-H",
               f"Authorization: Bearer {target.key}", f"http://127.0.0.1:{target.port}{target.path}"]  # fmt: skip
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=seconds + 20).stdout
    line = next(line for line in output.splitlines() if line.startswith("SUMMARY"))
    requests, microseconds, received, errors, p50, p99 = map(int, line.split()[1:])
    if errors or not requests:
        raise RuntimeError(f"{errors} of {requests} requests failed")
    if not target.body_bytes < received / requests < target.body_bytes + LONGEST_HEAD:
        raise RuntimeError(f"{received / requests:.0f} bytes an answer, {target.body_bytes} of body expected")
    return Load(requests, requests / microseconds * 1e6, p50 / 1000, p99 / 1000)


async def _asked(target: Target, requests: int | None, seconds: float | None) -> Load:
    """Until one of the two bounds is reached: requests in all, or seconds."""
    head = f"GET {target.path} HTTP/1.1\r\nhost: 127.0.0.1:{target.port}\r\nauthorization: Bearer {target.key}\r\n\r\n"
    begun = time.perf_counter()
    until = begun + seconds if seconds else float("inf")
    shares = [requests // CONNECTIONS + (n < requests % CONNECTIONS) if requests else None for n in range(CONNECTIONS)]
    waits = await asyncio.gather(*(_one_connection(target, head.encode(), share, until) for share in shares))
    taken = time.perf_counter() - begun
    ordered = sorted(wait for each in waits for wait in each)
    count = len(ordered)
    return Load(count, count / taken, ordered[count // 2] * 1e3, ordered[count * 99 // 100] * 1e3)


async def _one_connection(target: Target, asked: bytes, share: int | None, until: float) -> list[float]:
    """The seconds that each answer took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    waits: list[float] = []
    while (share is None or len(waits) < share) and time.perf_counter() < until:
        sent = time.perf_counter()
        writer.write(asked)
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not head.startswith(b"HTTP/1.1 200 ") or not length or int(length[1]) != target.body_bytes:
            raise RuntimeError(f"wrong answer: {head.decode('latin-1').splitlines()[0]}, {length and length[1]!r}")
        await reader.readexactly(target.body_bytes)
        waits.append(time.perf_counter() - sent)
    writer.close()
    await writer.wait_closed()
    return waits


def main() -> None:
    """One process of the generator of our own: PORT PATH KEY BODY_BYTES SECONDS."""
    port, path, key, body_bytes, seconds = sys.argv[1:]
    load = asyncio.run(_asked(Target(int(port), path, key, int(body_bytes)), None, float(seconds)))
    print(msgspec.json.encode(load).decode())


if __name__ == "__main__":
    main()
