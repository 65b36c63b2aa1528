"""Limits per client address: an IPv4 address for itself, an IPv6 address with the networks around it."""

from functools import lru_cache
from ipaddress import IPv6Network

from msgspec.structs import replace

from tollhouse.metering.meter import Meter, Reservation, Verdict, Windows

IPV6_PREFIXES = ((64, 1), (56, 4), (48, 16))
"""Prefix lengths that share a limit per address, and how many times the limit each has."""


@lru_cache(maxsize=8192)
def prefixes(address: str) -> tuple[tuple[str, int], ...]:
    """The networks that this client address counts for, smallest first, and how many times a limit each has.

    An IPv6 address is given as its /64, as `client_address` returns it.
    """
    try:
        network = IPv6Network(address, strict=False)
    except ValueError:
        return ((address, 1),)
    return tuple((str(network.supernet(new_prefix=length)), factor) for length, factor in IPV6_PREFIXES)


async def reserve_for_address(
    meter: Meter, name: str, address: str, windows: Windows, requests: int = 1
) -> Reservation:
    """Count one call under `name`, as so many requests, if it fits the windows of every network of the address."""
    reserved: list[Reservation] = []
    for prefix, factor in prefixes(address):
        one = await meter.reserve(f"{name}:{prefix}", _times(windows, factor), requests)
        if one.verdict.refused_by is not None:
            for earlier in reserved:
                await meter.release(earlier)
            return one
        reserved.append(one)
    return reserved[0] if len(reserved) == 1 else replace(reserved[0], wider=tuple(reserved[1:]))


async def peek_for_address(meter: Meter, name: str, address: str, windows: Windows) -> Verdict:
    """How much of its budget under `name` the address has used, counting nothing."""
    return await meter.peek(f"{name}:{prefixes(address)[0][0]}", windows)


async def release(meter: Meter, reservation: Reservation) -> Verdict:
    """Release a counted call, in the wider networks too."""
    for wider in reservation.wider:
        await meter.release(wider)
    return await meter.release(reservation)


async def count_or_refuse(meter: Meter, name: str, address: str, windows: Windows, what: str) -> Reservation:
    """Count one of `what` (a plural, such as `payments`) for the address. Raises Problem `rate-limited`."""
    reservation = await reserve_for_address(meter, name, address, windows)
    if reservation.verdict.refused_by is None:
        return reservation
    exceeded = f"Rate limit exceeded: {{limit}} {what} per {{window}} and address. Retry after {{wait}} s."
    raise reservation.verdict.refusal("rate-limited", exceeded)


def _times(windows: Windows, factor: int) -> Windows:
    if factor == 1:
        return windows
    day, sliding = windows.per_day, windows.per_sliding
    return Windows(day and day * factor, sliding and sliding * factor, windows.sliding_seconds)
