"""The facilitator service: description and health."""

from functools import partial
from typing import Literal

from msgspec import Struct

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.config.settings import Settings
from tollhouse.evm import parse_address
from tollhouse.http.endpoint import endpoints_of
from tollhouse.http.service import Service
from tollhouse.payments.x402.settlement.built_in import BuiltInFacilitator
from tollhouse.payments.x402.types import TOKEN_NAME, TOKEN_NAMES, Requirement
from tollhouse.services.facilitator.endpoints import FacilitatorEndpoints, SettlementConfig

INTERFACE_VERSION = "2.0.0"

_DESCRIPTION = """An x402 facilitator: it verifies USDC payments by EIP-3009 authorization (scheme `exact`, versions 1
and 2 of the protocol) or by Permit2 signature (scheme `upto`, version 2) and settles them on the chain. It pays for the
gas and never holds the money: an authorization names its recipient.

Responses have the form of the x402 specification. Settlement spends the operator's gas, so only the operator's own
servers may use it."""

_TAGS = {"payments": "Verify and settle", "about": "This service"}
_NOBODY = "0x" + 40 * "0"


class Health(Struct, frozen=True):
    """The response of `GET /health`. `ok`: this server settles payments."""

    status: Literal["ok", "not-configured"]
    version: str
    uptime_seconds: int


async def open_facilitator(context: AppContext) -> Service:
    """The service. Without a built-in settler it settles nothing."""
    settler, config = context.per_request.settler, None
    if isinstance(settler, BuiltInFacilitator):
        config = SettlementConfig(settler, _settled_here(context.settings, settler.upto_account))
    return Service(
        name="facilitator",
        title="Tollhouse: x402 facilitator",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        endpoints=endpoints_of(FacilitatorEndpoints(config, context.meter)),
        health=partial(_health, context, is_settling=config is not None),
        health_schema=Health,
        tags=_TAGS,
    )


def _settled_here(settings: Settings, account: str) -> Requirement:
    name = TOKEN_NAMES.get(settings.evm_chain_id, TOKEN_NAME)
    return Requirement(
        settings.evm_chain_id, 0, parse_address(settings.usdc_address).text, _NOBODY, 0, name, facilitator=account
    )


async def _health(context: AppContext, *, is_settling: bool) -> Health:
    return Health("ok" if is_settling else "not-configured", __version__, context.uptime_seconds())
