"""The tour: one chapter for each way to use and to pay for this server."""

import asyncio
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tollhouse.admission.context import open_context
from tollhouse.client import Agent, Payer
from tollhouse.demo.environment import EMAIL, OPERATOR, Environment
from tollhouse.demo.printer import Printer, shortened
from tollhouse.demo.webhook_receiver import run_receiver
from tollhouse.money import usd

QUESTION = "How many battles were there in Ethiopia?"
DELIVERY_SECONDS = 20.0


async def free_services(environment: Environment, printer: Printer) -> None:
    """What anyone may call."""
    printer.chapter("1  Four services behind one door", "Two of them are free, without a key.")
    listed = await environment.get("/")
    printer.call(
        listed, *(f"{one['name']:<9} {one['title'].removeprefix('Tollhouse: ')}" for one in listed.json()["services"])
    )
    paths = await environment.get("/infra/api/paths?from=asml&to=openai&limit=3")
    printer.call(paths, *(" → ".join(path["companies"]) for path in paths.json()["paths"]))
    catalogue = await environment.get("/studio/api/catalogue")
    names = ", ".join(product["name"] for product in catalogue.json()["products"])
    printer.call(catalogue, f"{catalogue.json()['studio']}: {names}")


async def api_key(environment: Environment, printer: Printer) -> None:
    """A person's way: a free key."""
    printer.chapter("2  A key: free, at once, for everyone", "100 requests a day on the defense feeds.")
    made = await environment.post("/defense/api/keys/create", {"email": EMAIL, "label": "the tour"})
    key = made.json()["api_key"]
    printer.call(made, f"{key[:14]}…  shown once; only a hash of it is stored")
    answer = await environment.get("/defense/feeds/events?limit=3", {"Authorization": f"Bearer {key}"})
    page = answer.json()
    titles = [f"{event['geo']['country']}: {event['title']}" for event in page["events"]]
    printer.call(answer, f"{page['total']} events of 24 hours, {page['source']}; the most significant:", *titles)


async def questions_and_alerts(environment: Environment, printer: Printer) -> None:
    """What the highest tier adds: questions in plain words, and a rule that calls back."""
    printer.chapter(
        "3  Ask, or be told", "A key of tier enterprise asks in plain words, and leaves a rule that calls back."
    )
    bearer = {"Authorization": f"Bearer {await environment.enterprise_key()}"}
    asked = await environment.post("/defense/chat", {"prompt": QUESTION}, bearer)
    reply = asked.json()
    printer.call(
        asked, f"“{QUESTION}”", reply["response"], f"answered by {reply['model']}, {len(reply['citations'])} sources"
    )
    async with run_receiver() as receiver:
        made = await environment.post("/defense/api/alerts", _rule(receiver.url), bearer)
        printer.call(made, "fighting in Ethiopia: printer me when there are 10 battles or more")
        async with asyncio.timeout(DELIVERY_SECONDS):
            delivery = await receiver.deliveries.get()
    told: dict[str, Any] = msgspec.json.decode(delivery.body)["data"]
    signed = "the signature is good" if delivery.is_signed_with(made.json()["secret"]) else "the signature is WRONG"
    printer.result(f"it calls back: POST {receiver.url}, {told['value']} ≥ {told['threshold']}; {signed}")
    await environment.client.delete(f"/defense/api/alerts/{made.json()['id']}", headers=bearer)


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


async def wallet_credit(environment: Environment, printer: Printer) -> None:
    """An agent's way: a deposit, then a signature on every call."""
    printer.chapter(
        "4  A wallet: deposit USDC once, sign each call, pay a cent",
        "No account and no key; the chain is touched once.",
    )
    wallet = {"wallet_address": environment.agent.address}
    registered = await environment.post("/defense/api/agent/register", wallet)
    printer.call(registered, f"{registered.json()['agent_id']} is wallet {environment.agent.address}")
    tx_hash = await environment.chain.transfer_usdc(environment.agent, OPERATOR.address, DEPOSIT_MICROS)
    await environment.chain.wait_mined(tx_hash)
    printer.say(f"  On the chain: 2 USDC to the treasury, transaction {tx_hash[:18]}…")
    deposited = await environment.post("/defense/api/agent/deposit", {**wallet, "tx_hash": tx_hash})
    printer.call(
        deposited, f"{deposited.json()['credited_usd']} USD credited, from block {deposited.json()['block_number']}"
    )
    headers = Agent(environment.agent.private_key).headers(BRIEF)
    answer = await environment.get(f"/defense{BRIEF}", headers)
    live = answer.json()["events_live"]
    printer.call(answer, f"signed: {live['battle_events_24h']} battle events in 24 hours")
    again = await environment.get(f"/defense{BRIEF}", headers)
    printer.call(again, f"the same signature again: {again.json()['code']}, and it costs nothing")
    await _balance(environment, printer)


async def mcp(environment: Environment, printer: Printer) -> None:
    """The same wallet as a tool's caller."""
    printer.chapter("5  The same over MCP", "What an agent's framework speaks: same tools, same limits, same prices.")
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "getDefenseBrief", "arguments": {}}}
    unpaid = await environment.post("/defense/mcp", call)
    printer.call(unpaid, f"getDefenseBrief without a wallet: {unpaid.json()['result']['structuredContent']['code']}")
    paid = await environment.post("/defense/mcp", call, Agent(environment.agent.private_key).headers(BRIEF))
    brief = paid.json()["result"]["structuredContent"]
    gap = brief["capability_gaps"][0]
    printer.call(paid, f"signed: widest capability gap {gap['gap_score']:.2f}, {gap['area']}")
    await _balance(environment, printer)


async def payment_per_request(environment: Environment, printer: Printer) -> None:
    """Nobody's way: no key and no account, a payment for each request beyond the free ones."""
    printer.chapter(
        "6  A payment per request (x402)", "No key, no account: after the free requests each one is paid on the chain."
    )
    used = await _use_up(environment)
    printer.say(f"  The {used} free requests of the day are used up.")
    asked = await environment.get(MATTRESSES, ELSEWHERE)
    wanted = asked.json()["accepts"][0]
    printer.call(asked, f"{int(wanted['maxAmountRequired']) / 1e6} USDC to {wanted['payTo']}, please")
    headers = Payer(environment.agent.private_key).headers(asked.headers["payment-required"], MOST_MICROS)
    answer = await environment.get(MATTRESSES, {**headers, **ELSEWHERE})
    settled = json.loads(b64decode(answer.headers["payment-response"]))
    titles = [f"{one['title']}: {one['sale_price']:.0f} {one['currency']}" for one in answer.json()["products"]]
    printer.call(
        answer, f"signed, settled in transaction {settled['transaction'][:18]}…, and only then answered:", *titles
    )


async def _use_up(environment: Environment) -> int:
    """Ask until nothing is left of the address's day; how many that were."""
    for used in range(MOST_FREE):
        if (await environment.get("/mattress/api/products?limit=1", ELSEWHERE)).headers["x-ratelimit-remaining"] == "0":
            return used + 1
    raise AssertionError("an allowance of a day has an end")


async def _balance(environment: Environment, printer: Printer) -> None:
    found = await environment.get(f"/defense/api/agent/balance?wallet_address={environment.agent.address}")
    balance = found.json()
    told = f"{balance['balance_usd']} USD left, {balance['spent_usd']} USD spent, calls paid: {balance['calls']}"
    printer.call(found, told, path="/defense/api/agent/balance?wallet_address=…")


TRANSFERS = 4
MARKS = {True: "✓", False: "✗"}


async def ledger_report(environment: Environment, printer: Printer) -> None:
    """Every cent twice, and the chain agrees."""
    printer.chapter("7  The books", "What `tollhouse ledger show` and `tollhouse ledger verify` say.")
    async with open_context(environment.settings, answers_calls=False) as context:
        transfers = [*reversed(await context.ledger.recent(TRANSFERS))]
        assert context.deposits is not None, "the environment has a chain"
        assert context.per_request.x402 is not None, "the environment takes payments"
        books = await context.ledger.verify()
        deposits = await context.deposits.reconcile()
        payments = await context.per_request.x402.reconcile()
    for one in transfers:
        printer.result(shortened(f"{usd(one.amount_micros):>6} USD  {one.kind:<8} {one.debit} → {one.credit}"))
    printer.say("")
    printer.result(f"{MARKS[books.balanced]} double entry: {books.accounts} accounts, {books.transfers} transfers")
    for name, found in (("deposits", deposits), ("payments", payments)):
        ours, theirs = usd(found.ledger_micros), usd(found.chain_micros)
        printer.result(f"{MARKS[found.agrees]} {name}: {ours} USD in the books, {theirs} USD on the chain")


Chapter = Callable[[Environment, Printer], Awaitable[None]]

CHAPTERS: tuple[Chapter, ...] = (
    free_services,
    api_key,
    questions_and_alerts,
    wallet_credit,
    mcp,
    payment_per_request,
    ledger_report,
)


async def run_tour(environment: Environment, printer: Printer) -> None:
    """Every chapter in turn."""
    printer.say(f"A server of recorded data at {environment.root}, an Ethereum node at {environment.chain.url}.")
    for chapter in CHAPTERS:
        await chapter(environment, printer)


async def addresses(environment: Environment) -> list[tuple[str, str]]:
    """Where to go on by oneself, and with what."""
    return [
        ("the console", f"{environment.root}/"),
        ("the board", f"{environment.root}/board"),
        ("ask, alerts", f"{environment.root}/ask  {environment.root}/alerts"),
        ("a key for all", await environment.enterprise_key()),
        ("the wallet", f"{environment.root}/wallet?address={environment.agent.address}"),
        ("the operator", f"{environment.root}/operator  (open to this machine, for no admin_token is set)"),
        ("the reference", f"{environment.root}/defense/docs  and under each service"),
    ]
