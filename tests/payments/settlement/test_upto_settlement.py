"""Scheme `upto` through the built-in facilitator: what was used is taken, in a transaction of its own account."""

import asyncio
from decimal import Decimal

import msgspec
import pytest

from tests.payments.settlement.chain_state import reverted, seller_holds, sent
from tests.payments.settlement.conftest import SETTLING
from tests.payments.settlement.test_built_in import until_sent
from tests.payments.x402.signed_payments import PAYER, PRICE, REQUIREMENT, UPTO_REQUIREMENT, permit, read, upto, v2
from tollhouse.errors import Problem
from tollhouse.evm import PERMIT2, UPTO_PROXY
from tollhouse.payments.chain.contracts import call_data
from tollhouse.payments.x402.types import Failed, Settled, VerificationFailure, Verified
from tollhouse.payments.x402.upto import Upto
from tollhouse.payments.x402.verification import proves_payment

COST = 1_234
OFFERED = msgspec.structs.replace(UPTO_REQUIREMENT, facilitator=SETTLING.address)
COSTING = OFFERED.costing(COST)


def permitted():
    return upto(permit(witness={"facilitator": SETTLING.address}), accepted=OFFERED.v2())


def paid():
    return read(permitted())


async def test_what_was_used_is_taken_by_a_transaction_of_the_account_itself(chain, facilitator):
    payment = paid()
    assert facilitator.upto_account == OFFERED.facilitator
    assert isinstance(await facilitator.verify(payment, OFFERED), Verified)
    settled = await facilitator.settle(payment, COSTING)
    assert isinstance(settled, Settled)
    assert proves_payment(settled.receipt, payment, COSTING)
    assert not proves_payment(settled.receipt, payment, OFFERED)
    assert await seller_holds(chain) == COST
    [transaction] = await sent(chain)
    assert transaction["to"].lower() == UPTO_PROXY.lower()
    assert settled.receipt.gas_used <= Upto.gas
    refused = await facilitator.verify(payment, OFFERED)
    assert isinstance(refused, VerificationFailure)
    assert refused.is_used


async def test_payments_of_both_schemes_at_once_are_all_settled(chain, facilitator):
    outcomes = await asyncio.gather(
        *(facilitator.settle(read(v2()), REQUIREMENT) for _ in range(10)),
        *(facilitator.settle(paid(), COSTING) for _ in range(5)),
    )
    assert all(isinstance(outcome, Settled) for outcome in outcomes)
    assert await seller_holds(chain) == 10 * PRICE + 5 * COST
    assert await reverted(chain) == []


async def test_restarted_facilitator_reports_what_it_settled_before_and_another_one_does_not(
    chain, open_facilitator, tmp_path
):
    payment = paid()
    (tmp_path / "another").mkdir()
    async with open_facilitator() as first:
        settled = await first.settle(payment, COSTING)
    async with open_facilitator() as again:
        assert (await again.settle(payment, COSTING)).tx_hash == settled.tx_hash
    async with open_facilitator(data_dir=str(tmp_path / "another")) as another:
        assert await another.settle(payment, COSTING) == Failed("invalid_exact_evm_nonce_already_used")
    assert len(await sent(chain)) == 1


@pytest.mark.parametrize("how", ["the allowance", "the nonce"])
async def test_payer_who_withdraws_before_the_block_is_not_charged_and_then_refused(chain, facilitator, how):
    payment = paid()
    nonce = payment.authorization.nonce
    await chain.request("evm_setAutomine", False)
    settling = asyncio.create_task(facilitator.settle(payment, COSTING))
    await until_sent(chain)
    data = {
        "the allowance": (chain.usdc_address, call_data("approve(address,uint256)", PERMIT2, 0)),
        "the nonce": (
            PERMIT2,
            call_data("invalidateUnorderedNonces(uint256,uint256)", int.from_bytes(nonce[:-1]), 1 << nonce[-1]),
        ),
    }[how]
    await chain.send(PAYER, *data, gas=200_000)  # with the higher tip, it goes first
    await chain.request("evm_mine")
    await chain.request("evm_setAutomine", True)
    assert isinstance(await settling, Failed)
    assert await seller_holds(chain) == 0
    assert len(await reverted(chain)) == 1
    assert (await facilitator.verify(paid(), OFFERED)).reason == "payer_refused"


async def test_gas_of_the_scheme_counts_against_the_ceiling(chain, open_facilitator):
    async with open_facilitator(x402_max_gas_usd=Decimal(10)) as facilitator:
        quote = await facilitator._gas.quote()
    between = (quote.in_nanos(quote.payment_wei) + quote.in_nanos(quote.cost_wei(Upto.gas))) // 2
    async with open_facilitator(x402_max_gas_usd=Decimal(between) / 10**9) as facilitator:
        assert isinstance(await facilitator.verify(read(v2()), REQUIREMENT), Verified)
        with pytest.raises(Problem) as raised:
            await facilitator.verify(paid(), OFFERED)
    assert raised.value.facts["reason"] == "gas_price"
