"""Types of x402: requirements, payments, reasons for refusal, the calls that settle a payment, and their results."""

from typing import Any, Protocol

import msgspec
from msgspec import Struct

from tollhouse.evm import Domain, PermitTransfer, Signature, TransferWithAuthorization, parse_address
from tollhouse.payments.chain.contracts import CallResult, ContractCall, revert_text, token_transfer, uint256
from tollhouse.payments.chain.replies import Log, Receipt

EXACT, UPTO = "exact", "upto"
"""The schemes: the exact amount, by an EIP-3009 authorization; at most an amount, by a Permit2 signature."""

V1_NETWORKS = {8453: "base", 84532: "base-sepolia"}
"""The network names of version 1; version 2 uses `eip155:<chain id>` (CAIP-2)."""

TOKEN_NAMES = {84532: "USDC"}
TOKEN_NAME, TOKEN_VERSION = "USD Coin", "2"
"""USDC's EIP-712 domain. The name differs on some chains."""


class Resource(Struct, frozen=True):
    """The resource for sale: its public URL, a description, and the media type of its response."""

    url: str
    description: str
    mime_type: str


class Requirement(Struct, frozen=True):
    """The price of one call and how to pay it. Amounts are token units, which are micro-USD.

    `asset`, `pay_to` and `facilitator` are checksummed; `name` and `version` are the token's EIP-712 domain.
    In the scheme `upto` the amount is the most that a call costs and, once it is settled, what it cost; only the
    account `facilitator` can settle it.
    """

    chain_id: int
    amount_micros: int
    asset: str
    pay_to: str
    max_timeout_seconds: int
    name: str = TOKEN_NAME
    version: str = TOKEN_VERSION
    scheme: str = EXACT
    facilitator: str = ""

    @property
    def network(self) -> str:
        """The network in version 2."""
        return f"eip155:{self.chain_id}"

    @property
    def network_v1(self) -> str | None:
        """The network in version 1; None if version 1 has no name for it, or does not have the scheme."""
        return V1_NETWORKS.get(self.chain_id) if self.scheme == EXACT else None

    def network_for(self, version: int) -> str:
        """The network as that protocol version names it, for responses."""
        return self.network_v1 or self.network if version == 1 else self.network

    @property
    def domain(self) -> Domain:
        """The EIP-712 domain of the payer's signature."""
        return Domain(self.name, self.version, self.chain_id, parse_address(self.asset).raw)

    @property
    def extra(self) -> dict[str, str]:
        """The members of `extra`."""
        token = {"name": self.name, "version": self.version}
        if self.scheme == EXACT:
            return token
        return token | {"assetTransferMethod": "permit2", "facilitatorAddress": self.facilitator}

    def costing(self, micros: int) -> "Requirement":
        """What is settled of an `upto` requirement for a call that cost so much: never more than its amount."""
        assert self.scheme == UPTO, "the amount of `exact` is fixed"
        return msgspec.structs.replace(self, amount_micros=min(micros, self.amount_micros))

    def v1(self, resource: Resource) -> dict[str, Any]:
        """An entry of `accepts` in version 1. Without `outputSchema`: a null breaks npm's x402-fetch."""
        return {
            "scheme": self.scheme,
            "network": self.network_for(1),
            "maxAmountRequired": str(self.amount_micros),
            "resource": resource.url,
            "description": resource.description,
            "mimeType": resource.mime_type,
            "payTo": self.pay_to,
            "maxTimeoutSeconds": self.max_timeout_seconds,
            "asset": self.asset,
            "extra": self.extra,
        }

    def v2(self) -> dict[str, Any]:
        """An entry of `accepts` in version 2; a payment must repeat it."""
        return {
            "scheme": self.scheme,
            "network": self.network,
            "amount": str(self.amount_micros),
            "asset": self.asset,
            "payTo": self.pay_to,
            "maxTimeoutSeconds": self.max_timeout_seconds,
            "extra": self.extra,
        }


class Payment(Struct, frozen=True):
    """A payment as sent: well-formed, not verified.

    `network` is the name in the sender's protocol version. `signature` is 65 bytes from a key, or any bytes from a
    contract. `accepted` is the requirement that a version 2 payment repeats. `raw` is the whole JSON object, for a
    remote facilitator.
    """

    version: int
    scheme: str
    network: str
    authorization: TransferWithAuthorization | PermitTransfer
    signature: bytes
    raw: bytes
    accepted: dict[str, Any] | None = None
    payment_id: str | None = None

    @property
    def payer(self) -> str:
        """The payer's address, lower-case."""
        return "0x" + self.authorization.sender.hex()

    @property
    def nonce(self) -> str:
        """The authorization's nonce: lower-case hex with 0x."""
        return "0x" + self.authorization.nonce.hex()

    @property
    def key(self) -> tuple[str, str]:
        """The payer and the nonce, which identify a payment on the chain and in the database."""
        return self.payer, self.nonce


class VerificationFailure(Struct, frozen=True):
    """The payment is invalid. `reason` is the specification's code, `detail` is safe to show.

    `headers` describe a failed settlement (`PAYMENT-RESPONSE` with `success: false`); usually there are none.
    """

    reason: str
    detail: str
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def is_used(self) -> bool:
        """The authorization was used before."""
        return general_reason(self.reason) == InvalidReason.NONCE_USED


class Verified(Struct, frozen=True):
    """The chain would execute the transfer, as of that block. `code_hash` is set if the payer has code."""

    block_number: int
    code_hash: str | None = None


class Settled(Struct, frozen=True):
    """The transfer is in a block. With `receipt` the node need not be queried again.

    `tx_hash` is empty for an `upto` payment of which nothing was taken: there is no transaction.
    """

    tx_hash: str
    payer: str
    block_number: int
    receipt: Receipt | None = None


class Failed(Struct, frozen=True):
    """This attempt did not settle the payment and never will. `reason` is one of the specification's codes."""

    reason: str


class Unknown(Struct, frozen=True):
    """It may have been settled, or may still be. `tx_hash` is set if a transaction was sent."""

    tx_hash: str | None = None


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
    mask: int = (1 << 256) - 1

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

    def is_in(self, log: Log) -> bool:
        """Whether the log is of this transfer."""
        one = token_transfer(log)
        moved = one and (one.token, one.sender, one.recipient, one.amount_micros)
        return moved == (self.asset, self.payer, self.recipient, self.amount_micros)


class Settler(Protocol):
    """Settles authorizations on the chain: the built-in facilitator, or a remote one."""

    @property
    def upto_account(self) -> str:
        """The account that settles payments of scheme `upto`, checksummed; empty if there is none, or not yet."""

    async def verify(self, payment: Payment, requirement: Requirement) -> Verified | VerificationFailure:
        """Whether it would settle the payment now: the payer's authorization, and what settling costs.

        Raises Problem `payments-unavailable` (gas costs too much), `upstream-unavailable`, `storage-unavailable`.
        """

    async def settle(self, payment: Payment, requirement: Requirement) -> Settled | Failed | Unknown:
        """Settle a verified payment, and return its outcome once it is in a block.

        It may be called again for the same payment, concurrently or after a crash: the chain executes an authorization
        once. It raises nothing: any failure after sending is Unknown. Settled means by a transaction that was sent for
        this server.
        """

    async def has_sent(self, payment: Payment, requirement: Requirement, tx_hash: str) -> bool | None:
        """Whether the transaction, which used the payment's authorization, was sent for this server.

        None if that is not known yet. Raises Problem `storage-unavailable`, ChainUnavailable.
        """


class InvalidReason:
    """The reasons of the x402 specification for which a payment is invalid (`invalidReason`, `errorReason`)."""

    IN_USE = "payment_in_use"
    INSUFFICIENT_FUNDS = "insufficient_funds"
    INVALID_NETWORK = "invalid_network"
    INVALID_PAYLOAD = "invalid_payload"
    INVALID_REQUIREMENTS = "invalid_payment_requirements"
    INVALID_SIGNATURE = "invalid_exact_evm_payload_signature"
    INVALID_STATE = "invalid_transaction_state"
    INVALID_VERSION = "invalid_x402_version"
    CONTRACT_WALLET = "contract_wallet_not_allowed"
    FACTORY_NOT_ALLOWED = "eip6492_factory_not_allowed"
    GAS_LIMIT = "gas_limit_exceeded"
    PAYER_REFUSED = "payer_refused"
    WALLET_CODE_REFUSED = "wallet_code_refused"
    NONCE_USED = "invalid_exact_evm_nonce_already_used"
    RECIPIENT_MISMATCH = "invalid_exact_evm_payload_recipient_mismatch"
    TRANSACTION_FAILED = "transaction_failed"
    UNSUPPORTED_SCHEME = "unsupported_scheme"
    VALID_AFTER = "invalid_exact_evm_payload_authorization_valid_after"
    VALID_BEFORE = "invalid_exact_evm_payload_authorization_valid_before"
    VALUE_MISMATCH = "invalid_exact_evm_payload_authorization_value_mismatch"
    # Of the scheme `upto` only.
    ALLOWANCE_REQUIRED = "permit2_allowance_required"
    EXCEEDS_AMOUNT = "invalid_upto_evm_payload_settlement_exceeds_amount"
    FACILITATOR_MISMATCH = "upto_facilitator_mismatch"
    SPENDER_MISMATCH = "invalid_permit2_spender"
    TOKEN_MISMATCH = "permit2_token_mismatch"  # noqa: S105


# Version 1, and the scheme `upto`, have other codes for them.
_V1_REASONS = {InvalidReason.VALUE_MISMATCH: "invalid_exact_evm_payload_authorization_value"}
_UPTO_REASONS = {
    InvalidReason.INVALID_SIGNATURE: "invalid_permit2_signature",
    InvalidReason.NONCE_USED: "permit2_invalid_nonce",
    InvalidReason.RECIPIENT_MISMATCH: "invalid_permit2_recipient_mismatch",
    InvalidReason.VALID_AFTER: "permit2_not_yet_valid",
    InvalidReason.VALID_BEFORE: "permit2_deadline_expired",
    InvalidReason.VALUE_MISMATCH: "permit2_amount_mismatch",
}
_GENERAL_REASONS = {spelled: reason for reasons in (_V1_REASONS, _UPTO_REASONS) for reason, spelled in reasons.items()}

_DETAILS = {
    InvalidReason.ALLOWANCE_REQUIRED: "Permit2 may not take that much of the payer's USDC yet. Approve it once: "
    "`approve(0x000000000022D473030F116dDEE9F6B43aC78BA3, amount)` on the token.",
    InvalidReason.EXCEEDS_AMOUNT: "The amount to settle is more than the payer authorized.",
    InvalidReason.FACILITATOR_MISMATCH: "The authorization names another facilitator than the one required.",
    InvalidReason.SPENDER_MISMATCH: "The authorization names another spender than the contract of the scheme `upto`.",
    InvalidReason.TOKEN_MISMATCH: "The authorization is for another token than the one required.",
    InvalidReason.IN_USE: "Another call uses this payment. One payment buys one response.",
    InvalidReason.INSUFFICIENT_FUNDS: "The payer's USDC balance is less than the payment.",
    InvalidReason.INVALID_NETWORK: "The payment is for another network than the one required.",
    InvalidReason.INVALID_REQUIREMENTS: "`accepted` is none of the offered payment requirements.",
    InvalidReason.INVALID_SIGNATURE: "The signature is not the payer's for this token on this network.",
    InvalidReason.CONTRACT_WALLET: "This server takes payments signed by a key only. Contract wallets, and keys with "
    "delegated code (EIP-7702), are accepted where the operator sets `x402_contract_wallets`.",
    InvalidReason.GAS_LIMIT: "The payer's wallet uses more gas than this server pays for one payment.",
    InvalidReason.PAYER_REFUSED: "A transaction for this payer failed. Nothing is sent for it for at least a day.",
    InvalidReason.WALLET_CODE_REFUSED: "A transaction for a wallet with the same code failed. Nothing is sent for "
    "such wallets for at least a day.",
    InvalidReason.INVALID_STATE: "The token contract rejects this authorization.",
    InvalidReason.FACTORY_NOT_ALLOWED: "This server does not allow the factory that would deploy the payer's wallet.",
    InvalidReason.NONCE_USED: "This authorization was used before. Sign a new one with a random nonce.",
    InvalidReason.RECIPIENT_MISMATCH: "The authorization pays another address than the one required.",
    InvalidReason.TRANSACTION_FAILED: "The transaction failed on the chain. No money was moved.",
    InvalidReason.UNSUPPORTED_SCHEME: "The payment has another scheme than the ones offered.",
    InvalidReason.VALID_AFTER: "The authorization is not valid yet.",
    InvalidReason.VALID_BEFORE: "The authorization has expired, or expires too soon to be settled.",
    InvalidReason.VALUE_MISMATCH: "The authorization is not for exactly the required amount.",
}


# Revert messages of USDC and similar tokens.
_REVERT_MESSAGES = {
    "signature": InvalidReason.INVALID_SIGNATURE,
    "used or canceled": InvalidReason.NONCE_USED,
    "not yet valid": InvalidReason.VALID_AFTER,
    "expired": InvalidReason.VALID_BEFORE,
    "exceeds balance": InvalidReason.INSUFFICIENT_FUNDS,
    "more than the balance": InvalidReason.INSUFFICIENT_FUNDS,
}


def verification_failure(reason: str, payment: Payment) -> VerificationFailure:
    """The failure with its code, as the payment's version and scheme spell it, and a detail for the payer."""
    general = general_reason(reason)
    detail = _DETAILS.get(general, "The payment could not be settled. No money was moved.")
    spellings = _V1_REASONS if payment.version == 1 else _UPTO_REASONS if payment.scheme == UPTO else {}
    return VerificationFailure(spellings.get(general, reason), detail)


def general_reason(reason: str) -> str:
    """The member of InvalidReason for a code that one version or scheme spells in its own way."""
    return _GENERAL_REASONS.get(reason, reason)


def revert_reason(transfer: CallResult) -> str:
    """Why a token's contract refuses a transfer, as far as its message says."""
    message = revert_text(transfer.return_data).lower()
    return next((reason for words, reason in _REVERT_MESSAGES.items() if words in message), InvalidReason.INVALID_STATE)
