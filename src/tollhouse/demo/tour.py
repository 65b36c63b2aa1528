"""The tour: every way to use and to pay for this server, one chapter each."""

import json
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import msgspec

from tollhouse import app
from tollhouse.client import Agent, Payer
from tollhouse.demo.narrator import Narrator
from tollhouse.demo.stage import FREE_REQUESTS, OPERATOR, Stage

BRIEF = "/feeds/defense-brief"
MATTRESSES = "/mattress/api/search?q=firm+queen+mattress+under+1500&limit=3"
DEPOSIT_MICROS = 2_000_000
MOST_MICROS = 1_000

Chapter = Callable[[Stage, Narrator], Awaitable[None]]


async def with_a_key(stage: Stage, tell: Narrator) -> None:
    """A person's way: a free key."""
    tell.chapter("1. A key: free, at once, for everyone")
    made = await _post(stage, "/defense/api/keys/create", {"email": "ada@example.org", "label": "the tour"})
    tell.exchange(made)
    key = made.json()["api_key"]
    answer = await _get(stage, "/defense/feeds/events?limit=3", {"Authorization": f"Bearer {key}"})
    page = answer.json()
    titles = [f"{event['event_date']} {event['geo']['country']}: {event['title']}" for event in page["events"]]
    tell.exchange(answer, source=page["source"], as_of=page["as_of"], total=page["total"], events=titles)


async def with_a_wallet(stage: Stage, tell: Narrator) -> None:
    """An agent's way: a deposit, then a signature on every call."""
    tell.chapter("2. A wallet: deposit USDC once, sign each call, pay a cent")
    wallet = {"wallet_address": stage.agent.address}
    tell.exchange(await _post(stage, "/defense/api/agent/register", {**wallet, "label": "the tour"}))
    tx_hash = await stage.chain.transfer_usdc(stage.agent, OPERATOR.address, DEPOSIT_MICROS)
    await stage.chain.mined(tx_hash)
    tell.say(f"\nThe wallet sends 2 USDC to the treasury on the chain: transaction {tx_hash}")
    tell.exchange(await _post(stage, "/defense/api/agent/deposit", {**wallet, "tx_hash": tx_hash}))
    headers = Agent(stage.agent.private_key).headers(BRIEF)
    answer = await _get(stage, f"/defense{BRIEF}", headers)
    brief = answer.json()
    shown = {name: brief[name] for name in ("as_of", "events_live")}
    shown["events_live"] = {"battle_events_24h": brief["events_live"]["battle_events_24h"]}
    tell.exchange(answer, **shown)
    tell.say("\nThe same signature again is refused, and costs nothing:")
    tell.exchange(await _get(stage, f"/defense{BRIEF}", headers))
    tell.exchange(await _get(stage, f"/defense/api/agent/balance?wallet_address={stage.agent.address}"))


async def by_the_request(stage: Stage, tell: Narrator) -> None:
    """Nobody's way: no key and no account, a payment for each request beyond the free ones."""
    tell.chapter("3. A payment per request: no key, no account (x402)")
    tell.say(f"The mattress service gives {FREE_REQUESTS} requests a day away here. They are used up first:")
    for number in range(FREE_REQUESTS):
        answer = await _get(stage, f"{MATTRESSES}&offset={number}")
        tell.say(f"  GET {answer.request.url} → {answer.status_code}")
    asked = await _get(stage, MATTRESSES)
    tell.exchange(asked, **{name: asked.json()[name] for name in ("code", "x402Version", "accepts")})
    tell.say("\nThe wallet signs a transfer of 0.001 USDC and asks again; the answer leaves once it is settled:")
    headers = Payer(stage.agent.private_key).headers(asked.headers["payment-required"], MOST_MICROS)
    answer = await _get(stage, MATTRESSES, headers)
    page = answer.json()
    titles = [f"{each['title']}: {each['sale_price']} {each['currency']}" for each in page["products"]]
    settled = json.loads(b64decode(answer.headers["payment-response"]))
    tell.exchange(answer, total=page["total"], products=titles, **{"PAYMENT-RESPONSE": settled})


async def the_books(stage: Stage, tell: Narrator) -> None:
    """The operator's view: every cent twice, and the chain agrees."""
    tell.chapter("4. The books: double entry, proved against the chain")
    tell.say("What `tollhouse ledger show` and `tollhouse ledger verify` print:")
    async with app.rooms_of(stage.settings, answers_calls=False) as rooms:
        for transfer in reversed(await rooms.ledger.recent(3)):
            tell.show({key: value for key, value in _plain(transfer).items() if key not in {"memo", "at"}})
        assert rooms.deposits is not None, "the stage has a chain"
        assert rooms.per_request.x402 is not None, "the stage takes payments"
        report = _plain(await rooms.ledger.verify())
        report["chain"] = _plain(await rooms.deposits.reconcile())
        report["payments"] = _plain(await rooms.per_request.x402.reconcile())
    tell.show(report)


CHAPTERS: tuple[Chapter, ...] = (with_a_key, with_a_wallet, by_the_request, the_books)


async def play(stage: Stage, tell: Narrator) -> None:
    """Every chapter in turn."""
    tell.say(f"A server of recorded data at {stage.root}, and a chain of its own at {stage.chain.url}.")
    for chapter in CHAPTERS:
        await chapter(stage, tell)


async def _post(stage: Stage, path: str, body: dict[str, Any]) -> httpx2.Response:
    return (await stage.client.post(path, json=body)).raise_for_status()


async def _get(stage: Stage, path: str, headers: dict[str, str] | None = None) -> httpx2.Response:
    return await stage.client.get(path, headers=headers)


def _plain(value: object) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found
