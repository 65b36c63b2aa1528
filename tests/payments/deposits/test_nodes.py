"""Several nodes: a large deposit needs two that agree, and any of them may be down."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from prometheus_client import REGISTRY

from tests.fakes.node import provider
from tests.payments.deposits.crediting_client import ALICE, CONFIRMATIONS, TERMS, TREASURY
from tests.payments.deposits.test_credit import QUICK, sent
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.payments.chain.client import ChainClient, Nodes
from tollhouse.payments.deposits import DepositMonitor, Deposits, open_deposits

MILLION_USD = 10**12
LARGE, SMALL = 250_000_000, 100_000_000
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
async def chain(chain):
    await chain.fund_usdc(ALICE.address, 10**9)
    return chain


@asynccontextmanager
async def deposits_from(ledger, *urls: str):
    clients = [ChainClient(url, QUICK) for url in urls]
    try:
        yield Deposits(clients[0], ledger, TERMS, *clients[1:])
    finally:
        await asyncio.gather(*(client.close() for client in clients))


async def credit(ledger, tx_hash, *urls: str):
    async with deposits_from(ledger, *urls) as deposits:
        return await deposits.credit("alice", ALICE.address, tx_hash)


async def refused(ledger, tx_hash, *urls: str) -> Problem:
    with pytest.raises(Problem) as raised:
        await credit(ledger, tx_hash, *urls)
    assert await ledger.transfers("deposit", 0) == []
    return raised.value


def disagreements() -> float:
    return REGISTRY.get_sample_value("tollhouse_deposit_disagreements_total") or 0.0


def of_a_million(_call, receipt):
    return {**receipt, "logs": [{**log, "data": "0x" + MILLION_USD.to_bytes(32).hex()} for log in receipt["logs"]]}


def renamed(call, receipt):
    """As if another transaction had done what a real one did."""
    tx_hash = call["params"][0]
    logs = [{**log, "transactionHash": tx_hash} for log in receipt["logs"]]
    return {**receipt, "transactionHash": tx_hash, "logs": logs}


@pytest.mark.parametrize("liars_place", [0, 1])
async def test_lying_node_credits_no_million(chain, sqlite_ledger, liars_place):
    tx_hash = await sent(chain, LARGE)
    async with provider(chain.url) as liar:
        liar.twists["eth_getTransactionReceipt"] = of_a_million
        urls, before = [chain.url], disagreements()
        urls.insert(liars_place, liar.url)
        problem = await refused(sqlite_ledger, tx_hash, *urls)
        assert (problem.code, problem.status, "Retry-After" in problem.headers) == ("deposit-pending", 409, True)
        assert disagreements() == before + 1
        # Two honest nodes outvote it, whatever its place.
        credited = await credit(sqlite_ledger, tx_hash, chain.url, liar.url, f"{chain.url}/")
        assert credited.credited_micros == LARGE


async def test_invented_transaction_is_credited_by_no_single_node(chain, sqlite_ledger):
    real = await sent(chain, LARGE)
    receipt = await chain.request("eth_getTransactionReceipt", real)
    async with provider(chain.url) as liar:
        liar.twists["eth_getTransactionReceipt"] = lambda call, _none: renamed(call, receipt)
        before = disagreements()
        problem = await refused(sqlite_ledger, "0x" + "ab" * 32, liar.url, chain.url)
        assert problem.code == "deposit-pending"
        assert disagreements() == before + 1


async def test_node_that_lags_behind_is_no_disagreement(chain, sqlite_ledger):
    tx_hash = await sent(chain, LARGE)
    async with provider(chain.url) as behind:
        behind.twists["eth_getTransactionReceipt"] = lambda _call, _receipt: None
        behind.twists["eth_blockNumber"] = lambda _call, number: hex(int(number, 16) - CONFIRMATIONS)
        before = disagreements()
        assert (await refused(sqlite_ledger, tx_hash, chain.url, behind.url)).code == "deposit-pending"
        assert disagreements() == before
        behind.twists.clear()
        assert (await credit(sqlite_ledger, tx_hash, chain.url, behind.url)).credited_micros == LARGE


async def test_large_deposit_waits_for_the_second_node_and_a_small_one_does_not(chain, sqlite_ledger):
    large, small = await sent(chain, LARGE), await sent(chain, SMALL)
    problem = await refused(sqlite_ledger, large, chain.url, NOWHERE)
    assert (problem.status, problem.facts["upstream"]) == (502, "chain")
    assert (await credit(sqlite_ledger, small, chain.url, NOWHERE)).credited_micros == SMALL
    assert (await credit(sqlite_ledger, large, chain.url)).credited_micros == LARGE


async def test_next_node_answers_for_one_that_is_down(chain, sqlite_ledger):
    tx_hash = await sent(chain, SMALL)
    assert (await refused(sqlite_ledger, tx_hash, NOWHERE, f"{NOWHERE}/2")).status == 502
    async with deposits_from(sqlite_ledger, NOWHERE, chain.url) as deposits:
        assert (await deposits.credit("alice", ALICE.address, tx_hash)).credited_micros == SMALL
        assert (await deposits.reconcile()).agrees


async def test_removed_deposit_is_credited_again_only_if_two_nodes_agree(chain, sqlite_ledger):
    before = await chain.request("evm_snapshot")
    tx_hash = await chain.transfer_usdc(ALICE, TREASURY.address, LARGE)
    raw = await chain.request("eth_getRawTransactionByHash", tx_hash)
    await chain.wait_mined(tx_hash)
    await chain.request("anvil_mine", hex(CONFIRMATIONS))
    async with provider(chain.url) as liar:
        nodes = Nodes(chain.client, ChainClient(liar.url, QUICK))
        await Deposits(chain.client, sqlite_ledger, TERMS).credit("alice", ALICE.address, tx_hash)
        monitor = DepositMonitor(nodes, sqlite_ledger, TERMS)
        await monitor.poll()
        await chain.request("evm_revert", before)
        await chain.request("anvil_mine", hex(1), hex(3))
        await chain.request("eth_sendRawTransaction", raw)
        await chain.request("anvil_mine", hex(CONFIRMATIONS + 2))
        liar.twists["eth_getTransactionReceipt"] = of_a_million
        for _ in range(3):
            await monitor.poll()
        assert (await sqlite_ledger.account("agent:alice")).balance_micros == 0
        liar.twists.clear()
        await monitor.poll()
        assert (await sqlite_ledger.account("agent:alice")).balance_micros == LARGE
        await nodes.others(chain.client)[0].close()


async def test_settings_name_several_nodes(chain, sqlite_ledger):
    tx_hash = await sent(chain, LARGE)
    async with provider(chain.url) as liar:
        liar.twists["eth_getTransactionReceipt"] = of_a_million
        whole = {"treasury_address": TREASURY.address, "deposit_confirmations": 1}
        listed = Settings(evm_rpc_urls=(liar.url, chain.url), **whole)
        assert Settings(evm_rpc_url="http://a", evm_rpc_urls=("http://b", "http://a")).rpc_urls == (
            "http://a", "http://b"
        )  # fmt: skip
        async with open_deposits(listed, sqlite_ledger) as deposits:
            with pytest.raises(Problem, match="second node"):
                await deposits.credit("alice", ALICE.address, tx_hash)
