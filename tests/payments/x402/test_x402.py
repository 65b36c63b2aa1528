"""One payment, one answer: whatever is replayed or raced, on each database and a real chain."""

import asyncio

import pytest

from tests.payments.x402.conftest import PaymentServer
from tests.payments.x402.purchases import (
    IN_USE,
    NAME,
    OTHER_CALL,
    USED,
    bought,
    claim,
    delivered,
    later,
    reason,
    seller_holds,
)
from tests.payments.x402.signed_payments import (
    ANSWER,
    OTHER,
    PAYER,
    PRICE,
    PRINT,
    RESOURCE,
    authorization,
    decoded,
    named,
    read,
    signature,
    v1,
    v2,
)
from tests.waiting import until
from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.payments.ledger.types import RESPONSE_TTL_SECONDS
from tollhouse.payments.x402 import payments as x402_module
from tollhouse.payments.x402 import store
from tollhouse.payments.x402.payments import Claimed
from tollhouse.payments.x402.types import VerificationFailure

pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize(("make", "header"), [(v1, "X-PAYMENT-RESPONSE"), (v2, "PAYMENT-RESPONSE")])
async def test_payment_is_settled_on_the_chain_and_entered_in_the_ledger(server, chain, make, header):
    sent = make()
    [(name, value)] = await bought(server, sent)
    told = decoded(value)
    receipt = await chain.client.receipt(told["transaction"])
    assert receipt.is_success
    assert await seller_holds(chain) == PRICE
    assert name == header
    assert told["success"] is True
    assert told["payer"] == PAYER.address
    assert told["network"] == ("base" if make is v1 else "eip155:8453")
    transfer = await server.ledger.find(f"x402:{read(sent).payer}:{read(sent).nonce}")
    assert (transfer.debit, transfer.credit, transfer.amount_micros) == ("x402", "revenue", PRICE)
    assert transfer.memo["tx_hash"] == told["transaction"]
    assert transfer.memo["network"] == "eip155:8453"
    assert (await server.ledger.verify()).balanced


async def paid_call(server: PaymentServer, sent: dict, works: list) -> str:
    """A call as admission makes it: `answered`, or the reason for its refusal."""
    outcome = await server.x402.claim(read(sent), server.x402.accepts(PRICE), PRINT, RESOURCE.url)
    if isinstance(outcome, VerificationFailure):
        return outcome.reason
    if isinstance(outcome, Claimed):
        works.append(outcome)
        await asyncio.sleep(0.1)
        await server.x402.settle(outcome, ANSWER)
    server.x402.delivered(outcome)
    return "answered"


async def test_of_twenty_copies_at_once_one_is_answered(server, chain):
    sent, works = v1(), []
    outcomes = await asyncio.gather(*(paid_call(server, sent, works) for _ in range(20)))
    assert sorted(outcomes) == ["answered", *[IN_USE] * 19]
    assert (len(works), len(server.settler.attempts)) == (1, 1)
    assert await seller_holds(chain) == PRICE


async def test_of_copies_at_several_processes_one_is_answered(open_server, chain):
    servers = [await open_server() for _ in range(3)]
    sent, works = v2(extensions=named(NAME)), []
    outcomes = await asyncio.gather(*(paid_call(server, sent, works) for server in servers * 4))
    assert sorted(outcomes) == ["answered", *[IN_USE] * 11]
    assert len(works) == 1
    assert await seller_holds(chain) == PRICE


async def test_of_copies_that_wait_for_a_call_that_is_cut_one_gets_its_answer(server):
    sent = v1()
    claimed = await claim(server, sent)
    copies = [asyncio.create_task(paid_call(server, sent, [])) for _ in range(3)]
    await asyncio.sleep(0.05)
    await server.x402.settle(claimed, ANSWER)
    server.x402.undelivered(claimed)
    assert sorted(await asyncio.gather(*copies)) == ["answered", IN_USE, IN_USE]
    assert await reason(server, sent) == USED


async def test_copy_waits_as_long_as_the_response_is_being_sent(open_server, monkeypatch):
    for name, seconds in {"MAX_HELD_SECONDS": 1.0, "LEASE_SECONDS": 1.0, "RENEW_SECONDS": 0.1}.items():
        monkeypatch.setattr(store, name, seconds)
    first, second, sent = await open_server(), await open_server(), v1()
    claimed = await claim(first, sent)
    await first.x402.settle(claimed, ANSWER)
    copy = asyncio.create_task(claim(second, sent))
    for _ in range(20):
        first.x402.hold(claimed)
        await asyncio.sleep(0.1)
    assert not copy.done()
    first.x402.undelivered(claimed)
    assert (await copy).response == ANSWER


async def test_copy_with_another_header_is_refused_at_once(server):
    told = authorization()
    claimed = await claim(server, v1(told))
    assert await reason(server, v2(told)) == IN_USE
    await server.x402.release(claimed)


async def test_answer_that_was_not_delivered_comes_again_for_ten_minutes(server, monkeypatch):
    sent = v1()
    headers = await bought(server, sent)
    again = await claim(server, sent)
    assert (again.response, again.headers) == (ANSWER, headers)
    later(monkeypatch, RESPONSE_TTL_SECONDS - 5)
    assert (await claim(server, sent)).response == ANSWER
    later(monkeypatch, 10)
    assert await reason(server, sent) == USED


@pytest.mark.parametrize("rebuilt", [v2, lambda told: dict(reversed(v1(told).items()))])
async def test_answer_is_only_for_the_original_header(server, rebuilt):
    """Whoever reads the chain has the authorization and its signature, not the bytes of the payer's header."""
    told = authorization()
    signed = signature(told)
    await bought(server, v1(told, signed))
    assert await reason(server, rebuilt(told)) == USED
    assert (await claim(server, v1(told, signed))).response == ANSWER


@pytest.mark.parametrize("seconds", [0.0, 2.0])
async def test_delivered_payment_is_used(server, seconds, monkeypatch):
    monkeypatch.setattr("tollhouse.payments.ledger.ledger.GRACE_SECONDS", seconds)
    sent = v1()
    await bought(server, sent)
    await delivered(server, sent)
    assert await reason(server, sent) == USED


async def test_delivery_is_told_once_the_answer_has_surely_left(server, monkeypatch):
    monkeypatch.setattr("tollhouse.payments.ledger.ledger.GRACE_SECONDS", 0.0)
    sent = v1()
    await bought(server, sent)
    await delivered(server, sent)

    async def is_told() -> bool:
        [listed] = await server.x402.receipts(clock.seconds() + 1, 10)
        return listed.is_delivered

    await until(is_told)
    assert await reason(server, sent) == USED


async def test_payment_buys_nothing_else(server):
    sent = v1()
    await bought(server, sent)
    assert await reason(server, sent, OTHER_CALL) == USED


async def test_payment_in_work_buys_nothing_else_meanwhile(server):
    sent = v1()
    claimed = await claim(server, sent)
    assert await reason(server, sent, OTHER_CALL) == IN_USE
    await server.x402.release(claimed)


async def test_nonce_with_two_signatures_is_one_payment(server, chain):
    told = authorization()
    other = told | {"validBefore": str(int(told["validBefore"]) + 10)}
    [first, second] = await asyncio.gather(claim(server, v1(told)), claim(server, v1(other)))
    refused, claimed = sorted([first, second], key=lambda outcome: isinstance(outcome, Claimed))
    assert isinstance(claimed, Claimed)
    assert refused.reason == IN_USE
    await server.x402.settle(claimed, ANSWER)
    assert await seller_holds(chain) == PRICE


async def test_failed_work_leaves_the_authorization_unused(server, chain):
    sent = v1()
    await server.x402.release(await claim(server, sent))
    assert await seller_holds(chain) == 0
    assert server.settler.attempts == []
    await bought(server, sent, OTHER_CALL)
    assert await seller_holds(chain) == PRICE


async def test_release_after_settling_changes_nothing(server):
    sent = v1()
    claimed = await claim(server, sent)
    await server.x402.settle(claimed, ANSWER)
    await server.x402.release(claimed)
    assert (await claim(server, sent)).response == ANSWER


async def test_payment_with_a_name_gets_its_answer_even_after_delivery(server):
    sent = v2(extensions=named(NAME))
    await bought(server, sent)
    await delivered(server, sent)
    assert (await claim(server, sent)).response == ANSWER


async def test_payment_with_a_name_is_repeated_before_its_process_knows_of_the_delivery(open_server):
    first, second, sent = await open_server(), await open_server(), v2(extensions=named(NAME))
    claimed = await claim(first, sent)
    await first.x402.settle(claimed, ANSWER)
    again = asyncio.create_task(claim(second, sent))
    await asyncio.sleep(0.05)
    first.x402.delivered(claimed)
    assert (await again).response == ANSWER


async def test_name_of_another_payment_or_call_is_a_conflict(server, chain):
    sent = v2(extensions=named(NAME))
    await bought(server, sent)
    for again, fingerprint in ((v2(extensions=named(NAME)), PRINT), (sent, OTHER_CALL)):
        with pytest.raises(Problem) as conflict:
            await claim(server, again, fingerprint)
        assert (conflict.value.status, conflict.value.code) == (409, "idempotency-conflict")
    assert await seller_holds(chain) == PRICE


async def test_names_of_other_payers_do_not_matter(server, chain):
    await chain.fund_usdc(OTHER.address, PRICE)
    await bought(server, v2(extensions=named(NAME)))
    told = authorization(**{"from": OTHER.address})
    await bought(server, v2(told, signature(told, OTHER.private_key), extensions=named(NAME)))


async def test_name_of_a_released_payment_is_free_again(server):
    await server.x402.release(await claim(server, v2(extensions=named(NAME))))
    await bought(server, v2(extensions=named(NAME)))


async def test_settlement_that_fails_is_refused_and_may_be_tried_again(server, chain):
    sent = v1()
    server.settler.sends, server.settler.says = False, "failed"
    refused = await server.x402.settle(await claim(server, sent), ANSWER)
    assert refused.reason == "insufficient_funds"
    [(name, value)] = refused.headers
    assert name == "X-PAYMENT-RESPONSE"
    told = decoded(value)
    assert (told["success"], told["errorReason"], told["transaction"]) == (False, "insufficient_funds", "")
    assert await server.ledger.transfers("x402", 0.0) == []
    server.settler.sends, server.settler.says = True, "truth"
    await bought(server, sent)
    assert await seller_holds(chain) == PRICE


async def test_call_that_goes_away_while_settling_is_still_charged_once_and_answered(server, chain):
    sent = v1()
    claimed = await claim(server, sent)
    server.settler.gate = asyncio.Event()
    calling = asyncio.create_task(server.x402.settle(claimed, ANSWER))
    await until(lambda: server.settler.attempts)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await server.x402.release(claimed)
    waiting = asyncio.create_task(claim(server, sent))
    await asyncio.sleep(0.1)
    server.settler.gate.set()
    assert (await waiting).response == ANSWER
    assert len(server.settler.attempts) == 1
    assert await seller_holds(chain) == PRICE


async def test_slow_settlement_is_pending_and_never_asked_for_twice(server, chain, monkeypatch):
    monkeypatch.setattr(x402_module, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(x402_module, "WAIT_SECONDS", 0.2)
    sent = v1()
    server.settler.gate = asyncio.Event()
    claimed = await claim(server, sent)
    for call in (server.x402.settle(claimed, ANSWER), claim(server, sent)):
        with pytest.raises(Problem) as pending:
            await call
        assert (pending.value.status, pending.value.code) == (503, "payment-pending")
        assert int(pending.value.headers["Retry-After"]) >= 1
        assert "accepts" not in pending.value.facts
    await server.x402.release(claimed)
    server.settler.gate.set()
    monkeypatch.setattr(x402_module, "WAIT_SECONDS", 15)
    assert (await claim(server, sent)).response == ANSWER
    assert len(server.settler.attempts) == 1
    assert await seller_holds(chain) == PRICE
