"""Client addresses, and a bound on the idle connections of one: half-sent request heads could use up all descriptors.

Granian accepts connections by itself and reports none before its first request, so they are read from this process's
own descriptors. A connection is idle while no whole request head has arrived on it: before the first, and between two.
"""

import asyncio
import contextlib
import os
import resource
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path

from tollhouse.logs import logger

log = logger("http")

SCAN_SECONDS = 1.0
SCARCE_SHARE = 0.5
MAX_CACHED_HEADER = 200
"""Longer headers are read each time, so that callers cannot fill the memory with them."""
MAX_ADDRESS = 64
_DESCRIPTORS = Path("/dev/fd")

Prefix = IPv4Address | IPv6Network
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
        """The request was answered."""
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

    def _scan(self, descriptors: Sequence[int], used: set[Peer], spare: int, *, is_scarce: bool) -> Counter[Prefix]:
        """Close what is idle beyond the limit; count it by address.

        A new connection has until the next look, unless descriptors are scarce.
        """
        open_now: Counter[Prefix] = Counter()
        closed: Counter[Prefix] = Counter()
        idle: set[Peer] = set()
        for descriptor in descriptors:
            with _opened(descriptor, spare) as connection:
                peer = self._peer(connection) if connection else None
                if connection is None or peer is None or peer in used or peer in self._in_flight:
                    continue
                idle.add(peer)
                address = _prefix(_address(peer[0]))
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
            if not any(_address(address) in network for network in self._trusted):
                return address, str(port)
        return None


NO_BOUND = IdleConnections((), 0, ())
"""For servers whose port is not known, e.g. under another program than `tollhouse serve`."""


def _prefix(address: IPv4Address | IPv6Address) -> Prefix:
    """An IPv4 address, or the /64 of an IPv6 address: one household."""
    return IPv6Network((address, 64), strict=False) if isinstance(address, IPv6Address) else address


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


def split_address(address: str) -> tuple[str, int]:
    """`host:port` as host and port; an IPv6 address is in brackets."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def raise_descriptor_limit() -> None:
    """Let this process and its children open as many files and connections as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS refuses "no limit".
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


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
    return str(_prefix(current))


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return _address(text) if len(text) <= MAX_ADDRESS else None
    except ValueError:
        return None


@lru_cache(maxsize=4_096)
def _address(text: str) -> IPv4Address | IPv6Address:
    """An address, IPv4 where it is one mapped to IPv6. Raises ValueError."""
    address = ip_address(text.partition("%")[0])
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
