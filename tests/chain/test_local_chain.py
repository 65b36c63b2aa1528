import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from eth_account import Account as Signer

from tollhouse.payments.chain import local_chain
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import ACCOUNTS, MINTER, LocalChain, NodeNotInstalled
from tollhouse.payments.chain.replies import ChainUnavailable

ALICE, BOB = ACCOUNTS[0], ACCOUNTS[1]
STRANGER = "0x" + "12" * 20

# Who starts the tests in the background has them ignore SIGINT.
HOLDER = """
import asyncio
import signal
from tollhouse.payments.chain.replies import ChainUnavailable
from tollhouse.payments.chain.local_chain import LocalChain

async def main():
    async with LocalChain.start() as chain:
        print(chain.url, flush=True)
        await asyncio.sleep(60)

signal.signal(signal.SIGINT, signal.default_int_handler)
asyncio.run(main())
"""


async def balance(chain: LocalChain, holder: str) -> int:
    return await token_balance(chain.client, chain.usdc_address, holder)


async def test_chain_is_base_by_its_id_and_funds_wallets(local_chain):
    assert await local_chain.client.chain_id() == 8453
    await local_chain.fund_usdc(STRANGER, 2_500_000)
    assert await balance(local_chain, STRANGER) == 2_500_000


async def test_accounts_and_strangers_send_tokens(local_chain):
    await local_chain.fund_usdc(ALICE.address, 3_000_000)
    await local_chain.wait_mined(await local_chain.transfer_usdc(ALICE, STRANGER, 2_000_000))
    await local_chain.wait_mined(await local_chain.transfer_usdc(STRANGER, BOB.address, 500_000))
    held = [await balance(local_chain, holder) for holder in (ALICE.address, STRANGER, BOB.address)]
    assert held == [1_000_000, 1_500_000, 500_000]


async def test_accounts_are_those_of_the_node_with_their_keys(local_chain):
    addresses = [account.address.lower() for account in ACCOUNTS]
    assert await local_chain.request("eth_accounts") == addresses
    assert [Signer.from_key(account.private_key).address for account in ACCOUNTS] == [a.address for a in ACCOUNTS]


async def test_mine_makes_as_many_blocks_as_asked(local_chain):
    before = await local_chain.client.block_number()
    await local_chain.request("anvil_mine", hex(7))
    assert await local_chain.client.block_number() == before + 7


async def test_blocks_come_by_the_clock_like_those_of_base():
    async with LocalChain.start(block_seconds=1) as chain:
        await chain.mine_every(0)
        waiting = await chain.send(MINTER, STRANGER, b"")
        assert await chain.client.receipt(waiting) is None
        assert (await chain.client.transaction(waiting)).block_number is None
        await chain.mine_every(1)
        receipt = await chain.wait_mined(waiting)
        assert receipt.is_success
        first = await chain.client.block(receipt.block_number)
        await asyncio.sleep(2.5)
        assert (await chain.client.block(first.number + 1)).timestamp - first.timestamp == 1


async def test_two_chains_stand_side_by_side(local_chain):
    async with LocalChain.start() as other:
        await other.fund_usdc(ALICE.address, 1)
        assert await balance(local_chain, ALICE.address) == 0
        assert await balance(other, ALICE.address) == 1


async def test_node_ends_with_the_block(local_chain):
    async with LocalChain.start() as chain:
        [node] = _nodes(chain.url)
    assert not node.is_running() or node.status() == psutil.STATUS_ZOMBIE
    assert _nodes(local_chain.url)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_node_ends_with_its_parent_however_that_ends(how, tmp_path):
    home = {**os.environ, "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen(
        [sys.executable, "-c", HOLDER], env=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with parent:
        url = parent.stdout.readline().decode().strip()
        [node] = _nodes(url)
        watchers = node.children(recursive=True)
        os.kill(parent.pid, how)
        parent.wait(20)
    _gone, left = psutil.wait_procs([node, *watchers], timeout=20)
    assert left == []


async def test_nothing_is_left_of_a_node_that_crashes():
    async with LocalChain.start() as chain:
        [node] = _nodes(chain.url)
        watchers = node.children(recursive=True)
        assert watchers
        node.kill()
        _gone, left = await asyncio.to_thread(psutil.wait_procs, watchers, timeout=20)
        assert left == []
        with pytest.raises(ChainUnavailable):
            await chain.client.block_number()


async def test_missing_node_says_what_to_run(monkeypatch):
    monkeypatch.setattr(local_chain, "PACKAGE", Path("nowhere"))
    monkeypatch.setattr(local_chain.shutil, "which", lambda _name: None)
    with pytest.raises(NodeNotInstalled, match="npm ci --ignore-scripts"):
        async with LocalChain.start():
            pass


async def test_node_that_does_not_start_says_why(monkeypatch, tmp_path):
    broken = tmp_path / "anvil"
    broken.write_text("#!/bin/sh\necho 'no room on this machine' >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(local_chain, "find_anvil", lambda: broken)
    with pytest.raises(NodeNotInstalled, match="no room on this machine"):
        async with LocalChain.start():
            pass


def _nodes(url: str) -> list[psutil.Process]:
    port = url.rsplit(":", 1)[1]
    run_node = psutil.process_iter(["cmdline"])
    return [one for one in run_node if {"--port", port} <= set(one.info["cmdline"] or ()) and "anvil" in one.name()]
