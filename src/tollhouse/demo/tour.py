"""The tour: one chapter for each way to use and to pay for this server."""

import asyncio
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tollhouse.admission.context import open_context
from tollhouse.client import Agent, Payer
from tollhouse.demo.environment import EMAIL, OPERATOR, Stage
from tollhouse.demo.printer import Narrator, shortened
from tollhouse.demo.webhook_receiver import listening
from tollhouse.money import usd

QUESTION = "How many battles were there in Ethiopia?"
DELIVERY_SECONDS = 20.0


async def for_nothing(stage: Stage, tell: Narrator) -> None:
    """What anyone may call."""
    tell.chapter("1  Four services behind one door", "Two of them are free, without a key.")
    listed = await stage.get("/")
    tell.call(
        listed, *(f"{one['name']:<9} {one['title'].removeprefix('Tollhouse: ')}" for one in listed.json()["services"])
    )
    paths = await stage.get("/infra/api/paths?from=asml&to=openai&limit=3")
    tell.call(paths, *(" → ".join(path["companies"]) for path in paths.json()["paths"]))
    catalogue = await stage.get("/studio/api/catalogue")
    names = ", ".join(product["name"] for product in catalogue.json()["products"])
    tell.call(catalogue, f"{catalogue.json()['studio']}: {names}")


async def with_a_key(stage: Stage, tell: Narrator) -> None:
    """A person's way: a free key."""
    tell.chapter("2  A key: free, at once, for everyone", "100 requests a day on the defense feeds.")
    made = await stage.post("/defense/api/keys/create", {"email": EMAIL, "label": "the tour"})
    key = made.json()["api_key"]
    tell.call(made, f"{key[:14]}…  shown once; only a hash of it is stored")
    answer = await stage.get("/defense/feeds/events?limit=3", {"Authorization": f"Bearer {key}"})
    page = answer.json()
    titles = [f"{event['geo']['country']}: {event['title']}" for event in page["events"]]
    tell.call(answer, f"{page['total']} events of 24 hours, {page['source']}; the most significant:", *titles)


async def by_alert(stage: Stage, tell: Narrator) -> None:
    """What the highest tier adds: questions in plain words, and a rule that calls back."""
    tell.chapter(
        "3  Ask, or be told", "A key of tier enterprise asks in plain words, and leaves a rule that calls back."
    )
    bearer = {"Authorization": f"Bearer {await stage.enterprise_key()}"}
    asked = await stage.post("/defense/chat", {"prompt": QUESTION}, bearer)
    reply = asked.json()
    tell.call(
        asked, f"“{QUESTION}”", reply["response"], f"answered by {reply['model']}, {len(reply['citations'])} sources"
    )
    async with listening() as hook:
        made = await stage.post("/defense/api/alerts", _rule(hook.url), bearer)
        tell.call(made, "fighting in Ethiopia: tell me when there are 10 battles or more")
        async with asyncio.timeout(DELIVERY_SECONDS):
            delivery = await hook.deliveries.get()
    told: dict[str, Any] = msgspec.json.decode(delivery.body)["data"]
    signed = "the signature is good" if delivery.is_signed_with(made.json()["secret"]) else "the signature is WRONG"
    tell.result(f"it calls back: POST {hook.url}, {told['value']} ≥ {told['threshold']}; {signed}")
    await stage.client.delete(f"/defense/api/alerts/{made.json()['id']}", headers=bearer)


def _rule(url: str) -> dict[str, Any]:
    return {
        "name": "Fighting in Ethiopia",
        "metric": "event_count",
        "filters": {"category": "Battles", "country": "Ethiopia"},
        "operator": ">=",
        "threshold": 10,
        "url": url,
    }


BRIEF = "/feeds/defense-brief"
MATTRESSES = "/mattress/api/search?q=firm+queen+mattress+under+1500&limit=3"
DEPOSIT_MICROS = 2_000_000
MOST_MICROS = 1_000
# The tour calls from an address of its own here: the free requests of this machine are left to its user.
ELSEWHERE = {"X-Forwarded-For": "203.0.113.7"}
MOST_FREE = 1_000


async def with_a_wallet(stage: Stage, tell: Narrator) -> None:
    """An agent's way: a deposit, then a signature on every call."""
    tell.chapter(
        "4  A wallet: deposit USDC once, sign each call, pay a cent",
        "No account and no key; the chain is touched once.",
    )
    wallet = {"wallet_address": stage.agent.address}
    registered = await stage.post("/defense/api/agent/register", wallet)
    tell.call(registered, f"{registered.json()['agent_id']} is wallet {stage.agent.address}")
    tx_hash = await stage.chain.transfer_usdc(stage.agent, OPERATOR.address, DEPOSIT_MICROS)
    await stage.chain.mined(tx_hash)
    tell.say(f"  On the chain: 2 USDC to the treasury, transaction {tx_hash[:18]}…")
    deposited = await stage.post("/defense/api/agent/deposit", {**wallet, "tx_hash": tx_hash})
    tell.call(
        deposited, f"{deposited.json()['credited_usd']} USD credited, from block {deposited.json()['block_number']}"
    )
    headers = Agent(stage.agent.private_key).headers(BRIEF)
    answer = await stage.get(f"/defense{BRIEF}", headers)
    live = answer.json()["events_live"]
    tell.call(answer, f"signed: {live['battle_events_24h']} battle events in 24 hours")
    again = await stage.get(f"/defense{BRIEF}", headers)
    tell.call(again, f"the same signature again: {again.json()['code']}, and it costs nothing")
    await _balance(stage, tell)


async def over_mcp(stage: Stage, tell: Narrator) -> None:
    """The same wallet as a tool's caller."""
    tell.chapter("5  The same over MCP", "What an agent's framework speaks: same tools, same limits, same prices.")
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "getDefenseBrief", "arguments": {}}}
    unpaid = await stage.post("/defense/mcp", call)
    tell.call(unpaid, f"getDefenseBrief without a wallet: {unpaid.json()['result']['structuredContent']['code']}")
    paid = await stage.post("/defense/mcp", call, Agent(stage.agent.private_key).headers(BRIEF))
    brief = paid.json()["result"]["structuredContent"]
    gap = brief["capability_gaps"][0]
    tell.call(paid, f"signed: widest capability gap {gap['gap_score']:.2f}, {gap['area']}")
    await _balance(stage, tell)


async def by_the_request(stage: Stage, tell: Narrator) -> None:
    """Nobody's way: no key and no account, a payment for each request beyond the free ones."""
    tell.chapter(
        "6  A payment per request (x402)", "No key, no account: after the free requests each one is paid on the chain."
    )
    used = await _use_up(stage)
    tell.say(f"  The {used} free requests of the day are used up.")
    asked = await stage.get(MATTRESSES, ELSEWHERE)
    wanted = asked.json()["accepts"][0]
    tell.call(asked, f"{int(wanted['maxAmountRequired']) / 1e6} USDC to {wanted['payTo']}, please")
    headers = Payer(stage.agent.private_key).headers(asked.headers["payment-required"], MOST_MICROS)
    answer = await stage.get(MATTRESSES, {**headers, **ELSEWHERE})
    settled = json.loads(b64decode(answer.headers["payment-response"]))
    titles = [f"{one['title']}: {one['sale_price']:.0f} {one['currency']}" for one in answer.json()["products"]]
    tell.call(
        answer, f"signed, settled in transaction {settled['transaction'][:18]}…, and only then answered:", *titles
    )


async def _use_up(stage: Stage) -> int:
    """Ask until nothing is left of the address's day; how many that were."""
    for used in range(MOST_FREE):
        if (await stage.get("/mattress/api/products?limit=1", ELSEWHERE)).headers["x-ratelimit-remaining"] == "0":
            return used + 1
    raise AssertionError("an allowance of a day has an end")


async def _balance(stage: Stage, tell: Narrator) -> None:
    found = await stage.get(f"/defense/api/agent/balance?wallet_address={stage.agent.address}")
    balance = found.json()
    told = f"{balance['balance_usd']} USD left, {balance['spent_usd']} USD spent, calls paid: {balance['calls']}"
    tell.call(found, told, path="/defense/api/agent/balance?wallet_address=…")


TRANSFERS = 4
MARKS = {True: "✓", False: "✗"}


async def the_books(stage: Stage, tell: Narrator) -> None:
    """Every cent twice, and the chain agrees."""
    tell.chapter("7  The books", "What `tollhouse ledger show` and `tollhouse ledger verify` say.")
    async with open_context(stage.settings, answers_calls=False) as context:
        transfers = [*reversed(await context.ledger.recent(TRANSFERS))]
        assert context.deposits is not None, "the stage has a chain"
        assert context.per_request.x402 is not None, "the stage takes payments"
        books = await context.ledger.verify()
        deposits = await context.deposits.reconcile()
        payments = await context.per_request.x402.reconcile()
    for one in transfers:
        tell.result(shortened(f"{usd(one.amount_micros):>6} USD  {one.kind:<8} {one.debit} → {one.credit}"))
    tell.say("")
    tell.result(f"{MARKS[books.balanced]} double entry: {books.accounts} accounts, {books.transfers} transfers")
    for name, found in (("deposits", deposits), ("payments", payments)):
        ours, theirs = usd(found.ledger_micros), usd(found.chain_micros)
        tell.result(f"{MARKS[found.agrees]} {name}: {ours} USD in the books, {theirs} USD on the chain")


Chapter = Callable[[Stage, Narrator], Awaitable[None]]

CHAPTERS: tuple[Chapter, ...] = (
    for_nothing,
    with_a_key,
    by_alert,
    with_a_wallet,
    over_mcp,
    by_the_request,
    the_books,
)


async def play(stage: Stage, tell: Narrator) -> None:
    """Every chapter in turn."""
    tell.say(f"A server of recorded data at {stage.root}, an Ethereum node at {stage.chain.url}.")
    for chapter in CHAPTERS:
        await chapter(stage, tell)


async def addresses(stage: Stage) -> list[tuple[str, str]]:
    """Where to go on by oneself, and with what."""
    return [
        ("the console", f"{stage.root}/"),
        ("the board", f"{stage.root}/board"),
        ("ask, alerts", f"{stage.root}/ask  {stage.root}/alerts"),
        ("a key for all", await stage.enterprise_key()),
        ("the wallet", f"{stage.root}/wallet?address={stage.agent.address}"),
        ("the operator", f"{stage.root}/operator  (open to this machine, for no admin_token is set)"),
        ("the reference", f"{stage.root}/defense/docs  and under each service"),
    ]
