"""What is left when a process dies at the worst moment, and how the others find the truth, on each database."""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from tests.payments.x402.crash_client import buy
from tests.payments.x402.purchases import bought, claim, later, reason, seller_holds
from tests.payments.x402.signed_payments import ANSWER, PRICE, cost_of, read, upto, v1, v2
from tests.servers.processes import run
from tollhouse.errors import Problem
from tollhouse.failpoints import EXIT_STATUS
from tollhouse.payments.x402 import store
from tollhouse.payments.x402.payments import Claimed, PaidResponse
from tollhouse.payments.x402.reconciliation import reconcile
from tollhouse.payments.x402.store import LEASE_SECONDS

pytestmark = pytest.mark.both_databases

PLACES = ["x402.claimed", "x402.before-settling", "x402.after-settling", "x402.after-ledger", "x402.after-settled"]
EXPIRY_SECONDS = 90


@pytest.fixture
def crash(server, chain, database_url, tmp_path, monkeypatch):
    """A function that has another process die at a place with a payment, and lets the dead one's lease lapse."""

    def crashed(place: str, sent: dict, **cost: int) -> None:
        costing = cost.get("cost", cost_of(sent))
        done = run(buy, database_url, str(tmp_path), chain.url, sent, place, costing, cwd=tmp_path)
        assert done.returncode == EXIT_STATUS, done.stderr
        later(monkeypatch, LEASE_SECONDS + 1)

    return crashed


async def kept(server, sent) -> PaidResponse:
    """The answer, as the payer gets it who asks again, once or twice, as he is told to."""
    for _ in range(3):
        with contextlib.suppress(Problem):
            found = await claim(server, sent)
            assert isinstance(found, PaidResponse), found
            return found
    raise AssertionError("no answer came")


async def test_claim_of_a_dead_process_is_free_again(server, chain, crash):
    sent = v1()
    crash("x402.claimed", sent)
    await bought(server, sent)
    assert await seller_holds(chain) == PRICE


async def test_recovery_frees_the_claims_of_dead_processes(server, crash):
    sent = v1()
    crash("x402.claimed", sent)
    await server.x402.recover()
    assert isinstance(await claim(server, sent, b"another-request!"), Claimed)


@pytest.mark.parametrize("make", [v2, upto])
@pytest.mark.parametrize("place", PLACES[1:])
async def test_payer_who_comes_back_pays_once_and_gets_the_answer(server, chain, crash, place, make):
    sent = make()
    crash(place, sent)
    assert (await kept(server, sent)).response == ANSWER
    assert await seller_holds(chain) == PRICE
    [transfer] = await server.ledger.transfers("x402", 0.0)
    assert transfer.id == f"x402:{read(sent).payer}:{read(sent).nonce}"
    assert (await reconcile(chain.client, server.ledger)).agrees
    assert (await server.ledger.verify()).balanced


@pytest.mark.parametrize("make", [v1, upto])
@pytest.mark.parametrize("place", PLACES[2:])
async def test_recovery_enters_what_the_chain_carried_out(server, chain, crash, place, make):
    sent = make()
    crash(place, sent)
    await server.x402.recover()
    assert len(await server.ledger.transfers("x402", 0.0)) == 1
    assert server.settler.attempts == []
    assert (await claim(server, sent)).response == ANSWER


@pytest.mark.parametrize("place", ["x402.before-settling", "x402.after-settled"])
async def test_call_that_cost_nothing_is_answered_after_a_crash_and_takes_nothing(server, chain, crash, place):
    sent = upto()
    crash(place, sent, cost=0)
    await server.x402.recover()
    assert (await claim(server, sent)).response == ANSWER
    assert await seller_holds(chain) == 0
    assert await server.ledger.transfers("x402", 0.0) == []


async def test_payer_who_never_comes_back_is_not_charged(server, chain, crash, monkeypatch):
    sent = v1()
    crash("x402.before-settling", sent)
    await server.x402.recover()
    assert await seller_holds(chain) == 0
    await pass_time(chain, monkeypatch)
    await server.x402.recover()
    assert await server.ledger.transfers("x402", 0.0) == []
    assert await reason(server, sent) == "invalid_exact_evm_payload_authorization_valid_before"
    assert server.settler.attempts == []


async def test_failed_settlement_that_the_chain_carried_out_later_is_entered_and_answered(server, chain, monkeypatch):
    sent = v1()
    server.settler.sends, server.settler.says = False, "failed"
    claimed = await claim(server, sent)
    await server.x402.settle(claimed, ANSWER)
    await server.settler.submitted(claimed.payment, claimed.requirement)
    await pass_time(chain, monkeypatch)
    await server.x402.recover()
    assert len(await server.ledger.transfers("x402", 0.0)) == 1
    assert (await claim(server, sent)).response == ANSWER


async def test_payer_who_comes_back_after_a_failure_that_was_none_gets_the_answer(server, chain):
    sent = v1()
    server.settler.sends, server.settler.says = False, "failed"
    claimed = await claim(server, sent)
    await server.x402.settle(claimed, ANSWER)
    await server.settler.submitted(claimed.payment, claimed.requirement)
    assert (await kept(server, sent)).response == ANSWER
    assert len(await server.ledger.transfers("x402", 0.0)) == 1


async def test_second_resumption_leaves_a_payment_that_the_first_settled_to_its_payer(server, chain, monkeypatch):
    sent = v1()
    server.settler.sends, server.settler.says = False, "failed"
    claimed = await claim(server, sent)
    await server.x402.settle(claimed, ANSWER)
    await server.settler.submitted(claimed.payment, claimed.requirement)
    async with server.database.reading() as connection:
        row = await store.find(connection, claimed.payment.key)
    for _ in range(2):
        await server.x402._settlement.resume(row, may_settle=True)
    monkeypatch.setattr("tollhouse.payments.x402.payments.WAIT_SECONDS", 0.0)
    assert (await claim(server, sent)).response == ANSWER


async def test_failure_that_stays_one_is_forgotten(server, chain, monkeypatch):
    server.settler.sends, server.settler.says = False, "failed"
    await server.x402.settle(await claim(server, v1()), ANSWER)
    await pass_time(chain, monkeypatch)
    await server.x402.recover()
    assert await server.ledger.transfers("x402", 0.0) == []


async def test_unknown_outcome_is_resolved_by_the_chain_not_by_another_payment(server, chain, monkeypatch):
    """The settler's transaction arrives after everybody stopped waiting."""
    monkeypatch.setattr("tollhouse.payments.x402.claims.CONFIRM_SECONDS", 0.3)
    sent = v1()
    server.settler.sends, server.settler.says = False, "unknown"
    claimed = await claim(server, sent)
    with pytest.raises(Problem) as pending:
        await server.x402.settle(claimed, ANSWER)
    assert pending.value.code == "payment-pending"
    await server.settler.submitted(claimed.payment, claimed.requirement)
    later(monkeypatch, 5)
    await server.x402.recover()
    assert (await claim(server, sent)).response == ANSWER
    assert len(await server.ledger.transfers("x402", 0.0)) == 1


async def test_process_that_lives_keeps_its_claims(open_server, monkeypatch):
    monkeypatch.setattr(store, "LEASE_SECONDS", 3.0)
    monkeypatch.setattr(store, "RENEW_SECONDS", 0.1)
    one, another = await open_server(), await open_server()
    sent = v1()
    claimed = await claim(one, sent)
    await asyncio.sleep(3.2)
    await another.x402.recover()
    assert isinstance(await one.x402.settle(claimed, ANSWER), tuple)
    await one.x402.release(claimed)
    assert (await claim(another, sent)).response == ANSWER


async def test_process_that_was_thought_dead_settles_nothing(open_server, chain, monkeypatch):
    one, another = await open_server(), await open_server()
    sent = v1()
    lost = await claim(one, sent)
    await one.x402._leases.close()
    later(monkeypatch, LEASE_SECONDS + 1)
    claimed = await claim(another, sent)
    with pytest.raises(Problem) as pending:
        await one.x402.settle(lost, ANSWER)
    assert pending.value.code == "payment-pending"
    await one.x402.release(lost)
    assert isinstance(await another.x402.settle(claimed, ANSWER), tuple)
    assert (len(one.settler.attempts), len(another.settler.attempts)) == (0, 1)
    assert await seller_holds(chain) == PRICE


async def test_two_recoveries_at_once_enter_a_payment_once(open_server, server, chain, crash):
    sent = v1()
    crash("x402.after-settling", sent)
    another = await open_server()
    await asyncio.gather(*(one.x402.recover() for one in (server, another) * 3))
    assert len(await server.ledger.transfers("x402", 0.0)) == 1
    assert (await claim(another, sent)).response == ANSWER


async def test_recovery_survives_a_chain_that_is_gone(server, chain, crash):
    sent = v1()
    crash("x402.after-settling", sent)
    working = server.x402._settlement
    server.x402._settlement = replace(working, chain=type(chain.client)("http://127.0.0.1:9"))
    await server.x402.recover()
    await server.x402._settlement.chain.close()
    server.x402._settlement = working
    assert await server.ledger.transfers("x402", 0.0) == []
    assert (await kept(server, sent)).response == ANSWER
    assert await seller_holds(chain) == PRICE


async def pass_time(chain, monkeypatch) -> None:
    """Past the end of every authorization, here and on the chain."""
    await chain.request("evm_increaseTime", EXPIRY_SECONDS)
    await chain.request("anvil_mine")
    later(monkeypatch, EXPIRY_SECONDS)
