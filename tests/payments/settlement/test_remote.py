"""A facilitator elsewhere, in every mood: the payer is charged once, and told of failure only where nothing moved."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec import structs

from tests.fakes.facilitator import MODES, facilitator, told
from tests.fakes.website import Reply
from tests.payments.settlement.chain_state import seller_holds
from tests.payments.x402.conftest import PaymentServer
from tests.payments.x402.purchases import bought, claim
from tests.payments.x402.signed_payments import (
    ANSWER,
    OTHER,
    PRICE,
    PRINT,
    RELAYER,
    REQUIREMENT,
    RESOURCE,
    SELLER,
    cost_of,
    read,
    terms_of,
    upto,
    v1,
    v2,
)
from tests.servers.databases import migrated_copy
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.x402.payments import X402, Claimed, PaidResponse, Terms
from tollhouse.payments.x402.settlement.remote import NoReplyError, RemoteFacilitator, RemoteLimits
from tollhouse.payments.x402.store import Attempts
from tollhouse.payments.x402.types import Failed, Settled, Unknown, VerificationFailure
from tollhouse.payments.x402.verification import plan_settlement
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

PATIENCE = RemoteLimits(verify_seconds=1.0, settle_seconds=1.0, resolve_seconds=1.0)
FAILED = Failed("unexpected_settle_error")
SETTLING_MODES = [mode for mode in MODES if mode != "declared safe"]


@pytest.fixture
async def elsewhere(chain):
    async with facilitator(chain.url, RELAYER.address) as opened:
        yield opened


@pytest.fixture
async def database(data_dir):
    opened = open_database(Settings(data_dir=str(data_dir)))
    await migrate(opened)
    yield opened
    await opened.close()


@pytest.fixture
def attempts(database):
    return Attempts(database)


@pytest.fixture
async def remote(chain, elsewhere, attempts):
    made = facilitator_with(PATIENCE, chain, elsewhere, attempts)
    yield made
    await made.close()


def facilitator_with(limits, chain, elsewhere, attempts) -> RemoteFacilitator:
    return RemoteFacilitator(elsewhere.url, elsewhere.token, chain.client, "https://toll.example/", attempts, limits)


@pytest.fixture
async def server(chain, remote, database, data_dir):
    """The whole of x402 over it."""
    settings = Settings(data_dir=str(data_dir))
    ledger = await open_ledger(settings, database)
    x402 = X402(Terms(8453, chain.usdc_address, SELLER.address), database, ledger, chain.client, remote)
    yield PaymentServer(x402, remote, ledger, database)
    await x402.close()
    await ledger.close()


@pytest.mark.parametrize("mode", SETTLING_MODES)
@pytest.mark.parametrize("make", [v1, v2])
async def test_what_was_settled_is_told_as_settled_however_it_was_answered(chain, elsewhere, remote, mode, make):
    elsewhere.mode = mode
    payment = read(make())
    settled = await remote.settle(payment, REQUIREMENT)
    assert isinstance(settled, Settled)
    assert settled.tx_hash == elsewhere.settled[payment.nonce]
    assert settled.receipt.is_success
    assert await seller_holds(chain) == PRICE


async def test_failure_that_it_declares_safe_is_a_failure(chain, elsewhere, remote):
    elsewhere.mode = "declared safe"
    assert await remote.settle(read(v1()), REQUIREMENT) == Failed("insufficient_funds")
    assert await seller_holds(chain) == 0


@pytest.mark.parametrize("make", [v2, upto])
@pytest.mark.parametrize("mode", SETTLING_MODES)
async def test_payer_pays_once_and_gets_the_answer_in_every_mode(chain, elsewhere, server, mode, make):
    elsewhere.mode = mode
    assert await server.settler.unsupported_versions(REQUIREMENT) == []
    sent = make()
    payment, accepts = read(sent), server.x402.accepts(*terms_of(sent))
    claimed = await server.x402.claim(payment, accepts, PRINT, RESOURCE.url)
    assert isinstance(claimed, Claimed)
    headers = await server.x402.settle(claimed, ANSWER, cost_of(sent))
    assert not isinstance(headers, VerificationFailure)
    await server.x402.release(claimed)
    again = await server.x402.claim(payment, accepts, PRINT, RESOURCE.url)
    assert isinstance(again, PaidResponse)
    assert again.response == ANSWER
    assert await seller_holds(chain) == PRICE
    assert len(await server.ledger.transfers("x402", 0.0)) == 1
    amounts = [body["paymentRequirements"]["amount"] for body in elsewhere.bodies("/verify")]
    assert set(amounts) == {str(terms_of(sent)[0])}


async def test_transaction_of_another_payment_proves_nothing(chain, elsewhere, server, monkeypatch):
    """The facilitator names the transaction of an earlier payment by the same payer, of the same amount."""
    monkeypatch.setattr("tollhouse.payments.x402.claims.CONFIRM_SECONDS", 0.5)
    await server.settler.unsupported_versions(REQUIREMENT)
    first, second = upto(), upto()
    await bought(server, first)
    elsewhere.settles = False
    elsewhere.settled[read(second).nonce] = elsewhere.settled[read(first).nonce]
    claimed = await claim(server, second)
    with pytest.raises(Problem) as caught:
        await server.x402.settle(claimed, ANSWER, PRICE)
    assert caught.value.code == "payment-pending"
    assert len(await server.ledger.transfers("x402", 0.0)) == 1


async def test_payment_settled_after_we_gave_up_waiting_is_pending_and_never_asked_for_again(
    chain, elsewhere, server, monkeypatch
):
    monkeypatch.setattr("tollhouse.payments.x402.claims.CONFIRM_SECONDS", 0.5)
    elsewhere.mode, elsewhere.settles_after = "accepts then times out", 3.5
    payment = read(v2())
    claimed = await server.x402.claim(payment, server.x402.accepts(PRICE), PRINT, RESOURCE.url)
    with pytest.raises(Problem) as caught:
        await server.x402.settle(claimed, ANSWER)
    assert (caught.value.code, caught.value.status) == ("payment-pending", 503)
    again = await _answered(server, payment)
    assert again.response == ANSWER
    assert await seller_holds(chain) == PRICE
    assert len(await server.ledger.transfers("x402", 0.0)) == 1


async def _answered(server, payment) -> PaidResponse:
    async with asyncio.timeout(60):
        while True:
            try:
                found = await server.x402.claim(payment, server.x402.accepts(PRICE), PRINT, RESOURCE.url)
            except Problem as problem:
                if problem.code != "payment-pending":
                    raise
                await asyncio.sleep(0.2)
            else:
                assert isinstance(found, PaidResponse)
                return found


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: Reply(502, b"<html>bad gateway</html>"),
        lambda _: Reply(200, b"<html>welcome</html>"),
        lambda _: Reply(200, b"{}"),
        lambda _: Reply(200, b'{"success": "yes"}'),
        lambda _: Reply(200, b"[" * 100_000),
        lambda _: Reply(200, b"x" * 200_000),
        lambda _: Reply(302, b"", {"Location": "http://127.0.0.1:1/"}),
        lambda _: Reply(chunks=[b'{"success": tr'], pause_seconds=0.0),
        lambda _: told({"success": True, "transaction": "0x" + "ab" * 32, "network": "base"}),
        lambda _: told({"success": True, "transaction": "", "network": "base"}),
        lambda _: told({"success": False, "errorReason": "unexpected_settle_error"}, 400),
        lambda _: told({"success": False}),
    ],
)
@pytest.mark.parametrize("settles", [True, False])
async def test_answer_that_proves_nothing_is_decided_by_the_chain(chain, elsewhere, attempts, answer, settles):
    elsewhere.answer, elsewhere.settles = answer, settles
    # What was never settled is looked for in vain.
    limits = PATIENCE if settles else structs.replace(PATIENCE, resolve_seconds=0.1)
    remote = facilitator_with(limits, chain, elsewhere, attempts)
    outcome = await remote.settle(read(v1()), REQUIREMENT)
    await remote.close()
    assert isinstance(outcome, Settled if settles else Unknown)


@pytest.mark.parametrize("status", [401, 403, 404, 429])
async def test_settlement_that_was_not_let_in_has_failed(elsewhere, remote, status):
    elsewhere.answer, elsewhere.settles = lambda _: told({"error": "no"}, status), False
    assert await remote.settle(read(v1()), REQUIREMENT) == FAILED


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: Reply(500),
        lambda _: Reply(200, b"{}"),
        lambda _: Reply(chunks=[b" "], pause_seconds=30.0),
    ],
)
async def test_facilitator_that_does_not_verify_is_not_asked_to_settle(elsewhere, remote, answer):
    elsewhere.verify_answer = answer
    assert await remote.settle(read(v1()), REQUIREMENT) == FAILED
    assert elsewhere.times_asked("/settle") == 0


async def test_facilitator_that_refuses_says_why(elsewhere, remote):
    elsewhere.verify_answer = lambda _: told({"isValid": False, "invalidReason": "blocked_address"})
    assert await remote.settle(read(v1()), REQUIREMENT) == Failed("blocked_address")
    elsewhere.verify_answer = lambda _: told({"isValid": False, "invalidReason": "<script>alert()</script>"})
    assert await remote.settle(read(v1()), REQUIREMENT) == Failed("transaction_failed")


async def test_facilitator_that_is_not_there_has_settled_nothing(chain, attempts):
    remote = RemoteFacilitator(
        "http://127.0.0.1:1/token-in-the-path", "", chain.client, "https://toll.example/", attempts
    )
    assert await remote.settle(read(v1()), REQUIREMENT) == FAILED
    await remote.close()


async def test_wrong_token_settles_nothing_and_is_not_shown(chain, elsewhere, attempts, capsys):
    remote = RemoteFacilitator(elsewhere.url, "wrong-token", chain.client, "https://toll.example/", attempts)
    assert await remote.settle(read(v1()), REQUIREMENT) == FAILED
    await remote.close()
    shown = "".join(capsys.readouterr())
    assert "status 401" in shown
    assert "wrong-token" not in shown
    assert elsewhere.url not in shown


async def test_payment_settled_before_a_restart_is_found_settled(chain, elsewhere, remote):
    payment = read(v1())
    first = await remote.settle(payment, REQUIREMENT)
    assert await remote.settle(payment, REQUIREMENT) == first
    assert await seller_holds(chain) == PRICE
    assert elsewhere.times_asked("/settle") == 1


async def test_payment_that_somebody_else_carried_out_is_refused(chain, elsewhere, remote):
    payment = read(v1())
    plan = plan_settlement(payment, REQUIREMENT)
    await chain.send(OTHER, plan.transfer.to, plan.transfer.data)
    elsewhere.settles = False
    elsewhere.answer = lambda _: told({"success": False, "errorReason": "invalid_transaction_state"})
    assert await remote.settle(payment, REQUIREMENT) == Failed("invalid_exact_evm_nonce_already_used")


async def test_lost_reply_does_not_make_somebody_elses_transaction_ours(chain, elsewhere, remote):
    payment = read(v1())
    plan = plan_settlement(payment, REQUIREMENT)
    await chain.send(OTHER, plan.transfer.to, plan.transfer.data)
    elsewhere.mode, elsewhere.settles = "fails after settling", False
    assert await remote.settle(payment, REQUIREMENT) == Failed("invalid_exact_evm_nonce_already_used")


async def test_facilitator_that_repeats_replies_is_believed_that_it_settled_for_another(chain, elsewhere, remote):
    elsewhere.extensions = ["idempotent-settle"]
    payment = read(v1())
    await remote.settle(payment, REQUIREMENT)
    first, later = iter([Reply(502)]), told({"success": False, "errorReason": "invalid_exact_evm_nonce_already_used"})
    elsewhere.answer = lambda _: next(first, later)
    elsewhere.verify_answer = lambda _: told({"isValid": True})
    async with other_server(chain, elsewhere) as another:
        assert await another.settle(payment, REQUIREMENT) == Failed("invalid_exact_evm_nonce_already_used")
    assert len({one.headers["idempotency-key"] for one in elsewhere.asked if one.path.endswith("/settle")}) == 2


async def test_two_servers_with_one_facilitator_are_paid_once(chain, elsewhere, remote):
    payment = read(v1())
    assert isinstance(await remote.settle(payment, REQUIREMENT), Settled)
    async with other_server(chain, elsewhere) as another:
        assert await another.settle(payment, REQUIREMENT) == Failed("invalid_exact_evm_nonce_already_used")


@asynccontextmanager
async def other_server(chain, elsewhere):
    """The client of a server with a database of its own."""
    with TemporaryDirectory() as folder:
        database = open_database(Settings(data_dir=str(migrated_copy(Path(folder)))))
        await migrate(database)
        made = RemoteFacilitator(
            elsewhere.url, elsewhere.token, chain.client, RESOURCE.url, Attempts(database), PATIENCE
        )
        yield made
        await made.close()
        await database.close()


async def test_body_is_the_standards_in_both_versions(elsewhere, remote):
    sent1, sent2 = v1(), v2()
    await remote.settle(read(sent1), REQUIREMENT)
    await remote.settle(read(sent2), REQUIREMENT)
    for path in ("/verify", "/settle"):
        first, second = elsewhere.bodies(path)
        assert first == {
            "x402Version": 1,
            "paymentPayload": sent1,
            "paymentRequirements": {
                "scheme": "exact", "network": "base", "maxAmountRequired": str(PRICE), "asset": REQUIREMENT.asset,
                "payTo": SELLER.address, "resource": "https://toll.example/", "description": "",
                "mimeType": "application/json", "maxTimeoutSeconds": 60,
                "extra": {"name": "USD Coin", "version": "2"},
            },
        }  # fmt: skip
        assert second == {"x402Version": 2, "paymentPayload": sent2, "paymentRequirements": sent2["accepted"]}
    assert {one.headers["content-type"] for one in elsewhere.asked} == {"application/json"}
    assert json.loads(elsewhere.asked[0].body)["x402Version"] == 1


async def test_what_it_does_not_settle_is_known_before_the_first_payment(elsewhere, remote):
    assert await remote.unsupported_versions(REQUIREMENT) == []
    elsewhere.networks = {1: "base-sepolia", 2: "eip155:8453"}
    assert await remote.unsupported_versions(REQUIREMENT) == [1]
    elsewhere.token = "another"
    with pytest.raises(NoReplyError):
        await remote.unsupported_versions(REQUIREMENT)


async def test_chain_that_is_out_of_reach_leaves_the_outcome_unknown(elsewhere, attempts):
    elsewhere.mode = "clean"
    unreachable = ChainClient("http://127.0.0.1:1/")
    remote = RemoteFacilitator(elsewhere.url, elsewhere.token, unreachable, "https://toll.example/", attempts, PATIENCE)
    payment = read(v1())
    assert await remote.settle(payment, REQUIREMENT) == Unknown(elsewhere.settled[payment.nonce])
    await remote.close()
    await unreachable.close()
