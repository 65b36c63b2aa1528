"""The facilitator service: what it offers, to whom, and its health."""

from functools import partial
from typing import Any

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.config.settings import Settings
from tollhouse.evm.address import parse_address
from tollhouse.http.service import Service
from tollhouse.payments.pay_per_request import factories_of
from tollhouse.payments.x402.settlement.built_in import BuiltInFacilitator
from tollhouse.payments.x402.types import TOKEN_NAME, TOKEN_NAMES, Requirement
from tollhouse.services.facilitator.endpoints import FacilitatorEndpoints, Settling

INTERFACE_VERSION = "2.0.0"

_DESCRIPTION = """An x402 facilitator: it verifies payments in USDC by EIP-3009 authorization (scheme `exact`, versions
1 and 2 of the protocol) and carries them out on the chain, paying for the gas. It never holds the money: an
authorization names its recipient.

Answers about payments have the standard's form. Settling spends the operator's gas, so it is open to the operator's
own servers only."""

_TAGS = {"payments": "Verify and settle", "about": "This service"}
_NOBODY = "0x" + 40 * "0"


async def open_facilitator(context: AppContext) -> Service:
    """The service over the rooms it is given; without a settler of our own it settles nothing."""
    chain, settler = context.per_request.chain, context.per_request.settler
    settling = None
    if chain is not None and isinstance(settler, BuiltInFacilitator):
        settling = Settling(chain, settler, _settled_here(context.settings), factories_of(context.settings))
    return Service(
        name="facilitator",
        title="Tollhouse: x402 facilitator",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        endpoints=FacilitatorEndpoints(settling, context.meter).endpoints(),
        health=partial(_health, context, is_settling=settling is not None),
        health_schema=_HEALTH_SCHEMA,
        tags=_TAGS,
    )


def _settled_here(settings: Settings) -> Requirement:
    name = TOKEN_NAMES.get(settings.evm_chain_id, TOKEN_NAME)
    return Requirement(settings.evm_chain_id, 0, parse_address(settings.usdc_address).text, _NOBODY, 0, name)


async def _health(context: AppContext, *, is_settling: bool) -> dict[str, Any]:
    return {
        "status": "ok" if is_settling else "not-configured",
        "version": __version__,
        "uptime_seconds": context.uptime_seconds(),
    }


_HEALTH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["status", "version", "uptime_seconds"],
    "properties": {
        "status": {"enum": ["ok", "not-configured"], "description": "Whether this server settles payments"},
        "version": {"type": "string"},
        "uptime_seconds": {"type": "integer"},
    },
}
