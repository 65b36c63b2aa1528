"""Claims and purchases with an x402 payment, and what they leave behind."""

import pytest
from eth_abi import encode
from eth_account import Account as Signer
from eth_utils import keccak

from tests.payments.x402.conftest import PaymentServer
from tests.payments.x402.signed_payments import (
    ANSWER,
    OTHER,
    PAYER,
    PRINT,
    RESOURCE,
    SELLER,
    Json,
    cost_of,
    read,
    terms_of,
)
from tollhouse import clock
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import LocalChain
from tollhouse.payments.x402.headers import Headers
from tollhouse.payments.x402.payments import Claimed, PaidResponse
from tollhouse.payments.x402.types import VerificationFailure

IN_USE = "payment_in_use"
USED = "invalid_exact_evm_nonce_already_used"
NAME = "pay_7d5d747be160e280"
OTHER_CALL = b"another-request!"


async def claim(
    server: PaymentServer, sent: Json, fingerprint: bytes = PRINT
) -> Claimed | PaidResponse | VerificationFailure:
    """What a call gets. Its connection is cut before it is sent a stored answer."""
    outcome = await server.x402.claim(read(sent), server.x402.accepts(*terms_of(sent)), fingerprint, RESOURCE.url)
    if isinstance(outcome, PaidResponse):
        await server.x402.release(outcome)
    return outcome


async def bought(server: PaymentServer, sent: Json, fingerprint: bytes = PRINT) -> Headers:
    """The headers of a payment that was claimed and settled, by a call that was cut before it was sent its answer."""
    claimed = await claim(server, sent, fingerprint)
    assert isinstance(claimed, Claimed), claimed
    headers = await server.x402.settle(claimed, ANSWER, cost_of(sent))
    assert not isinstance(headers, VerificationFailure), headers
    await server.x402.release(claimed)
    return headers


async def reason(server: PaymentServer, sent: Json, fingerprint: bytes = PRINT) -> str:
    refused = await claim(server, sent, fingerprint)
    assert isinstance(refused, VerificationFailure), refused
    return refused.reason


async def seller_holds(chain: LocalChain) -> int:
    return await token_balance(chain.client, chain.usdc_address, SELLER.address)


async def delivered(server: PaymentServer, sent: Json) -> None:
    paid = await server.x402.claim(read(sent), server.x402.accepts(*terms_of(sent)), PRINT, RESOURCE.url)
    assert isinstance(paid, PaidResponse), paid
    server.x402.delivered(paid)


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """From now on it is so much later, for us and not for the chain."""
    real = clock.seconds
    monkeypatch.setattr(clock, "seconds", lambda: real() + seconds)


async def cancel(chain: LocalChain, told: Json) -> None:
    kinds = {"CancelAuthorization": [{"name": "authorizer", "type": "address"}, {"name": "nonce", "type": "bytes32"}]}
    domain = {"name": "USD Coin", "version": "2", "chainId": 8453, "verifyingContract": chain.usdc_address}
    nonce = bytes.fromhex(told["nonce"][2:])
    made = Signer.sign_typed_data(PAYER.private_key, domain, kinds, {"authorizer": told["from"], "nonce": nonce})
    data = keccak(text="cancelAuthorization(address,bytes32,bytes)")[:4]
    data += encode(["address", "bytes32", "bytes"], [told["from"], nonce, made.signature])
    assert (await chain.wait_mined(await chain.send(OTHER, chain.usdc_address, data))).is_success
