"""Types of the x402 protocol: requirements, payments, reasons for refusal, and results of a settlement."""

from typing import Any, Protocol

from msgspec import Struct

from tollhouse.evm.address import parse_address
from tollhouse.evm.typed_data import Domain, TransferWithAuthorization
from tollhouse.payments.chain.replies import Receipt

EXACT = "exact"
"""The only supported scheme: the exact amount, by an EIP-3009 authorization."""

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

    `asset` and `pay_to` are checksummed; `name` and `version` are the token's EIP-712 domain.
    """

    chain_id: int
    amount_micros: int
    asset: str
    pay_to: str
    max_timeout_seconds: int
    name: str = TOKEN_NAME
    version: str = TOKEN_VERSION
    scheme: str = EXACT

    @property
    def network(self) -> str:
        """The network in version 2."""
        return f"eip155:{self.chain_id}"

    @property
    def network_v1(self) -> str | None:
        """The network in version 1; None if version 1 has no name for it."""
        return V1_NETWORKS.get(self.chain_id)

    def network_for(self, version: int) -> str:
        """The network as that protocol version names it, for responses."""
        return self.network_v1 or self.network if version == 1 else self.network

    @property
    def domain(self) -> Domain:
        """The EIP-712 domain of the payer's signature."""
        return Domain(self.name, self.version, self.chain_id, parse_address(self.asset).raw)

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
            "extra": {"name": self.name, "version": self.version},
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
            "extra": {"name": self.name, "version": self.version},
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
    authorization: TransferWithAuthorization
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


class VerificationFailure(Struct, frozen=True):
    """The payment is invalid. `reason` is the specification's code, `detail` is safe to show.

    `headers` describe a failed settlement (`PAYMENT-RESPONSE` with `success: false`); usually there are none.
    """

    reason: str
    detail: str
    headers: tuple[tuple[str, str], ...] = ()


class Verified(Struct, frozen=True):
    """The chain would execute the transfer, as of that block. `code_hash` is set if the payer has code."""

    block_number: int
    code_hash: str | None = None


class Settled(Struct, frozen=True):
    """The transfer is in a block. With `receipt` the node need not be queried again."""

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


class Settler(Protocol):
    """Settles authorizations on the chain: the built-in facilitator, or a remote one."""

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


# Version 1 has another code for it.
_V1_REASONS = {InvalidReason.VALUE_MISMATCH: "invalid_exact_evm_payload_authorization_value"}

_DETAILS = {
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
    InvalidReason.UNSUPPORTED_SCHEME: "The only supported scheme is `exact`.",
    InvalidReason.VALID_AFTER: "The authorization is not valid yet.",
    InvalidReason.VALID_BEFORE: "The authorization has expired, or expires too soon to be settled.",
    InvalidReason.VALUE_MISMATCH: "The authorization is not for exactly the required amount.",
}


def verification_failure(reason: str, version: int) -> VerificationFailure:
    """The failure with its code, as that version of the protocol spells it, and a detail for the payer."""
    detail = _DETAILS.get(reason, "The payment could not be settled. No money was moved.")
    return VerificationFailure(_V1_REASONS.get(reason, reason) if version == 1 else reason, detail)
