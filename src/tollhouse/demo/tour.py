"""The tour: every way to use and to pay for this server, one chapter each."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import msgspec

from tollhouse import app
from tollhouse.client import Agent
from tollhouse.demo.narrator import Narrator
from tollhouse.demo.stage import OPERATOR, Stage

BRIEF = "/feeds/defense-brief"
DEPOSIT_MICROS = 2_000_000

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


async def the_books(stage: Stage, tell: Narrator) -> None:
    """The operator's view: every cent twice, and the chain agrees."""
    tell.chapter("3. The books: double entry, proved against the chain")
    tell.say("What `tollhouse ledger show` and `tollhouse ledger verify` print:")
    async with app.rooms_of(stage.settings, answers_calls=False) as rooms:
        for transfer in reversed(await rooms.ledger.recent(2)):
            tell.show({key: value for key, value in _plain(transfer).items() if key not in {"memo", "at"}})
        assert rooms.deposits is not None, "the stage has a chain"
        report = _plain(await rooms.ledger.verify()) | {"chain": _plain(await rooms.deposits.reconcile())}
    tell.show(report)


CHAPTERS: tuple[Chapter, ...] = (with_a_key, with_a_wallet, the_books)


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
