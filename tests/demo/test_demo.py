"""`tollhouse demo` as a newcomer meets it: the tour, then a server to run_tour with, then nothing is left."""

import re
import signal
from base64 import b64encode

import httpx2
import pytest

from tests.journeys.server import Program, poll
from tollhouse.demo.printer import LONGEST, shortened
from tollhouse.demo.webhook_receiver import Delivery
from tollhouse.webhooks.attempt import new_secret, signatures

CHAPTERS = (
    "Four services behind one door", "A key: free", "Ask, or be told", "A wallet: deposit USDC once",
    "The same over MCP", "A payment per request", "The books", "Yours now",
)  # fmt: skip


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory):
    program = Program(["demo", "--no-open"], tmp_path_factory.mktemp("demo"), {})
    poll(lambda: "the reference" in program.told() or program.process.poll() is not None, 120)
    yield program
    program.kill()


def test_tour_goes_through_every_service_and_every_way_to_pay_and_the_books_agree(demo):
    told = " ".join(demo.told().split())
    places = [told.index(chapter) for chapter in CHAPTERS]
    assert places == sorted(places)
    assert "27 ≥ 10; the signature is good" in told
    assert "nonce-reused" in told
    assert "1.98 USD left" in told
    assert "→ 402" in told
    assert told.count("✓") == 3
    assert "✗" not in told


def test_console_of_the_tour_is_open_to_this_machine_with_its_free_requests_unused(demo):
    (root,) = set(re.findall(r"the console +(http://127\.0\.0\.1:\d+)/", demo.told()))
    revenue = httpx2.get(f"{root}/operator/api/revenue").json()
    assert revenue["revenue_usd"] == "0.021"
    left = httpx2.get(f"{root}/mattress/api/products?limit=1").headers["x-ratelimit-remaining"]
    assert left == "99"
    (key,) = re.findall(r"th_live_\w+(?= *\n)", demo.told())
    status = httpx2.get(f"{root}/defense/api/keys/verify", headers={"Authorization": f"Bearer {key}"}).json()
    assert status["tier"] == "enterprise"


def test_demo_ends_when_told_to_and_leaves_nothing_behind(demo):
    (node,) = set(re.findall(r"Ethereum node at\s+(http://127\.0\.0\.1:\d+)", demo.told()))
    assert httpx2.post(node, json={"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}).status_code == 200
    (root,) = set(re.findall(r"the console +(http://127\.0\.0\.1:\d+)/", demo.told()))
    assert httpx2.get(f"{root}/health").status_code == 200
    demo.process.send_signal(signal.SIGINT)
    assert demo.wait() == 0
    for address in (node, f"{root}/health"):
        with pytest.raises(httpx2.TransportError):
            httpx2.get(address)


def test_delivery_of_somebody_without_the_secret_is_seen_through():
    secret, body = new_secret(), b"{}"
    named = {"webhook-id": "msg_1", "webhook-timestamp": "1700000000"}
    good = Delivery({**named, "webhook-signature": signatures("msg_1", 1_700_000_000, body, [secret])}, body)
    assert good.is_signed_with(secret)
    assert not good.is_signed_with(new_secret())
    forged = Delivery({**named, "webhook-signature": f"v1,{b64encode(bytes(32)).decode()}"}, body)
    assert not forged.is_signed_with(secret)


def test_long_path_keeps_its_beginning_and_its_end():
    assert shortened("/short") == "/short"
    long = shortened("/mattress/api/search?q=" + "x" * 100 + "&limit=3")
    assert len(long) == LONGEST
    assert long.startswith("/mattress/api/search")
    assert long.endswith("&limit=3")
