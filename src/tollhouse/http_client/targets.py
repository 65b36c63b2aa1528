"""Validation of webhook and feed URLs: which addresses a stranger may make this server call.

The networks are listed because `ipaddress.is_global` passes multicast, NAT64, 6to4 and more on some Python versions.
Sources: the IANA special-purpose registries for IPv4 and IPv6 (RFC 6890 and its successors), and the cloud providers'
documents.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import httpx2
from msgspec import Struct

Address = IPv4Address | IPv6Address

_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))

_IPV6_IN_USE = IPv6Network("2000::/3")

_REFUSED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("unspecified", ("0.0.0.0/8", "::/128")),
    ("loopback", ("127.0.0.0/8", "::1/128")),
    ("private", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")),
    ("shared by a carrier's customers", ("100.64.0.0/10",)),
    ("link-local", ("169.254.0.0/16", "fe80::/10")),
    # Azure's, the only metadata service at a public address.
    ("a cloud's metadata service", ("168.63.129.16/32",)),
    ("set aside for protocols", ("192.0.0.0/24", "192.52.193.0/24", "2001::/23", "5f00::/16")),
    ("documentation", ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")),
    ("a name server's sink", ("192.31.196.0/24", "192.175.48.0/24", "2620:4f:8000::/48")),
    ("benchmarking", ("198.18.0.0/15",)),
    ("a 6to4 relay", ("192.88.99.0/24",)),
    ("multicast", ("224.0.0.0/4", "ff00::/8")),
    ("reserved", ("240.0.0.0/4",)),
    # All that embed an IPv4 address: which one depends on the network.
    ("an embedded IPv4 address", ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "2002::/16")),
    ("an IPv4 address behind NAT64", ("64:ff9b::/96", "64:ff9b:1::/48")),
    ("discarded", ("100::/64", "100:0:0:1::/64")),
    ("site-local", ("fec0::/10",)),
    ("given back", ("3ffe::/16",)),
)

_NETWORKS: tuple[tuple[IPv4Network | IPv6Network, str], ...] = tuple(
    (ip_network(text), kind) for kind, texts in _REFUSED for text in texts
)


def is_loopback(address: Address) -> bool:
    """Whether it is a plain loopback address: not mapped, not translated."""
    return any(address in network for network in _LOOPBACK)


def blocked_kind(address: Address) -> str | None:
    """The kind of an address that is not on the public internet, else None."""
    for network, kind in _NETWORKS:
        if address in network:
            return kind
    if isinstance(address, IPv6Address) and (address.scope_id or address not in _IPV6_IN_USE):
        return "outside the allocated addresses"
    return None


MAX_URL = 2_000
MAX_NAME = 253
RESOLVING_AT_ONCE = 256
RESOLVE_WITHIN_SECONDS = 10.0

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""The IP addresses of a host name, as text. Raises OSError when it has none."""

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMERIC = re.compile(r"\d+|0x[0-9a-f]*")
_NEVER_IN_AN_ADDRESS = re.compile(r"[\x00-\x20\x7f\\]")
# Names that are only valid inside a network.
_INSIDE = ("local", "localdomain", "internal", "intranet", "lan", "corp", "private", "home.arpa")
_USUAL_PORTS = frozenset({80, 443})
_FIRST_FREE_PORT = 1024
# Ports of other protocols: those that browsers block, and those of databases.
_OTHER_PROTOCOLS = frozenset(
    {1433, 1521, 1719, 1720, 1723, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 3659, 4045, 4190, 5060, 5061, 5432, 5672}
    | {5900, 5984, 6000, 6379, 6443, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 9042, 9092, 9200, 9300, 10080}
    | {10250, 11211, 27017, 50070}
)


class TargetRefused(ValueError):
    """This server does not call that URL. The message says why and is safe to show."""


class TargetRules(Struct, frozen=True):
    """What may be called beyond `https` to the public internet.

    `allow_loopback` is for development: loopback, over `http` too. `allow_plain` is `http` to the public internet, for
    feeds and never for webhooks.
    """

    allow_loopback: bool = False
    allow_plain: bool = False


async def validate_target(url: str, rules: TargetRules, resolve: Resolve) -> str:
    """The URL as it will be called. Raises TargetRefused, also if its name does not resolve now."""
    target = parse_target(url, rules)
    await resolve_public_addresses(target.scheme, target.raw_host.decode(), rules, resolve)
    return str(target)


def parse_target(url: str, rules: TargetRules) -> httpx2.URL:
    """Parse the URL with the code that will call it. Raises TargetRefused for anything its text shows."""
    if not 0 < len(url) <= MAX_URL or _NEVER_IN_AN_ADDRESS.search(url):
        raise TargetRefused(f"the URL must have 1 to {MAX_URL} characters, without spaces or backslashes")
    try:
        target = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise TargetRefused("invalid URL") from error
    _check_scheme(target.scheme, rules)
    if target.userinfo:
        raise TargetRefused("the URL must not have a user name or password")
    if target.fragment:
        raise TargetRefused("the URL must not have a fragment (#…)")
    _check_host(target.raw_host.decode(), rules)
    _check_port(target.port)
    return target


async def resolve_public_addresses(scheme: str, host: str, rules: TargetRules, resolve: Resolve) -> list[str]:
    """The IP addresses of `host`. Raises TargetRefused if any of them may not be called."""
    _check_scheme(scheme, rules)
    _check_host(host, rules)
    literal = _literal(host)
    texts = [str(literal)] if literal else await _resolved(host, resolve)
    addresses = [_parsed(text) for text in texts]
    for address in addresses:
        _check_address(address, scheme, rules)
    return [str(address) for address in addresses]


class SystemResolver:
    """The machine's resolver in threads of its own: a slow name server delays nothing else."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVING_AT_ONCE, thread_name_prefix="resolve")

    async def __call__(self, host: str) -> Sequence[str]:
        """Resolve a name. Raises OSError, including TimeoutError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(RESOLVE_WITHIN_SECONDS):
            entries = await loop.run_in_executor(
                self._threads, lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            )
        return list(dict.fromkeys(str(entry[4][0]) for entry in entries))

    def close(self) -> None:
        """Release the threads. Lookups in progress end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _check_scheme(scheme: str, rules: TargetRules) -> None:
    allowed = {"https"} | ({"http"} if rules.allow_plain or rules.allow_loopback else set())
    if scheme not in allowed:
        raise TargetRefused(f"the URL must start with {' or '.join(f'{name}://' for name in sorted(allowed))}")


def _check_host(host: str, rules: TargetRules) -> None:
    if _literal(host):
        return
    labels = host.split(".")
    if len(host) > MAX_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise TargetRefused("the host name is invalid")
    if _NUMERIC.fullmatch(labels[-1]):
        raise TargetRefused("the host is an IP address in a non-standard notation")
    if labels[-1] == "localhost":
        if not rules.allow_loopback:
            raise TargetRefused("the host is this server")
    elif len(labels) == 1 or host.endswith(tuple(f".{suffix}" for suffix in _INSIDE)):
        raise TargetRefused("the host name is not public")


def _check_port(port: int | None) -> None:
    if port is None or port in _USUAL_PORTS:
        return
    if not _FIRST_FREE_PORT <= port <= 65_535 or port in _OTHER_PROTOCOLS:
        raise TargetRefused("the port is not allowed: use 443, or one above 1023")


def _check_address(address: Address, scheme: str, rules: TargetRules) -> None:
    if rules.allow_loopback and is_loopback(address):
        return
    kind = blocked_kind(address)
    if kind:
        # Neither the address nor its kind is shown: callers must learn nothing of the internal network.
        raise TargetRefused("the host does not resolve to a public address")
    if scheme == "http" and not rules.allow_plain:
        raise TargetRefused("http:// is allowed for loopback only: use https://")


async def _resolved(host: str, resolve: Resolve) -> Sequence[str]:
    try:
        addresses = await resolve(host)
    except (OSError, UnicodeError) as error:
        raise TargetRefused("the host name does not resolve") from error
    if not addresses:
        raise TargetRefused("the host name does not resolve")
    return addresses


def _literal(host: str) -> Address | None:
    """The address, if the host is one: for IPv4 only in its canonical notation."""
    try:
        return ip_address(host) if ":" in host else IPv4Address(host)
    except ValueError:
        return None


def _parsed(text: str) -> Address:
    try:
        return ip_address(text)
    except ValueError as error:
        raise TargetRefused("the host name does not resolve") from error
