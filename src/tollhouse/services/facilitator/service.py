"""The facilitator service: what it offers, to whom, and its health."""

from functools import partial
from typing import Any

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.config.settings import Settings
from tollhouse.evm.address import parse_address
from tollhouse.http.endpoint import JSON, Endpoint, Example
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE, Terms
from tollhouse.payments.x402.settlement.built_in import BuiltInFacilitator
from tollhouse.payments.x402.settlement.settler import factories_of
from tollhouse.payments.x402.types import TOKEN_NAME, TOKEN_NAMES, Requirement
from tollhouse.services.facilitator.endpoints import FacilitatorEndpoints, Settling
from tollhouse.services.facilitator.examples import SETTLED, SUPPORTED, TO_SETTLE, VERIFIED
from tollhouse.services.facilitator.types import FacilitatorRequest, SettleResult, Supported, Verified

INTERFACE_VERSION = "2.0.0"

_DESCRIPTION = """An x402 facilitator: it verifies payments in USDC by EIP-3009 authorization (scheme `exact`, versions
1 and 2 of the protocol) and carries them out on the chain, paying for the gas. It never holds the money: an
authorization names its recipient.

Answers about payments have the standard's form. Settling spends the operator's gas, so it is open to the operator's
own servers only."""

# The token is the one that a server with `x402_facilitator_url` sends: the same setting on both sides.
_OPERATORS_OWN = Terms("operator", operator_token="x402_facilitator_auth")  # noqa: S106 - a setting's name

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
        endpoints=_operations(FacilitatorEndpoints(settling, context.meter)),
        health=partial(_health, context, is_settling=settling is not None),
        health_schema=_HEALTH_SCHEMA,
        tags=_TAGS,
    )


def _settled_here(settings: Settings) -> Requirement:
    name = TOKEN_NAMES.get(settings.evm_chain_id, TOKEN_NAME)
    return Requirement(settings.evm_chain_id, 0, parse_address(settings.usdc_address).text, _NOBODY, 0, name)


def _operations(desk: FacilitatorEndpoints) -> list[Endpoint]:
    return [
        Endpoint(
            id="verifyPayment",
            method="POST",
            path="/verify",
            summary="Whether a payment would be settled now",
            description="The signature (also of contract wallets, EIP-1271), the time window, recipient and amount, "
            "the balance and the nonce are checked, and the transfer is tried on the newest block. Nothing is sent. A "
            "payment that will not do is a 200 with `isValid: false`; 400 means that the request itself is malformed.",
            handler=desk.verify,
            terms=_OPERATORS_OWN,
            body=FacilitatorRequest,
            responses={JSON: Verified},
            failures={400: Verified, 502: Verified},
            problems=("missing-credentials", "rate-limited", "upstream-unavailable", "not-configured"),
            tag="payments",
            examples={"body": TO_SETTLE, JSON: VERIFIED},
            sample=Example(body="$PAYMENT"),
        ),
        Endpoint(
            id="settlePayment",
            method="POST",
            path="/settle",
            summary="Carry a payment out on the chain",
            description="Verifies, sends, and answers once the transfer is in a block. Of two calls with the same "
            "authorization one at the most is told of success. `settlement_pending` means that nobody can tell yet: "
            "look for the token's `AuthorizationUsed` log, and never ask the payer for another payment before.",
            handler=desk.settle,
            terms=_OPERATORS_OWN,
            body=FacilitatorRequest,
            responses={JSON: SettleResult},
            failures={400: SettleResult, 502: SettleResult},
            problems=("missing-credentials", "rate-limited", "upstream-unavailable", "not-configured"),
            tag="payments",
            examples={"body": TO_SETTLE, JSON: SETTLED},
            sample=Example(body="$PAYMENT"),
        ),
        Endpoint(
            id="getSupported",
            method="GET",
            path="/supported",
            summary="What is settled here",
            description="Schemes and networks by version of the protocol, and the accounts that send transactions.",
            handler=desk.supported,
            terms=FREE,
            responses={JSON: Supported},
            tag="payments",
            examples={JSON: SUPPORTED},
        ),
    ]


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
