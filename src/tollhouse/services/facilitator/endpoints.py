"""Where payments come in to be verified and settled: each authorization is settled for one caller, once."""

import asyncio
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.evm.address import parse_address
from tollhouse.http.endpoint import JSON, Endpoint, Example, Request, Response
from tollhouse.http.terms import FREE, Terms
from tollhouse.logs import logger
from tollhouse.metering.meter import Meter, Reservation, Windows, count_or_refuse
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.replies import ChainUnavailable
from tollhouse.payments.x402.settlement.built_in import BuiltInFacilitator
from tollhouse.payments.x402.types import (
    EXACT,
    Requirement,
    Settled,
    Unknown,
    VerificationFailure,
    verification_failure,
)
from tollhouse.payments.x402.verification import ask_chain, chosen_from, untimely_at
from tollhouse.services.facilitator.types import (
    SETTLE_ERROR,
    SETTLEMENT_PENDING,
    VERIFY_ERROR,
    FacilitatorRequest,
    Kind,
    SettleResult,
    Supported,
    Told,
    UnreadableError,
    Verified,
    read_request,
)

log = logger("services.facilitator")

OPERATOR_ONLY = Terms("operator", operator_token="x402_facilitator_auth")  # noqa: S106 - a setting's name
"""The token is the one that a server with `x402_facilitator_url` sends: the same setting on both sides."""
PER_MINUTE = 6_000
"""Requests of each kind from one address: a busy resource server's, and still a bound to what the node is asked."""
SETTLE_SECONDS = 25.0
CLAIM_SECONDS = 3_600
_ONE = Windows(None, 1, CLAIM_SECONDS)

_NODE = "The chain's node does not answer as it should. Nothing was sent; ask again shortly."
_PENDING = (
    "Nobody can tell yet whether the money has moved. Look the authorization up on the chain; do not ask for another."
)


# One payment, as the descriptions show it.
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
VERIFIED: dict[str, Any] = {"isValid": True, "payer": _PAYER}
SETTLED: dict[str, Any] = {
    "success": True,
    "transaction": "0x" + "8d" * 32,
    "network": _BASE,
    "payer": _PAYER,
    "amount": "1000",
}
SUPPORTED: dict[str, Any] = {
    "kinds": [
        {"scheme": "exact", "network": _BASE, "x402Version": 2},
        {"scheme": "exact", "network": "base", "x402Version": 1},
    ],
    "extensions": [],
    "signers": {"eip155:*": [_ACCOUNT]},
}


class Settling(Struct, frozen=True):
    """What the operator lets be settled: `settled` is its chain and token, with neither amount nor recipient.

    `factories` may make a payer's wallet (EIP-6492).
    """

    chain: ChainClient
    settler: BuiltInFacilitator
    settled: Requirement
    factories: tuple[str, ...]


class FacilitatorEndpoints:
    """The operations `POST /verify`, `POST /settle` and `GET /supported`."""

    def __init__(self, settling: Settling | None, meter: Meter) -> None:
        self._settling = settling
        self._meter = meter

    def endpoints(self) -> list[Endpoint]:
        """The endpoints of the service."""
        return [
            Endpoint(
                id="verifyPayment",
                method="POST",
                path="/verify",
                summary="Verify a payment",
                description="Checks the signature (also of contract wallets, EIP-1271), the time window, the "
                "recipient, the amount, the balance and the nonce, and simulates the transfer on the newest block. "
                "Sends nothing. An invalid payment is a 200 with `isValid: false`; 400 means a malformed request.",
                handler=self.verify,
                terms=OPERATOR_ONLY,
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
                summary="Settle a payment on the chain",
                description="Verifies the payment, sends the transaction, and responds once it is in a block. Of two "
                "calls with the same authorization, at most one reports success. `settlement_pending` means that the "
                "outcome is not known yet: look for the token's `AuthorizationUsed` log before you ask the payer for "
                "another payment.",
                handler=self.settle,
                terms=OPERATOR_ONLY,
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
                summary="List the supported schemes and networks",
                description="Schemes and networks by protocol version, and the accounts that send transactions.",
                handler=self.supported,
                terms=FREE,
                responses={JSON: Supported},
                tag="payments",
                examples={JSON: SUPPORTED},
            ),
        ]

    async def supported(self, _asked: Request[None, None]) -> Supported:
        """What is settled here; nothing where the operator has not set this up."""
        if self._settling is None:
            return Supported([], [], {})
        settled = self._settling.settled
        kinds = [Kind(EXACT, settled.network, 2)]
        if settled.network_v1 is not None:
            kinds.append(Kind(EXACT, settled.network_v1, 1))
        return Supported(kinds, [], {"eip155:*": [self._settling.settler.address]})

    async def verify(self, request: Request[None, FacilitatorRequest]) -> Response:
        """Whether a payment would be settled now."""
        settling = self._configured()
        await self._admit("verify", request.address)
        try:
            told = read_request(request.body, settling.settled)
            refusal = await _refusal(settling, told)
        except UnreadableError as error:
            return _answer(400, Verified(is_valid=False, invalid_reason=error.reason, invalid_message=error.detail))
        except ChainUnavailable:
            return _answer(502, Verified(is_valid=False, invalid_reason=VERIFY_ERROR, invalid_message=_NODE))
        payer = parse_address(told.payment.payer).text
        if refusal is not None:
            told_why = Verified(
                is_valid=False, invalid_reason=refusal.reason, invalid_message=refusal.detail, payer=payer
            )
            return _answer(200, told_why)
        return _answer(200, Verified(is_valid=True, payer=payer))

    async def settle(self, request: Request[None, FacilitatorRequest]) -> Response:
        """Carry a payment out. Two calls with one authorization are never both told that they were paid."""
        settling = self._configured()
        await self._admit("settle", request.address)
        try:
            told = read_request(request.body, settling.settled)
        except UnreadableError as error:
            return _answer(
                400,
                SettleResult(
                    success=False,
                    transaction="",
                    network=settling.settled.network,
                    error_reason=error.reason,
                    error_message=error.detail,
                ),
            )
        try:
            refusal = await _refusal(settling, told)
        except ChainUnavailable:
            return _answer(502, _failed(told, SETTLE_ERROR, _NODE))
        if refusal is not None:
            return _answer(200, _failed(told, refusal.reason, refusal.detail))
        claim = await self._meter.reserve(_claim_of(told), _ONE)
        if claim.verdict.refused_by:
            return _answer(200, _failed(told, SETTLEMENT_PENDING, "Another call has this payment settled."))
        return _answer(200, await self._settled(settling, told, claim))

    async def _settled(self, settling: Settling, told: Told, claim: Reservation) -> SettleResult:
        try:
            outcome = await asyncio.wait_for(settling.settler.settle(told.payment, told.requirement), SETTLE_SECONDS)
        except TimeoutError:
            outcome = Unknown()
        version, payer = told.payment.version, parse_address(told.payment.payer).text
        if isinstance(outcome, Settled):
            network, amount = told.requirement.network_for(version), str(told.requirement.amount_micros)
            return SettleResult(
                success=True,
                transaction=outcome.tx_hash,
                network=network,
                payer=payer,
                amount=amount if version == 2 else None,
            )
        if isinstance(outcome, Unknown):
            return _failed(told, SETTLEMENT_PENDING, _PENDING, outcome.tx_hash or "")
        # Nothing was carried out for this call: the next may try.
        await self._meter.release(claim)
        no = verification_failure(outcome.reason, version)
        return _failed(told, no.reason, no.detail)

    async def _admit(self, kind: str, address: str) -> None:
        windows = Windows(None, PER_MINUTE)
        await count_or_refuse(self._meter, f"facilitator-{kind}:{address}", windows, "payments")

    def _configured(self) -> Settling:
        if self._settling is None:
            raise Problem(
                "not-configured",
                "This server settles no payments: its operator has not set `x402_facilitator_key` and `evm_rpc_url`.",
                headers={"Retry-After": "3600"},
                setting="x402_facilitator_key, evm_rpc_url",
            )
        return self._settling


async def _refusal(settling: Settling, told: Told) -> VerificationFailure | None:
    """Why the payment would not be carried out now. Raises ChainUnavailable."""
    chosen = chosen_from([told.requirement], told.payment)
    if isinstance(chosen, VerificationFailure):
        return chosen
    if untimely := untimely_at(told.payment, clock.seconds()):
        return untimely
    sound = await ask_chain(settling.chain, told.payment, told.requirement, settling.factories)
    return sound if isinstance(sound, VerificationFailure) else None


def _failed(told: Told, reason: str, detail: str, tx_hash: str = "") -> SettleResult:
    return SettleResult(
        success=False,
        transaction=tx_hash,
        network=told.requirement.network_for(told.payment.version),
        error_reason=reason,
        error_message=detail,
        payer=parse_address(told.payment.payer).text,
    )


def _claim_of(told: Told) -> str:
    return f"facilitator-claim:{told.payment.payer}:{told.payment.nonce}"


def _answer(status: int, result: Struct) -> Response:
    return Response(msgspec.json.encode(result), status=status, cache_control="no-store")
