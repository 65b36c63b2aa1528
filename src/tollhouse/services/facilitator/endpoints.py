"""The facilitator's endpoints: verify and settle payments. Each authorization is settled for one caller, once."""

import asyncio
import secrets
from hashlib import blake2b
from typing import Any

from msgspec import Struct, to_builtins

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.evm import parse_address
from tollhouse.http.endpoint import JSON, Example, Request, Response, endpoint
from tollhouse.http.response import fresh_json
from tollhouse.http.terms import FREE, Terms
from tollhouse.logs import logger
from tollhouse.metering.address_budget import count_or_refuse
from tollhouse.metering.meter import Meter, Reservation, Windows
from tollhouse.payments.chain.replies import ChainUnavailable
from tollhouse.payments.x402.settlement.built_in import BuiltInFacilitator
from tollhouse.payments.x402.settlement.remote import IDEMPOTENT_SETTLE, Kind
from tollhouse.payments.x402.types import (
    EXACT,
    UPTO,
    InvalidReason,
    Requirement,
    Settled,
    Unknown,
    VerificationFailure,
    verification_failure,
)
from tollhouse.payments.x402.verification import check_validity, match_requirement
from tollhouse.services.facilitator.types import (
    SETTLE_ERROR,
    SETTLEMENT_PENDING,
    VERIFY_ERROR,
    FacilitatorRequest,
    PaymentRequest,
    SettleResult,
    Supported,
    UnreadableError,
    Verified,
    read_request,
)

log = logger("services.facilitator")

OPERATOR_ONLY = Terms("operator", operator_setting="x402_facilitator_auth")
"""The token is the one that a server with `x402_facilitator_url` sends: the same setting on both sides."""
PER_MINUTE = 6_000
"""Requests of each kind from one address: enough for a busy resource server, and a limit on calls to the node."""
SETTLE_SECONDS = 25.0
CLAIM_SECONDS = 3_600
_ONE = Windows(None, 1, CLAIM_SECONDS)

_NODE = "The chain's node is unavailable. Nothing was sent. Try again shortly."
_PENDING = "The outcome is not known yet. Look up the authorization on the chain before you ask for another payment."


# Examples for the API description: one payment.
_PAYER, _SELLER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "0x90F79bf6EB2c4f870365E785982E1f101E93b906"
_ACCOUNT = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
_BASE = "eip155:8453"

_REQUIREMENTS: dict[str, Any] = {
    "scheme": "exact",
    "network": _BASE,
    "amount": "1000",
    "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
    "payTo": _SELLER,
    "maxTimeoutSeconds": 60,
    "extra": {"name": "USD Coin", "version": "2"},
}

TO_SETTLE: dict[str, Any] = {
    "x402Version": 2,
    "paymentPayload": {
        "x402Version": 2,
        "resource": {"url": "https://shop.example/api/products"},
        "accepted": _REQUIREMENTS,
        "payload": {
            "signature": "0x" + "5a" * 64 + "1b",
            "authorization": {
                "from": _PAYER,
                "to": _SELLER,
                "value": "1000",
                "validAfter": "1790000000",
                "validBefore": "1790000660",
                "nonce": "0x" + "c7" * 32,
            },
        },
        "extensions": {},
    },
    "paymentRequirements": _REQUIREMENTS,
}
VERIFIED = to_builtins(Verified(is_valid=True, payer=_PAYER))
SETTLED = to_builtins(
    SettleResult(success=True, transaction="0x" + "8d" * 32, network=_BASE, payer=_PAYER, amount="1000")
)
_UPTO = Kind(UPTO, _BASE, 2, {"facilitatorAddress": _ACCOUNT})
_KINDS = [Kind(EXACT, _BASE, 2), _UPTO, Kind(EXACT, "base", 1)]
SUPPORTED = to_builtins(Supported(_KINDS, [IDEMPOTENT_SETTLE], {"eip155:*": [_ACCOUNT]}))

_PAYMENT: dict[str, Any] = {
    "terms": OPERATOR_ONLY,
    "problems": ("missing-credentials", "rate-limited", "upstream-unavailable", "not-configured"),
    "tag": "payments",
    "sample": Example(body="$PAYMENT"),
}


class SettlementConfig(Struct, frozen=True):
    """What the operator settles: `settled` is the chain and token, without amount and recipient."""

    settler: BuiltInFacilitator
    settled: Requirement


class FacilitatorEndpoints:
    """`POST /verify`, `POST /settle` and `GET /supported`."""

    def __init__(self, config: SettlementConfig | None, meter: Meter) -> None:
        self._settling = config
        self._meter = meter

    @endpoint(
        "POST",
        "/verify",
        id="verifyPayment",
        responses={JSON: Verified},
        failures={400: Verified, 502: Verified},
        examples={"body": TO_SETTLE, JSON: VERIFIED},
        **_PAYMENT,
    )
    async def verify(self, request: Request[None, FacilitatorRequest]) -> Response:
        """Verify a payment.

        Checks the signature (also of contract wallets, EIP-1271), the time window, the recipient, the amount, the
        balance and the nonce, and simulates the transfer on the newest block. Sends nothing. An invalid payment is a
        200 with `isValid: false`; 400 means a malformed request.
        """
        config = await self._admit("verify", request.address)
        try:
            parsed = read_request(request.body, config.settled, is_settling=False)
            refusal = await _refusal(config, parsed)
        except UnreadableError as error:
            return fresh_json(Verified(is_valid=False, invalid_reason=error.reason, invalid_message=error.detail), 400)
        except ChainUnavailable:
            return fresh_json(Verified(is_valid=False, invalid_reason=VERIFY_ERROR, invalid_message=_NODE), 502)
        payer = parse_address(parsed.payment.payer).text
        if refusal is not None:
            return fresh_json(
                Verified(is_valid=False, invalid_reason=refusal.reason, invalid_message=refusal.detail, payer=payer)
            )
        return fresh_json(Verified(is_valid=True, payer=payer))

    @endpoint(
        "POST",
        "/settle",
        id="settlePayment",
        responses={JSON: SettleResult},
        failures={400: SettleResult, 502: SettleResult},
        examples={"body": TO_SETTLE, JSON: SETTLED},
        **_PAYMENT,
    )
    async def settle(self, request: Request[None, FacilitatorRequest]) -> Response:
        """Settle a payment on the chain.

        Verifies the payment, sends the transaction, and responds once it is in a block. Of two calls with the same
        authorization, at most one reports success; a caller that lost the reply repeats the call with the same
        `Idempotency-Key`. `settlement_pending` means that the outcome is not known yet: look for the token's
        `AuthorizationUsed` log before you ask the payer for another payment.
        """
        config = await self._admit("settle", request.address)
        try:
            parsed = read_request(request.body, config.settled, is_settling=True)
        except UnreadableError as error:
            refused = SettleResult(
                success=False,
                transaction="",
                network=config.settled.network,
                error_reason=error.reason,
                error_message=error.detail,
            )
            return fresh_json(refused, 400)
        try:
            refusal = await _refusal(config, parsed)
        except ChainUnavailable:
            return fresh_json(_failed(parsed, SETTLE_ERROR, _NODE), 502)
        caller = _caller(request)
        if refusal is not None and refusal.is_used:
            return fresh_json(await _settled_before(config, parsed, caller))
        if refusal is not None:
            return fresh_json(_failed(parsed, refusal.reason, refusal.detail))
        claim_key = f"facilitator-claim:{parsed.payment.payer}:{parsed.payment.nonce}"
        claim = await self._meter.reserve(claim_key, _ONE)
        if claim.verdict.refused_by:
            return fresh_json(_failed(parsed, SETTLEMENT_PENDING, "This payment is being settled by another call."))
        return fresh_json(await self._settled(config, parsed, claim, caller))

    @endpoint("GET", "/supported", id="getSupported", terms=FREE, tag="payments", examples={JSON: SUPPORTED})
    async def supported(self, _request: Request[None, None]) -> Supported:
        """List the supported schemes and networks.

        Schemes and networks by protocol version, and the accounts that send transactions.
        """
        if self._settling is None:
            return Supported([], [], {})
        settled = self._settling.settled
        account = self._settling.settler.upto_account
        kinds = [Kind(EXACT, settled.network, 2), Kind(UPTO, settled.network, 2, {"facilitatorAddress": account})]
        if settled.network_v1 is not None:
            kinds.append(Kind(EXACT, settled.network_v1, 1))
        return Supported(kinds, [IDEMPOTENT_SETTLE], {"eip155:*": [self._settling.settler.address]})

    async def _settled(
        self, config: SettlementConfig, parsed: PaymentRequest, claim: Reservation, caller: str
    ) -> SettleResult:
        if parsed.requirement.amount_micros == 0:
            # The claim stays: of two calls with one authorization, only one reports success.
            return _succeeded(parsed, Settled("", parsed.payment.payer, 0))
        try:
            settling = config.settler.settle(parsed.payment, parsed.requirement, caller)
            outcome = await asyncio.wait_for(settling, SETTLE_SECONDS)
        except TimeoutError:
            outcome = Unknown()
        if isinstance(outcome, Settled):
            return _succeeded(parsed, outcome)
        if isinstance(outcome, Unknown):
            return _failed(parsed, SETTLEMENT_PENDING, _PENDING, outcome.tx_hash or "")
        # Nothing was settled for this call: the next call may try.
        await self._meter.release(claim)
        failure = verification_failure(outcome.reason, parsed.payment)
        return _failed(parsed, failure.reason, failure.detail)

    async def _admit(self, kind: str, address: str) -> SettlementConfig:
        """Count the request. Raises Problem `not-configured`, `rate-limited`."""
        if self._settling is None:
            raise Problem(
                "not-configured",
                "This server does not settle payments. The operator must set `x402_facilitator_key` and `evm_rpc_url`.",
                headers={"Retry-After": "3600"},
                setting="x402_facilitator_key, evm_rpc_url",
            )
        await count_or_refuse(self._meter, f"facilitator-{kind}", address, Windows(None, PER_MINUTE), "payments")
        return self._settling


async def _refusal(config: SettlementConfig, parsed: PaymentRequest) -> VerificationFailure | None:
    """Why the payment cannot be settled now. Raises ChainUnavailable."""
    chosen = match_requirement([parsed.signed], parsed.payment)
    if isinstance(chosen, VerificationFailure):
        return chosen
    if parsed.requirement.amount_micros > chosen.amount_micros:
        return verification_failure(InvalidReason.EXCEEDS_AMOUNT, parsed.payment)
    if untimely := check_validity(parsed.payment, clock.seconds()):
        return untimely
    verified = await config.settler.verify(parsed.payment, chosen)
    return verified if isinstance(verified, VerificationFailure) else None


def _caller(request: Request[None, FacilitatorRequest]) -> str:
    """Who requests a settlement: the caller that knows the `Idempotency-Key` of the first call."""
    sent = request.http.header(b"idempotency-key") if request.http else ""
    return blake2b((sent or secrets.token_hex(16)).encode(), digest_size=32).hexdigest()


async def _settled_before(config: SettlementConfig, parsed: PaymentRequest, caller: str) -> SettleResult:
    """The result of a used authorization: success again only for the caller it was settled for."""
    try:
        outcome = await config.settler.find_outcome(parsed.payment, parsed.requirement, caller)
    except ChainUnavailable:
        return _failed(parsed, SETTLEMENT_PENDING, _NODE)
    if isinstance(outcome, Settled):
        return _succeeded(parsed, outcome)
    failure = verification_failure(InvalidReason.NONCE_USED, parsed.payment)
    return _failed(parsed, failure.reason, failure.detail)


def _succeeded(parsed: PaymentRequest, settled: Settled) -> SettleResult:
    version = parsed.payment.version
    return SettleResult(
        success=True,
        transaction=settled.tx_hash,
        network=parsed.requirement.network_for(version),
        payer=parse_address(parsed.payment.payer).text,
        amount=str(parsed.requirement.amount_micros) if version == 2 else None,
    )


def _failed(parsed: PaymentRequest, reason: str, detail: str, tx_hash: str = "") -> SettleResult:
    return SettleResult(
        success=False,
        transaction=tx_hash,
        network=parsed.requirement.network_for(parsed.payment.version),
        error_reason=reason,
        error_message=detail,
        payer=parse_address(parsed.payment.payer).text,
    )
