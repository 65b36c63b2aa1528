"""The quick starts, gone through as their readers do: every block of a page in its order, in one shell."""

import asyncio
import base64
import contextlib
import csv
import io
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import httpx2
import pytest

from tests.guide.documents import ROOT
from tests.journeys.server import environment, free_port
from tollhouse.client import Agent
from tollhouse.payments.chain.local_chain import ACCOUNTS

pytestmark = pytest.mark.timeout(300)

# Every shell block of these pages is given, and every Python block saved and run.
STARTS = ("start-person", "start-agent", "start-operator")
HERE = "127.0.0.1:8000"
TREASURY, SELLER, RELAYER = ACCOUNTS[5], ACCOUNTS[6], ACCOUNTS[7]
AGENTS_KEY = "0x" + "22" * 32
MOST_SECONDS = 200.0
PROGRAMS = Path(sys.executable).parent

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAVED_AS = re.compile(r"[Ss]ave\s+this\s+as\s+`([\w.]+)`")


def script(page: str, folder: Path, place: str) -> str:
    """The page's shell blocks, after each of which its exit status counts; its programs are saved as it says."""
    text = (
        (ROOT / "docs" / f"{page}.md").read_text("utf-8").replace(HERE, place).replace("8000", place.rpartition(":")[2])
    )
    lines = ["set -e"]
    for match in BLOCK.finditer(text):
        language, block = match.groups()
        if language == "sh":
            lines += ["echo '----'", block]
        else:
            name = SAVED_AS.findall(text[: match.start()])[-1]
            assert f"python3 {name}" in text[match.end() :], f"{page} never runs {name}"
            (folder / name).write_text(block)
    return "\n".join(lines)


async def gone_through(page: str, folder: Path, place: str, **variables: str) -> list[str]:
    """What each block of the page printed."""
    whole = script(page, folder, place)
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        whole,
        cwd=folder,
        env={**environment(), "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}", **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output, failed = await asyncio.wait_for(process.communicate(), MOST_SECONDS)
    finally:
        # What a page starts in the background, and did not come to end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, f"{output.decode()[-3_000:]}\n{failed.decode()}"
    return [part.strip() for part in output.decode().split("----\n")[1:]]


def test_quick_starts_hold_nothing_that_is_not_run():
    for page in STARTS:
        text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
        languages = set(re.findall(r"^```(\w*)\n", text, re.MULTILINE)) - {""}
        assert languages <= {"sh", "python", "json"}, page


async def test_person_gets_from_nothing_to_events_stories_and_a_search(server, tmp_path):
    printed = await gone_through("start-person", tmp_path, f"127.0.0.1:{server.port}")
    _, made, events, table, usage, search, paths, stories, refused = printed
    assert json.loads(made)["tier"] == "free"
    assert json.loads(events)["count"] == 3
    assert len(list(csv.DictReader(io.StringIO(table)))) == 3
    assert json.loads(usage)["usage"]
    assert len(json.loads(search)["products"]) == 3
    assert json.loads(paths)["shortest"]["companies"][-1] == "openai"
    assert len(stories.splitlines()) == 5
    assert json.loads(refused)["parameter"] == "colour"


@pytest.fixture
async def selling(start_server, local_chain):
    """A server whose free allowance is used up, on a chain where the agent's wallet holds a few dollars."""
    await local_chain.fund_usdc(Agent(AGENTS_KEY).address, 3_000_000)
    settings = {
        "evm_rpc_url": local_chain.url, "treasury_address": TREASURY.address, "deposit_confirmations": 1,
        "x402_pay_to": SELLER.address, "x402_facilitator_key": RELAYER.private_key, "free_per_ip_per_day": 1,
    }  # fmt: skip
    server = await asyncio.to_thread(start_server, **settings)
    assert httpx2.get(f"{server.root}/mattress/api/retailers").status_code == 200
    return server


async def test_agent_finds_the_server_calls_a_tool_deposits_signs_and_pays(selling, local_chain, tmp_path):
    tx_hash = await local_chain.transfer_usdc(Agent(AGENTS_KEY).address, TREASURY.address, 1_000_000)
    await local_chain.wait_mined(tx_hash)
    variables = {"AGENT_PRIVATE_KEY": AGENTS_KEY, "TX_HASH": tx_hash}
    printed = await gone_through("start-agent", tmp_path, f"127.0.0.1:{selling.port}", **variables)
    linkset, described, tools, registered, deposited, signed, paid = printed
    assert "linkset" in linkset
    assert "x-codeSamples" in described
    assert "findPaths" in tools
    assert '\\"shortest\\"' in tools
    assert TREASURY.address in registered
    assert (deposited, int(signed) > 0) == ("1.00", True)
    receipt = json.loads(base64.b64decode(paid.split()[0]))
    assert receipt["success"] is True
    assert (await local_chain.client.receipt(receipt["transaction"])).is_success


async def test_operator_serves_gives_keys_watches_and_stops(recorded_data, tmp_path):
    shutil.copytree(recorded_data, tmp_path / "data")
    place = f"127.0.0.1:{free_port()}"
    decided, serving, health, keys, measured, books, _ = await gone_through("start-operator", tmp_path, place)
    assert "choose-a-long-and-random-one" not in decided
    assert '{"status":"ok"' in serving
    assert json.loads(health)["version"]
    assert '"enterprise"' in keys
    assert int(measured) > 5
    assert json.loads(books)["balanced"] is True
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"http://{place}/health")
