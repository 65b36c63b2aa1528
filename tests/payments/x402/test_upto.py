"""Scheme `upto`: the payer signs a maximum and pays what the call cost, once, whatever is sent again or altered."""

import asyncio
import os
import time

import pytest

from tests.payments.x402.purchases import IN_USE, OTHER_CALL, bought, claim, delivered, reason, seller_holds
from tests.payments.x402.signed_payments import (
    ANSWER,
    MAXIMUM,
    OTHER,
    PAYER,
    PRICE,
    SELLER,
    decoded,
    permit,
    permit_signature,
    read,
    upto,
)
from tollhouse.evm import PERMIT2, UPTO_PROXY
from tollhouse.payments.chain.contracts import call_data
from tollhouse.payments.ledger.types import REVENUE, Transfer
from tollhouse.payments.x402.claims import X402 as X402_ACCOUNT
from tollhouse.payments.x402.payments import Claimed, PaidResponse

COST = 1_234
USED = "permit2_invalid_nonce"


async def paid_for(server, sent, cost: int) -> dict:
    """What the payer of a call is told that cost so much; its answer is not delivered."""
    claimed = await claim(server, sent)
    assert isinstance(claimed, Claimed), claimed
    [(name, header)] = await server.x402.settle(claimed, ANSWER, cost)
    assert name == "PAYMENT-RESPONSE"
    await server.x402.release(claimed)
    return decoded(header)


def signed(told, **changes: object):
    return upto(told, permit_signature(told, **changes))


@pytest.mark.both_databases
@pytest.mark.parametrize(("cost", "taken"), [(COST, COST), (MAXIMUM, MAXIMUM), (MAXIMUM + 1, MAXIMUM)])
async def test_payer_pays_what_the_call_cost_and_never_more_than_the_maximum(server, chain, cost, taken):
    sent = upto()
    told = await paid_for(server, sent, cost)
    assert (told["success"], told["amount"], told["payer"]) == (True, str(taken), PAYER.address)
    assert (await chain.client.receipt(told["transaction"])).is_success
    assert await seller_holds(chain) == taken
    [transfer] = await server.ledger.transfers("x402", 0.0)
    assert (transfer.id, transfer.amount_micros) == (f"x402:{read(sent).payer}:{read(sent).nonce}", taken)
    [listed] = await server.x402.receipts(time.time() + 1, 10)
    assert (listed.amount_micros, listed.tx_hash) == (taken, told["transaction"])
    result = await server.x402.reconcile()
    assert (result.agrees, result.chain_micros) == (True, taken)
    await delivered(server, sent)
    assert await reason(server, sent) in {IN_USE, USED}


@pytest.mark.both_databases
async def test_call_that_cost_nothing_takes_nothing_and_still_uses_the_payment_up(server, chain):
    sent = upto()
    told = await paid_for(server, sent, 0)
    assert (told["success"], told["amount"], told["transaction"]) == (True, "0", "")
    assert server.settler.attempts == []
    assert await seller_holds(chain) == 0
    assert await server.ledger.transfers("x402", 0.0) == []
    assert await reason(server, sent, OTHER_CALL) == USED
    await delivered(server, sent)
    for again in (sent, upto(permit(nonce=sent["payload"]["permit2Authorization"]["nonce"]))):
        assert await reason(server, again) in {IN_USE, USED}
    assert (await server.x402.reconcile()).agrees


async def test_raced_copies_are_one_payment_and_one_answer(open_sqlite_server, chain):
    servers, sent = [await open_sqlite_server() for _ in range(2)], upto()
    outcomes = await asyncio.gather(
        *(bought(server, sent) for server in servers for _ in range(4)), return_exceptions=True
    )
    headers = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
    assert len(headers) == 1
    assert await seller_holds(chain) == PRICE
    assert len(await servers[0].ledger.transfers("x402", 0.0)) == 1


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (lambda: upto(permit(witness={"to": OTHER.address})), "invalid_permit2_recipient_mismatch"),
        (lambda: upto(permit(witness={"facilitator": OTHER.address})), "upto_facilitator_mismatch"),
        (lambda: upto(permit(witness={"validAfter": "2700000000"}, deadline="2800000000")), "permit2_not_yet_valid"),
        (lambda: upto(permit(spender=OTHER.address)), "invalid_permit2_spender"),
        (lambda: upto(permit({"amount": str(MAXIMUM - 1)})), "permit2_amount_mismatch"),
        (lambda: upto(permit({"amount": str(MAXIMUM + 1)})), "permit2_amount_mismatch"),
        (lambda: upto(permit({"token": UPTO_PROXY})), "permit2_token_mismatch"),
        (lambda: upto(permit(deadline=str(int(time.time()) + 3))), "permit2_deadline_expired"),
        (lambda: upto(permit(**{"from": OTHER.address})), "insufficient_funds"),
        (lambda: signed(permit(), key=OTHER.private_key), "invalid_permit2_signature"),
        (lambda: signed(permit(), chainId=1), "invalid_permit2_signature"),
        (lambda: signed(permit(), verifyingContract=OTHER.address), "invalid_permit2_signature"),
        (lambda: signed(permit(**{"from": OTHER.address}), key=OTHER.private_key), "insufficient_funds"),
    ],
)  # fmt: skip
async def test_altered_payment_is_refused_before_anything_is_sent(open_sqlite_server, sent, why):
    server = await open_sqlite_server()
    assert await reason(server, sent()) == why
    assert server.settler.attempts == []


async def test_payer_must_have_let_permit2_take_the_maximum(sqlite_server, chain):
    await chain.approve_permit2(PAYER, MAXIMUM - 1)
    assert await reason(sqlite_server, upto()) == "permit2_allowance_required"
    await chain.approve_permit2(PAYER, MAXIMUM)
    assert isinstance(await claim(sqlite_server, upto()), Claimed)


async def test_nonce_that_its_owner_gave_up_pays_for_nothing(sqlite_server, chain):
    sent = upto()
    payment = read(sent)
    word, mask = int.from_bytes(payment.authorization.nonce[:-1]), 1 << payment.authorization.nonce[-1]
    await chain.wait_mined(
        await chain.send(PAYER, PERMIT2, call_data("invalidateUnorderedNonces(uint256,uint256)", word, mask))
    )
    assert await reason(sqlite_server, sent) == USED


async def test_payment_for_one_resource_opens_no_other(sqlite_server):
    sent = upto()
    await bought(sqlite_server, sent)
    assert await reason(sqlite_server, sent, OTHER_CALL) == USED
    assert isinstance(await claim(sqlite_server, sent), PaidResponse)


async def test_nonce_spent_elsewhere_during_the_call_is_never_entered(sqlite_server):
    """The facilitator settled the authorization for somebody else; our own transaction was never sent."""
    sent, server = upto(), sqlite_server
    claimed = await claim(server, sent)
    server.settler.sends = False
    elsewhere = claimed.requirement.costing(COST)
    await server.settler.submitted(claimed.payment, elsewhere)
    refused = await server.x402.settle(claimed, ANSWER, PRICE)
    assert refused.reason == USED
    assert await server.ledger.transfers("x402", 0.0) == []


async def test_reconciliation_finds_an_entry_that_another_payments_transaction_does_not_prove(sqlite_server):
    sent, server = upto(), sqlite_server
    await bought(server, sent)
    [transfer] = await server.ledger.transfers("x402", 0.0)
    nonce = "0x" + os.urandom(32).hex()
    forged = f"x402:{PAYER.address.lower()}:{nonce}"
    await server.ledger.move(
        Transfer(forged, X402_ACCOUNT, REVENUE, PRICE, X402_ACCOUNT, transfer.memo | {"nonce": nonce})
    )
    result = await server.x402.reconcile()
    assert (result.agrees, result.differences) == (False, [f"{forged}: the chain has no such payment of {PRICE}"])


def test_offer_is_what_the_official_client_signs(sqlite_server):
    [offered] = sqlite_server.x402.accepts(MAXIMUM, "upto")
    assert offered.v2() == {
        "scheme": "upto",
        "network": "eip155:8453",
        "amount": str(MAXIMUM),
        "asset": offered.asset,
        "payTo": SELLER.address,
        "maxTimeoutSeconds": 300,
        "extra": {
            "name": "USD Coin",
            "version": "2",
            "assetTransferMethod": "permit2",
            "facilitatorAddress": sqlite_server.settler.upto_account,
        },
    }
    assert offered.network_v1 is None
