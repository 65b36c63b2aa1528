"""A server with all it can have behind it, and what the samples of each operation find in their environment."""

import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.fakes.receiver import Receiver, receiver
from tests.fakes.stripe import PRICES, SECRET_KEY, WEBHOOK_SECRET, Stripe, signed, stripe
from tests.journeys.server import Server
from tests.payments.x402.signed_payments import PAYER, REQUIREMENT, v2
from tollhouse.client import Agent
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain

TREASURY, RELAYER = ACCOUNTS[5], ACCOUNTS[6]
FACILITATORS_TOKEN = "shared-between-two-servers"
SOLD = {"price_pro": "pro", "price_ent": "enterprise"}

Environment = dict[str, str]


@dataclass
class Behind:
    """What the server reaches: a chain, an account at Stripe, a receiver of webhooks."""

    chain: LocalChain
    stripe: Stripe
    receiver: Receiver

    def settings(self) -> dict[str, object]:
        """No limit here is reached by a few hundred calls."""
        return {
            "evm_rpc_url": self.chain.url, "treasury_address": TREASURY.address, "deposit_confirmations": 1,
            "stripe_secret_key": SECRET_KEY, "stripe_webhook_secret": WEBHOOK_SECRET,
            "stripe_api_base": self.stripe.url, "stripe_prices": ",".join(f"{k}={v}" for k, v in SOLD.items()),
            "webhook_allow_loopback": "true", "free_per_ip_per_day": 100_000, "keys_per_address_per_hour": 1_000,
        }  # fmt: skip

    def facilitators_settings(self) -> dict[str, object]:
        return {
            "evm_rpc_url": self.chain.url, "x402_facilitator_key": RELAYER.private_key,
            "x402_facilitator_auth": FACILITATORS_TOKEN,
        }  # fmt: skip


@asynccontextmanager
async def behind() -> AsyncIterator[Behind]:
    assert SOLD.keys() <= PRICES.keys()
    with receiver() as hook:
        async with LocalChain.start() as chain, stripe() as account:
            await chain.fund_usdc(PAYER.address, 1_000_000)
            yield Behind(chain, account, hook)


class Stage:
    """Prepares one call at a time: what an endpoint changes or consumes is created again for each of its samples."""

    def __init__(self, server: Server, behind: Behind, key: str) -> None:
        self._client = httpx2.AsyncClient(base_url=server.base, timeout=30)
        self._behind = behind
        self._key = key
        self._key_count = 0

    async def environment(self, operation: str) -> Environment:
        """The variables that the endpoint's samples read, except the service's address."""
        made = await self._MAKERS[operation](self) if operation in self._MAKERS else {}
        return {"TOLLHOUSE_KEY": self._key, "TOLLHOUSE_X402_FACILITATOR_AUTH": FACILITATORS_TOKEN, **made}

    async def close(self) -> None:
        await self._client.aclose()

    async def _post(self, path: str, body: Any = None, key: str = "") -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {key or self._key}"}
        answer = await self._client.post(path, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        members: dict[str, Any] = answer.json()
        return members

    async def _own_key(self) -> Environment:
        """A key with an email of its own: an email may have 20 active keys."""
        self._key_count += 1
        email = f"ada-{self._key_count}@example.org"
        return {"TOLLHOUSE_KEY": (await self._post("/api/keys/create", {"email": email}))["api_key"], "EMAIL": email}

    async def _buyer(self) -> Environment:
        return {**await self._own_key(), "PRICE_ID": "price_pro"}

    async def _customer(self) -> Environment:
        buyer = await self._buyer()
        await self._begin(buyer)
        return buyer

    async def _begin(self, buyer: Environment) -> str:
        body = {"price_id": buyer["PRICE_ID"], "email": buyer["EMAIL"], "api_key": buyer["TOLLHOUSE_KEY"]}
        return str((await self._post("/api/stripe/checkout", body))["session_id"])

    async def _event(self) -> Environment:
        self._behind.stripe.pay(await self._begin(await self._buyer()))
        raw, signature = signed(self._behind.stripe.events[-1])
        return {"STRIPE_EVENT": raw.decode(), "STRIPE_SIGNATURE": signature}

    async def _recorded(self, feed: str, members: str, variable: str) -> Environment:
        headers = {"Authorization": f"Bearer {self._key}"}
        answer = await self._client.get(f"/feeds/{feed}?limit=1", headers=headers)
        return {variable: answer.json()[members][0]["id"]}

    async def _hook(self) -> Environment:
        return {"HOOK_URL": self._behind.receiver.url()}

    async def _alert(self) -> Environment:
        rule = {"name": "Fighting", "metric": "event_count", "operator": ">=", "threshold": 1_000_000,
                "window_hours": 24, "url": self._behind.receiver.url()}  # fmt: skip
        return {"ALERT_ID": (await self._post("/api/alerts", rule))["id"]}

    async def _delivery(self) -> Environment:
        alert = await self._alert()
        sent = await self._post(f"/api/alerts/{alert['ALERT_ID']}/test")
        return {**alert, "DELIVERY_ID": sent["id"]}

    async def _query(self) -> Environment:
        body = {"name": f"query {secrets.token_hex(4)}", "query": {"group_by": ["country"], "hours": 24}}
        return {"QUERY_ID": (await self._post("/api/analysis/queries", body))["id"]}

    async def _wallet(self) -> Environment:
        return {"WALLET_ADDRESS": Agent("0x" + secrets.token_hex(32)).address}

    async def _agent(self) -> Environment:
        wallet = await self._wallet()
        await self._post("/api/agent/register", {"wallet_address": wallet["WALLET_ADDRESS"]})
        return wallet

    async def _signed_usage(self) -> Environment:
        agent, at = Agent("0x" + secrets.token_hex(32)), str(int(time.time()))
        await self._post("/api/agent/register", {"wallet_address": agent.address})
        sent = agent.headers(f"/api/agent/usage?signed_at={at}")
        names = {"Address": "WALLET_ADDRESS", "Nonce": "AGENT_NONCE", "Signature": "AGENT_SIGNATURE"}
        return {"SIGNED_AT": at} | {variable: sent[f"X-Agent-{name}"] for name, variable in names.items()}

    async def _deposit(self) -> Environment:
        agent, chain = await self._agent(), self._behind.chain
        await chain.fund_usdc(agent["WALLET_ADDRESS"], 2_000_000)
        tx_hash = await chain.transfer_usdc(agent["WALLET_ADDRESS"], TREASURY.address, 2_000_000)
        await chain.wait_mined(tx_hash)
        return {**agent, "TX_HASH": tx_hash}

    async def _payment(self) -> Environment:
        body = {"x402Version": 2, "paymentPayload": v2(), "paymentRequirements": REQUIREMENT.v2()}
        return {"PAYMENT": json.dumps(body)}

    _MAKERS: dict[str, Callable[["Stage"], Awaitable[Environment]]] = {  # noqa: RUF012 - a table of methods
        "getEvent": lambda stage: stage._recorded("events", "events", "EVENT_ID"),
        "getStory": lambda stage: stage._recorded("stories", "stories", "STORY_ID"),
        "getEntity": lambda stage: stage._recorded("entities", "entities", "ENTITY_ID"),
        "rotateKey": _own_key,
        "revokeKey": _own_key,
        "beginCheckout": _buyer,
        "openPortal": _customer,
        "receiveStripeEvent": _event,
        "registerAgent": _wallet,
        "getAgentBalance": _agent,
        "getAgentUsage": _signed_usage,
        "depositCredit": _deposit,
        "createAlert": _hook,
        **dict.fromkeys(["getAlert", "changeAlert", "deleteAlert", "testAlert", "listAlertDeliveries"], _alert),
        "replayAlertDelivery": _delivery,
        **dict.fromkeys(["runAnalysisQuery", "deleteAnalysisQuery"], _query),
        **dict.fromkeys(["verifyPayment", "settlePayment"], _payment),
    }
