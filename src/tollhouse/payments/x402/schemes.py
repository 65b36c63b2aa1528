"""What differs between the schemes of payment: `exact` (EIP-3009) and `upto` (Permit2)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from tollhouse.evm import (
    PERMIT2,
    UPTO_PROXY,
    PermitTransfer,
    Signature,
    TransferWithAuthorization,
    parse_address,
    permit_digest,
    transfer_digest,
)
from tollhouse.payments.chain.contracts import (
    CANCELLED_TOPIC,
    INVALIDATED_TOPIC,
    TRANSFER_TOPIC,
    USED_TOPIC,
    WORD,
    CallResult,
    ContractCall,
    allowance_call,
    authorization_state,
    is_invalidation,
    is_ordered,
    is_proxy,
    is_settled,
    nonce_mask,
    nonce_word_call,
    proxy_call,
    revert_text,
    selector,
    settle_call,
    token_transfer,
    transfer_with_contract_signature,
    transfer_with_eoa_signature,
    uint256,
    unwrap_signature,
)
from tollhouse.payments.chain.replies import ChainUnavailable, Log, Receipt
from tollhouse.payments.x402.types import EXACT, UPTO, InvalidReason, Payment, Requirement

ALL_BITS = (1 << 256) - 1


class SettlementPlan(Struct, frozen=True):
    """The calls that settle a payment. `eoa_signature` is set if the payer is a key (EOA).

    `is_direct`: the facilitator's account itself must send the transfer, in a transaction of its own.
    `deployment` deploys the payer's wallet, if the signature names an allowed factory (EIP-6492); `is_factory_refused`
    if it names one that is not allowed. `gas` is the units that it uses alone in a transaction if the payer is a key.
    """

    transfer: ContractCall
    eoa_signature: Signature | None
    gas: int
    deployment: ContractCall | None = None
    is_factory_refused: bool = False
    is_direct: bool = False


class NonceUse(Struct, frozen=True):
    """A call whose result shows whether the payment's nonce was used: it has a bit of `mask`."""

    call: ContractCall
    mask: int = ALL_BITS

    def is_in(self, result: CallResult) -> bool:
        """Whether the nonce was used. Raises ChainUnavailable for a result of another shape."""
        return bool(uint256(result) & self.mask)


class SettledTransfer(Struct, frozen=True):
    """A transfer that settles a payment: its authorization, and what it moves. Addresses are lower-case."""

    asset: str
    payer: str
    nonce: str
    recipient: str
    amount_micros: int


class Scheme(Protocol):
    """A way to authorize a transfer. Payment and requirement are always of this scheme."""

    gas: int
    """Units of gas that a payment from a key uses alone in a transaction."""
    logs_every_use: bool
    """Whether each use of an authorization leaves a log with its nonce."""

    def mismatch(self, payment: Payment, requirement: Requirement) -> str | None:
        """Why the payment does not meet the requirement, apart from recipient and amount."""

    def digest(self, payment: Payment, requirement: Requirement) -> bytes:
        """The 32 bytes that the payer signed."""

    def plan(
        self, payment: Payment, requirement: Requirement, key: Signature | None, factories: Collection[str]
    ) -> SettlementPlan:
        """The calls that move the requirement's amount. `key` is the payer's signature if it was made by its key."""

    def nonce_use(self, payment: Payment, requirement: Requirement) -> NonceUse:
        """How to ask whether the authorization was used, or given up."""

    def preconditions(self, payment: Payment, requirement: Requirement) -> Mapping[str, ContractCall]:
        """Further calls that tell why a transfer cannot succeed."""

    def failure(self, results: Mapping[str, CallResult], requirement: Requirement) -> str | None:
        """Why the transfer cannot succeed; None if it can. Raises ChainUnavailable."""

    def use_filters(self, payment: Payment, requirement: Requirement) -> Sequence[tuple[str, tuple[str, ...]]]:
        """Contracts and topics of the logs that a use of the authorization leaves."""

    def use(self, log: Log, data: bytes, payment: Payment) -> Literal["given_up", "used"] | None:
        """What such a log says of the authorization; `data`, where uses are not logged, is of its transaction."""

    def is_in(self, receipt: Receipt, settled: SettledTransfer) -> bool:
        """Whether a transaction's logs show the transfer."""


class Exact:
    """The exact amount, by an EIP-3009 authorization: the token itself checks it and logs its use."""

    gas = 95_000
    """USDC's transfer through Multicall3. In a batch it is less than half."""
    logs_every_use = True

    def mismatch(self, _payment: Payment, _requirement: Requirement) -> str | None:
        return None

    def digest(self, payment: Payment, requirement: Requirement) -> bytes:
        return transfer_digest(requirement.domain, _transfer(payment))

    def plan(
        self, payment: Payment, requirement: Requirement, key: Signature | None, factories: Collection[str]
    ) -> SettlementPlan:
        authorization = _transfer(payment)
        if key is not None:
            call = transfer_with_eoa_signature(authorization, key)
            return SettlementPlan(ContractCall(requirement.asset, call), key, self.gas)
        signature, deployment = _unwrapped(payment.signature)
        transfer = ContractCall(requirement.asset, transfer_with_contract_signature(authorization, signature))
        if deployment is None:
            return SettlementPlan(transfer, None, self.gas)
        if parse_address(deployment.to) in {parse_address(factory) for factory in factories}:
            return SettlementPlan(transfer, None, self.gas, deployment)
        return SettlementPlan(transfer, None, self.gas, is_factory_refused=True)

    def nonce_use(self, payment: Payment, requirement: Requirement) -> NonceUse:
        paid = payment.authorization
        return NonceUse(ContractCall(requirement.asset, authorization_state(paid.sender, paid.nonce)))

    def preconditions(self, _payment: Payment, _requirement: Requirement) -> Mapping[str, ContractCall]:
        return {}

    def failure(self, results: Mapping[str, CallResult], _requirement: Requirement) -> str | None:
        transfer = results["transfer"]
        return None if transfer.is_success else _of_message(transfer)

    def use_filters(self, payment: Payment, requirement: Requirement) -> Sequence[tuple[str, tuple[str, ...]]]:
        topics = (_topic(payment.payer), payment.nonce)
        return [(requirement.asset, (USED_TOPIC, *topics)), (requirement.asset, (CANCELLED_TOPIC, *topics))]

    def use(self, log: Log, _data: bytes, _payment: Payment) -> Literal["given_up", "used"] | None:
        return "given_up" if log.topics[0] == CANCELLED_TOPIC else "used"

    def is_in(self, receipt: Receipt, settled: SettledTransfer) -> bool:
        """The token logs the use right before the transfer."""
        topics = (USED_TOPIC, _topic(settled.payer), settled.nonce)
        return any(
            used.address == settled.asset and used.topics == topics and _moves(after, settled)
            for used, after in zip(receipt.logs, receipt.logs[1:], strict=False)
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
            _unwrapped(payment.signature)[0] if key is None else key.compact[:64] + bytes([27 + key.compact[64]])
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
        return _PERMIT2_ERRORS.get(transfer.return_data[:4]) or _of_message(transfer)

    def use_filters(self, payment: Payment, requirement: Requirement) -> Sequence[tuple[str, tuple[str, ...]]]:
        payer, recipient = _topic(payment.payer), _topic("0x" + payment.authorization.recipient.hex())
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
            is_settled(after) and _moves(transfer, settled)
            for transfer, after in zip(receipt.logs, receipt.logs[1:], strict=False)
        )


_SCHEMES: dict[str, Scheme] = {EXACT: Exact(), UPTO: Upto()}


def scheme_named(name: str) -> Scheme:
    """The scheme of that name. Raises KeyError for one that is not supported."""
    return _SCHEMES[name]


def scheme_of(payment: Payment) -> Scheme:
    """The scheme of the payment's authorization."""
    return _SCHEMES[UPTO if isinstance(payment.authorization, PermitTransfer) else EXACT]


# Revert messages of USDC and similar tokens.
_REVERT_MESSAGES = {
    "signature": InvalidReason.INVALID_SIGNATURE,
    "used or canceled": InvalidReason.NONCE_USED,
    "not yet valid": InvalidReason.VALID_AFTER,
    "expired": InvalidReason.VALID_BEFORE,
    "exceeds balance": InvalidReason.INSUFFICIENT_FUNDS,
    "more than the balance": InvalidReason.INSUFFICIENT_FUNDS,
}

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


def _of_message(transfer: CallResult) -> str:
    message = revert_text(transfer.return_data).lower()
    return next((reason for words, reason in _REVERT_MESSAGES.items() if words in message), InvalidReason.INVALID_STATE)


def _transfer(payment: Payment) -> TransferWithAuthorization:
    assert isinstance(payment.authorization, TransferWithAuthorization)
    return payment.authorization


def _permit(payment: Payment) -> PermitTransfer:
    assert isinstance(payment.authorization, PermitTransfer)
    return payment.authorization


def _unwrapped(signature: bytes) -> tuple[bytes, ContractCall | None]:
    """The signature of a contract wallet, and the call that deploys the wallet if it names one (EIP-6492)."""
    try:
        wrapped = unwrap_signature(signature)
    except ValueError:
        wrapped = None
    return (signature, None) if wrapped is None else (wrapped.signature, wrapped.deployment)


def _moves(log: Log, settled: SettledTransfer) -> bool:
    transfer = token_transfer(log)
    moved = transfer and (transfer.token, transfer.sender, transfer.recipient, transfer.amount_micros)
    return moved == (settled.asset, settled.payer, settled.recipient, settled.amount_micros)


def _topic(address: str) -> str:
    return "0x" + address[2:].zfill(2 * WORD)
