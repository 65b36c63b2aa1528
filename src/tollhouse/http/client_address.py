"""The client address of a request; `X-Forwarded-For` counts only from trusted proxies."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

MAX_CACHED_HEADER = 200
"""Longer headers are read each time, so that callers cannot fill the memory with them."""
MAX_ADDRESS = 64


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
    return str(IPv6Network((current, 64), strict=False)) if isinstance(current, IPv6Address) else str(current)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    return _parsed_short(text) if len(text) <= MAX_ADDRESS else None


@lru_cache(maxsize=4096)
def _parsed_short(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address
