"""What gas may cost the operator: per payment, per day, and through payers whose transactions fail."""

import asyncio
from decimal import Decimal

import pytest

from tests.payments.settlement.chain_state import reverted, seller_holds, sent
from tests.payments.settlement.conftest import SETTLING
from tests.payments.settlement.failing_node import failing_node, within
from tests.payments.settlement.test_built_in import until_sent
from tests.payments.x402.signed_payments import (
    FACTORY,
    OTHER,
    PRICE,
    RELAYER,
    REQUIREMENT,
    authorization,
    from_unmade_wallet,
    read,
    signature,
    v1,
)
from tests.servers.chain import deploy
from tollhouse.errors import Problem
from tollhouse.payments.chain.contracts import GAS_PRICE_ORACLE, call_data
from tollhouse.payments.chain.local_chain import load_contracts
from tollhouse.payments.x402.settlement import gas
from tollhouse.payments.x402.types import Failed, Settled, VerificationFailure, Verified
from tollhouse.payments.x402.verification import plan_settlement
from tollhouse.statistics.metrics import exposition
from tollhouse.statistics.recorder import Recorder

GWEI = 10**9
DEFAULTS = {"x402_max_gas_usd": None, "x402_gas_usd_per_day": Decimal(100), "x402_contract_wallets": False}


@pytest.fixture
def always_fresh(monkeypatch):
    """Every payment asks for the price again."""
    monkeypatch.setattr(gas, "QUOTE_SECONDS", 0.0)


async def base_fee(chain, wei):
    await chain.request("anvil_setNextBlockBaseFeePerGas", hex(wei))
    await chain.request("anvil_mine")
    # The price of the block after it is what counts.
    await chain.request("anvil_setNextBlockBaseFeePerGas", hex(wei))


async def unavailable(facilitator):
    with pytest.raises(Problem) as caught:
        await facilitator.verify(read(v1()), REQUIREMENT)
    assert (caught.value.status, caught.value.code) == (503, "payments-unavailable")
    assert caught.value.headers["Retry-After"] == str(caught.value.facts["retry_after_seconds"])
    return caught.value.facts["reason"]


async def burner(chain, quiet_until=0):
    """A funded wallet that says yes while it is simulated; until that block, also at the right price."""
    wallet = await deploy(chain, "GasBurner")
    await chain.fund_usdc(wallet, 100 * PRICE)
    await be_quiet(chain, wallet, quiet_until)
    return wallet


async def first_in_block(chain, account, to, data):
    """Somebody's transaction that comes before ours."""
    told = {"from": account.address, "to": to, "data": "0x" + data.hex(), "gas": hex(200_000)}
    await chain.request(
        "eth_sendTransaction", told | {"maxPriorityFeePerGas": hex(GWEI), "maxFeePerGas": hex(3 * GWEI)}
    )


async def be_quiet(chain, wallet, until):
    await chain.wait_mined(await chain.send(OTHER, wallet, call_data("beQuiet(uint256)", until)))


def paid_by(wallet, key=OTHER.private_key):
    told = authorization(**{"from": wallet})
    return read(v1(told, signature(told, key)))


async def test_gas_above_the_ceiling_refuses_payments_before_anything_is_sent(chain, open_facilitator, always_fresh):
    async with open_facilitator(**DEFAULTS) as facilitator:
        assert isinstance(await facilitator.verify(read(v1()), REQUIREMENT), Verified)
        await base_fee(chain, 100 * GWEI)
        assert await unavailable(facilitator) == "gas_price"
        assert isinstance(await facilitator.settle(read(v1()), REQUIREMENT), Failed)
        await base_fee(chain, 10**6)
        assert isinstance(await facilitator.settle(read(v1()), REQUIREMENT), Settled)
    assert len(await sent(chain)) == 1


async def test_payment_never_costs_more_than_the_ceiling(chain, open_facilitator, always_fresh, monkeypatch):
    monkeypatch.setattr("tollhouse.payments.x402.settlement.recovery.REBROADCAST_SECONDS", 0.2)
    ceiling = 10**18 // 1_000 // 4_000
    async with open_facilitator(**DEFAULTS) as facilitator:
        await chain.mine_every(0)
        settling = asyncio.create_task(facilitator.settle(read(v1()), REQUIREMENT))
        await until_sent(chain)
        for _ in range(6):
            await base_fee(chain, 50 * GWEI)
            await asyncio.sleep(0.05)
        async with asyncio.timeout(60):
            while not settling.done():
                await base_fee(chain, 10**6)
                await asyncio.sleep(0.1)
        assert isinstance(await settling, Settled)
    [one] = await sent(chain)
    assert int(one["maxFeePerGas"], 16) * gas.PAYMENT_GAS <= ceiling
    assert int(one["receipt"]["gasUsed"], 16) * int(one["receipt"]["effectiveGasPrice"], 16) <= ceiling


async def test_refused_payments_cost_no_round_trip_for_the_price(chain, open_facilitator, monkeypatch):
    monkeypatch.setattr(gas, "QUOTE_SECONDS", 60.0)
    await base_fee(chain, 100 * GWEI)
    async with failing_node(chain.url) as node, open_facilitator(node.url, **DEFAULTS) as facilitator:
        for _ in range(20):
            assert await unavailable(facilitator) == "gas_price"
    assert node.count("eth_feeHistory") == 1
    assert node.count("eth_call") == 1


async def test_fee_for_data_on_a_rollup_counts_as_gas(chain, open_facilitator, always_fresh):
    await chain.request("anvil_setCode", GAS_PRICE_ORACLE, load_contracts()["TestFeed"].runtime)

    async def data_fee(usd: str) -> None:
        wei = int(Decimal(usd) * 10**18 / 4_000)
        data = call_data("set(int256,uint256,uint256)", 0, 0, wei)
        await chain.wait_mined(await chain.send(OTHER, GAS_PRICE_ORACLE, data))

    async with open_facilitator(**DEFAULTS) as facilitator:
        await data_fee("0.0002")
        assert isinstance(await facilitator.verify(read(v1()), REQUIREMENT), Verified)
        await data_fee("0.001")
        assert await unavailable(facilitator) == "gas_price"


@pytest.mark.parametrize(
    ("price", "age", "is_taken"),
    [(1_000, 60, True), (40_000, 60, False), (0, 60, True), (-5, 60, True), (40_000, 3 * 3_600, True)],
)
async def test_price_of_the_coin_comes_from_the_feed_while_it_is_recent(
    chain, open_facilitator, always_fresh, price, age, is_taken
):
    feed = await deploy(chain, "TestFeed")
    at = (await chain.client.block()).timestamp - age
    data = call_data("set(int256,uint256,uint256)", price * 10**8 % 2**256, at, 0)
    await chain.wait_mined(await chain.send(OTHER, feed, data))
    async with open_facilitator(**DEFAULTS, x402_native_usd_feed=feed) as facilitator:
        if is_taken:
            assert isinstance(await facilitator.verify(read(v1()), REQUIREMENT), Verified)
        else:
            assert await unavailable(facilitator) == "gas_price"


async def test_day_budget_ends_payments_and_is_shared_and_kept(chain, open_facilitator, always_fresh):
    # A payment is about 0.0006 USD here.
    settings = DEFAULTS | {"x402_gas_usd_per_day": Decimal("0.002")}
    async with open_facilitator(**settings) as one, open_facilitator(**settings) as other:
        outcomes = []
        for number in range(8):
            payment = read(v1())
            outcomes.append(await (one, other)[number % 2].settle(payment, REQUIREMENT))
        count = sum(isinstance(outcome, Settled) for outcome in outcomes)
        assert 2 <= count <= 4
        assert await unavailable(one) == await unavailable(other) == "gas_budget"
    async with open_facilitator(**settings) as restarted:
        assert await unavailable(restarted) == "gas_budget"
        assert isinstance(await restarted.settle(read(v1()), REQUIREMENT), Failed)
    assert len(await sent(chain)) == count


async def test_reserve_is_a_metric_a_warning_and_an_end(chain, open_facilitator, always_fresh, capsys):
    await chain.request("anvil_setBalance", SETTLING.address, hex(10**15))
    async with open_facilitator(**DEFAULTS) as facilitator:
        assert isinstance(await facilitator.verify(read(v1()), REQUIREMENT), Verified)
        assert isinstance(await facilitator.settle(read(v1()), REQUIREMENT), Settled)
        await chain.request("anvil_setBalance", SETTLING.address, hex(10**9))
        assert await unavailable(facilitator) == "gas_reserve"
    assert "reserve for gas is low" in capsys.readouterr().out
    metrics = exposition(Recorder()).decode()
    assert "tollhouse_facilitator_balance_usd 4e-06" in metrics
    assert "tollhouse_facilitator_gas_usd_total" in metrics
    assert "tollhouse_facilitator_gas_used_total" in metrics


async def test_wallet_that_burns_gas_only_at_a_price_costs_nothing(chain, open_facilitator):
    wallet = await burner(chain)
    async with open_facilitator() as facilitator:
        outcomes = [await facilitator.settle(paid_by(wallet), REQUIREMENT) for _ in range(10)]
    assert all(isinstance(outcome, Failed) for outcome in outcomes)
    assert await sent(chain) == []


async def test_wallet_that_deceives_the_simulation_is_paid_for_once(chain, open_facilitator, always_fresh):
    wallet, twin = await burner(chain), await burner(chain)
    async with open_facilitator(x402_max_gas_usd=Decimal("0.005")) as facilitator:
        await be_quiet(chain, wallet, 1_000_000)
        await chain.mine_every(0)
        settling = asyncio.create_task(facilitator.settle(paid_by(wallet), REQUIREMENT))
        await until_sent(chain)
        await first_in_block(chain, OTHER, wallet, call_data("beQuiet(uint256)", 1))
        await chain.request("anvil_mine")
        assert await within(settling) == Failed("transaction_failed")
        await chain.mine_every(None)
        for one in (wallet, twin):
            await be_quiet(chain, one, 1_000_000)
        again = [await facilitator.settle(paid_by(wallet), REQUIREMENT) for _ in range(10)]
        assert again == [Failed("payer_refused")] * 10
        # Another wallet with the same code.
        assert await facilitator.settle(paid_by(twin), REQUIREMENT) == Failed("wallet_code_refused")
        assert isinstance(await facilitator.settle(read(v1()), REQUIREMENT), Settled)
    async with open_facilitator() as restarted:
        for one, reason in ((wallet, "payer_refused"), (twin, "wallet_code_refused")):
            refused = await restarted.verify(paid_by(one), REQUIREMENT)
            assert isinstance(refused, VerificationFailure)
            assert refused.reason == reason
            assert "at least a day" in refused.detail
    burnt, settled = await sent(chain)
    price = int(burnt["receipt"]["effectiveGasPrice"], 16)
    assert int(burnt["receipt"]["gasUsed"], 16) * price <= 5 * 10**15 // 4_000
    assert settled["receipt"]["status"] == "0x1"
    assert await seller_holds(chain) == PRICE


async def test_payer_who_spends_the_money_first_is_not_tried_again_but_others_are(
    chain, open_facilitator, always_fresh
):
    await chain.fund_usdc(RELAYER.address, PRICE)
    async with open_facilitator() as facilitator:
        await chain.mine_every(0)
        settling = asyncio.create_task(facilitator.settle(paid_by(RELAYER.address, RELAYER.private_key), REQUIREMENT))
        await until_sent(chain)
        spent = call_data("transfer(address,uint256)", OTHER.address, PRICE)
        await first_in_block(chain, RELAYER, chain.usdc_address, spent)
        await chain.request("anvil_mine")
        assert await within(settling) == Failed("insufficient_funds")
        await chain.mine_every(None)
        await chain.fund_usdc(RELAYER.address, PRICE)
        again = paid_by(RELAYER.address, RELAYER.private_key)
        assert await facilitator.settle(again, REQUIREMENT) == Failed("payer_refused")
        assert isinstance(await facilitator.settle(read(v1()), REQUIREMENT), Settled)
    assert len(await sent(chain)) == 2
    assert await reverted(chain) == []


async def test_payer_whose_payment_somebody_else_carried_out_is_not_refused(chain, open_facilitator, always_fresh):
    async with open_facilitator() as facilitator:
        await chain.mine_every(0)
        payment = read(v1())
        settling = asyncio.create_task(facilitator.settle(payment, REQUIREMENT))
        await until_sent(chain)
        await first_in_block(chain, OTHER, chain.usdc_address, plan_settlement(payment, REQUIREMENT).transfer.data)
        await chain.request("anvil_mine")
        await within(settling)
        await chain.mine_every(None)
        assert isinstance(await facilitator.settle(read(v1()), REQUIREMENT), Settled)


async def test_contract_wallets_are_refused_unless_the_operator_allows_them(chain, open_facilitator):
    wallet = await deploy(chain, "ContractWallet", OTHER.address)
    await chain.fund_usdc(wallet, PRICE)
    # A key with delegated code (EIP-7702): the token asks that code, not the key.
    await chain.request("anvil_setCode", RELAYER.address, "0xef0100" + wallet[2:].lower())
    await chain.fund_usdc(RELAYER.address, PRICE)
    async with open_facilitator(**DEFAULTS) as facilitator:
        for payment in (paid_by(wallet), read(from_unmade_wallet()), paid_by(RELAYER.address, RELAYER.private_key)):
            refused = await facilitator.verify(payment, REQUIREMENT)
            assert isinstance(refused, VerificationFailure)
            assert "x402_contract_wallets" in refused.detail
            assert isinstance(await facilitator.settle(payment, REQUIREMENT), Failed)
    assert await sent(chain) == []
    async with open_facilitator(**DEFAULTS | {"x402_contract_wallets": True}) as facilitator:
        assert isinstance(await facilitator.settle(paid_by(wallet), REQUIREMENT), Settled)


async def test_wallet_that_needs_more_gas_than_the_ceiling_pays_for_is_refused(chain, open_facilitator):
    payment = read(from_unmade_wallet())
    await chain.fund_usdc(payment.payer, PRICE)
    wallets = DEFAULTS | {"x402_contract_wallets": True, "x402_6492_factories": (FACTORY,)}
    async with open_facilitator(**wallets) as facilitator:
        assert await facilitator.settle(payment, REQUIREMENT) == Failed("gas_limit_exceeded")
    assert await sent(chain) == []
    async with open_facilitator(**wallets | {"x402_max_gas_usd": Decimal("0.01")}) as facilitator:
        assert isinstance(await facilitator.settle(payment, REQUIREMENT), Settled)
