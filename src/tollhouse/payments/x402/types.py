"""x402's words: what is asked for, what was sent, and what became of settling it."""

from typing import Any, Protocol

from msgspec import Struct

from tollhouse.evm.address import parse_address
from tollhouse.evm.typed_data import Domain, TransferWithAuthorization
from tollhouse.payments.chain.replies import Receipt

EXACT = "exact"
"""The one scheme spoken here: the exact amount, by an EIP-3009 authorization."""

V1_NETWORKS = {8453: "base", 84532: "base-sepolia"}
"""What version 1 calls a chain; version 2 says `eip155:<chain id>` (CAIP-2)."""

TOKEN_NAMES = {84532: "USDC"}
TOKEN_NAME, TOKEN_VERSION = "USD Coin", "2"
"""USDC's EIP-712 domain: the name is another on some chains."""


class Resource(Struct, frozen=True):
    """What is for sale: its full public address, a sentence about it, and the media type of its answer."""

    url: str
    description: str
    mime_type: str


class Requirement(Struct, frozen=True):
    """What one call costs and how it may be paid. Amounts are token units, which are micro-USD.

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
        """The chain as version 2 names it."""
        return f"eip155:{self.chain_id}"

    @property
    def network_v1(self) -> str | None:
        """The chain as version 1 names it; None where version 1 has no name for it."""
        return V1_NETWORKS.get(self.chain_id)

    def network_for(self, version: int) -> str:
        """The chain as that version of the protocol names it, in an answer."""
        return self.network_v1 or self.network if version == 1 else self.network

    @property
    def domain(self) -> Domain:
        """What a payer's signature has to be good for."""
        return Domain(self.name, self.version, self.chain_id, parse_address(self.asset).raw)

    def v1(self, resource: Resource) -> dict[str, Any]:
        """One of `accepts` in version 1. `outputSchema` is left out: a null breaks npm's x402-fetch."""
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
        """One of `accepts` in version 2; a payment must carry the same again."""
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
    """A payment as it was sent, well-formed and not yet believed.

    `network` is in the sender's version's words. `signature` is whatever was signed with: 65 bytes from a key, any
    bytes from a contract. `accepted` is the requirement that a version 2 payment says it fulfils. `raw` is the whole
    JSON object as sent, to be handed on to a remote facilitator.
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
        """The lower-case address that pays."""
        return "0x" + self.authorization.sender.hex()

    @property
    def nonce(self) -> str:
        """The authorization's nonce: lower-case hex with 0x."""
        return "0x" + self.authorization.nonce.hex()


class VerificationFailure(Struct, frozen=True):
    """This payment will not do. `reason` is the standard's code, `detail` a sentence fit for a stranger.

    `headers` are about a settlement that failed (`PAYMENT-RESPONSE` with `success: false`); usually there are none.
    """

    reason: str
    detail: str
    headers: tuple[tuple[str, str], ...] = ()


class Settled(Struct, frozen=True):
    """The money has moved, in a block. `receipt`, where the settler has it, spares asking the node again."""

    tx_hash: str
    payer: str
    block_number: int
    receipt: Receipt | None = None


class Failed(Struct, frozen=True):
    """This attempt did not carry the authorization out and never will. `reason` is one of the standard's codes."""

    reason: str


class Unknown(Struct, frozen=True):
    """It may have been carried out, or still be: nobody can tell yet. `tx_hash` where one was sent."""

    tx_hash: str | None = None


class Settler(Protocol):
    """Carries authorizations out on the chain: the built-in facilitator, or a remote one."""

    async def settle(self, payment: Payment, requirement: Requirement) -> Settled | Failed | Unknown:
        """Carry a verified payment out, and tell what became of it once it is in a block.

        It may be called again for the same payment, at the same time or after a crash; the chain lets an
        authorization happen once. It raises nothing: whatever goes wrong after sending is Unknown.
        """
