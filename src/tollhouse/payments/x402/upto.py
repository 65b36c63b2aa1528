"""The scheme `upto`: at most an amount, by a signature for Permit2."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from tollhouse.evm import PERMIT2, UPTO_PROXY, PermitTransfer, Signature, parse_address, permit_digest
from tollhouse.payments.chain.contracts import (
    INVALIDATED_TOPIC,
    TRANSFER_TOPIC,
    CallResult,
    ContractCall,
    address_topic,
    allowance_call,
    is_invalidation,
    is_ordered,
    is_proxy,
    is_settled,
    nonce_mask,
    nonce_word_call,
    proxy_call,
    selector,
    settle_call,
    uint256,
    unwrap_signature,
)
from tollhouse.payments.chain.replies import ChainUnavailable, Log, Receipt
from tollhouse.payments.x402.types import (
    InvalidReason,
    NonceUse,
    Payment,
    Requirement,
    SettledTransfer,
    SettlementPlan,
    revert_reason,
)


class Upto:
    """At most an amount, by a signature for Permit2 that only one facilitator can use, through one contract."""

    gas = 125_000
    """Measured: 102,400 with a token that is no proxy."""
    logs_every_use = False

    def mismatch(self, payment: Payment, requirement: Requirement) -> str | None:
        permit = _permit(payment)
        required = {
            InvalidReason.TOKEN_MISMATCH: (permit.token, requirement.asset),
            InvalidReason.SPENDER_MISMATCH: (permit.spender, UPTO_PROXY),
            InvalidReason.FACILITATOR_MISMATCH: (permit.facilitator, requirement.facilitator),
        }
        return next((why for why, (raw, text) in required.items() if raw != parse_address(text).raw), None)

    def digest(self, payment: Payment, requirement: Requirement) -> bytes:
        return permit_digest(requirement.chain_id, _permit(payment))

    def plan(
        self, payment: Payment, requirement: Requirement, key: Signature | None, _factories: Collection[str]
    ) -> SettlementPlan:
        # Permit2 takes no v of 0 or 1. A wallet that has approved Permit2 is deployed.
        signature = (
            unwrap_signature(payment.signature).signature
            if key is None
            else key.compact[:64] + bytes([27 + key.compact[64]])
        )
        call = settle_call(_permit(payment), requirement.amount_micros, signature)
        return SettlementPlan(call, key, self.gas, is_direct=True)

    def nonce_use(self, payment: Payment, _requirement: Requirement) -> NonceUse:
        permit = _permit(payment)
        return NonceUse(nonce_word_call(permit), nonce_mask(permit))

    def preconditions(self, payment: Payment, requirement: Requirement) -> Mapping[str, ContractCall]:
        allowance = allowance_call(requirement.asset, payment.authorization.sender)
        return {"allowance": allowance, "proxy": proxy_call()}

    def failure(self, results: Mapping[str, CallResult], requirement: Requirement) -> str | None:
        # A call to an address without a contract succeeds.
        if not is_proxy(results["proxy"].return_data):
            raise ChainUnavailable("the contract of scheme `upto` is missing on this chain")
        if uint256(results["allowance"]) < requirement.amount_micros:
            return InvalidReason.ALLOWANCE_REQUIRED
        transfer = results["transfer"]
        if transfer.is_success:
            return None
        return _PERMIT2_ERRORS.get(transfer.return_data[:4]) or revert_reason(transfer)

    def use_filters(self, payment: Payment, requirement: Requirement) -> Sequence[tuple[str, tuple[str, ...]]]:
        payer, recipient = address_topic(payment.payer), address_topic("0x" + payment.authorization.recipient.hex())
        return [
            (requirement.asset, (TRANSFER_TOPIC, payer, recipient)),
            (PERMIT2, (INVALIDATED_TOPIC, payer)),
        ]

    def use(self, log: Log, data: bytes, payment: Payment) -> Literal["given_up", "used"] | None:
        """No log names the nonce of a transfer: the call does."""
        if log.topics[0] == INVALIDATED_TOPIC:
            return "given_up" if is_invalidation(log, _permit(payment)) else None
        return "used" if is_ordered(data, payment.payer, payment.nonce) else None

    def is_in(self, receipt: Receipt, settled: SettledTransfer) -> bool:
        """The contract logs right after the transfer that it settled one."""
        return any(
            is_settled(after) and settled.is_in(transfer)
            for transfer, after in zip(receipt.logs, receipt.logs[1:], strict=False)
        )


# Errors of Permit2 and of the contract that settles.
_PERMIT2_ERRORS = {
    selector(error): reason
    for error, reason in {
        "InvalidNonce()": InvalidReason.NONCE_USED,
        "SignatureExpired(uint256)": InvalidReason.VALID_BEFORE,
        "PaymentTooEarly()": InvalidReason.VALID_AFTER,
        "InvalidSigner()": InvalidReason.INVALID_SIGNATURE,
        "InvalidSignature()": InvalidReason.INVALID_SIGNATURE,
        "InvalidSignatureLength()": InvalidReason.INVALID_SIGNATURE,
        "InvalidContractSignature()": InvalidReason.INVALID_SIGNATURE,
        "AmountExceedsPermitted()": InvalidReason.EXCEEDS_AMOUNT,
        "UnauthorizedFacilitator()": InvalidReason.FACILITATOR_MISMATCH,
    }.items()
}


def _permit(payment: Payment) -> PermitTransfer:
    assert isinstance(payment.authorization, PermitTransfer)
    return payment.authorization
