"""`tollhouse demo` from its start to its end: the tour, then a running server, and a clean stop."""

import os
import re
import signal
import subprocess
import sys
from base64 import b64encode

import httpx2
import pytest

from tests.journeys.server import Program, poll
from tollhouse.demo.printer import MAX_LENGTH, shortened
from tollhouse.demo.tour import Delivery
from tollhouse.webhooks.attempt import new_secret, signatures

CHAPTERS = (
    "Four services on one server", "A free API key", "Questions and alerts", "Wallet credit: deposit USDC once",
    "The same over MCP", "A payment per request", "A toll in front of an API you have", "The ledger", "Try it yourself",
)  # fmt: skip


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory):
    program = Program(["demo", "--no-open"], tmp_path_factory.mktemp("demo"), {}, limits="")
    poll(lambda: "reference " in program.told() or program.process.poll() is not None, 120)
    yield program
    program.kill()


def test_tour_shows_every_service_and_every_way_to_pay_and_the_ledger_agrees(demo):
    told = " ".join(demo.told().split())
    places = [told.index(chapter) for chapter in CHAPTERS]
    assert places == sorted(places)
    assert "3 ≥ 3; the signature is valid" in told
    assert "nonce-reused" in told
    assert "1.98 USD left" in told
    assert "→ 402" in told
    assert told.count("✓") == 3
    for answer in ("{'year': 2027, 'easter': '2027-03-28'}", "[2, 2, 2, 3, 3, 5, 7, 11, 13]"):
        assert f"→ 200 {answer}" in told
    assert "✗" not in told


def test_tour_gives_the_operators_login_and_leaves_the_free_requests_unused(demo):
    (root,) = set(re.findall(r"console +(http://127\.0\.0\.1:\d+)/", demo.told()))
    (link,) = re.findall(rf"{root}/operator/login\?code=[\w-]+", demo.told())
    with httpx2.Client() as browser:
        assert browser.get(f"{root}/operator/api/revenue").status_code == 401
        assert browser.get(link, follow_redirects=True).status_code == 200
        assert browser.get(f"{root}/operator/api/revenue").json()["revenue_usd"] == "0.025"
    left = httpx2.get(f"{root}/mattress/api/products?limit=1").headers["x-ratelimit-remaining"]
    assert left == "99"
    (key,) = re.findall(r"th_live_\w+(?= *\n)", demo.told())
    status = httpx2.get(f"{root}/defense/api/keys/verify", headers={"Authorization": f"Bearer {key}"}).json()
    assert status["tier"] == "enterprise"


def test_interrupted_demo_stops_its_server_and_its_chain(demo):
    (node,) = set(re.findall(r"Ethereum node at\s+(http://127\.0\.0\.1:\d+)", demo.told()))
    assert httpx2.post(node, json={"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}).status_code == 200
    (root,) = set(re.findall(r"console +(http://127\.0\.0\.1:\d+)/", demo.told()))
    assert httpx2.get(f"{root}/health").status_code == 200
    demo.process.send_signal(signal.SIGINT)
    assert demo.wait() == 0
    for address in (node, f"{root}/health"):
        with pytest.raises(httpx2.TransportError):
            httpx2.get(address)


def test_delivery_signed_without_the_secret_is_not_accepted():
    secret, body = new_secret(), b"{}"
    named = {"webhook-id": "msg_1", "webhook-timestamp": "1700000000"}
    good = Delivery({**named, "webhook-signature": signatures("msg_1", 1_700_000_000, body, [secret])}, body)
    assert good.is_signed_with(secret)
    assert not good.is_signed_with(new_secret())
    forged = Delivery({**named, "webhook-signature": f"v1,{b64encode(bytes(32)).decode()}"}, body)
    assert not forged.is_signed_with(secret)


WITHOUT_NODE = """
import sys
sys.prefix = "/nowhere"  # the environment in which `make` installs the node
sys.argv = ["tollhouse", "demo", "--once", "--no-open"]
from tollhouse.cli.main import main
main()
"""


def test_demo_without_a_node_says_what_to_install_in_one_line(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_NODE],
        env={**os.environ, "PATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert line.startswith("tollhouse: the local chain needs `anvil`. Install Node.js")
    assert "npm ci --ignore-scripts" in line


def test_long_path_keeps_its_beginning_and_its_end():
    assert shortened("/short") == "/short"
    long = shortened("/mattress/api/search?q=" + "x" * 100 + "&limit=3")
    assert len(long) == MAX_LENGTH
    assert long.startswith("/mattress/api/search")
    assert long.endswith("&limit=3")
