"""The tour: one chapter for each way to use and to pay for this server, and the receiver of its webhooks."""

import asyncio
import hmac
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.admission.context import open_context
from tollhouse.admission.operator_access import OperatorAccess
from tollhouse.client import Agent, Payer
from tollhouse.demo.environment import EMAIL, OPERATOR, Environment
from tollhouse.demo.printer import Printer, shortened
from tollhouse.errors import OperatorError
from tollhouse.money import usd
from tollhouse.webhooks.attempt import signatures

MAX_BYTES = 1_000_000


class Delivery(Struct, frozen=True):
    """One delivery as received. Header names are lower-case."""

    headers: Mapping[str, str]
    body: bytes

    def is_signed_with(self, secret: str) -> bool:
        """Whether the signature was made with the secret (Standard Webhooks)."""
        moment = int(self.headers["webhook-timestamp"])
        expected = signatures(self.headers["webhook-id"], moment, self.body, [secret])
        return hmac.compare_digest(expected, self.headers["webhook-signature"])


class Receiver(Struct, frozen=True):
    """A running receiver: its URL and the deliveries it has received."""

    url: str
    deliveries: asyncio.Queue[Delivery]


@asynccontextmanager
async def run_receiver() -> AsyncIterator[Receiver]:
    deliveries: asyncio.Queue[Delivery] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            deliveries.put_nowait(await _read(reader))
            writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield Receiver(f"http://127.0.0.1:{port}/receiver", deliveries)


async def _read(reader: asyncio.StreamReader) -> Delivery:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    named = [line.partition(":") for line in head[1:] if line]
    headers = {name.lower(): value.strip() for name, _, value in named}
    length = int(headers["content-length"])
    if length > MAX_BYTES:
        raise ValueError("the delivery is too large")
    return Delivery(headers, await reader.readexactly(length))


QUESTION = "How many battles were there in Ethiopia?"
DELIVERY_SECONDS = 20.0


async def free_services(environment: Environment, printer: Printer) -> None:
    """What anyone may call."""
    printer.chapter("1  Four services on one server", "Two of them are free, without a key.")
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
    printer.chapter("2  A free API key", "100 requests a day on the defense feeds.")
    made = await environment.post("/defense/api/keys/create", {"email": EMAIL, "label": "the tour"})
    key = made.json()["api_key"]
    printer.call(made, f"{key[:14]}…  shown once; only its hash is stored")
    response = await environment.get("/defense/feeds/events?limit=3", {"Authorization": f"Bearer {key}"})
    page = response.json()
    titles = [f"{event['geo']['country']}: {event['title']}" for event in page["events"]]
    printer.call(response, f"{page['total']} events in 24 hours ({page['source']}), the most significant:", *titles)


async def questions_and_alerts(environment: Environment, printer: Printer) -> None:
    """What the enterprise plan adds: chat, and alerts by webhook."""
    printer.chapter(
        "3  Questions and alerts", "An enterprise key asks in plain words, and sets a rule that sends a webhook."
    )
    bearer = {"Authorization": f"Bearer {await environment.enterprise_key()}"}
    response = await environment.post("/defense/chat", {"prompt": QUESTION}, bearer)
    reply = response.json()
    printer.call(
        response, f"“{QUESTION}”", reply["response"], f"model {reply['model']}, {len(reply['citations'])} sources"
    )
    async with run_receiver() as receiver:
        made = await environment.post("/defense/api/alerts", _rule(receiver.url), bearer)
        printer.call(made, "an alert for 3 or more battles in Ethiopia")
        try:
            async with asyncio.timeout(DELIVERY_SECONDS):
                delivery = await receiver.deliveries.get()
        except TimeoutError:
            raise OperatorError(f"the webhook of the alert did not arrive within {DELIVERY_SECONDS:.0f} s") from None
    event: dict[str, Any] = msgspec.json.decode(delivery.body)["data"]
    signed = "the signature is valid" if delivery.is_signed_with(made.json()["secret"]) else "the signature is INVALID"
    printer.result(f"webhook: POST {receiver.url}, {event['value']} ≥ {event['threshold']}; {signed}")
    await environment.client.delete(f"/defense/api/alerts/{made.json()['id']}", headers=bearer)


def _rule(url: str) -> dict[str, Any]:
    return {
        "name": "Fighting in Ethiopia",
        "metric": "event_count",
        "filters": {"category": "Battles", "country": "Ethiopia"},
        "operator": ">=",
        "threshold": 3,
        "url": url,
    }


BRIEF = "/feeds/defense-brief"
MATTRESSES = "/mattress/api/search?q=firm+queen+mattress+under+1500&limit=3"
DEPOSIT_MICROS = 2_000_000
MAX_PRICE_MICROS = 1_000
# The tour uses another client address here, so that this machine keeps its free requests.
ELSEWHERE = {"X-Forwarded-For": "203.0.113.7"}
MAX_FREE = 1_000


async def wallet_credit(environment: Environment, printer: Printer) -> None:
    """An agent's credit: a deposit, then a signature on every call."""
    printer.chapter(
        "4  Wallet credit: deposit USDC once, sign each call, pay a cent",
        "No account and no key, and one transaction on the chain.",
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
    response = await environment.get(f"/defense{BRIEF}", headers)
    live = response.json()["events_live"]
    printer.call(response, f"signed: {live['battle_events_24h']} battle events in 24 hours")
    again = await environment.get(f"/defense{BRIEF}", headers)
    printer.call(again, f"the same signature again: {again.json()['code']}, and it costs nothing")
    await _balance(environment, printer)


async def mcp(environment: Environment, printer: Printer) -> None:
    printer.chapter("5  The same over MCP", "The protocol of agent frameworks, with the same limits and prices.")
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "getDefenseBrief", "arguments": {}}}
    unpaid = await environment.post("/defense/mcp", call)
    printer.call(unpaid, f"getDefenseBrief without a wallet: {unpaid.json()['result']['structuredContent']['code']}")
    paid = await environment.post("/defense/mcp", call, Agent(environment.agent.private_key).headers(BRIEF))
    brief = paid.json()["result"]["structuredContent"]
    gap = brief["capability_gaps"][0]
    printer.call(paid, f"signed: widest capability gap {gap['gap_score']:.2f}, {gap['area']}")
    await _balance(environment, printer)


async def payment_per_request(environment: Environment, printer: Printer) -> None:
    """x402: no key and no account, a payment for each request after the free ones."""
    printer.chapter(
        "6  A payment per request (x402)",
        "No key and no account: after the free requests, each one is paid on the chain.",
    )
    used = await _use_up(environment)
    printer.say(f"  The {used} free requests of the day are used up.")
    response = await environment.get(MATTRESSES, ELSEWHERE)
    requirement = response.json()["accepts"][0]
    printer.call(response, f"{int(requirement['maxAmountRequired']) / 1e6} USDC to {requirement['payTo']}")
    headers = Payer(environment.agent.private_key).headers(response.headers["payment-required"], MAX_PRICE_MICROS)
    response = await environment.get(MATTRESSES, {**headers, **ELSEWHERE})
    settled = json.loads(b64decode(response.headers["payment-response"]))
    titles = [f"{one['title']}: {one['sale_price']:.0f} {one['currency']}" for one in response.json()["products"]]
    printer.call(response, f"signed, settled in transaction {settled['transaction'][:18]}…, then answered:", *titles)


async def tolls(environment: Environment, printer: Printer) -> None:
    """A toll in front of applications that stay as they are."""
    printer.chapter(
        "7  A toll in front of an API you have",
        "An Express and a FastAPI application stay as they are; a file of a few lines declares each.",
    )
    for application in environment.applications.running:
        direct = await environment.get(f"{application.url}{application.path}")
        printer.say(f"  {application.framework} at {application.url}: {direct.text}")
        path = f"/{application.name}{application.path}"
        free = await environment.get(path, ELSEWHERE)
        printer.call(free, "the one free request of the day, through the toll")
        unpaid = await environment.get(path, ELSEWHERE)
        printer.call(unpaid, f"{int(unpaid.json()['accepts'][0]['maxAmountRequired']) / 1e6} USDC a request")
        # The client is a program of its own, and calls from this machine's address.
        await environment.get(path)
        paid = await environment.applications.pay(f"{environment.root}{path}", environment.agent.private_key)
        printer.result(f"@x402/fetch pays in transaction {paid['transaction'][:18]}… → {paid['status']} {paid['body']}")
    for line in environment.applications.missing:
        printer.say(f"  Not installed, so not shown. {line}")


async def _use_up(environment: Environment) -> int:
    """Call until the address's daily allowance is used up; the number of calls."""
    for used in range(MAX_FREE):
        if (await environment.get("/mattress/api/products?limit=1", ELSEWHERE)).headers["x-ratelimit-remaining"] == "0":
            return used + 1
    raise AssertionError("the daily allowance has no end")


async def _balance(environment: Environment, printer: Printer) -> None:
    response = await environment.get(f"/defense/api/agent/balance?wallet_address={environment.agent.address}")
    balance = response.json()
    summary = f"{balance['balance_usd']} USD left, {balance['spent_usd']} USD spent, calls paid: {balance['calls']}"
    printer.call(response, summary, path="/defense/api/agent/balance?wallet_address=…")


TRANSFERS = 4
MARKS = {True: "✓", False: "✗"}


async def ledger_report(environment: Environment, printer: Printer) -> None:
    printer.chapter("8  The ledger", "What `tollhouse ledger show` and `tollhouse ledger verify` say.")
    async with open_context(environment.settings, answers_calls=False) as context:
        transfers = [*reversed(await context.ledger.recent(TRANSFERS))]
        assert context.deposits is not None, "the environment has a chain"
        assert context.per_request.x402 is not None, "the environment takes payments"
        report = await context.ledger.verify()
        deposits = await context.deposits.reconcile()
        payments = await context.per_request.x402.reconcile()
    for one in transfers:
        printer.result(shortened(f"{usd(one.amount_micros):>6} USD  {one.kind:<8} {one.debit} → {one.credit}"))
    printer.say("")
    printer.result(f"{MARKS[report.balanced]} double entry: {report.accounts} accounts, {report.transfers} transfers")
    for name, reconciliation in (("deposits", deposits), ("payments", payments)):
        ours, theirs = usd(reconciliation.ledger_micros), usd(reconciliation.chain_micros)
        printer.result(f"{MARKS[reconciliation.agrees]} {name}: {ours} USD in the ledger, {theirs} USD on the chain")


Chapter = Callable[[Environment, Printer], Awaitable[None]]

CHAPTERS: tuple[Chapter, ...] = (
    free_services,
    api_key,
    questions_and_alerts,
    wallet_credit,
    mcp,
    payment_per_request,
    tolls,
    ledger_report,
)


async def run_tour(environment: Environment, printer: Printer) -> None:
    printer.say(f"A server of recorded data at {environment.root}, an Ethereum node at {environment.chain.url}.")
    for chapter in CHAPTERS:
        await chapter(environment, printer)


async def addresses(environment: Environment) -> list[tuple[str, str]]:
    return [
        ("console", f"{environment.root}/"),
        ("event board", f"{environment.root}/board"),
        ("chat, alerts", f"{environment.root}/ask  {environment.root}/alerts"),
        ("enterprise key", await environment.enterprise_key()),
        ("wallet", f"{environment.root}/wallet?address={environment.agent.address}"),
        ("operator", OperatorAccess(environment.settings).new_login_link()),
        ("reference", f"{environment.root}/defense/docs  and under each service"),
    ]
