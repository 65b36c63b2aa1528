"""What our own facilitator does on a chain where all is well, and with payers who do not mean it."""

import asyncio
import time

import pytest

from tests.payments.settlement.chain_state import reverted, seller_holds, sent
from tests.payments.settlement.conftest import SETTLING
from tests.payments.x402.purchases import cancel
from tests.payments.x402.signed_payments import (
    FACTORY,
    OTHER,
    PAYER,
    PRICE,
    RELAYER,
    REQUIREMENT,
    SELLER,
    authorization,
    from_unmade_wallet,
    read,
    signature,
    v1,
    v2,
)
from tests.servers.chain import deploy
from tests.waiting import stop
from tollhouse.payments.chain.contracts import MULTICALL3, token_balance
from tollhouse.payments.chain.local_chain import Account
from tollhouse.payments.x402.settlement import transactions
from tollhouse.payments.x402.types import Failed, Requirement, Settled
from tollhouse.payments.x402.verification import plan_settlement, proves_payment

NONCE_USED = "invalid_exact_evm_nonce_already_used"


async def together(facilitator, payments):
    return await asyncio.gather(*(facilitator.settle(payment, REQUIREMENT) for payment in payments))


async def until_sent(chain, count=1):
    """Until so many transactions wait to be mined."""
    async with asyncio.timeout(60):
        while int((await chain.request("txpool_status"))["pending"], 16) < count:  # noqa: ASYNC110 - the node tells nobody
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("make", [v1, v2])
async def test_payment_of_either_version_is_settled_and_proven_by_its_receipt(chain, facilitator, make):
    payment = read(make())
    settled = await facilitator.settle(payment, REQUIREMENT)
    assert isinstance(settled, Settled)
    assert proves_payment(settled.receipt, payment, REQUIREMENT)
    assert settled.receipt == await chain.client.receipt(settled.tx_hash)
    assert (settled.payer, await seller_holds(chain)) == (PAYER.address.lower(), PRICE)
    [transaction] = await sent(chain)
    assert transaction["to"].lower() == MULTICALL3.lower()


async def test_hundred_payments_at_once_share_transactions(chain, facilitator):
    payments = [read(v1()) for _ in range(100)]
    outcomes = await together(facilitator, payments)
    assert all(isinstance(outcome, Settled) for outcome in outcomes)
    for payment, outcome in zip(payments, outcomes, strict=True):
        assert proves_payment(outcome.receipt, payment, REQUIREMENT)
    assert await seller_holds(chain) == 100 * PRICE
    assert len(await sent(chain)) <= 3
    assert await reverted(chain) == []


async def test_hundred_payments_at_blocks_that_take_their_time_are_under_way_together(chain, facilitator):
    await chain.mine_every(1)
    payments = [[read(v1()) for _ in range(50)] for _ in range(2)]

    async def later() -> list:
        await asyncio.sleep(0.3)
        return await together(facilitator, payments[1])

    first, second = await asyncio.gather(together(facilitator, payments[0]), later())
    assert all(isinstance(outcome, Settled) for outcome in [*first, *second])
    assert await seller_holds(chain) == 100 * PRICE
    assert await reverted(chain) == []


async def test_same_payment_twenty_times_at_once_is_one_transaction(chain, facilitator):
    payment = read(v1())
    outcomes = await together(facilitator, [payment] * 20)
    assert len({outcome.tx_hash for outcome in outcomes}) == 1
    assert await seller_holds(chain) == PRICE
    assert len(await sent(chain)) == 1


async def test_payment_settled_before_has_the_same_outcome_again(chain, facilitator):
    payment = read(v1())
    first = await facilitator.settle(payment, REQUIREMENT)
    assert await facilitator.settle(payment, REQUIREMENT) == first
    assert len(await sent(chain)) == 1


async def test_two_authorizations_with_one_nonce_are_never_both_settled(chain, facilitator):
    told = authorization()
    other = told | {"to": OTHER.address}
    to_other = Requirement(8453, PRICE, REQUIREMENT.asset, OTHER.address, 60)
    await chain.mine_every(1)
    outcomes = await asyncio.gather(
        facilitator.settle(read(v1(told)), REQUIREMENT), facilitator.settle(read(v1(other)), to_other)
    )
    assert isinstance(outcomes[0], Settled)
    assert outcomes[1] == Failed(NONCE_USED)
    assert await reverted(chain) == []


async def test_bad_payments_in_a_batch_leave_the_others_be(chain, facilitator):
    await chain.mine_every(0)
    good = [read(v1()) for _ in range(5)]
    poor = authorization(**{"from": RELAYER.address})
    forged = authorization()
    cancelled = authorization()
    bad = [
        read(v1(poor, signature(poor, RELAYER.private_key))),
        read(v1(forged, signature(forged, OTHER.private_key))),
        read(v1(cancelled)),
        read(v1(authorization(validAfter=str(int(time.time()) + 3600), validBefore=str(int(time.time()) + 7200)))),
    ]
    await chain.mine_every(None)
    await cancel(chain, cancelled)
    outcomes = await together(facilitator, [*bad[:2], *good[:3], *bad[2:], *good[3:]])
    reasons = [outcome.reason for outcome in outcomes if isinstance(outcome, Failed)]
    assert reasons == [
        "insufficient_funds",
        "invalid_exact_evm_payload_signature",
        NONCE_USED,
        "invalid_exact_evm_payload_authorization_valid_after",
    ]
    assert await seller_holds(chain) == 5 * PRICE
    assert await reverted(chain) == []


async def test_payment_spoilt_after_it_was_sent_leaves_its_batch_be(chain, facilitator):
    await chain.mine_every(0)
    first = asyncio.create_task(facilitator.settle(read(v1()), REQUIREMENT))
    await until_sent(chain)
    told = [authorization() for _ in range(4)]
    batch = [asyncio.create_task(facilitator.settle(read(v1(one)), REQUIREMENT)) for one in told]
    await until_sent(chain, 2)
    # The payer's cancellation pays more for gas, and so comes first in the block.
    spoiling = asyncio.create_task(cancel_dearly(chain, told[2]))
    await until_sent(chain, 3)
    await chain.request("anvil_mine")
    await spoiling
    outcomes = await asyncio.gather(*batch)
    assert [type(outcome) for outcome in outcomes] == [Settled, Settled, Failed, Settled]
    assert outcomes[2].reason == NONCE_USED
    assert isinstance(await first, Settled)
    assert await reverted(chain) == []


async def sent_dearly(chain, data):
    """Somebody else's call of the token, for so much gas that it comes first in the block."""
    asked = {"from": OTHER.address, "to": chain.usdc_address, "data": "0x" + data.hex(), "gas": hex(200_000),
             "maxFeePerGas": hex(10**12), "maxPriorityFeePerGas": hex(10**11)}  # fmt: skip
    return await chain.request("eth_sendTransaction", asked)


async def cancel_dearly(chain, told):
    await chain.request("anvil_setBalance", OTHER.address, hex(10**24))
    real = chain.send

    async def dear(sender: Account, to: str, data: bytes) -> str:
        return await sent_dearly(chain, data)

    chain.send = dear
    try:
        await cancel(chain, told)
    finally:
        chain.send = real


async def test_payment_that_somebody_else_carried_out_is_refused(chain, facilitator):
    payment = read(v1())
    plan = plan_settlement(payment, REQUIREMENT)
    await chain.send(OTHER, plan.transfer.to, plan.transfer.data)
    assert await facilitator.settle(payment, REQUIREMENT) == Failed(NONCE_USED)
    assert await sent(chain) == []


async def test_payment_that_somebody_else_is_carrying_out_is_refused_once_it_is_mined(chain, facilitator):
    await chain.mine_every(0)
    payment = read(v1())
    plan = plan_settlement(payment, REQUIREMENT)
    await chain.send(OTHER, plan.transfer.to, plan.transfer.data, gas=200_000)
    settling = asyncio.create_task(facilitator.settle(payment, REQUIREMENT))
    await asyncio.sleep(1.2)
    assert not settling.done()
    await chain.request("anvil_mine")
    assert await settling == Failed(NONCE_USED)
    assert await sent(chain) == []


async def test_front_runner_of_a_batch_takes_only_its_own_payment(chain, facilitator):
    await chain.mine_every(0)
    payments = [read(v1()) for _ in range(3)]
    first = asyncio.create_task(facilitator.settle(read(v1()), REQUIREMENT))
    await until_sent(chain)
    batch = [asyncio.create_task(facilitator.settle(payment, REQUIREMENT)) for payment in payments]
    await until_sent(chain, 2)
    await sent_dearly(chain, plan_settlement(payments[1], REQUIREMENT).transfer.data)
    await chain.request("anvil_mine")
    outcomes = await asyncio.gather(*batch)
    assert [outcome == Failed(NONCE_USED) for outcome in outcomes] == [False, True, False]
    assert isinstance(await first, Settled)
    assert await seller_holds(chain) == 4 * PRICE
    assert await reverted(chain) == []


async def test_payment_that_a_front_runner_carried_out_is_refused_and_ours_does_not_revert(chain, facilitator):
    await chain.mine_every(0)
    payment = read(v1())
    settling = asyncio.create_task(facilitator.settle(payment, REQUIREMENT))
    await until_sent(chain)
    await sent_dearly(chain, plan_settlement(payment, REQUIREMENT).transfer.data)
    await chain.request("anvil_mine")
    assert await settling == Failed(NONCE_USED)
    assert len(await sent(chain)) == 1
    assert await reverted(chain) == []
    assert await seller_holds(chain) == PRICE


async def test_contract_wallets_payment_that_a_front_runner_carried_out_is_refused(chain, facilitator):
    wallet = await deploy(chain, "ContractWallet", OTHER.address)
    await chain.fund_usdc(wallet, PRICE)
    await chain.mine_every(0)
    told = authorization(**{"from": wallet})
    payment = read(v1(told, signature(told, OTHER.private_key)))
    settling = asyncio.create_task(facilitator.settle(payment, REQUIREMENT))
    await until_sent(chain)
    await sent_dearly(chain, plan_settlement(payment, REQUIREMENT).transfer.data)
    await chain.request("anvil_mine")
    assert await settling == Failed(NONCE_USED)
    assert len(await sent(chain)) == 1
    assert await reverted(chain) == []


async def test_payment_cancelled_while_it_waited_to_be_mined_has_failed(chain, facilitator):
    await chain.mine_every(0)
    told = authorization()
    settling = asyncio.create_task(facilitator.settle(read(v1(told)), REQUIREMENT))
    await until_sent(chain)
    cancelling = asyncio.create_task(cancel_dearly(chain, told))
    await until_sent(chain, 2)
    await chain.request("anvil_mine")
    await cancelling
    assert await settling == Failed(NONCE_USED)
    assert await seller_holds(chain) == 0
    assert await reverted(chain) == []


async def test_payer_who_promises_more_than_it_holds_is_carried_out_as_far_as_it_goes(chain, facilitator):
    await chain.fund_usdc(RELAYER.address, 5 * PRICE)
    await chain.mine_every(1)
    payments = []
    for _ in range(8):
        told = authorization(**{"from": RELAYER.address})
        payments.append(read(v1(told, signature(told, RELAYER.private_key))))
    first = asyncio.create_task(facilitator.settle(payments[0], REQUIREMENT))
    await asyncio.sleep(0.1)
    outcomes = [*await together(facilitator, payments[1:]), await first]
    assert [type(outcome) for outcome in outcomes].count(Settled) == 5
    assert {outcome.reason for outcome in outcomes if isinstance(outcome, Failed)} == {"insufficient_funds"}
    assert await seller_holds(chain) == 5 * PRICE
    assert await reverted(chain) == []


async def test_payer_whose_money_is_under_way_waits_and_nothing_reverts(chain, facilitator):
    await chain.fund_usdc(RELAYER.address, PRICE)
    await chain.mine_every(0)
    told = [authorization(**{"from": RELAYER.address}) for _ in range(2)]
    payments = [read(v1(one, signature(one, RELAYER.private_key))) for one in told]
    first = asyncio.create_task(facilitator.settle(payments[0], REQUIREMENT))
    await until_sent(chain)
    second = asyncio.create_task(facilitator.settle(payments[1], REQUIREMENT))
    await asyncio.sleep(0.6)
    await chain.request("anvil_mine")
    assert isinstance(await first, Settled)
    assert await second == Failed("insufficient_funds")
    assert len(await sent(chain)) == 1


async def test_contract_wallets_are_settled_each_alone(chain, facilitator):
    wallets = [await deploy(chain, "ContractWallet", OTHER.address) for _ in range(2)]
    payments = []
    for wallet in wallets:
        await chain.fund_usdc(wallet, PRICE)
        told = authorization(**{"from": wallet})
        payments.append(read(v1(told, signature(told, OTHER.private_key))))
    outcomes = await together(facilitator, [*payments, read(v1()), read(v1())])
    assert all(isinstance(outcome, Settled) for outcome in outcomes), outcomes
    assert len({outcome.tx_hash for outcome in outcomes[:2]}) == 2
    assert outcomes[0].tx_hash not in {outcome.tx_hash for outcome in outcomes[2:]}
    assert await token_balance(chain.client, chain.usdc_address, wallets[0]) == 0


async def test_wallet_that_is_not_there_yet_is_made_where_the_settings_name_its_factory(chain, open_facilitator):
    payment = read(from_unmade_wallet())
    await chain.fund_usdc(payment.payer, PRICE)
    for factories in ((), (OTHER.address,)):
        async with open_facilitator(x402_6492_factories=factories) as refusing:
            assert await refusing.settle(payment, REQUIREMENT) == Failed("eip6492_factory_not_allowed")
    async with open_facilitator(x402_6492_factories=(OTHER.address, FACTORY.lower())) as allowing:
        assert isinstance(await allowing.settle(payment, REQUIREMENT), Settled)
    assert await chain.client.code(payment.payer)
    assert await seller_holds(chain) == PRICE
    assert await reverted(chain) == []


@pytest.mark.parametrize("speaks_for", [RELAYER, OTHER])
async def test_payer_whose_key_got_code_shares_no_transaction(chain, facilitator, speaks_for):
    code = await chain.request("eth_getCode", await deploy(chain, "ContractWallet", speaks_for.address), "latest")
    await chain.request("anvil_setCode", RELAYER.address, code)
    await chain.fund_usdc(RELAYER.address, PRICE)
    told = authorization(**{"from": RELAYER.address})
    payments = [read(v1(told, signature(told, RELAYER.private_key))), read(v1()), read(v1())]
    has_code, *others = await together(facilitator, payments)
    assert all(isinstance(outcome, Settled) for outcome in others)
    assert len({outcome.tx_hash for outcome in others}) == 1
    if speaks_for is RELAYER:
        assert isinstance(has_code, Settled)
        assert has_code.tx_hash != others[0].tx_hash
    else:
        # The code speaks for the account now, and does not know the key.
        assert has_code == Failed("invalid_exact_evm_payload_signature")
    assert await reverted(chain) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"chain_id": 1}, "invalid_network"), ({"asset": SELLER.address}, "invalid_payment_requirements")],
)
async def test_other_chains_and_tokens_are_not_settled(chain, facilitator, changes, reason):
    asked = {"chain_id": 8453, "amount_micros": PRICE, "asset": REQUIREMENT.asset, "pay_to": SELLER.address}
    requirement = Requirement(**{**asked, "max_timeout_seconds": 60, **changes})
    assert await facilitator.settle(read(v1()), requirement) == Failed(reason)
    assert await sent(chain) == []


async def test_authorization_that_ends_before_the_next_block_is_not_sent(chain, facilitator):
    await chain.mine_every(1)
    told = authorization(validBefore=str(int(time.time()) + 2))
    assert await facilitator.settle(read(v1(told)), REQUIREMENT) == Failed(
        "invalid_exact_evm_payload_authorization_valid_before"
    )
    assert await sent(chain) == []


async def test_more_payments_than_may_wait_are_turned_away_unsent(chain, facilitator, monkeypatch):
    monkeypatch.setattr("tollhouse.payments.x402.settlement.built_in.MAX_PENDING", 2)
    await chain.mine_every(0)
    under_way = [asyncio.create_task(facilitator.settle(read(v1()), REQUIREMENT)) for _ in range(2)]
    await until_sent(chain)
    assert await facilitator.settle(read(v1()), REQUIREMENT) == Failed("unexpected_settle_error")
    await asyncio.sleep(0.2)
    await chain.request("anvil_mine")
    assert all(isinstance(outcome, Settled) for outcome in await asyncio.gather(*under_way))


async def test_no_more_transactions_are_under_way_than_a_node_keeps(chain, facilitator, monkeypatch):
    monkeypatch.setattr(transactions, "MAX_SLOTS", 2)
    await chain.mine_every(0)
    under_way = []
    for number in range(5):
        under_way.append(asyncio.create_task(facilitator.settle(read(v1()), REQUIREMENT)))
        await until_sent(chain, min(number + 1, 2))
    await asyncio.sleep(0.3)
    assert int((await chain.request("txpool_status"))["pending"], 16) == 2
    await chain.mine_every(1)
    outcomes = await asyncio.gather(*under_way)
    assert len({outcome.tx_hash for outcome in outcomes}) == 3


async def test_caller_who_gives_up_does_not_stop_the_settlement(chain, facilitator):
    await chain.mine_every(0)
    payment = read(v1())
    caller = asyncio.create_task(facilitator.settle(payment, REQUIREMENT))
    await until_sent(chain)
    await stop(caller)
    assert caller.cancelled()
    again = asyncio.create_task(facilitator.settle(payment, REQUIREMENT))
    await asyncio.sleep(0.1)
    await chain.request("anvil_mine")
    assert isinstance(await again, Settled)
    assert len(await sent(chain, SETTLING.address)) == 1
