"""One payment, one answer: whatever is replayed or raced, on each database and a real chain."""

import asyncio

import pytest

from tests.payments.x402.buying import NAME, OTHER_CALL, USED, bought, claim, delivered, later, reason, seller_holds
from tests.payments.x402.conftest import Room
from tests.payments.x402.paying import (
    ANSWER,
    OTHER,
    PAYER,
    PRICE,
    PRINT,
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
from tollhouse.payments.stored_response import RESPONSE_TTL_SECONDS
from tollhouse.payments.x402 import payments as x402_module
from tollhouse.payments.x402.payments import Claimed, PaidResponse

pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize(("make", "header"), [(v1, "X-PAYMENT-RESPONSE"), (v2, "PAYMENT-RESPONSE")])
async def test_payment_is_settled_on_the_chain_and_entered_in_the_ledger(room, chain, make, header):
    sent = make()
    [(name, value)] = await bought(room, sent)
    told = decoded(value)
    receipt = await chain.client.receipt(told["transaction"])
    assert receipt.is_success
    assert await seller_holds(chain) == PRICE
    assert name == header
    assert told["success"] is True
    assert told["payer"] == PAYER.address
    assert told["network"] == ("base" if make is v1 else "eip155:8453")
    transfer = await room.ledger.find(f"x402:{read(sent).payer}:{read(sent).nonce}")
    assert (transfer.debit, transfer.credit, transfer.amount_micros) == ("x402", "revenue", PRICE)
    assert transfer.memo["tx_hash"] == told["transaction"]
    assert transfer.memo["network"] == "eip155:8453"
    assert (await room.ledger.verify()).balanced


async def test_twenty_copies_at_once_run_the_work_once_and_get_its_answer(room, chain):
    sent, works = v1(), []

    async def call() -> object:
        outcome = await claim(room, sent)
        if isinstance(outcome, Claimed):
            works.append(outcome)
            await asyncio.sleep(0.3)
            return ANSWER, await room.x402.settle(outcome, ANSWER)
        assert isinstance(outcome, PaidResponse), outcome
        return outcome.response, outcome.headers

    answers = await asyncio.gather(*(call() for _ in range(20)))
    assert len(works) == 1
    assert len(room.settler.attempts) == 1
    assert len(set(answers)) == 1
    assert await seller_holds(chain) == PRICE


async def test_copies_at_several_processes_run_the_work_once(open_room, chain):
    context = [await open_room() for _ in range(3)]
    sent, works = v2(), []

    async def call(room: Room) -> object:
        outcome = await claim(room, sent)
        if isinstance(outcome, Claimed):
            works.append(outcome)
            await room.x402.settle(outcome, ANSWER)
            return ANSWER
        return outcome.response

    assert await asyncio.gather(*(call(room) for room in context * 4)) == [ANSWER] * 12
    assert len(works) == 1
    assert await seller_holds(chain) == PRICE


async def test_copy_that_waited_gets_the_answer_even_if_another_was_quicker_to_take_it(room):
    sent = v1()
    claimed = await claim(room, sent)
    waiting = asyncio.create_task(claim(room, sent))
    await asyncio.sleep(0.05)
    await room.x402.settle(claimed, ANSWER)
    await delivered(room, sent)
    assert (await waiting).response == ANSWER
    assert await reason(room, sent) == USED


async def test_answer_that_was_not_delivered_comes_again_for_ten_minutes(room, monkeypatch):
    sent = v1()
    headers = await bought(room, sent)
    again = await claim(room, sent)
    assert (again.response, again.headers) == (ANSWER, headers)
    later(monkeypatch, RESPONSE_TTL_SECONDS - 5)
    assert (await claim(room, sent)).response == ANSWER
    later(monkeypatch, 10)
    assert await reason(room, sent) == USED


async def test_same_authorization_in_the_other_version_gets_the_same_answer_with_its_own_header(room):
    told = authorization()
    await bought(room, v1(told))
    again = await claim(room, v2(told))
    assert again.response == ANSWER
    assert again.headers[0][0] == "PAYMENT-RESPONSE"


@pytest.mark.parametrize("seconds", [0.0, 2.0])
async def test_delivered_payment_is_used(room, seconds, monkeypatch):
    monkeypatch.setattr("tollhouse.payments.stored_response.GRACE_SECONDS", seconds)
    sent = v1()
    await bought(room, sent)
    await delivered(room, sent)
    assert await reason(room, sent) == USED


async def test_delivery_is_told_once_the_answer_has_surely_left(room, monkeypatch):
    monkeypatch.setattr("tollhouse.payments.stored_response.GRACE_SECONDS", 0.0)
    sent = v1()
    await bought(room, sent)
    await delivered(room, sent)

    async def is_told() -> bool:
        [listed] = await room.x402.receipts(clock.seconds() + 1, 10)
        return listed.is_delivered

    await until(is_told)
    assert await reason(room, sent) == USED


async def test_payment_buys_nothing_else(room):
    sent = v1()
    await bought(room, sent)
    assert await reason(room, sent, OTHER_CALL) == USED


async def test_payment_in_work_buys_nothing_else_meanwhile(room):
    sent = v1()
    claimed = await claim(room, sent)
    assert await reason(room, sent, OTHER_CALL) == USED
    await room.x402.release(claimed)


async def test_nonce_with_two_signatures_is_one_payment(room, chain):
    told = authorization()
    other = told | {"validBefore": str(int(told["validBefore"]) + 10)}
    [first, second] = await asyncio.gather(claim(room, v1(told)), claim(room, v1(other)))
    refused, claimed = sorted([first, second], key=lambda outcome: isinstance(outcome, Claimed))
    assert isinstance(claimed, Claimed)
    assert refused.reason == USED
    await room.x402.settle(claimed, ANSWER)
    assert await seller_holds(chain) == PRICE


async def test_failed_work_leaves_the_authorization_unused(room, chain):
    sent = v1()
    await room.x402.release(await claim(room, sent))
    assert await seller_holds(chain) == 0
    assert room.settler.attempts == []
    await bought(room, sent, OTHER_CALL)
    assert await seller_holds(chain) == PRICE


async def test_release_after_settling_changes_nothing(room):
    sent = v1()
    claimed = await claim(room, sent)
    await room.x402.settle(claimed, ANSWER)
    await room.x402.release(claimed)
    assert (await claim(room, sent)).response == ANSWER


async def test_payment_with_a_name_gets_its_answer_even_after_delivery(room):
    sent = v2(extensions=named(NAME))
    await bought(room, sent)
    await delivered(room, sent)
    assert (await claim(room, sent)).response == ANSWER


async def test_name_of_another_payment_or_call_is_a_conflict(room, chain):
    sent = v2(extensions=named(NAME))
    await bought(room, sent)
    for again, fingerprint in ((v2(extensions=named(NAME)), PRINT), (sent, OTHER_CALL)):
        with pytest.raises(Problem) as conflict:
            await claim(room, again, fingerprint)
        assert (conflict.value.status, conflict.value.code) == (409, "idempotency-conflict")
    assert await seller_holds(chain) == PRICE


async def test_names_of_other_payers_do_not_matter(room, chain):
    await chain.fund_usdc(OTHER.address, PRICE)
    await bought(room, v2(extensions=named(NAME)))
    told = authorization(**{"from": OTHER.address})
    await bought(room, v2(told, signature(told, OTHER.private_key), extensions=named(NAME)))


async def test_name_of_a_released_payment_is_free_again(room):
    await room.x402.release(await claim(room, v2(extensions=named(NAME))))
    await bought(room, v2(extensions=named(NAME)))


async def test_settlement_that_fails_is_refused_and_may_be_tried_again(room, chain):
    sent = v1()
    room.settler.sends, room.settler.says = False, "failed"
    refused = await room.x402.settle(await claim(room, sent), ANSWER)
    assert refused.reason == "insufficient_funds"
    [(name, value)] = refused.headers
    assert name == "X-PAYMENT-RESPONSE"
    told = decoded(value)
    assert (told["success"], told["errorReason"], told["transaction"]) == (False, "insufficient_funds", "")
    assert await room.ledger.transfers("x402", 0.0) == []
    room.settler.sends, room.settler.says = True, "truth"
    await bought(room, sent)
    assert await seller_holds(chain) == PRICE


async def test_call_that_goes_away_while_settling_is_still_charged_once_and_answered(room, chain):
    sent = v1()
    claimed = await claim(room, sent)
    room.settler.gate = asyncio.Event()
    calling = asyncio.create_task(room.x402.settle(claimed, ANSWER))
    await until(lambda: room.settler.attempts)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    waiting = asyncio.create_task(claim(room, sent))
    await asyncio.sleep(0.1)
    room.settler.gate.set()
    assert (await waiting).response == ANSWER
    assert len(room.settler.attempts) == 1
    assert await seller_holds(chain) == PRICE


async def test_slow_settlement_is_pending_and_never_asked_for_twice(room, chain, monkeypatch):
    monkeypatch.setattr(x402_module, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(x402_module, "WAIT_SECONDS", 0.2)
    sent = v1()
    room.settler.gate = asyncio.Event()
    claimed = await claim(room, sent)
    for call in (room.x402.settle(claimed, ANSWER), claim(room, sent)):
        with pytest.raises(Problem) as pending:
            await call
        assert (pending.value.status, pending.value.code) == (503, "payment-pending")
        assert int(pending.value.headers["Retry-After"]) >= 1
        assert "accepts" not in pending.value.facts
    room.settler.gate.set()
    monkeypatch.setattr(x402_module, "WAIT_SECONDS", 15)
    assert (await claim(room, sent)).response == ANSWER
    assert len(room.settler.attempts) == 1
    assert await seller_holds(chain) == PRICE
