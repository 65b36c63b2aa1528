"""A week at a server: calls of keys, wallets and addresses, payments, and a webhook whose receiver is gone."""

import random
from pathlib import Path

import pytest

from tollhouse import clock
from tollhouse.admission.context import AppContext, open_context
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.types import REVENUE, TREASURY, Reserved, Transfer
from tollhouse.statistics.recorder import RecordedCall, Recorder
from tollhouse.webhooks import outbox

HOUR = 3_600
GONE = "http://127.0.0.1:65009/hook"
CALLERS = (
    ("key", "key_5f0c", "robot of Ada", "pro", "plan", 0),
    ("key", "key_77aa", "", "free", "plan", 0),
    ("wallet", "agent_0001", "0x52908400098527886E0F7030069857D2E4169EE7", "", "credit", 10_000),
    ("address", "203.0.113.7", "", "", "allowance", 0),
    ("address", "198.51.100.9", "", "", "x402", 1_000),
)
REFUSALS = (
    (429, "rate-limited", "Rate limit exceeded: 10 requests per minute on the free plan. Retry after 41 s."),
    (402, "payment-required", "Free allowance exceeded for this address. Pay for this request (x402)."),
    (400, "invalid-parameter", "`country`: unknown country."),
    (401, "invalid-key", "This API key is unknown, revoked or malformed."),
)
OPERATIONS = (
    ("defense", "getEvents", "/defense/feeds/events"),
    ("mattress", "searchProducts", "/mattress/api/search"),
    ("defense", "getBrief", "/defense/feeds/defense-brief"),
    ("infra", "getPaths", "/infra/api/paths"),
)


async def live_through(data_dir: Path, *, hours: int = 168, calls_an_hour: int = 20) -> None:
    """Fill the databases of a folder with the hours before now; every hour of the past brings the same revenue."""
    chance, now = random.Random(1), clock.seconds()
    settings = Settings(data_dir=str(data_dir), recorded=True, background_work=False, webhook_allow_loopback=True)
    with pytest.MonkeyPatch.context() as patch:
        async with open_context(settings, answers_calls=False) as context:
            await _lose_a_webhook(context)
            for hour in range(hours, -1, -1):
                patch.setattr(clock, "seconds", lambda moment=now - hour * HOUR: moment)
                await _pay(context, hour)
                context.statistics.recorder = recorder = Recorder()
                for number in range(calls_an_hour):
                    _call(recorder, chance, number)
                await context.statistics.flush()


async def _lose_a_webhook(context: AppContext) -> None:
    """Its first delivery is parked after three days, the second is queued."""
    webhooks = context.webhooks
    target = await webhooks.subscriptions.validate(GONE)
    async with context.database.writing() as transaction:
        await webhooks.subscriptions.add(transaction, "mattress", target, "ada@example.org")
        await outbox.put(transaction, "mattress", "product.price_changed", {"number": 1}, "prod_1")
    for hour in range(100):
        await webhooks.deliver_due(clock.seconds() + hour * HOUR)
    async with context.database.writing() as transaction:
        await outbox.put(transaction, "mattress", "product.created", {"number": 2}, "prod_2")


async def _pay(context: AppContext, hour: int) -> None:
    if hour % 12 == 0:
        await context.ledger.move(Transfer(f"deposit-{hour}", TREASURY, "agent:agent_0001", 2_000_000, "deposit"))
    reserved = await context.ledger.reserve(f"call-{hour}", "agent:agent_0001", REVENUE, 10_000, "call", b"print")
    assert isinstance(reserved, Reserved)
    await context.ledger.post(f"call-{hour}", None)
    await context.ledger.move(Transfer(f"x402-{hour}", "x402", REVENUE, 1_000, "x402"))


def _call(recorder: Recorder, chance: random.Random, number: int) -> None:
    service, operation, path = chance.choices(OPERATIONS, (5, 3, 2, 1))[0]
    kind, subject, name, plan, payment, micros = CALLERS[number % len(CALLERS)]
    status, code, detail = 200, "", ""
    if number % 7 == 0:
        status, code, detail = chance.choice(REFUSALS)
    if number == 13 and chance.random() < 0.1:
        status, code, detail = 502, "upstream-unavailable", "The model did not answer within 30 s."
    if code:
        payment, micros = "", 0
    ended, seconds = recorder._minute_ends - chance.random() * 50, chance.lognormvariate(-5.5, 1.0)
    outcome, request_id = (ended, seconds, status, code, detail), f"{chance.getrandbits(64):016x}"
    recorder.record(
        RecordedCall(*outcome, service, operation, "GET", path, request_id, kind, subject, name, plan, payment, micros)
    )
