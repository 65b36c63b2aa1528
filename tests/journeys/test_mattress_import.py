"""A shop's prices change while a subscriber is down: it still hears of every one."""

import json
import subprocess
import sys
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest
from standardwebhooks import webhooks
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.catalogue.importers.feeding import mattress, shopify
from tests.fakes.receiver import receiver
from tests.journeys.server import Server, environment, poll, run

PRODUCTS = 1_000
HALF_AN_HOUR = timedelta(minutes=30)
# The pause after a third attempt, made half an hour late, is over by then.
AFTER_THE_HOUR = timedelta(minutes=70)
SETTINGS = {"service": "mattress", "recorded": "false", "webhook_allow_loopback": "true"}

# `tollhouse worker`, so many seconds from now.
WORKER_LATER = """
import sys, time
from datetime import UTC, datetime
from tollhouse import clock
from tollhouse.cli import main

later = float(sys.argv.pop(1))
clock.seconds = lambda: time.time() + later
clock.now = lambda: datetime.fromtimestamp(clock.seconds(), UTC)
main()
"""


@pytest.fixture
def hook():
    with receiver() as listening:
        yield listening


@contextmanager
def worker_later(home, later):
    """Killed at the end, as a machine's failure would."""
    command = [sys.executable, "-c", WORKER_LATER, str(later.total_seconds()), "worker", "--data-dir", home / "data"]
    with (home / "program.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=home, env=environment(**SETTINGS), stdout=log, stderr=log)
    try:
        yield
        assert process.poll() is None, (home / "program.log").read_text("utf-8")
    finally:
        process.kill()
        process.wait()


def verified(told, secret):
    """What PyPI's standardwebhooks makes of a message: its content, or WebhookVerificationError."""
    return Webhook(secret).verify(told.body, told.headers)


# Seven programs are started one after the other: more than the usual limit on a busy machine.
@pytest.mark.timeout(300)
def test_every_price_change_of_a_shop_reaches_a_receiver_that_was_down_for_an_hour(tmp_path, hook, monkeypatch):
    def command(*arguments: object) -> dict[str, Any]:
        done = run(*arguments, "--data-dir", tmp_path / "data", cwd=tmp_path, **SETTINGS)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def imported(price: int) -> dict[str, Any]:
        products = (mattress(number, price=f"{price + number}.00") for number in range(PRODUCTS))
        (tmp_path / "products.json").write_text(shopify(*products), "utf-8")
        return command("import", "mattress", "products.json", "--format", "shopify", "--retailer", "dunlin")

    assert imported(1_000)["created"] == PRODUCTS
    types = ("--types", "product.price_changed")
    secret = command("webhooks", "add", "--service", "mattress", "--url", hook.url(), "--email", "a@b.example", *types)[
        "secret"
    ]

    hook.mode = "disconnect"
    server = Server(tmp_path, "mattress", **SETTINGS)
    try:
        [product] = httpx2.get(f"{server.base}/api/products?limit=1").json()["products"]
        assert product["image_url"] == f"{server.root}/images/{product['id']}.svg"
        assert imported(900)["price_changed"] == PRODUCTS
        poll(lambda: len(hook.told) >= 100, 60)
    finally:
        server.kill()
    tried = {told.id for told in hook.told}
    assert len(tried) < PRODUCTS, "it was killed before each event had its turn"
    with worker_later(tmp_path, HALF_AN_HOUR):
        poll(lambda: len({told.id for told in hook.told} - tried) >= 100, 60)
    assert hook.taken == []

    hook.mode = "ok"
    with worker_later(tmp_path, AFTER_THE_HOUR):
        poll(lambda: len({told.id for told in hook.taken}) == PRODUCTS, 90)

    class Then(datetime):
        @classmethod
        def now(cls, tz=None) -> datetime:
            return datetime.now(tz) + AFTER_THE_HOUR

    monkeypatch.setattr(webhooks, "datetime", Then)
    events = {told.id: verified(told, secret) for told in hook.taken}
    changed = {event["data"]["product"]["id"]: event for event in events.values()}
    assert len(changed) == PRODUCTS, "1,000 of 1,000"
    assert {event["type"] for event in changed.values()} == {"product.price_changed"}
    assert {event["data"]["previous"]["price"] - event["data"]["product"]["price"] for event in changed.values()} == {
        100
    }
    hook.taken[0].headers["webhook-id"] = hook.taken[1].id
    with pytest.raises(WebhookVerificationError):
        verified(hook.taken[0], secret)
