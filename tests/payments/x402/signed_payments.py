"""A payer as the official clients are, signing with eth-account; and settlers that submit through the node itself."""

import asyncio
import json
import os
import time
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any

from eth_abi import encode
from eth_account import Account as Signer
from eth_utils import keccak

from tollhouse.evm import PERMIT2, UPTO_PROXY
from tollhouse.payments.chain.local_chain import ACCOUNTS, Account, LocalChain, load_contracts
from tollhouse.payments.ledger.types import StoredResponse
from tollhouse.payments.x402.headers import decode_payment, read_payment
from tollhouse.payments.x402.store import THIS_SERVER, Attempts
from tollhouse.payments.x402.types import (
    Failed,
    Payment,
    Requirement,
    Resource,
    Settled,
    Unknown,
    VerificationFailure,
    Verified,
)
from tollhouse.payments.x402.verification import WalletRules, plan_settlement, verify_on_chain

Json = dict[str, Any]

PAYER, OTHER, RELAYER, SELLER = ACCOUNTS[:4]
PRICE = 1_000
RESOURCE = Resource("https://toll.example/mattress/api/products?limit=2", "A page of products", "application/json")
REQUIREMENT = Requirement(8453, PRICE, LocalChain.usdc_address, SELLER.address, 60)
# A call that costs PRICE and may cost as much as this.
MAXIMUM = 5_000
UPTO_REQUIREMENT = Requirement(
    8453, MAXIMUM, LocalChain.usdc_address, SELLER.address, 300, scheme="upto", facilitator=RELAYER.address
)
ANSWER = StoredResponse(200, "application/json", b'{"products": []}', ((b"x-served-by", b"test"),), '"etag"')
PRINT = b"0123456789abcdef"
# Makes a contract of whatever code it is sent, at an address that follows from it; every node of this kind has it.
FACTORY = "0x4e59b44847b379578588920cA78FbF26c0B4956C"
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

TYPES = {
    "TransferWithAuthorization": [
        {"name": "from", "type": "address"},
        {"name": "to", "type": "address"},
        {"name": "value", "type": "uint256"},
        {"name": "validAfter", "type": "uint256"},
        {"name": "validBefore", "type": "uint256"},
        {"name": "nonce", "type": "bytes32"},
    ]
}


PERMIT_TYPES = {
    "PermitWitnessTransferFrom": [
        {"name": "permitted", "type": "TokenPermissions"},
        {"name": "spender", "type": "address"},
        {"name": "nonce", "type": "uint256"},
        {"name": "deadline", "type": "uint256"},
        {"name": "witness", "type": "Witness"},
    ],
    "TokenPermissions": [{"name": "token", "type": "address"}, {"name": "amount", "type": "uint256"}],
    "Witness": [
        {"name": "to", "type": "address"},
        {"name": "facilitator", "type": "address"},
        {"name": "validAfter", "type": "uint256"},
    ],
}


def authorization(**changes: Any) -> Json:
    now = int(time.time())
    whole = {"from": PAYER.address, "to": SELLER.address, "value": str(PRICE), "validAfter": str(now - 600),
             "validBefore": str(now + 60), "nonce": "0x" + os.urandom(32).hex()}  # fmt: skip
    return whole | changes


def signature(told: Json, key: str = PAYER.private_key, **domain: Any) -> str:
    """65 bytes in hex, of the typed data that an authorization is."""
    whole = {"name": "USD Coin", "version": "2", "chainId": 8453, "verifyingContract": LocalChain.usdc_address}
    numbers = {name: int(told[name]) for name in ("value", "validAfter", "validBefore")}
    message = told | numbers | {"nonce": bytes.fromhex(told["nonce"][2:])}
    return Signer.sign_typed_data(key, whole | domain, TYPES, message).signature.to_0x_hex()


def payload(told: Json, signed: str | None = None) -> Json:
    return {"signature": signed or signature(told), "authorization": told}


def v1(told: Json | None = None, signed: str | None = None, **changes: Any) -> Json:
    sent = {"x402Version": 1, "scheme": "exact", "network": "base", "payload": payload(told or authorization(), signed)}
    return sent | changes


def v2(told: Json | None = None, signed: str | None = None, **changes: Any) -> Json:
    sent = {
        "x402Version": 2,
        "resource": {"url": RESOURCE.url},
        "accepted": REQUIREMENT.v2(),
        "payload": payload(told or authorization(), signed),
        "extensions": {},
    }
    return sent | changes


def permit(permitted: Json | None = None, witness: Json | None = None, **changes: Any) -> Json:
    """What a payer of scheme `upto` signs: at most MAXIMUM, for the seller, through RELAYER."""
    whole = {
        "from": PAYER.address,
        "permitted": {"token": LocalChain.usdc_address, "amount": str(MAXIMUM)} | (permitted or {}),
        "spender": UPTO_PROXY,
        "nonce": str(int.from_bytes(os.urandom(32))),
        "deadline": str(int(time.time()) + 60),
        "witness": {"to": SELLER.address, "facilitator": RELAYER.address, "validAfter": "0"} | (witness or {}),
    }
    return whole | changes


def permit_signature(told: Json, key: str = PAYER.private_key, **domain: Any) -> str:
    """65 bytes in hex, of the typed data that a permit is."""
    whole = {"name": "Permit2", "chainId": 8453, "verifyingContract": PERMIT2} | domain
    message = {name: value for name, value in told.items() if name != "from"}
    message |= {name: int(told[name]) for name in ("nonce", "deadline")}
    message["permitted"] = told["permitted"] | {"amount": int(told["permitted"]["amount"])}
    message["witness"] = told["witness"] | {"validAfter": int(told["witness"]["validAfter"])}
    return Signer.sign_typed_data(key, whole, PERMIT_TYPES, message).signature.to_0x_hex()


def upto(told: Json | None = None, signed: str | None = None, **changes: Any) -> Json:
    told = told or permit()
    payload = {"signature": signed or permit_signature(told), "permit2Authorization": told}
    return v2(accepted=UPTO_REQUIREMENT.v2(), payload=payload) | changes


def terms_of(sent: Json) -> tuple[int, str]:
    """The amount and the scheme of the requirement that a payment is for."""
    return (MAXIMUM, "upto") if "permit2Authorization" in sent["payload"] else (PRICE, "exact")


def cost_of(sent: Json) -> int | None:
    """What a call that is paid so is said to have cost: PRICE, whatever it may cost."""
    return PRICE if "permit2Authorization" in sent["payload"] else None


def from_unmade_wallet() -> Json:
    """The payment of a contract wallet that is not there yet, which says how FACTORY makes it (EIP-6492)."""
    made = bytes.fromhex(load_contracts()["ContractWallet"].creation[2:]) + encode(["address"], [PAYER.address])
    wallet = "0x" + keccak(b"\xff" + bytes.fromhex(FACTORY[2:]) + bytes(32) + keccak(made))[12:].hex()
    told = authorization(**{"from": wallet})
    inner = bytes.fromhex(signature(told)[2:])
    wrapped = encode(["address", "bytes", "bytes"], [FACTORY, bytes(32) + made, inner]) + bytes.fromhex("6492" * 16)
    return v1(told, "0x" + wrapped.hex())


def named(name: str) -> Json:
    """The extensions of a payment that its payer gave a name."""
    return {"payment-identifier": {"info": {"required": False, "id": name}}}


def encoded(sent: Json) -> str:
    return b64encode(json.dumps(sent).encode()).decode()


def decoded(header: str) -> Json:
    return json.loads(b64decode(header, validate=True))


def read(sent: Json) -> Payment:
    """The payment, through its header."""
    headers = (encoded(sent), "") if sent["x402Version"] == 1 else ("", encoded(sent))
    found = read_payment(*headers)
    assert found is not None
    assert found == decode_payment(found.raw, found.version)
    return found


@dataclass
class NodeSettler:
    """Really submits each payment, from an account the node has the key of; then does as it is told to."""

    chain: LocalChain
    ours: Attempts
    account: Account = RELAYER
    attempts: list[str] = field(default_factory=list)
    sends: bool = True
    says: str = "truth"
    """Or `unknown`, `failed`, `wrong`, or `raise`."""
    gate: asyncio.Event | None = None
    """What it waits for before it does anything."""
    rules: WalletRules = field(default_factory=lambda: WalletRules(contract_wallets=True))

    @property
    def upto_account(self) -> str:
        return self.account.address

    async def verify(self, payment: Payment, requirement: Requirement) -> Verified | VerificationFailure:
        return await verify_on_chain(self.chain.client, payment, requirement, self.rules)

    async def settle(self, payment: Payment, requirement: Requirement) -> Settled | Failed | Unknown:
        self.attempts.append(payment.nonce)
        if self.gate is not None:
            await self.gate.wait()
        found = await self.submitted(payment, requirement) if self.sends else Unknown()
        if self.says == "raise":
            raise ConnectionError("the facilitator hung up")
        if self.says == "wrong":
            return Settled("0x" + "ab" * 32, payment.payer, 1)
        return {"unknown": Unknown(), "failed": Failed("insufficient_funds")}.get(self.says, found)

    async def has_sent(self, payment: Payment, _requirement: Requirement, tx_hash: str) -> bool:
        return tx_hash in await self.ours.hashes((payment.payer, payment.nonce))

    async def submitted(self, payment: Payment, requirement: Requirement) -> Settled | Failed:
        plan = plan_settlement(payment, requirement, self.rules.factories)
        if plan.deployment is not None:
            await self.chain.wait_mined(await self.chain.send(self.account, plan.deployment.to, plan.deployment.data))
        tx_hash = await self.chain.send(self.account, plan.transfer.to, plan.transfer.data, gas=300_000)
        await self.ours.record(tx_hash, [((payment.payer, payment.nonce), THIS_SERVER)])
        receipt = await self.chain.wait_mined(tx_hash)
        if not receipt.is_success:
            return Failed("transaction_failed")
        return Settled(tx_hash, payment.payer, receipt.block_number)
