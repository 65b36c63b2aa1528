"""The quick starts, gone through as their readers do: every block of a page in its order, in one shell."""

import asyncio
import base64
import csv
import io
import json
import re
import shutil
from pathlib import Path

import httpx2
import pytest
from msgspec import structs

from tests.guide.documents import ROOT
from tests.guide.quick_starts import PrintedBlock, gone_through, printed_blocks, script
from tests.journeys.server import Server, free_port
from tollhouse.client import Agent
from tollhouse.payments.chain.local_chain import ACCOUNTS

pytestmark = pytest.mark.timeout(300)

# Every shell block of these pages is given, and every Python block saved and run.
STARTS = ("start-person", "start-agent", "start-operator")
HERE = "127.0.0.1:8000"
TREASURY, SELLER, RELAYER = ACCOUNTS[5], ACCOUNTS[6], ACCOUNTS[7]
AGENTS_KEY = "0x" + "22" * 32


def printed(server: Server, page: str) -> list[PrintedBlock]:
    """The page's blocks as this server prints them, with its public address."""
    blocks = printed_blocks(httpx2.get(f"{server.root}/guide/{page}").text)
    assert blocks
    return blocks


async def went_through(blocks: list[PrintedBlock], folder: Path, **variables: str) -> list[str]:
    return await asyncio.to_thread(gone_through, script(blocks, folder), folder, **variables)


@pytest.fixture
def start_public(start_server):
    """A function that starts a server at another port than the documentation's, with a public address of its own."""

    def start(**settings: object) -> Server:
        port = free_port()
        return start_server(port=port, public_url=f"http://localhost:{port}", **settings)

    return start


def test_quick_starts_hold_nothing_that_is_not_run():
    for page in STARTS:
        text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
        languages = set(re.findall(r"^```(\w*)\n", text, re.MULTILINE)) - {""}
        assert languages <= {"sh", "python", "json"}, page


async def test_person_gets_from_nothing_to_events_stories_and_a_search(start_public, tmp_path):
    server = await asyncio.to_thread(start_public)
    blocks = printed(server, "start-person")
    assert any(f"=http://localhost:{server.port}/defense" in block.text for block in blocks)
    assert not any(HERE in block.text for block in blocks)
    _, made, events, table, usage, search, paths, stories, refused = await went_through(blocks, tmp_path)
    assert json.loads(made)["tier"] == "free"
    assert json.loads(events)["count"] == 3
    assert len(list(csv.DictReader(io.StringIO(table)))) == 3
    assert json.loads(usage)["usage"]
    assert len(json.loads(search)["products"]) == 3
    assert json.loads(paths)["shortest"]["companies"][-1] == "openai"
    assert len(stories.splitlines()) == 5
    assert json.loads(refused)["parameter"] == "colour"


@pytest.fixture
async def selling(start_public, local_chain):
    """A server whose free allowance is used up, on a chain where the agent's wallet holds a few dollars."""
    await local_chain.fund_usdc(Agent(AGENTS_KEY).address, 3_000_000)
    settings = {
        "evm_rpc_url": local_chain.url, "treasury_address": TREASURY.address, "deposit_confirmations": 1,
        "x402_pay_to": SELLER.address, "x402_facilitator_key": RELAYER.private_key, "free_per_ip_per_day": 1,
    }  # fmt: skip
    server = await asyncio.to_thread(start_public, **settings)
    assert httpx2.get(f"{server.root}/mattress/api/retailers").status_code == 200
    return server


async def test_agent_finds_the_server_calls_a_tool_deposits_signs_and_pays(selling, local_chain, tmp_path):
    tx_hash = await local_chain.transfer_usdc(Agent(AGENTS_KEY).address, TREASURY.address, 1_000_000)
    await local_chain.wait_mined(tx_hash)
    variables = {"AGENT_PRIVATE_KEY": AGENTS_KEY, "TX_HASH": tx_hash}
    shown = await went_through(printed(selling, "start-agent"), tmp_path, **variables)
    linkset, described, tools, registered, deposited, signed, paid = shown
    assert "linkset" in linkset
    assert "x-codeSamples" in described
    assert "findPaths" in tools
    assert '\\"shortest\\"' in tools
    assert TREASURY.address in registered
    assert (deposited, int(signed) > 0) == ("1.00", True)
    receipt = json.loads(base64.b64decode(paid.split()[0]))
    assert receipt["success"] is True
    assert (await local_chain.client.receipt(receipt["transaction"])).is_success


async def test_operator_serves_gives_keys_watches_and_stops(server, recorded_data, tmp_path):
    shutil.copytree(recorded_data, tmp_path / "data")
    port = str(free_port())
    place = f"127.0.0.1:{port}"
    # The page starts a server of the reader's own, at the documentation's port; the test has no claim to that one.
    blocks = [
        structs.replace(block, text=block.text.replace("8000", port)) for block in printed(server, "start-operator")
    ]
    assert any(place in block.text for block in blocks)
    decided, serving, health, keys, measured, books, _ = await went_through(blocks, tmp_path)
    assert "choose-a-long-and-random-one" not in decided
    assert '{"status":"ok"' in serving
    assert json.loads(health)["version"]
    assert '"enterprise"' in keys
    assert int(measured) > 5
    assert json.loads(books)["balanced"] is True
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"http://{place}/health")
