"""Operations that are paid call by call: each that has a price is served again under `/x402` and under `/siwx`.

There it needs no key and has no allowance. A call without a payment gets the challenge of x402 at once. Under `/siwx`
the challenge also offers `sign-in-with-x`, with which a wallet pays from its credit: clients of that extension use it
wherever it is offered, and directories take such an operation for one that is not sold.
"""

from dataclasses import replace
from typing import Any

from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint, Request, Response
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE, Terms

X402_PATH, SIWX_PATH = "/x402", "/siwx"


def with_paid_paths(service: Service) -> Service:
    """The service with the paid form of each operation that has a price. A path of its own goes before these.

    Where a paid form stands for every path below its own, what is not sold by the call is refused there by name.
    """
    own = {(one.method, one.path) for one in service.endpoints}
    paid = [twin for one in service.endpoints for twin in _paid(one) if (twin.method, twin.path) not in own]
    if any(one.path.endswith(":path}") for one in paid):
        taken = own | {(one.method, one.path) for one in paid}
        paid += [
            replace(twin, handler=_refuse, terms=FREE, passes_through=False)
            for one in service.endpoints
            if one.passes_through
            for twin in (_at(one, X402_PATH, is_described=False), _at(one, SIWX_PATH, is_described=False))
            if (twin.method, twin.path) not in taken
        ]
    return replace(service, endpoints=[*service.endpoints, *paid])


def _paid(operation: Endpoint) -> list[Endpoint]:
    terms = operation.terms
    if terms.price is None:
        return []
    # The description names what cannot be paid for at its own path. The others say there how they are paid.
    x402 = _at(operation, X402_PATH, is_described=operation.is_described and terms.opens_to == "key")
    siwx = _at(operation, SIWX_PATH, is_described=False)
    return [siwx] if terms.opens_to == "payer" else [x402, siwx]


async def _refuse(_request: Request[Any, Any]) -> Response:
    raise Problem("not-found", "No operation is sold at this path. One that every caller pays for is at its own path.")


def _at(operation: Endpoint, paid_prefix: str, *, is_described: bool) -> Endpoint:
    return replace(
        operation,
        id=f"{operation.id}{'Paid' if paid_prefix == X402_PATH else 'OnCredit'}",
        path=f"{paid_prefix}{operation.path}",
        paid_prefix=paid_prefix,
        summary=f"{operation.summary}, paid by the call",
        description=f"The same as `{operation.id}`, without a key.",
        terms=Terms("payer", operation.terms.price),
        is_described=is_described,
        is_tool=False,
        visit_types=(),
    )
