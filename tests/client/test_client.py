"""Both clients of `tollhouse.client` on a running server: keys, pages, credit, payments, and a network that breaks."""

import asyncio
import inspect
import json
import os
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from tests.client.test_samples import program
from tests.journeys.server import Server, free_port, poll
from tests.servers.npm import node_modules_of
from tollhouse.client import (
    Agent,
    Answer,
    AsyncClient,
    AuthenticationError,
    Client,
    ForbiddenError,
    InvalidRequestError,
    LimitedPayer,
    NotFoundError,
    Payer,
    PaymentError,
    RateLimitError,
    Retries,
    SpendingLimit,
    SpendingLimitError,
    UnansweredError,
)
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import ACCOUNTS, CHAIN_ID, LocalChain

pytestmark = pytest.mark.asyncio(loop_scope="module")

WALLET, TREASURY, PAYER, SELLER, RELAYER = ACCOUNTS[2], ACCOUNTS[3], ACCOUNTS[4], ACCOUNTS[5], ACCOUNTS[6]
PRICE = 1_000
GENERATORS = Path(__file__).parents[1] / "generators" / "npm"
PRINTED = {
    "NotFoundError": r"[1-9]\d* events; \d+ requests remain today\nnot-found .+\n",
    "Agent, Client": rf"send USDC to {TREASURY.address}\n[1-9]\d* stories; \d+\.\d+ USD remain\n",
    "AsyncClient, ": r"[1-9]\d* products for 1000 micro-USD; 1000 in all\n",
}
# Long enough for a server to start again.
PATIENT = Retries(attempts=40, longest_wait_seconds=0.5)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chain():
    async with LocalChain.start() as chain:
        await chain.fund_usdc(WALLET.address, 5_000_000)
        await chain.fund_usdc(PAYER.address, 5_000_000)
        yield chain


@pytest.fixture(scope="module")
def payments(chain):
    """The settings of a server that gives one request of the mattresses away, and sells the rest."""
    return {
        "evm_rpc_url": chain.url,
        "treasury_address": TREASURY.address,
        "deposit_confirmations": 1,
        "x402_pay_to": SELLER.address,
        "x402_facilitator_key": RELAYER.private_key,
        "free_per_ip_per_day": 1,
    }


@pytest.fixture(scope="module")
def server(start_server, payments):
    server = start_server(**payments)
    assert httpx2.get(f"{server.root}/mattress/api/products").status_code == 200
    assert httpx2.get(f"{server.root}/mattress/api/products").status_code == 402
    return server


@pytest.fixture(scope="module")
def pro_key(server):
    return server.operators_key("--tier", "enterprise")


@pytest.fixture(params=["sync", "async"])
def connect(request):
    """A function that makes a client of either kind; what its methods return is to be passed to `done`."""
    return Client if request.param == "sync" else AsyncClient


async def done(result):
    """What a method of either client returns in the end; everything that it iterates over."""
    if inspect.isawaitable(result):
        return await result
    if inspect.isasyncgen(result):
        return [one async for one in result]
    return list(result) if inspect.isgenerator(result) else result


def limited(chain, per_call_micros=PRICE, total_micros=1_000_000, recipients=None, tokens=None):
    tokens = tokens or {f"eip155:{CHAIN_ID}": chain.usdc_address}
    limit = SpendingLimit(
        per_call_micros=per_call_micros, total_micros=total_micros, tokens=tokens, recipients=recipients
    )
    return LimitedPayer(Payer(PAYER.private_key), limit)


async def earned(chain):
    return await token_balance(chain.client, chain.usdc_address, SELLER.address)


async def test_key_is_created_used_and_checked(connect, server):
    client = connect(server.root, "defense")
    key = await done(client.create_key("ada@example.org", "first"))
    assert key.startswith("th_live_")
    answer = await done(client.get("/feeds/events", limit=2, country=None))
    assert (answer.status, len(answer.json["events"]), answer.paid_micros) == (200, 2, 0)
    status = await done(client.verify_key())
    assert (status["tier"], status["label"], status["usage"]["day"]["used"]) == ("free", "first", 1)
    await done(client.close())


async def test_items_come_from_all_pages(connect, server, pro_key):
    events = connect(server.root, "defense", pro_key)
    whole = (await done(events.get("/feeds/events", category="Protests", limit=100))).json
    one_by_one = await done(events.items("/feeds/events", "events", category="Protests", limit=7))
    assert len(one_by_one) > 7
    assert [event["id"] for event in one_by_one][:100] == [event["id"] for event in whole["events"]]
    products = connect(server.root, "mattress", pro_key)
    queens = await done(products.items("/api/products", "products", size="Queen", in_stock=True, limit=3))
    total = (await done(products.get("/api/products", size="Queen", in_stock=True))).json["total"]
    assert len({product["id"] for product in queens}) == len(queens) == total > 3
    pages = await done(products.pages("/api/products", size="Queen", in_stock=True, limit=3))
    assert sum(page["count"] for page in pages) == total
    for client in (events, products):
        await done(client.close())


async def repeat(client, times):
    for _ in range(times):
        await done(client.get("/feeds/events", limit=1))


async def test_problems_are_exceptions(connect, server):
    client = connect(server.root, "defense", retries=Retries(longest_wait_seconds=0.5))
    with pytest.raises(AuthenticationError, match="missing-credentials"):
        await done(client.get("/feeds/events"))
    await done(client.create_key("grace@example.org"))
    with pytest.raises(InvalidRequestError) as bad:
        await done(client.get("/feeds/events", limit=0))
    assert (bad.value.status, bad.value.code, bad.value.parameter) == (400, "invalid-parameter", "limit")
    assert bad.value.request_id
    with pytest.raises(NotFoundError, match="not-found"):
        await done(client.get("/feeds/events/conflict_0000000000000000"))
    with pytest.raises(ForbiddenError) as forbidden:
        await done(client.post("/chat", {"prompt": "How many battles?"}))
    assert forbidden.value.members["required_tier"] == "pro"
    with pytest.raises(RateLimitError) as limit:
        await done(repeat(client, 20))
    assert 0 < limit.value.retry_after_seconds <= 60
    await done(client.close())


async def deposited(client, chain):
    """The answer to a deposit of a dollar."""
    registered = await done(client.register())
    tx_hash = await chain.transfer_usdc(WALLET.address, registered["treasury_address"], 1_000_000)
    await chain.wait_mined(tx_hash)
    return await done(client.deposit(tx_hash))


async def test_wallet_deposits_and_pays_from_its_credit(connect, chain, server):
    client = connect(server.root, "defense", Agent(WALLET.private_key))
    credited = await deposited(client, chain)
    assert (credited["credited_usd"], credited["already_credited"]) == ("1.00", False)
    before = await done(client.balance())
    answer = await done(client.get("/feeds/stories", limit=3))
    assert len(answer.json["stories"]) == 3
    after = await done(client.balance())
    assert after["calls"] == before["calls"] + 1
    assert float(before["balance_usd"]) - float(after["balance_usd"]) == pytest.approx(0.01)
    await done(client.close())


async def test_request_is_paid_on_the_chain(connect, chain, server):
    wallet = limited(chain)
    client, before = connect(server.root, "mattress", wallet), await earned(chain)
    answer = await done(client.get("/api/products", limit=2))
    assert (answer.paid_micros, len(answer.json["products"])) == (PRICE, 2)
    assert (await chain.client.receipt(answer.transaction)).is_success
    assert await earned(chain) == before + PRICE
    assert wallet.spent_micros == PRICE
    await done(client.close())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def breaking(start_server, payments, chain, tmp_path_factory):
    """A function that starts a server, on which the free request is used and a wallet has credit."""
    home, port = tmp_path_factory.mktemp("breaking"), free_port()

    def start(**settings: object) -> Server:
        return start_server("mattress", home=home, port=port, is_recorded=False, **payments, **settings)

    server = await asyncio.to_thread(start)
    assert httpx2.get(f"{server.root}/api/products").status_code == 200
    with Client(server.root, access=Agent(WALLET.private_key)) as client:
        await deposited(client, chain)
    # The count of free requests is written once a second.
    await asyncio.to_thread(server.stop)
    return start


def restart(server, breaking):
    """Wait until the process that answers is dead, and start the server again."""
    poll(lambda: not answers(server))
    server.kill()
    return breaking()


def answers(server):
    try:
        return httpx2.get(f"{server.root}/health", timeout=5).status_code == 200
    except httpx2.TransportError:
        return False


async def test_agent_gets_the_answer_that_a_crash_cut_off_and_is_charged_once(chain, breaking):
    def fetch(url) -> tuple[Answer, dict[str, object]]:
        with Client(url, access=Agent(WALLET.private_key), retries=PATIENT) as client:
            return client.get("/api/products", limit=2), client.balance()

    server = await asyncio.to_thread(breaking, failpoint="paid-answer.before-send")
    running = asyncio.create_task(asyncio.to_thread(fetch, server.root))
    again = await asyncio.to_thread(restart, server, breaking)
    answer, after = await running
    await asyncio.to_thread(again.stop)
    assert len(answer.json["products"]) == 2
    assert (after["calls"], after["balance_usd"], after["reserved_usd"]) == (1, "0.999", "0.00")


async def test_payment_without_an_answer_is_sent_again_later_and_paid_once(chain, breaking):
    wallet, before = limited(chain), await earned(chain)
    server = await asyncio.to_thread(breaking, failpoint="paid-answer.before-send")
    async with AsyncClient(server.root, access=wallet, retries=Retries(attempts=1)) as hasty:
        with pytest.raises(UnansweredError) as lost:
            await hasty.get("/api/products", limit=1)
    assert lost.value.call.payment.micros == PRICE
    assert PAYER.private_key[2:] not in repr(lost.value.call)
    await asyncio.to_thread(restart, server, breaking)
    async with AsyncClient(server.root, access=wallet, retries=PATIENT) as patient:
        answer = await patient.send(lost.value.call)
    assert (answer.paid_micros, len(answer.json["products"])) == (PRICE, 1)
    assert await earned(chain) == before + PRICE == before + wallet.spent_micros


@pytest.mark.parametrize(
    ("restriction", "reason"),
    [
        ({"per_call_micros": PRICE - 1}, "more than 999 for a call"),
        ({"total_micros": PRICE - 1}, "999 of 999 remain"),
        ({"recipients": [TREASURY.address]}, "payments to 0x.* are not allowed"),
        ({"tokens": {"eip155:1": TREASURY.address}}, "payments on eip155:8453 are not allowed"),
        ({"tokens": {"eip155:8453": TREASURY.address}}, "payments in the token 0x.* are not allowed"),
    ],
)
async def test_payment_outside_the_limit_is_not_signed(connect, chain, server, restriction, reason):
    wallet = limited(chain, **restriction)
    client, before = connect(server.root, "mattress", wallet), await earned(chain)
    with pytest.raises(SpendingLimitError, match=reason):
        await done(client.get("/api/products"))
    assert (wallet.spent_micros, await earned(chain)) == (0, before)
    await done(client.close())


async def test_call_that_fails_after_payment_costs_nothing(connect, chain, server):
    wallet = limited(chain, total_micros=PRICE)
    client, before = connect(server.root, "mattress", wallet), await earned(chain)
    with pytest.raises(NotFoundError):
        await done(client.get("/api/products/none-of-that-id"))
    assert (wallet.spent_micros, await earned(chain)) == (0, before)
    # The signature is valid until it expires, so its amount is not free yet.
    with pytest.raises(SpendingLimitError, match="0 of 1000 remain"):
        await done(client.get("/api/products"))
    await done(client.close())


async def test_payer_without_money_learns_why(connect, chain, server):
    tokens = {f"eip155:{CHAIN_ID}": chain.usdc_address}
    limit = SpendingLimit(per_call_micros=PRICE, total_micros=PRICE, tokens=tokens)
    client = connect(server.root, "mattress", LimitedPayer(Payer("0x" + "77" * 32), limit))
    with pytest.raises(PaymentError, match="payment-invalid"):
        await done(client.get("/api/products"))
    await done(client.close())


@pytest.mark.parametrize("importing", ["NotFoundError", "Agent, Client", "AsyncClient, "])
async def test_sample_of_the_page_runs_as_it_is_printed(importing, chain, server, tmp_path):
    (tmp_path / "sample.py").write_text(program("python", importing).replace("http://127.0.0.1:8000", server.root))
    tx_hash = await chain.transfer_usdc(WALLET.address, TREASURY.address, 1_000_000)
    await chain.wait_mined(tx_hash)
    keys = {"AGENT_PRIVATE_KEY": WALLET.private_key, "PAYER_PRIVATE_KEY": PAYER.private_key, "TX_HASH": tx_hash}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "sample.py", cwd=tmp_path, env={**os.environ, **keys}, stdout=PIPE, stderr=PIPE
    )
    printed, failed = await process.communicate()
    assert process.returncode == 0, failed.decode()
    assert re.fullmatch(PRINTED[importing], printed.decode()), printed.decode()


async def test_generated_client_in_typescript_pays_as_it_is_printed(chain, server, node_modules, tmp_path):
    generators, before = node_modules_of(GENERATORS, "generators"), await earned(chain)
    packages = tmp_path / "node_modules"
    packages.mkdir()
    for folder in (*generators.iterdir(), *node_modules.iterdir()):
        (packages / folder.name).unlink(missing_ok=True)
        (packages / folder.name).symlink_to(folder)
    (tmp_path / "pay.ts").write_text(program("ts", "openapi-fetch").replace("http://127.0.0.1:8000", server.root))
    commands = (
        [generators / ".bin/openapi-typescript", f"{server.root}/mattress/api/openapi.json", "-o", "mattress.d.ts"],
        [node_modules / ".bin/esbuild", "pay.ts", "--bundle", "--platform=node", "--format=esm", "--packages=external",
         "--outfile=pay.mjs", "--log-level=error"],
        ["node", "pay.mjs"],
    )  # fmt: skip
    environment = {**os.environ, "PAYER_PRIVATE_KEY": PAYER.private_key}
    for command in commands:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, env=environment, stdout=PIPE, stderr=PIPE
        )
        printed, failed = await process.communicate()
        assert process.returncode == 0, failed.decode()
    assert len(json.loads(printed)) == 2
    assert await earned(chain) == before + PRICE
    (tmp_path / "pay.mjs").write_text((tmp_path / "pay.mjs").read_text().replace("> 2e3", "> 500"))
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, env=environment, stdout=PIPE, stderr=PIPE)
    _, failed = await process.communicate()
    assert process.returncode != 0
    assert "more than 0.002 USD" in failed.decode()
    assert await earned(chain) == before + PRICE
