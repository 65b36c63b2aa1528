"""The chapters about agents: a wallet's credit, the same over MCP, and a payment for a single request."""

import json
from base64 import b64decode

from tollhouse.client import Agent, Payer
from tollhouse.demo.environment import OPERATOR, Stage
from tollhouse.demo.printer import Narrator

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
