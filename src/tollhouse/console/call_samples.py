"""`POST /console/samples`: how a program makes the call whose answer a page shows, what it costs, and what is left."""

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from msgspec import Meta, Struct

from tollhouse.admission.call_headers import allowance_of
from tollhouse.admission.context import AppContext
from tollhouse.config.settings import Settings
from tollhouse.console.reference import reference_path
from tollhouse.errors import Problem
from tollhouse.http.code_samples import Sample, samples_of_call
from tollhouse.http.endpoint import JSON, Endpoint, Method, Request
from tollhouse.http.mcp.tools import arguments_of
from tollhouse.http.request import decode_path
from tollhouse.http.router import Router
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE, Terms
from tollhouse.metering.address_budget import peek_for_address
from tollhouse.money import usd

KEY_PLACEHOLDER = "YOUR_KEY"


class ShownCall(Struct, frozen=True, forbid_unknown_fields=True):
    """The call in view. `path` is percent-encoded and stands below the service's prefix.

    An empty `service` is the accounts at the root. `origin` is where the reader found this page, for a server without
    `public_url`. `with_key` shows a key where the call needs none, for a reader whose paid plan replaces the allowance.
    """

    service: Annotated[str, Meta(max_length=100)]
    path: Annotated[str, Meta(max_length=2_000, pattern="^/")]
    origin: Annotated[str, Meta(max_length=300, pattern=r"^https?://[^\s/\"'$`\\]+$")]
    method: Method = "GET"
    query: Annotated[list[tuple[str, str]], Meta(max_length=200)] = []
    body: dict[str, Any] | None = None
    with_key: bool = False


class ToolCall(Struct, frozen=True):
    """The same call over MCP."""

    url: str
    tool: str
    arguments: dict[str, Any]


class Access(Struct, frozen=True):
    """What the call needs and costs. Prices are decimal texts in USD; None where it is not sold that way.

    `free_per_day` and `free_left` are the allowance of the caller's address, None where there is none.
    """

    needs_key: bool
    entitlement: str
    minimum_tier: str
    is_metered: bool
    free_per_day: int | None
    free_left: int | None
    request_usd: str | None
    wallet_usd: str | None
    takes_payments: bool


class CallSamples(Struct, frozen=True):
    """Programs for a call, in which `YOUR_KEY` stands for the reader's key.

    `tool` is None where MCP does not offer the operation.
    """

    operation: str
    summary: str
    reference: str
    url: str
    has_key: bool
    samples: list[Sample]
    tool: ToolCall | None
    access: Access
    plans: list[dict[str, Any]]


def samples_endpoint(
    context: AppContext, settings: Settings, services: Sequence[Service], prefixes: Sequence[str]
) -> Endpoint:
    """The endpoint, for the operations of these services, each mounted under its prefix."""
    router, mounted = Router(), {service.name: prefix for service, prefix in zip(services, prefixes, strict=True)}
    for service, prefix in zip(services, prefixes, strict=True):
        router.mount(service, prefix)
    mounted[""] = ""

    async def samples(request: Request[None, ShownCall]) -> CallSamples:
        call = request.body
        if call.service not in mounted:
            raise Problem("invalid-body", "`service` is not a service of this host.", parameter="service")
        path = mounted[call.service] + call.path
        route, parameters = router.match(call.method, decode_path(path))
        operation = route.endpoint
        root = settings.public_url.rstrip("/") or call.origin + settings.root_path
        query = f"?{urlencode(call.query, safe=',:')}" if call.query else ""
        url = f"{root}{quote(path, safe='/:,@%')}{query}"
        has_key = operation.terms.opens_to == "key" or call.with_key
        return CallSamples(
            operation=operation.id,
            summary=operation.summary,
            reference=f"{reference_path(route.service)}#{operation.id}",
            url=url,
            has_key=has_key,
            samples=samples_of_call(operation, url, KEY_PLACEHOLDER if has_key else "", call.body),
            tool=ToolCall(
                f"{root}{route.prefix}/mcp",
                operation.id,
                arguments_of(operation, parameters, call.query, call.body or {}),
            )
            if operation.is_tool
            else None,
            access=await _access(context, operation.terms, request.address),
            plans=[plan.described() for plan in context.plans.all],
        )

    return Endpoint(
        "samples", "POST", "/console/samples", "Samples of a call", samples, FREE,
        body=ShownCall, responses={JSON: CallSamples}, is_described=False,
    )  # fmt: skip


async def _access(context: AppContext, terms: Terms, address: str) -> Access:
    free_per_day = free_left = None
    if terms.opens_to == "anyone" and terms.is_metered:
        name, windows = allowance_of(terms, context.settings)
        free_per_day = windows.per_day
        free_left = (await peek_for_address(context.meter, name, address, windows)).day.remaining
    price = None if terms.price is None else usd(terms.price.micros())
    return Access(
        needs_key=terms.opens_to == "key",
        entitlement=terms.entitlement,
        minimum_tier=terms.minimum_tier,
        is_metered=terms.is_metered,
        free_per_day=free_per_day,
        free_left=free_left,
        request_usd=price if terms.takes_payments else None,
        wallet_usd=price,
        takes_payments=context.per_request.x402 is not None,
    )
