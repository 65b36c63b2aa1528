import pytest

from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain
from tollhouse.payments.chain.replies import ChainUnavailable
from tollhouse.payments.deposit_evidence import DepositTerms
from tollhouse.payments.deposits import Deposits
from tollhouse.payments.ledger.types import Transfer

pytestmark = pytest.mark.both_databases

ALICE, TREASURY = ACCOUNTS[1], ACCOUNTS[5]
TERMS = DepositTerms(8453, LocalChain.usdc_address, TREASURY.address, confirmations=1)


@pytest.fixture
def deposits(chain, ledger):
    return Deposits(chain.client, ledger, TERMS)


async def deposited(chain: LocalChain, deposits: Deposits, micros: int) -> None:
    tx_hash = await chain.transfer_usdc(ALICE, TREASURY.address, micros)
    await chain.wait_mined(tx_hash)
    await deposits.credit("alice", ALICE.address, tx_hash)


async def test_ledger_without_deposits_agrees(deposits):
    found = await deposits.reconcile()
    assert (found.agrees, found.deposits, found.ledger_micros) == (True, 0, 0)


async def test_ledger_agrees_with_the_chain_until_a_credit_has_no_log(chain, deposits):
    for micros in (1_000_000, 2_000_000):
        await deposited(chain, deposits, micros)
    found = await deposits.reconcile()
    assert (found.agrees, found.deposits, found.differences) == (True, 2, [])
    assert found.ledger_micros == found.chain_micros == found.treasury_micros == 3_000_000
    await chain.request("anvil_reorg", 1, [])
    found = await deposits.reconcile()
    assert (found.agrees, found.deposits) == (False, 2)
    assert (found.ledger_micros, found.chain_micros, found.treasury_micros) == (3_000_000, 1_000_000, 1_000_000)
    assert len(found.differences) == 1


async def test_credit_taken_back_is_no_difference(chain, ledger, deposits):
    await deposited(chain, deposits, 1_000_000)
    [credit] = await ledger.transfers("deposit", 0)
    reversal = Transfer(credit.id.replace("deposit", "reversal"), credit.credit, "reversals", 1_000_000, "reversal")
    await chain.request("anvil_reorg", 1, [])
    assert not (await deposits.reconcile()).agrees
    await ledger.move(reversal)
    found = await deposits.reconcile()
    assert (found.agrees, found.deposits, found.ledger_micros) == (True, 0, 0)


async def test_invented_credit_is_found(chain, ledger, deposits):
    await deposited(chain, deposits, 1_000_000)
    [real] = await ledger.transfers("deposit", 0)
    await ledger.move(Transfer(real.id.replace(":0:0", ":1:0"), "treasury", real.credit, 1, "deposit", real.memo))
    found = await deposits.reconcile()
    assert not found.agrees
    assert any(":1:0" in difference for difference in found.differences)


async def test_treasury_that_was_spent_is_no_difference(chain, deposits):
    await deposited(chain, deposits, 1_000_000)
    await chain.wait_mined(await chain.transfer_usdc(TREASURY, ALICE.address, 1))
    found = await deposits.reconcile()
    assert (found.agrees, found.ledger_micros, found.treasury_micros) == (True, 1_000_000, 999_999)


async def test_node_that_is_gone_reconciles_nothing(chain, ledger):
    elsewhere = DepositTerms(1, LocalChain.usdc_address, TREASURY.address, confirmations=1)
    with pytest.raises(ChainUnavailable):
        await Deposits(chain.client, ledger, elsewhere).reconcile()
