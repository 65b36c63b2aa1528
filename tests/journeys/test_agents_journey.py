"""An agent's life on a real server and a real chain: registered, funded, charged, and never twice."""

import copy
import json
import secrets
import shutil

import httpx2
import pytest
import pytest_asyncio

from tests.journeys.server import Server, poll, run
from tollhouse.client import Agent
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain

pytestmark = pytest.mark.asyncio(loop_scope="module")

BRIEF = "/feeds/defense-brief"
TREASURY = ACCOUNTS[2]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chain():
    async with LocalChain.start() as chain:
        yield chain


@pytest.fixture(scope="module")
def payments(chain):
    """The settings of a server that takes deposits on this chain."""
    return {"evm_rpc_url": chain.url, "treasury_address": TREASURY.address, "deposit_confirmations": 1}


@pytest.fixture(scope="module")
def paid_server(start_server, payments) -> Server:
    return start_server(**payments)


class Wallet:
    """An agent of one server: a wallet of its own, with what it does."""

    def __init__(self, server) -> None:
        self.server = server
        self.key = "0x" + secrets.token_hex(32)
        self.agent = Agent(self.key)
        self.address = self.agent.address

    def post(self, step, **body: object):
        return httpx2.post(f"{self.server.base}/api/agent/{step}", json={"wallet_address": self.address, **body})

    async def fund(self, chain, micros):
        """Register, get USDC from nowhere, send it to the treasury and report that."""
        assert self.post("register").status_code == 200
        await chain.fund_usdc(self.address, micros)
        tx_hash = await chain.transfer_usdc(self.address, TREASURY.address, micros)
        await chain.wait_mined(tx_hash)
        answer = self.post("deposit", tx_hash=tx_hash)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def call(self, path=BRIEF, headers=None, query=""):
        return httpx2.get(f"{self.server.base}{path}{query}", headers=headers or self.agent.headers(path))

    def balance(self):
        answer = httpx2.get(f"{self.server.base}/api/agent/balance", params={"wallet_address": self.address})
        return answer.json()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def funded(start_server, payments, chain) -> Wallet:
    """A wallet with 1 USD of credit on a server that was killed: tests go on with copies of its data."""
    wallet = Wallet(start_server(**payments))
    await wallet.fund(chain, 1_000_000)
    wallet.server.kill()
    return wallet


async def test_agent_registers_deposits_calls_and_sees_its_balance(paid_server, chain):
    wallet = Wallet(paid_server)
    registered = wallet.post("register", label="journal").json()
    assert registered["treasury_address"] == TREASURY.address
    assert registered["authentication"]["message_template"] == "service:<path>:<nonce>"
    assert (registered["price_per_call_usd"], registered["minimum_deposit_usd"]) == ("0.01", "1.00")
    assert (registered["network"], registered["asset"]) == ("eip155:8453", chain.usdc_address)
    assert wallet.post("register").json()["agent_id"] == registered["agent_id"]
    deposited = await wallet.fund(chain, 1_500_000)
    assert (deposited["credited_usd"], deposited["balance_usd"]) == ("1.50", "1.50")
    for path in ("/feeds/events", "/feeds/stories", "/feeds/entities", BRIEF):
        assert wallet.call(path).status_code == 200
    balance = wallet.balance()
    assert (balance["balance_usd"], balance["spent_usd"], balance["calls"]) == ("1.46", "0.04", 4)
    assert (balance["deposited_usd"], balance["reserved_usd"]) == ("1.50", "0.00")
    assert balance["last_call_at"]


async def test_signature_over_path_and_query_is_accepted_and_binds_the_query(paid_server, chain):
    wallet = Wallet(paid_server)
    await wallet.fund(chain, 1_000_000)
    headers = wallet.agent.headers("/feeds/events?limit=2")
    assert wallet.call("/feeds/events", headers, "?limit=3").status_code == 401
    assert wallet.call("/feeds/events", headers, "?limit=2").status_code == 200


async def test_same_deposit_again_is_credited_once(paid_server, chain):
    wallet = Wallet(paid_server)
    first = await wallet.fund(chain, 2_000_000)
    again = wallet.post("deposit", tx_hash=first["tx_hash"]).json()
    assert (again["credited_usd"], again["already_credited"]) == ("2.00", True)
    assert wallet.balance()["balance_usd"] == "2.00"


async def test_foreign_deposit_is_refused(paid_server, chain):
    owner, thief = Wallet(paid_server), Wallet(paid_server)
    deposit = await owner.fund(chain, 2_000_000)
    thief.post("register")
    answer = thief.post("deposit", tx_hash=deposit["tx_hash"])
    assert answer.status_code in {400, 409}
    assert thief.balance()["balance_usd"] == "0.00"


@pytest.mark.parametrize("tx_hash", ["", "0x", "0x" + "g" * 64, "0x" + "a" * 63, "a" * 99])
async def test_what_is_no_hash_is_refused(paid_server, chain, tx_hash):
    wallet = Wallet(paid_server)
    wallet.post("register")
    answer = wallet.post("deposit", tx_hash=tx_hash)
    assert (answer.status_code, answer.json()["code"], answer.json()["parameter"]) == (400, "invalid-body", "tx_hash")


@pytest.mark.parametrize(
    "address", ["", "0x", "0x" + "1" * 39, "0x" + "g" * 40, "0x70997970c51812dC3A010C7d01b50e0d17dc79C8", "a" * 101]
)
async def test_bad_address_is_refused_with_its_name(paid_server, address):
    for step, more in (("register", {}), ("deposit", {"tx_hash": "0x" + "a" * 64})):
        answer = httpx2.post(f"{paid_server.base}/api/agent/{step}", json={"wallet_address": address, **more})
        assert (answer.status_code, answer.json()["parameter"]) == (400, "wallet_address")
    answer = httpx2.get(f"{paid_server.base}/api/agent/balance", params={"wallet_address": address})
    assert (answer.status_code, answer.json()["parameter"]) == (400, "wallet_address")


async def test_unregistered_wallet_is_unknown(paid_server):
    stranger = Wallet(paid_server)
    assert stranger.post("deposit", tx_hash="0x" + "a" * 64).status_code == 404
    answer = httpx2.get(f"{paid_server.base}/api/agent/balance", params={"wallet_address": stranger.address})
    assert answer.status_code == 404
    assert stranger.call().status_code == 401


async def test_server_without_a_chain_says_what_is_not_configured(server):
    wallet = Wallet(server)
    assert wallet.post("register").json()["treasury_address"] is None
    answer = wallet.post("deposit", tx_hash="0x" + "a" * 64)
    assert (answer.status_code, answer.json()["code"]) == (503, "not-configured")
    assert "treasury_address" in answer.json()["setting"]


async def test_reorganised_deposit_is_taken_back_and_credited_again_when_mined_again(paid_server, chain):
    wallet = Wallet(paid_server)
    assert wallet.post("register").status_code == 200
    await chain.fund_usdc(wallet.address, 3_000_000)
    before = await chain.request("evm_snapshot")
    tx_hash = await chain.transfer_usdc(wallet.address, TREASURY.address, 3_000_000)
    await chain.wait_mined(tx_hash)
    assert wallet.post("deposit", tx_hash=tx_hash).json()["balance_usd"] == "3.00"
    await chain.request("evm_revert", before)
    await chain.request("anvil_mine", hex(5))
    poll(lambda: wallet.balance()["balance_usd"] == "0.00")
    assert (wallet.balance()["deposited_usd"], wallet.balance()["spent_usd"]) == ("0.00", "0.00")
    assert wallet.call().status_code == 402


@pytest.mark.parametrize("place", ["paid-answer.before-send", "ledger.post.after-commit"])
async def test_answer_lost_in_a_crash_is_given_again_and_charged_once(start_server, payments, funded, tmp_path, place):
    wallet, home = copy.copy(funded), tmp_path / "server"
    shutil.copytree(funded.server.data_dir, home / "data")
    wallet.server = failing = start_server(home=home, **payments, failpoint=place)
    headers = wallet.agent.headers(BRIEF)
    with pytest.raises(httpx2.TransportError):
        wallet.call(headers=headers)
    failing.kill()
    wallet.server = start_server(home=home, **payments)
    assert wallet.balance()["balance_usd"] == "0.99"
    assert wallet.call(headers=headers).status_code == 200
    assert wallet.call(headers=headers).status_code == 401
    balance = wallet.balance()
    assert (balance["balance_usd"], balance["reserved_usd"], balance["calls"]) == ("0.99", "0.00", 1)
    verified = run("ledger", "verify", cwd=home, **payments)
    assert verified.returncode == 0, verified.stdout
    assert json.loads(verified.stdout)["balanced"] is True


@pytest.mark.parametrize(
    "place", ["ledger.reserve.before-commit", "ledger.reserve.after-commit", "ledger.post.before-commit"]
)
async def test_call_that_crashed_before_its_charge_costs_nothing(start_server, payments, funded, tmp_path, place):
    wallet, home = copy.copy(funded), tmp_path / "server"
    shutil.copytree(funded.server.data_dir, home / "data")
    wallet.server = failing = start_server(home=home, **payments, failpoint=place)
    with pytest.raises(httpx2.TransportError):
        wallet.call()
    failing.kill()
    wallet.server = start_server(home=home, **payments)
    balance = wallet.balance()
    assert (balance["balance_usd"], balance["reserved_usd"], balance["calls"]) == ("1.00", "0.00", 0)
    assert wallet.call().status_code == 200
