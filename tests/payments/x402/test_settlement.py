"""What the chain decides: who is refused, what a settlement came to, what the books and receipts say."""

from types import SimpleNamespace

import pytest
from eth_account import Account as Signer
from eth_account.messages import encode_typed_data

from tests.payments.x402.conftest import KEY
from tests.payments.x402.purchases import USED, bought, cancel, claim, later, reason, seller_holds
from tests.payments.x402.signed_payments import (
    ANSWER,
    OTHER,
    PAYER,
    PRICE,
    RESOURCE,
    authorization,
    decoded,
    read,
    signature,
    v1,
    v2,
)
from tests.servers.chain import deploy
from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.payments.x402 import claims
from tollhouse.payments.x402.reconciliation import reconcile
from tollhouse.payments.x402.types import VerificationFailure
from tollhouse.payments.x402.verification import plan_settlement


@pytest.fixture
async def server(sqlite_server):
    return sqlite_server


async def test_receipt_is_signed_as_the_extension_says_and_kept(server):
    sent = v2()
    [(_, value)] = await bought(server, sent)
    told = decoded(value)
    signed = told["extensions"]["offer-receipt"]["info"]["receipt"]
    assert signed["format"] == "eip712"
    message = signed["payload"]
    assert message | {"issuedAt": 0} == {
        "version": 1,
        "network": "eip155:8453",
        "resourceUrl": RESOURCE.url,
        "payer": PAYER.address,
        "issuedAt": 0,
        "transaction": told["transaction"],
    }
    fields = {"version": "uint256", "network": "string", "resourceUrl": "string", "payer": "string",
              "issuedAt": "uint256", "transaction": "string"}  # fmt: skip
    typed = encode_typed_data(
        domain_data={"name": "x402 receipt", "version": "1", "chainId": 1},
        message_types={"Receipt": [{"name": name, "type": kind} for name, kind in fields.items()]},
        message_data=message,
    )
    assert Signer.recover_message(typed, signature=signed["signature"]) == Signer.from_key(KEY).address
    [listed] = await server.x402.receipts(clock.seconds() + 1, 10)
    assert listed.receipt.signature == signed["signature"]
    assert (listed.payer, listed.nonce) == (PAYER.address.lower(), read(sent).nonce)
    assert (listed.amount_micros, listed.resource_url, listed.is_delivered) == (PRICE, RESOURCE.url, False)


async def test_server_without_a_key_gives_no_receipts(open_sqlite_server):
    server = await open_sqlite_server(receipt_key=b"")
    [(_, value)] = await bought(server, v2())
    assert "extensions" not in decoded(value)


async def test_server_without_an_address_accepts_nothing(open_sqlite_server):
    server = await open_sqlite_server(pay_to="")
    assert server.x402.accepts(PRICE) == []
    assert await reason(server, v1()) == "unsupported_scheme"


async def test_other_spelling_of_the_same_signature_is_the_same_payment(server):
    told = authorization()
    made = signature(told)
    await bought(server, v1(told, made))
    spelled = made[:-2] + f"{int(made[-2:], 16) - 27:02x}"
    respelled = told | {"nonce": told["nonce"].upper().replace("X", "x")}
    assert await reason(server, v1(respelled, spelled)) == USED


async def test_answer_is_not_for_who_knows_only_the_nonce(server):
    told = authorization()
    await bought(server, v1(told))
    assert await reason(server, v1(told, signature(told, OTHER.private_key))) == USED


async def test_refused_payment_claims_nothing(server, chain):
    told = authorization(**{"from": OTHER.address})
    sent = v1(told, signature(told, OTHER.private_key))
    assert await reason(server, sent) == "insufficient_funds"
    await chain.fund_usdc(OTHER.address, PRICE)
    await bought(server, sent)


async def test_expired_authorization_is_refused(server, monkeypatch):
    sent = v1()
    later(monkeypatch, 55)
    assert await reason(server, sent) == "invalid_exact_evm_payload_authorization_valid_before"


async def test_unreachable_chain_claims_nothing(server, chain):
    sent = v1()
    working, server.settler.chain = chain, SimpleNamespace(client=type(chain.client)("http://127.0.0.1:9"))
    with pytest.raises(Problem) as unavailable:
        await claim(server, sent)
    await server.settler.chain.client.close()
    assert (unavailable.value.status, unavailable.value.code) == (502, "upstream-unavailable")
    server.settler.chain = working
    await bought(server, sent)


async def test_contract_wallet_buys_an_answer(server, chain):
    wallet = await deploy(chain, "ContractWallet", PAYER.address)
    await chain.fund_usdc(wallet, PRICE)
    told = authorization(**{"from": wallet})
    await bought(server, v1(told))
    assert await seller_holds(chain) == PRICE
    assert (await claim(server, v1(told))).response == ANSWER
    forged = v1(told, signature(told, OTHER.private_key))
    assert await reason(server, forged) == USED


@pytest.mark.parametrize("says", ["failed", "unknown", "raise", "wrong"])
async def test_chain_is_believed_whatever_the_settler_says(server, chain, says):
    server.settler.says = says
    sent = v1()
    [(_, value)] = await bought(server, sent)
    assert (await chain.client.receipt(decoded(value)["transaction"])).is_success
    assert len(await server.ledger.transfers("x402", 0.0)) == 1
    assert (await claim(server, sent)).response == ANSWER


async def test_settler_that_claims_what_never_happened_is_not_believed(server, chain, monkeypatch):
    monkeypatch.setattr(claims, "CONFIRM_SECONDS", 0.5)
    server.settler.sends, server.settler.says = False, "wrong"
    with pytest.raises(Problem) as pending:
        await server.x402.settle(await claim(server, v1()), ANSWER)
    assert (pending.value.status, pending.value.code) == (503, "payment-pending")
    assert await server.ledger.transfers("x402", 0.0) == []


async def test_cancelled_authorization_buys_nothing(server, chain):
    """The payer cancels while the answer is being made: the nonce is used, and no money has moved."""
    told = authorization()
    claimed = await claim(server, v1(told))
    await cancel(chain, told)
    refused = await server.x402.settle(claimed, ANSWER)
    assert isinstance(refused, VerificationFailure)
    assert refused.reason == USED
    assert await server.ledger.transfers("x402", 0.0) == []
    assert await reason(server, v1(told)) == USED


async def test_nonce_spent_on_another_transfer_buys_nothing(server, chain):
    told = authorization()
    claimed = await claim(server, v1(told))
    elsewhere = told | {"to": OTHER.address}
    await server.settler.submitted(read(v1(elsewhere)), server.x402.accepts(PRICE)[0])
    refused = await server.x402.settle(claimed, ANSWER)
    assert refused.reason == USED
    assert await seller_holds(chain) == 0
    assert await server.ledger.transfers("x402", 0.0) == []


async def test_payment_that_somebody_else_carried_out_buys_nothing(server, chain):
    claimed = await claim(server, v1())
    transfer = plan_settlement(claimed.payment, claimed.requirement).transfer
    await chain.wait_mined(await chain.send(OTHER, transfer.to, transfer.data, gas=300_000))
    refused = await server.x402.settle(claimed, ANSWER)
    assert isinstance(refused, VerificationFailure)
    assert refused.reason == USED
    assert await seller_holds(chain) == PRICE
    assert await server.ledger.transfers("x402", 0.0) == []


async def test_ledger_is_reconciled_with_the_chain(server, chain):
    for make in (v1, v2, v1):
        await bought(server, make())
    found = await reconcile(chain.client, server.ledger)
    assert (found.agrees, found.payments, found.ledger_micros, found.chain_micros) == (True, 3, 3_000, 3_000)
    [first, *_] = await server.ledger.transfers("x402", 0.0)
    forged = {"id": f"x402:0x{'12' * 20}:0x{'34' * 32}", "memo": first.memo}
    await server.ledger.move(type(first)(forged["id"], "x402", "revenue", PRICE, "x402", forged["memo"]))
    found = await reconcile(chain.client, server.ledger)
    assert (found.agrees, found.ledger_micros, found.chain_micros) == (False, 4_000, 3_000)
    assert forged["id"] in found.differences[0]
