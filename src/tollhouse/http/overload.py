"""Protection from overload: idle connections of one address are closed, and requests that wait too long are refused.

Half-sent request heads could use up all descriptors. Granian accepts connections by itself and reports none before its
first request, so they are read from this process's own descriptors. A connection is idle while no whole request head
has arrived on it: before the first, and between two.

Above capacity, requests that waited too long are refused, so that the others are answered in time. The time in a queue
decides, as in CoDel (RFC 8289). A burst is worked off; where the queue has been long for a while, requests are refused
before any work is done for them. There are two queues: that of the event loop, and that of the threads in which
searches run.
"""

import asyncio
import contextlib
import os
import resource
import socket
from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from time import perf_counter

from prometheus_client import Counter

from tollhouse.errors import Problem
from tollhouse.http.request import HttpRequest, Prefix, Receive, Scope, Send, address_of, drain_body, network_of
from tollhouse.http.response import render_problem, send_response
from tollhouse.logs import logger

log = logger("http")

SCAN_SECONDS = 1.0
SCARCE_SHARE = 0.5
_DESCRIPTORS = Path("/dev/fd")

Peer = tuple[str, str]
"""The address and the port of a client, as texts."""


class IdleConnections:
    """Closes the idle connections of an address beyond `limit`, those of `trusted` proxies aside."""

    def __init__(self, ports: Iterable[int], limit: int, trusted: Sequence[IPv4Network | IPv6Network]) -> None:
        self.ports = frozenset(ports)
        self._limit = limit
        self._trusted = trusted
        self._in_flight: set[Peer] = set()
        self._used: set[Peer] = set()
        self._idle: frozenset[Peer] = frozenset()

    def begin(self, peer: Peer) -> None:
        """The head of a request has arrived on the connection of this client."""
        self._in_flight.add(peer)

    def end(self, peer: Peer) -> None:
        self._in_flight.discard(peer)
        self._used.add(peer)

    async def run(self) -> None:
        """Look at the connections every second, until cancelled."""
        if not self.ports:
            return
        # Kept open, because there may be no descriptor left when one is needed.
        nothing, spare = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)
        try:
            while True:
                await asyncio.sleep(SCAN_SECONDS)
                used, self._used = self._used | self._in_flight, set()
                descriptors = _descriptors()
                if len(descriptors) <= self._limit:
                    self._idle = frozenset()
                    continue
                is_scarce = len(descriptors) > SCARCE_SHARE * resource.getrlimit(resource.RLIMIT_NOFILE)[0]
                closed = await asyncio.to_thread(self._scan, descriptors, used, spare, is_scarce=is_scarce)
                # A connection that Granian closes must not stay open here.
                os.dup2(nothing, spare)
                if closed:
                    address, _ = closed.most_common(1)[0]
                    log.warning(
                        "idle connections closed", count=closed.total(), addresses=len(closed), most_from=str(address)
                    )
        finally:
            os.close(spare)
            os.close(nothing)

    def _scan(self, descriptors: Sequence[int], used: set[Peer], spare: int, *, is_scarce: bool) -> Counts[Prefix]:
        """Close what is idle beyond the limit; count it by address.

        A new connection has until the next look, unless descriptors are scarce.
        """
        open_now: Counts[Prefix] = Counts()
        closed: Counts[Prefix] = Counts()
        idle: set[Peer] = set()
        for descriptor in descriptors:
            with _opened(descriptor, spare) as connection:
                peer = self._peer(connection) if connection else None
                if connection is None or peer is None or peer in used or peer in self._in_flight:
                    continue
                idle.add(peer)
                address = network_of(address_of(peer[0]))
                open_now[address] += 1
                if open_now[address] > self._limit and (is_scarce or peer in self._idle):
                    # The descriptor stays Granian's, which reads the end of the connection and closes it.
                    connection.shutdown(socket.SHUT_RDWR)
                    closed[address] += 1
        self._idle = frozenset(idle)
        return closed

    def _peer(self, connection: socket.socket) -> Peer | None:
        """The client of a connection that one of our listeners accepted, unless it is a trusted proxy."""
        with contextlib.suppress(OSError):
            if connection.getsockname()[1] not in self.ports:
                return None
            address, port = connection.getpeername()[:2]
            if not any(address_of(address) in network for network in self._trusted):
                return address, str(port)
        return None


NO_BOUND = IdleConnections((), 0, ())
"""For servers whose port is not known, e.g. under another program than `tollhouse serve`."""


def _descriptors() -> Sequence[int]:
    try:
        return [int(file.name) for file in _DESCRIPTORS.iterdir()]
    except OSError:
        # There is not one descriptor left to read the list with.
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


@contextlib.contextmanager
def _opened(descriptor: int, spare: int) -> Iterator[socket.socket | None]:
    """The TCP socket behind a descriptor, through `spare`, so that it cannot become another one meanwhile."""
    connection = None
    with contextlib.suppress(OSError):
        if descriptor != spare:
            os.dup2(descriptor, spare)
            connection = socket.socket(fileno=spare)
    try:
        is_tcp = connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6)
        yield connection if is_tcp else None
    finally:
        if connection is not None:
            connection.detach()


def open_sockets() -> Iterator[socket.socket]:
    """Every TCP socket of this process, one after another; each is only valid until the next."""
    spare = os.open(os.devnull, os.O_RDONLY)
    try:
        for descriptor in _descriptors():
            with _opened(descriptor, spare) as connection:
                if connection is not None:
                    yield connection
    finally:
        os.close(spare)


TARGET_SECONDS = 0.05
"""Some hundred quick requests at once wait less."""
OVERLOADED_SECONDS = 0.006
"""The same while requests are refused: an answer takes several turns of the loop, each of which may last so long."""
TARGET_REQUESTS = 4
"""A queue of fewer requests, or of so many average ones, is short, too, however long they take."""
INTERVAL_SECONDS = 0.5
FEWEST_AT_ONCE = 16
REMEMBER_SECONDS = 5.0
RETRY_AFTER_SECONDS = 1
LOG_SECONDS = 10.0
_SMOOTHING = 0.05

_EXEMPT = ("/health", "/metrics", "/status", "/status.json")
_SHED = Counter("tollhouse_requests_shed", "Requests refused because the process was overloaded")


class QueueOfLoop:
    """Which requests are refused because they waited for their turn in the event loop."""

    def __init__(self) -> None:
        # When a callback was put at the end of the loop's queue. What begins before it runs has waited since then.
        self._probed_at: float | None = None
        self._ended_at = 0.0
        self._short_at = 0.0
        self._refused_at = -REMEMBER_SECONDS
        self._begun = self._refused = 0
        self._request_seconds = 0.0
        self._unlogged = 0
        self._logged_at = 0.0

    def is_overdue(self, path: str) -> bool:
        """Whether to refuse a request that begins now; to be called once for each."""
        now = perf_counter()
        if self._probed_at is None:
            if now - self._ended_at > INTERVAL_SECONDS:
                # Nothing began meanwhile.
                self._short_at = now
            self._probed_at, self._begun, self._refused = now, 0, 0
            asyncio.get_running_loop().call_soon(self._end_probe)
        elif (
            (self._is_refusing(now) or now - self._short_at > INTERVAL_SECONDS)
            and now - self._probed_at > self._target(now)
            and self._begun >= TARGET_REQUESTS
            and is_shed(path)
        ):
            self._refused_at = now
            self._refused += 1
            return True
        self._begun += 1
        return False

    def _is_refusing(self, now: float) -> bool:
        # Once requests are refused the queue is short. If they were no longer refused then, it would grow again.
        return now - self._refused_at < REMEMBER_SECONDS

    def _target(self, now: float) -> float:
        shortest = OVERLOADED_SECONDS if self._is_refusing(now) else TARGET_SECONDS
        return max(shortest, TARGET_REQUESTS * self._request_seconds)

    def _end_probe(self) -> None:
        assert self._probed_at is not None, "a probe ends once"
        now = self._ended_at = perf_counter()
        waited, self._probed_at = now - self._probed_at, None
        if waited <= self._target(now):
            self._short_at = now
        if not self._refused:
            mean = waited / self._begun
            self._request_seconds += _SMOOTHING * (mean - self._request_seconds) if self._request_seconds else mean
            return
        _SHED.inc(self._refused)
        self._unlogged += self._refused
        if now - self._logged_at > LOG_SECONDS:
            log.warning("overloaded, requests refused", count=self._unlogged, waited_seconds=round(waited, 3))
            self._logged_at, self._unlogged = now, 0


class _Operation:
    """The requests of one operation that are being handled, and how long the last ones took, in seconds."""

    __slots__ = ("in_progress", "seconds")

    def __init__(self) -> None:
        self.in_progress = 0
        self.seconds = 0.0


class QueueOfThreads:
    """Which requests are refused because others wait for a thread already.

    An operation that takes long for another reason, such as a payment, and one that needs no thread are not affected
    while the queue is short; FEWEST_AT_ONCE of each are handled in any case.
    """

    def __init__(self) -> None:
        self._operations: dict[str, _Operation] = {}
        self._in_progress = 0
        self._probed_at: float | None = None
        self._short_at = 0.0
        self._refused_at = -REMEMBER_SECONDS

    def begin(self, operation: str, path: str) -> tuple[_Operation, float]:
        """Count a request of the operation, up to its `end`. Raises Problem `overloaded`."""
        now = perf_counter()
        known = self._operations.get(operation)
        if known is None:
            known = self._operations[operation] = _Operation()
        if self._is_overdue(known, now) and is_shed(path):
            self._refused_at = now
            _SHED.inc()
            raise overloaded()
        known.in_progress += 1
        self._in_progress += 1
        return known, now

    def end(self, known: _Operation, begun: float) -> None:
        known.in_progress -= 1
        self._in_progress -= 1
        known.seconds += _SMOOTHING * (perf_counter() - begun - known.seconds)

    def _is_overdue(self, operation: _Operation, now: float) -> bool:
        if self._in_progress < FEWEST_AT_ONCE:
            if self._probed_at is None:
                self._short_at = now
            return False
        if self._probed_at is None:
            self._probed_at = now
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, perf_counter).add_done_callback(self._end_probe)
        if operation.in_progress < FEWEST_AT_ONCE or operation.seconds < TARGET_SECONDS:
            return False
        # As in the queue of the loop.
        return now - self._short_at > INTERVAL_SECONDS or now - self._refused_at < REMEMBER_SECONDS

    def _end_probe(self, begun: asyncio.Future[float]) -> None:
        assert self._probed_at is not None, "a probe ends once"
        if not begun.cancelled() and begun.result() - self._probed_at <= TARGET_SECONDS:
            self._short_at = perf_counter()
        self._probed_at = None


def is_shed(path: str) -> bool:
    """Whether requests for this path are refused at all: health, status, metrics and the operator's pages are not."""
    return not path.endswith(_EXEMPT) and "/operator" not in path


def overloaded() -> Problem:
    return Problem(
        "overloaded",
        f"The server has more requests than it can answer. This one cost nothing. Retry after {RETRY_AFTER_SECONDS} s.",
        retry_after_seconds=RETRY_AFTER_SECONDS,
    )


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 503 `overloaded`."""
    request = HttpRequest(scope, receive)
    await drain_body(request)
    await send_response(render_problem(overloaded(), request.id), [], request, send)
