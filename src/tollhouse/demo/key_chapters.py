"""The chapters about people: what is free, what a key opens, and an alert that calls back."""

import asyncio
from typing import Any

import msgspec

from tollhouse.demo.environment import EMAIL, Stage
from tollhouse.demo.printer import Narrator
from tollhouse.demo.webhook_receiver import listening

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
