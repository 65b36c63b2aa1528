"""A node that fails, refuses, drops and stalls: nothing is paid twice, nothing is stuck, nothing said too early."""

import asyncio

import pytest

from tests.payments.settlement.chain_state import reverted, seller_holds, sent
from tests.payments.settlement.conftest import SETTLING
from tests.payments.settlement.failing_node import failing_node, within
from tests.payments.settlement.test_built_in import until_sent
from tests.payments.x402.signed_payments import PRICE, REQUIREMENT, authorization, read, v1
from tollhouse.payments.x402.settlement import built_in, gas, recovery
from tollhouse.payments.x402.types import Failed, Settled, Unknown

SEND = "eth_sendRawTransaction"
HIGH = 500 * 10**9


@pytest.fixture
async def node(chain):
    async with failing_node(chain.url) as node:
        yield node


@pytest.fixture
async def facilitator(node, open_facilitator, monkeypatch):
    monkeypatch.setattr(recovery, "REBROADCAST_SECONDS", 0.5)
    monkeypatch.setattr(recovery, "LOST_SECONDS", 0.5)
    monkeypatch.setattr(built_in, "ORPHAN_SECONDS", 1.0)
    # Every payment asks for the price again.
    monkeypatch.setattr(gas, "QUOTE_SECONDS", 0.0)
    async with open_facilitator(node.url) as opened:
        yield opened


async def settled_all(facilitator, count):
    payments = [read(v1()) for _ in range(count)]
    found = await within(asyncio.gather(*(facilitator.settle(one, REQUIREMENT) for one in payments)))
    assert all(isinstance(outcome, Settled) for outcome in found), found
    return found


def started(facilitator, told=None):
    return asyncio.create_task(facilitator.settle(read(v1(told)), REQUIREMENT))


@pytest.mark.parametrize("how", ["lost", "unanswered"])
@pytest.mark.parametrize(
    "method",
    ["eth_getTransactionCount", "eth_feeHistory", "eth_call", "eth_getCode", SEND, "eth_getTransactionReceipt"],
)
async def test_one_failure_of_any_step_is_survived_without_paying_twice(chain, node, facilitator, method, how):
    await settled_all(facilitator, 1)
    node.failures[method] = [how]
    await settled_all(facilitator, 1)
    assert node.failures[method] == []
    assert await seller_holds(chain) == 2 * PRICE
    assert len(await sent(chain)) == 2
    assert await reverted(chain) == []


@pytest.mark.parametrize("how", ["lost", "unanswered"])
async def test_failed_sending_blocks_no_later_payment(chain, node, facilitator, how):
    await chain.mine_every(1)
    node.failures[SEND] = [how, how]
    first = started(facilitator)
    await asyncio.sleep(0.2)
    await settled_all(facilitator, 3)
    assert isinstance(await within(first), Settled)
    assert await seller_holds(chain) == 4 * PRICE
    assert await reverted(chain) == []


async def test_payment_that_cannot_be_sent_at_all_is_unknown_and_leaves_no_gap(chain, node, facilitator, monkeypatch):
    monkeypatch.setattr(built_in, "UNSENT_SECONDS", 1.0)
    node.failures["eth_feeHistory"] = ["lost"] * 100
    assert await within(facilitator.settle(read(v1()), REQUIREMENT)) == Unknown()
    node.failures.clear()
    await settled_all(facilitator, 1)
    assert await seller_holds(chain) == PRICE


async def test_account_without_coin_for_gas_fails_the_payment_and_recovers(chain, facilitator):
    await chain.request("anvil_setBalance", SETTLING.address, "0x1")
    assert await within(facilitator.settle(read(v1()), REQUIREMENT)) == Failed("unexpected_settle_error")
    await chain.request("anvil_setBalance", SETTLING.address, hex(10**20))
    await settled_all(facilitator, 1)


@pytest.mark.parametrize("said", ["already known", "transaction already imported"])
async def test_node_that_knows_the_transaction_already_has_taken_it(chain, node, facilitator, said):
    node.failures[SEND] = ["unanswered", said]
    await settled_all(facilitator, 1)
    assert len(await sent(chain)) == 1


@pytest.mark.parametrize(
    "said", ["nonce too low", "replacement transaction underpriced", "transaction underpriced",
             "max fee per gas less than block base fee"],
)  # fmt: skip
async def test_refusal_over_nonce_or_price_is_answered_with_another_offer(chain, node, facilitator, said):
    if "replacement" in said:
        await chain.request("eth_sendTransaction", {"from": SETTLING.address, "to": SETTLING.address})
        # The next nonce but one is only taken once the next is used.
        await chain.mine_every(0)
        node.failures[SEND] = [said]
        first = started(facilitator)
        await asyncio.sleep(0.5)
        await chain.mine_every(1)
        assert isinstance(await within(first), Settled)
    else:
        node.failures[SEND] = [said]
        await settled_all(facilitator, 1)
    assert await seller_holds(chain) == PRICE
    assert await reverted(chain) == []


async def test_dropped_transaction_is_sent_again(chain, facilitator):
    await chain.mine_every(0)
    settling = started(facilitator)
    await until_sent(chain)
    await chain.request("anvil_dropAllTransactions")
    await until_sent(chain)
    await chain.request("anvil_mine")
    assert isinstance(await within(settling), Settled)
    assert len(await sent(chain)) == 1


async def test_dropped_transaction_in_the_middle_leaves_no_gap(chain, facilitator):
    await chain.mine_every(0)
    under_way = []
    for count in range(1, 4):
        under_way.append(started(facilitator))
        await until_sent(chain, count)
    [dropped] = [
        one["hash"]
        for one in (await chain.request("txpool_content"))["pending"][SETTLING.address.lower()].values()
        if int(one["nonce"], 16) == 1
    ]
    await chain.request("anvil_dropTransaction", dropped)
    await chain.mine_every(1)
    outcomes = await within(asyncio.gather(*under_way))
    assert all(isinstance(outcome, Settled) for outcome in outcomes)
    assert await seller_holds(chain) == 3 * PRICE
    assert await reverted(chain) == []


async def test_transaction_that_blocks_pass_by_is_replaced_for_more(chain, facilitator):
    await chain.mine_every(0)
    settling = started(facilitator)
    await until_sent(chain)
    [waiting] = (await chain.request("txpool_content"))["pending"][SETTLING.address.lower()].values()
    await chain.request("anvil_setNextBlockBaseFeePerGas", hex(HIGH))
    async with asyncio.timeout(60):
        while not settling.done():
            await chain.request("anvil_mine")
            # PaidResponse from falling, which it would do with each block that is empty.
            await chain.request("anvil_setNextBlockBaseFeePerGas", hex(HIGH))
            await asyncio.sleep(0.2)
    assert isinstance(await settling, Settled)
    [mined] = await sent(chain)
    assert mined["nonce"] == waiting["nonce"]
    assert mined["hash"] != waiting["hash"]
    assert int(mined["maxFeePerGas"], 16) >= max(HIGH, int(waiting["maxFeePerGas"], 16) * 11 // 10)


async def test_payment_that_expires_in_a_stalled_transaction_fails_without_a_revert(chain, facilitator):
    await chain.mine_every(0)
    now = (await chain.client.block()).timestamp
    settling = started(facilitator, authorization(validAfter="0", validBefore=str(now + 60)))
    await until_sent(chain)
    await chain.request("anvil_setNextBlockBaseFeePerGas", hex(HIGH))
    await chain.request("anvil_mine")
    await asyncio.sleep(0.3)
    await chain.request("evm_increaseTime", 100)
    async with asyncio.timeout(60):
        while not settling.done():
            await chain.request("anvil_setNextBlockBaseFeePerGas", hex(HIGH))
            await chain.request("anvil_mine")
            await asyncio.sleep(0.2)
    assert await settling == Failed("invalid_exact_evm_payload_authorization_valid_before")
    assert await seller_holds(chain) == 0
    assert await reverted(chain) == []


async def test_nonce_taken_by_a_stranger_with_our_key_does_not_lose_the_payment(chain, facilitator):
    await chain.mine_every(0)
    settling = started(facilitator)
    await until_sent(chain)
    await chain.request("anvil_dropAllTransactions")
    await chain.request(
        "eth_sendTransaction",
        {"from": SETTLING.address, "to": SETTLING.address, "nonce": "0x0", "maxFeePerGas": hex(HIGH),
         "maxPriorityFeePerGas": hex(HIGH)},
    )  # fmt: skip
    await chain.request("anvil_mine")
    await chain.mine_every(1)
    assert isinstance(await within(settling), Settled)
    assert await seller_holds(chain) == PRICE
    assert await reverted(chain) == []


async def test_nonce_left_behind_by_another_process_is_used_up(chain, facilitator):
    await chain.mine_every(0)
    left = await chain.request("eth_sendTransaction", {"from": SETTLING.address, "to": SETTLING.address})
    settling = started(facilitator)
    await until_sent(chain, 2)
    # Nobody looks after it any more, and ours has the nonce that comes after.
    await chain.request("anvil_dropTransaction", left)
    await chain.mine_every(1)
    assert isinstance(await within(settling), Settled)
    assert [int(one["nonce"], 16) for one in await sent(chain)] == [0, 1]
    assert left not in {one["hash"] for one in await sent(chain)}
    assert await reverted(chain) == []


async def test_transaction_that_a_dead_process_offered_too_little_for_is_replaced(chain, facilitator):
    await chain.mine_every(0)
    left = await chain.request(
        "eth_sendTransaction",
        {"from": SETTLING.address, "to": SETTLING.address, "nonce": "0x0", "maxFeePerGas": hex(10**9),
         "maxPriorityFeePerGas": "0x0"},
    )  # fmt: skip
    await chain.request("anvil_setNextBlockBaseFeePerGas", hex(20 * 10**9))
    await chain.request("anvil_mine")
    settling = started(facilitator)
    async with asyncio.timeout(30):
        while not settling.done():
            await chain.request("anvil_mine")
            await asyncio.sleep(0.3)
    assert isinstance(await settling, Settled)
    assert left not in {one["hash"] for one in await sent(chain)}
    assert await reverted(chain) == []


async def test_hundred_payments_through_a_node_that_fails_now_and_then_are_all_settled_once(chain, node, facilitator):
    await chain.mine_every(1)
    for method in (SEND, "eth_call", "eth_getTransactionReceipt"):
        node.failures[method] = ["unanswered", "lost"] * 3
    await settled_all(facilitator, 100)
    assert await seller_holds(chain) == 100 * PRICE
    assert await reverted(chain) == []


async def test_node_that_tells_nothing_of_what_waits_still_serves(chain, node, facilitator, monkeypatch):
    real = node.next_failure

    def refusing(calls: list) -> str | None:
        if any(call["method"] == "eth_call" and call["params"][-1] == "pending" for call in calls):
            return "pending is not available"
        return real(calls)

    monkeypatch.setattr(node, "next_failure", refusing)
    await settled_all(facilitator, 2)
    asked = sum(call["method"] == "eth_call" and call["params"][-1] == "pending" for call in node.calls)
    await settled_all(facilitator, 2)
    assert asked == sum(call["method"] == "eth_call" and call["params"][-1] == "pending" for call in node.calls)


async def test_unanswered_sending_is_not_repeated_under_another_nonce(chain, node, facilitator, monkeypatch):
    await chain.mine_every(1)
    real = node.next_failure

    def knowing_nothing_of_what_waits(calls: list) -> str | None:
        asks = any(call["method"] == "eth_call" and call["params"][-1] == "pending" for call in calls)
        return "pending is not available" if asks else real(calls)

    monkeypatch.setattr(node, "next_failure", knowing_nothing_of_what_waits)
    node.failures[SEND] = ["unanswered"]
    assert isinstance(await within(started(facilitator)), Settled)
    assert len(await sent(chain)) == 1


async def test_no_log_and_no_failure_tells_the_key(chain, node, open_facilitator, caplog, capsys):
    node.failures[SEND] = ["insufficient funds", "unanswered"]
    async with open_facilitator(node.url) as facilitator:
        await within(facilitator.settle(read(v1()), REQUIREMENT))
        await settled_all(facilitator, 1)
        shown = repr(facilitator) + repr(vars(facilitator))
    told = shown + caplog.text + "".join(capsys.readouterr())
    assert SETTLING.private_key[2:18] not in told
