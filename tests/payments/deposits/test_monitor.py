import asyncio
from contextlib import suppress

import pytest

from tests.fakes.node import provider
from tests.fakes.website import Reply
from tests.waiting import until
from tollhouse.errors import Problem
from tollhouse.payments.chain.client import ChainClient, Limits, Nodes
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain
from tollhouse.payments.chain.replies import ChainUnavailable
from tollhouse.payments.deposit_evidence import DepositTerms
from tollhouse.payments.deposits import DepositMonitor, Deposits
from tollhouse.payments.ledger.types import Transfer
from tollhouse.payments.reorganisation import WATCHED_BLOCKS

ALICE, TREASURY = ACCOUNTS[1], ACCOUNTS[5]
ACCOUNT = "agent:alice"
CONFIRMATIONS = 2
TERMS = DepositTerms(8453, LocalChain.usdc_address, TREASURY.address, CONFIRMATIONS)
QUICK = Limits(attempt_seconds=1.0, deadline_seconds=2.5, retry_pause_seconds=0.01, max_failures=1_000)
PRICE = 2_000_000
WRONG_HASH = "0x" + "ee" * 32


async def credited(chain: LocalChain, ledger, micros=2_500_000) -> tuple[str, str]:
    """A confirmed deposit on the balance: its hash, and the signed transaction for mining it once more."""
    tx_hash = await chain.transfer_usdc(ALICE, TREASURY.address, micros)
    await chain.wait_mined(tx_hash)
    await chain.request("anvil_mine", hex(CONFIRMATIONS - 1))
    await credit(chain.client, ledger, tx_hash)
    return tx_hash, await chain.request("eth_getRawTransactionByHash", tx_hash)


async def credit(client: ChainClient, ledger, tx_hash: str):
    return await Deposits(client, ledger, TERMS).credit("alice", ALICE.address, tx_hash)


async def balance(ledger) -> int:
    return (await ledger.account(ACCOUNT)).balance_micros


async def rounds(monitor: DepositMonitor, number: int = 2) -> None:
    for _ in range(number):
        await monitor.poll()


async def ids(ledger, kind: str) -> list[str]:
    return [transfer.id for transfer in await ledger.transfers(kind, 0)]


async def test_deposit_that_stands_is_left_alone(chain, ledger):
    await credited(chain, ledger)
    await rounds(DepositMonitor(Nodes(chain.client), ledger, TERMS), 4)
    assert await balance(ledger) == 2_500_000
    assert await ids(ledger, "reversal") == []


async def test_removed_deposit_is_taken_back_and_credited_again_when_mined_again(chain, ledger):
    tx_hash, raw = await credited(chain, ledger)
    monitor = DepositMonitor(Nodes(chain.client), ledger, TERMS)
    await monitor.poll()
    await chain.request("anvil_reorg", 4, [])
    await rounds(monitor)
    assert await balance(ledger) == 0
    assert await ids(ledger, "reversal") == [f"reversal:{tx_hash}:0:0"]
    await rounds(monitor, 3)
    assert await balance(ledger) == 0

    await chain.request("eth_sendRawTransaction", raw)
    await chain.wait_mined(tx_hash)
    await rounds(monitor)
    assert await balance(ledger) == 0, "it is not confirmed again yet"
    await chain.request("anvil_mine", hex(CONFIRMATIONS - 1))
    await monitor.poll()
    assert await balance(ledger) == 2_500_000
    assert await ids(ledger, "deposit") == [f"deposit:{tx_hash}:0:0", f"deposit:{tx_hash}:0:1"]
    await rounds(monitor, 3)
    assert (await credit(chain.client, ledger, tx_hash)).already_credited
    assert await balance(ledger) == 2_500_000
    assert (await ledger.verify()).balanced


async def test_deposit_removed_twice_is_taken_back_twice(chain, ledger):
    tx_hash, raw = await credited(chain, ledger)
    monitor = DepositMonitor(Nodes(chain.client), ledger, TERMS)
    for turn in (0, 1):
        await chain.request("anvil_reorg", CONFIRMATIONS, [])
        await rounds(monitor)
        assert await balance(ledger) == 0
        assert f"reversal:{tx_hash}:0:{turn}" in await ids(ledger, "reversal")
        await chain.request("eth_sendRawTransaction", raw)
        await chain.wait_mined(tx_hash)
        await chain.request("anvil_mine", hex(CONFIRMATIONS - 1))
        await rounds(monitor)
        assert await balance(ledger) == 2_500_000


async def test_deposit_moved_to_another_block_is_credited_from_there(chain, ledger):
    tx_hash, raw = await credited(chain, ledger)
    before = await chain.client.receipt(tx_hash)
    monitor = DepositMonitor(Nodes(chain.client), ledger, TERMS)
    await monitor.poll()
    await chain.request("anvil_reorg", 4, [[raw, 0]])
    after = await chain.client.receipt(tx_hash)
    assert after.block_hash != before.block_hash
    await rounds(monitor, 3)
    assert await balance(ledger) == 2_500_000
    [first, second] = await ledger.transfers("deposit", 0)
    assert (first.memo["block_hash"], second.memo["block_hash"]) == (before.block_hash, after.block_hash)
    assert len(await ids(ledger, "reversal")) == 1


async def test_spent_deposit_that_is_removed_leaves_a_debt(chain, ledger):
    await credited(chain, ledger)
    await ledger.move(Transfer("call:1", ACCOUNT, "revenue", PRICE, "call"))
    await chain.request("anvil_reorg", CONFIRMATIONS, [])
    await rounds(DepositMonitor(Nodes(chain.client), ledger, TERMS))
    assert await balance(ledger) == 500_000 - 2_500_000
    assert (await ledger.verify()).balanced


async def test_owner_asks_for_the_removed_deposit_before_the_watch_sees_it(chain, sqlite_ledger):
    tx_hash, raw = await credited(chain, sqlite_ledger)
    monitor = DepositMonitor(Nodes(chain.client), sqlite_ledger, TERMS)
    await chain.request("anvil_reorg", CONFIRMATIONS, [])
    await rounds(monitor)
    with pytest.raises(Problem) as raised:
        await credit(chain.client, sqlite_ledger, tx_hash)
    assert raised.value.code == "deposit-pending"
    await chain.request("eth_sendRawTransaction", raw)
    await chain.wait_mined(tx_hash)
    await chain.request("anvil_mine", hex(CONFIRMATIONS - 1))
    again = await credit(chain.client, sqlite_ledger, tx_hash)
    assert (again.already_credited, again.credited_micros) == (False, 2_500_000)
    await rounds(monitor, 3)
    assert await balance(sqlite_ledger) == 2_500_000


async def test_watch_that_starts_after_the_reorganisation_finds_it(chain, sqlite_ledger):
    tx_hash, raw = await credited(chain, sqlite_ledger)
    await chain.request("anvil_reorg", CONFIRMATIONS, [])
    await rounds(DepositMonitor(Nodes(chain.client), sqlite_ledger, TERMS))
    assert await balance(sqlite_ledger) == 0
    await chain.request("eth_sendRawTransaction", raw)
    await chain.wait_mined(tx_hash)
    await chain.request("anvil_mine", hex(CONFIRMATIONS - 1))
    await rounds(DepositMonitor(Nodes(chain.client), sqlite_ledger, TERMS), 1)
    assert await balance(sqlite_ledger) == 2_500_000


async def test_two_watches_at_once_take_back_once(chain, ledger):
    await credited(chain, ledger)
    monitors = [DepositMonitor(Nodes(chain.client), ledger, TERMS) for _ in range(4)]
    await chain.request("anvil_reorg", CONFIRMATIONS, [])
    await asyncio.gather(*(rounds(monitor) for monitor in monitors))
    assert await balance(ledger) == 0
    assert len(await ids(ledger, "reversal")) == 1


async def test_deposit_is_no_longer_asked_about_after_64_blocks(chain, sqlite_ledger):
    await credited(chain, sqlite_ledger)
    async with provider(chain.url) as told:
        client = ChainClient(told.url)
        monitor = DepositMonitor(Nodes(client), sqlite_ledger, TERMS)
        await chain.request("anvil_mine", hex(WATCHED_BLOCKS - CONFIRMATIONS))
        await rounds(monitor)
        told.methods.clear()
        await monitor.poll()
        assert "eth_getTransactionReceipt" in told.methods
        await chain.request("anvil_mine", hex(1))
        await monitor.poll()
        told.methods.clear()
        await rounds(monitor, 3)
        assert told.methods == []
        await client.close()


async def test_one_look_alone_takes_nothing_back(chain, sqlite_ledger):
    await credited(chain, sqlite_ledger)
    monitor = DepositMonitor(Nodes(chain.client), sqlite_ledger, TERMS)
    await chain.request("anvil_reorg", CONFIRMATIONS, [])
    await monitor.poll()
    assert await balance(sqlite_ledger) == 2_500_000
    await monitor.poll()
    assert await balance(sqlite_ledger) == 0


def rehashed(_call, block):
    return block and {**block, "hash": WRONG_HASH}


LIES = {
    "no receipt": {"eth_getTransactionReceipt": lambda _call, _receipt: None},
    "other hashes at every height": {"eth_getBlockByNumber": rehashed},
    "no receipt and another hash that nothing follows": {
        "eth_getTransactionReceipt": lambda _call, _receipt: None,
        "eth_getBlockByNumber": rehashed,
    },
    "no receipt and no blocks": {
        "eth_getTransactionReceipt": lambda _call, _receipt: None,
        "eth_getBlockByNumber": lambda _call, _block: None,
    },
    "a head that lags": {
        "eth_getTransactionReceipt": lambda _call, _receipt: None,
        "eth_blockNumber": lambda _call, _number: "0x1",
    },
    "another chain": {
        "eth_getTransactionReceipt": lambda _call, _receipt: None,
        "eth_getBlockByNumber": rehashed,
        "eth_chainId": lambda _call, _number: "0x1",
    },
    "another block in the receipt": {
        "eth_getTransactionReceipt": lambda _call, receipt: {
            **receipt,
            "blockHash": WRONG_HASH,
            "logs": [{**log, "blockHash": WRONG_HASH} for log in receipt["logs"]],
        },
    },
    "garbage for receipts": {"eth_getTransactionReceipt": lambda _call, _receipt: {"status": "perhaps"}},
}


@pytest.mark.parametrize("twists", LIES.values(), ids=LIES)
async def test_provider_that_contradicts_itself_takes_nothing_back(chain, sqlite_ledger, twists):
    await credited(chain, sqlite_ledger)
    async with provider(chain.url) as told:
        client = ChainClient(told.url, QUICK)
        monitor = DepositMonitor(Nodes(client), sqlite_ledger, TERMS)
        told.twists = twists
        for _ in range(4):
            with suppress(ChainUnavailable):
                await monitor.poll()
        assert "eth_chainId" in told.methods
        assert await balance(sqlite_ledger) == 2_500_000
        assert await ids(sqlite_ledger, "reversal") == []
        await client.close()


async def test_provider_that_lies_about_the_newest_block_takes_nothing_back(chain, sqlite_ledger):
    terms = DepositTerms(8453, LocalChain.usdc_address, TREASURY.address, confirmations=1)
    tx_hash = await chain.transfer_usdc(ALICE, TREASURY.address, PRICE)
    receipt = await chain.wait_mined(tx_hash)
    await Deposits(chain.client, sqlite_ledger, terms).credit("alice", ALICE.address, tx_hash)
    assert receipt.block_number == await chain.client.block_number()
    async with provider(chain.url) as told:
        client = ChainClient(told.url, QUICK)
        told.twists = LIES["no receipt and another hash that nothing follows"]
        await rounds(DepositMonitor(Nodes(client), sqlite_ledger, terms), 4)
        assert await balance(sqlite_ledger) == PRICE
        await client.close()
    await chain.request("anvil_reorg", 1, [])
    await rounds(DepositMonitor(Nodes(chain.client), sqlite_ledger, terms))
    assert await balance(sqlite_ledger) == 0


@pytest.mark.parametrize(
    "broken",
    [lambda: Reply(503), lambda: Reply(body=b"[]"), lambda: Reply(chunks=[b" "] * 100, pause_seconds=0.1)],
    ids=["5xx", "garbage", "a slow drip"],
)
async def test_provider_that_is_down_takes_nothing_back_and_forgets_what_was_suspected(chain, sqlite_ledger, broken):
    await credited(chain, sqlite_ledger)
    async with provider(chain.url) as told:
        client = ChainClient(told.url, QUICK)
        monitor = DepositMonitor(Nodes(client), sqlite_ledger, TERMS)
        await chain.request("anvil_reorg", CONFIRMATIONS, [])
        await monitor.poll()
        told.break_with = broken
        for _ in range(2):
            with pytest.raises(ChainUnavailable):
                await monitor.poll()
        told.break_with = None
        await monitor.poll()
        assert await balance(sqlite_ledger) == 2_500_000
        await monitor.poll()
        assert await balance(sqlite_ledger) == 0
        await client.close()


async def test_many_deposits_are_watched_together(chain, sqlite_ledger):
    hashes = [(await credited(chain, sqlite_ledger, 1_000_000 + number))[0] for number in range(30)]
    last_block = (await chain.client.receipt(hashes[-1])).block_number
    kept = 20
    monitor = DepositMonitor(Nodes(chain.client), sqlite_ledger, TERMS)
    await monitor.poll()
    first_removed = (await chain.client.receipt(hashes[kept])).block_number
    await chain.request("anvil_reorg", await chain.client.block_number() - first_removed + 1, [])
    assert last_block > first_removed
    await rounds(monitor)
    assert {one.split(":")[1] for one in await ids(sqlite_ledger, "reversal")} == set(hashes[kept:])
    assert await balance(sqlite_ledger) == sum(1_000_000 + number for number in range(kept))


async def test_watch_runs_by_itself_and_is_done_within_fifteen_seconds(chain, ledger):
    tx_hash, raw = await credited(chain, ledger)
    watching = asyncio.create_task(Deposits(chain.client, ledger, TERMS).monitor())
    await asyncio.sleep(0.5)
    await chain.request("anvil_reorg", CONFIRMATIONS, [])
    await _until(ledger, 0)
    await chain.request("eth_sendRawTransaction", raw)
    await chain.wait_mined(tx_hash)
    await chain.request("anvil_mine", hex(CONFIRMATIONS))
    await _until(ledger, 2_500_000)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


async def _until(ledger, micros: int) -> None:
    async def is_so() -> bool:
        return await balance(ledger) == micros

    await until(is_so)
