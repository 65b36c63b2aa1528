"""Stripe as far as the checkout knows it: its state, its idempotency, its failures, and events signed as it signs.

What a buyer, a bank or the passing of time does is a method; every change leaves the events that Stripe would send,
each with the object as it was at that moment. Several fall into one second, so their `created` orders nothing.
"""

import asyncio
import copy
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, Protocol

from tests.fakes.website import Asked, Reply, website

Json = dict[str, Any]
Mode = Literal["ok", "error", "busy", "slow", "lost"]

SECRET_KEY = "sk_test_4eC39HqLyjWDarjtT1zdp7dc"
WEBHOOK_SECRET = "whsec_test_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH"
PRICES = {"price_pro": (4_900, "month"), "price_pro_year": (49_000, "year"), "price_ent": (49_900, "month"),
          "price_ent_year": (499_000, "year"), "price_else": (100, "month")}  # fmt: skip
SECONDS = {"month": 30 * 86_400, "year": 365 * 86_400}
SLOW_SECONDS = 1.5


class Jitter(Protocol):
    def pause(self) -> float:
        """How many seconds the next answer is on its way."""


class RefusedError(Exception):
    def __init__(self, status: int, code: str, message: str, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"type": kind, "code": code, "message": message}}


@dataclass
class Stripe:
    """`mode` is how it answers. `lost`: it does what is asked, and its answer comes too late to be heard.

    With `jitter` an answer tells of the moment it was asked for, and arrives after others that were asked for later.
    """

    url: str = ""
    mode: Mode = "ok"
    jitter: Jitter | None = None
    customers: dict[str, Json] = field(default_factory=dict)
    sessions: dict[str, Json] = field(default_factory=dict)
    subscriptions: dict[str, Json] = field(default_factory=dict)
    invoices: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    kept: dict[str, tuple[bytes, int, Json]] = field(default_factory=dict)
    now: int = 1_700_000_000
    made: int = 0

    # What buyers, banks and time do.

    def pay(self, session_id: str, *, pays: bool = True) -> str:
        """The buyer fills in the page; the id of the subscription."""
        session = self.sessions[session_id]
        assert session["status"] == "open"
        price, customer = session["_price"], session["customer"]
        subscription = self._new("subscription", "sub", customer=customer, created=self.now, metadata=session["_meta"],
                                 cancel_at_period_end=False, status="incomplete", latest_invoice=None)  # fmt: skip
        self.subscriptions[subscription["id"]] = subscription
        self._set_price(subscription, price)
        self._tell("customer.subscription.created", subscription)
        if pays:
            subscription["status"] = "active"
            self._invoice(subscription, [self._line(subscription, price)], paid=True)
            self._tell("customer.subscription.updated", subscription)
            session |= {"status": "complete", "url": None, "subscription": subscription["id"]}
            self._tell("checkout.session.completed", session)
        else:
            self._invoice(subscription, [self._line(subscription, price)], paid=False)
        return str(subscription["id"])

    def change_plan(self, subscription_id: str, price: str, *, pays: bool = True) -> None:
        """In the portal: what was not used of the old price comes back, the new one is paid at once, or owed."""
        subscription = self.subscriptions[subscription_id]
        back = self._line(subscription, self._price(subscription))
        back["amount"] = -back["amount"] // 2
        self._set_price(subscription, price)
        subscription["status"] = "active" if pays else "past_due"
        self._invoice(subscription, [back, self._line(subscription, price)], paid=pays)
        self._tell("customer.subscription.updated", subscription)

    def renew(self, subscription_id: str, *, pays: bool = True) -> None:
        """The period ends and the next one is paid, or tried again for some days."""
        subscription = self.subscriptions[subscription_id]
        self.now = subscription["items"]["data"][0]["current_period_end"]
        self._set_price(subscription, self._price(subscription))
        subscription["status"] = "active" if pays else "past_due"
        self._invoice(subscription, [self._line(subscription, self._price(subscription))], paid=pays)
        self._tell("customer.subscription.updated", subscription)

    def settle(self, subscription_id: str) -> None:
        """What was owed is paid."""
        subscription = self.subscriptions[subscription_id]
        invoice = next(one for one in reversed(self.invoices) if one["subscription"] == subscription_id)
        invoice["status"] = "paid"
        subscription["status"] = "active"
        self._tell("invoice.paid", invoice)
        self._tell("customer.subscription.updated", subscription)

    def give_up(self, subscription_id: str, status: Literal["unpaid", "canceled"]) -> None:
        """All retries have failed; what follows is the account's choice."""
        subscription = self.subscriptions[subscription_id]
        subscription["status"] = status
        self._tell("customer.subscription.deleted" if status == "canceled" else "customer.subscription.updated",
                   subscription)  # fmt: skip

    def cancel_at_period_end(self, subscription_id: str) -> None:
        self.subscriptions[subscription_id]["cancel_at_period_end"] = True
        self._tell("customer.subscription.updated", self.subscriptions[subscription_id])

    def end(self, subscription_id: str) -> None:
        """The period of a subscription that ends with it is over, or somebody ends it now."""
        subscription = self.subscriptions[subscription_id]
        subscription["status"] = "canceled"
        self._tell("customer.subscription.deleted", subscription)

    def delete_customer(self, customer_id: str) -> None:
        for subscription in self.subscriptions.values():
            if subscription["customer"] == customer_id and subscription["status"] != "canceled":
                self.end(subscription["id"])
        self.customers[customer_id]["deleted"] = True
        self._tell("customer.deleted", self.customers[customer_id])

    def status_of(self, subscription_id: str) -> str:
        return str(self.subscriptions[subscription_id]["status"])

    # HTTP.

    def answer(self, asked: Asked) -> Reply:  # noqa: PLR0911 - one for each way to answer
        self.asked.append(asked)
        self.was_asked.set()
        if asked.headers.get("authorization") != f"Bearer {SECRET_KEY}":
            return _reply(401, {"error": {"type": "invalid_request_error", "message": "Invalid API Key provided"}})
        if self.mode == "busy":
            return _reply(429, {"error": {"type": "rate_limit_error", "code": "rate_limit", "message": "Slow down"}})
        if self.mode == "slow":
            return _late(200, {})
        name = asked.headers.get("idempotency-key", "") if asked.method != "GET" else ""
        if name in self.kept:
            body, status, told = self.kept[name]
            if body != asked.body:
                return _reply(400, {"error": {"type": "idempotency_error", "message": "Other parameters"}})
            return _reply(status, told)
        status, told = self._done(asked)
        if name:
            self.kept[name] = asked.body, status, copy.deepcopy(told)
        if self.jitter:
            return _late(status, told, self.jitter.pause())
        return _late(status, told) if self.mode == "lost" else _reply(status, told)

    def _done(self, asked: Asked) -> tuple[int, Json]:
        if self.mode == "error":
            return 500, {"error": {"type": "api_error", "message": "Something is wrong on our side"}}
        try:
            return 200, self._routed(asked)
        except RefusedError as refused:
            return refused.status, refused.body

    def _routed(self, asked: Asked) -> Json:  # noqa: C901, PLR0911 - one for each route
        match asked.method, asked.path.removeprefix("/v1/").split("/"):
            case "POST", ["customers"]:
                return self._create_customer(asked.form)
            case "GET", ["customers"]:
                found = [one for one in self.customers.values() if one["email"] == asked.query["email"]]
                return _listed(one for one in found if "deleted" not in one)
            case "GET", ["customers", customer_id]:
                return _shown(self._found(self.customers, customer_id))
            case "POST", ["checkout", "sessions"]:
                return self._create_session(asked.form)
            case "GET", ["checkout", "sessions", session_id]:
                return _shown(self._found(self.sessions, session_id))
            case "POST", ["checkout", "sessions", session_id, "expire"]:
                return self._expire(self._found(self.sessions, session_id))
            case "GET", ["subscriptions"]:
                return self._subscriptions_of(asked.query)
            case "DELETE", ["subscriptions", subscription_id]:
                return self._cancel(subscription_id)
            case "GET", ["invoices"]:
                wanted = asked.query["subscription"], asked.query["status"]
                return _listed(one for one in reversed(self.invoices) if (one["subscription"], one["status"]) == wanted)
            case "POST", ["billing_portal", "sessions"]:
                self._customer(asked.form["customer"])
                return self._new("billing_portal.session", "bps", url=f"{self.url}/portal/{asked.form['customer']}")
        raise RefusedError(404, "", f"Unrecognized request URL ({asked.method}: {asked.path})")

    def _create_customer(self, form: dict[str, str]) -> Json:
        customer = self._new("customer", "cus", email=form["email"], metadata=_metadata(form, "metadata"))
        self.customers[customer["id"]] = customer
        self._tell("customer.created", customer)
        return _shown(customer)

    def _create_session(self, form: dict[str, str]) -> Json:
        self._customer(form["customer"])
        assert form["mode"] == "subscription"
        assert form["success_url"].startswith("http")
        price = form["line_items[0][price]"]
        if price not in PRICES:
            raise RefusedError(400, "resource_missing", f"No such price: '{price}'")
        session = self._new(
            "checkout.session", "cs_test", customer=form["customer"], status="open",
            expires_at=int(time.time()) + 86_400,
            metadata=_metadata(form, "metadata"), client_reference_id=form["client_reference_id"], subscription=None,
            _price=price, _meta=_metadata(form, "subscription_data[metadata]"),
        )  # fmt: skip
        session["url"] = f"{self.url}/pay/{session['id']}"
        self.sessions[session["id"]] = session
        return _shown(session)

    def _expire(self, session: Json) -> Json:
        if session["status"] != "open":
            raise RefusedError(400, "", "This session is over")
        session |= {"status": "expired", "url": None}
        self._tell("checkout.session.expired", session)
        return _shown(session)

    def _subscriptions_of(self, query: dict[str, str]) -> Json:
        if query["customer"] not in self.customers:
            raise RefusedError(400, "resource_missing", "No such customer")
        own = [one for one in self.subscriptions.values() if one["customer"] == query["customer"]]
        assert query["status"] == "all"
        return _listed(reversed(own))

    def _cancel(self, subscription_id: str) -> Json:
        subscription = self._found(self.subscriptions, subscription_id)
        if subscription["status"] == "canceled":
            raise RefusedError(404, "resource_missing", "No such subscription")
        self.end(subscription_id)
        return _shown(subscription)

    def _customer(self, customer_id: str) -> None:
        if "deleted" in self._found(self.customers, customer_id, status=400):
            raise RefusedError(400, "resource_missing", "No such customer")

    @staticmethod
    def _found(among: dict[str, Json], name: str, status: int = 404) -> Json:
        if name not in among:
            raise RefusedError(status, "resource_missing", f"No such object: '{name}'")
        return among[name]

    # How its objects look.

    def _new(self, kind: str, prefix: str, **members: Any) -> Json:
        self.made += 1
        return {"id": f"{prefix}_{self.made:06d}", "object": kind, **members}

    def _set_price(self, subscription: Json, price: str) -> None:
        ends = self.now + SECONDS[PRICES[price][1]]
        item = {"id": "si_1", "object": "subscription_item", "price": {"id": price}, "current_period_end": ends}
        subscription["items"] = {"object": "list", "data": [item]}

    @staticmethod
    def _price(subscription: Json) -> str:
        return str(subscription["items"]["data"][0]["price"]["id"])

    def _line(self, subscription: Json, price: str) -> Json:
        ends = subscription["items"]["data"][0]["current_period_end"]
        return {"amount": PRICES[price][0], "period": {"start": self.now, "end": ends},
                "pricing": {"price_details": {"price": price}}}  # fmt: skip

    def _invoice(self, subscription: Json, lines: list[Json], *, paid: bool) -> None:
        invoice = self._new("invoice", "in", customer=subscription["customer"], subscription=subscription["id"],
                            status="paid" if paid else "open", lines={"object": "list", "data": lines})  # fmt: skip
        self.invoices.append(invoice)
        self._tell("invoice.paid" if paid else "invoice.payment_failed", invoice)

    def _tell(self, kind: str, about: Json) -> None:
        data = {"object": copy.deepcopy(_shown(about))}
        self.events.append(self._new("event", "evt", type=kind, created=self.now, data=data, livemode=False))


@asynccontextmanager
async def stripe() -> AsyncIterator[Stripe]:
    state = Stripe()
    async with website(state.answer) as site:
        state.url = site.url
        yield state


def signed(event: Json, *, at: float | None = None, secret: str = WEBHOOK_SECRET) -> tuple[bytes, str]:
    """The body and the `Stripe-Signature` of a webhook; https://docs.stripe.com/webhooks#verify-manually."""
    raw = json.dumps(event, indent=2).encode()
    moment = int(time.time() if at is None else at)
    digest = hmac.new(secret.encode(), str(moment).encode() + b"." + raw, sha256).hexdigest()
    return raw, f"t={moment},v1={digest},v0={'0' * 64}"


def _shown(told: Json) -> Json:
    return {name: value for name, value in told.items() if not name.startswith("_")}


def _listed(members: Any) -> Json:
    return {"object": "list", "has_more": False, "data": [_shown(one) for one in members]}


def _metadata(form: dict[str, str], name: str) -> dict[str, str]:
    return {key[len(name) + 1 : -1]: value for key, value in form.items() if key.startswith(f"{name}[")}


def _reply(status: int, body: Json) -> Reply:
    headers = {"Content-Type": "application/json", "Request-Id": "req_1"}
    return Reply(status, json.dumps(body).encode(), headers)


def _late(status: int, body: Json, seconds: float = SLOW_SECONDS) -> Reply:
    return Reply(status, chunks=[json.dumps(body).encode()], pause_seconds=seconds)
