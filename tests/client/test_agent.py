import pytest
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.accounts.wallets import AgentHeaders, nonce_of, signed_by
from tollhouse.client import Agent
from tollhouse.errors import Problem
from tollhouse.evm import ORDER, parse_address

KEY = "0x" + "11" * 32


def sent(headers):
    return AgentHeaders(headers["X-Agent-Address"], headers["X-Agent-Nonce"], headers["X-Agent-Signature"])


@given(st.integers(1, ORDER - 1), st.text(st.characters(codec="ascii"), max_size=50))
def test_server_knows_the_wallet_that_signed(number, rest):
    key = number.to_bytes(32, "big")
    agent, path = Agent(key), f"/{rest}"
    assert agent.address == Account.from_key(key).address
    assert signed_by("service", path, "", sent(agent.headers(path))) == parse_address(agent.address).raw


@pytest.mark.parametrize("key", [KEY, KEY[2:], KEY.upper(), bytes.fromhex(KEY[2:])])
def test_key_may_be_bytes_or_hex(key):
    assert Agent(key).address == Account.from_key(KEY).address


def test_query_may_be_signed_too():
    headers = Agent(KEY).headers("/feeds/events?limit=5")
    assert signed_by("service", "/feeds/events", "limit=5", sent(headers)) == parse_address(Agent(KEY).address).raw
    with pytest.raises(Problem):
        signed_by("service", "/feeds/events", "limit=6", sent(headers))


def test_prefix_is_the_servers():
    headers = Agent(KEY, prefix="acme").headers("/chat")
    assert signed_by("acme", "/chat", "", sent(headers))
    with pytest.raises(Problem):
        signed_by("service", "/chat", "", sent(headers))


def test_every_call_has_a_nonce_of_its_own():
    agent = Agent(KEY)
    assert len({nonce_of(agent.headers("/chat")["X-Agent-Nonce"]) for _ in range(500)}) == 500


@pytest.mark.parametrize("path", ["", "feeds/events", "https://example.org/feeds/events", "?limit=5"])
def test_what_is_no_path_is_not_signed(path):
    with pytest.raises(ValueError, match="slash"):
        Agent(KEY).headers(path)


@pytest.mark.parametrize(
    "key",
    ["", "0x", "11" * 31, "11" * 33, b"", b"\x11" * 31, b"\x11" * 33, "zz" * 32, f"{KEY}\n", "00" * 32, f"{ORDER:x}"],
)
def test_what_is_no_private_key_is_refused_without_being_shown(key):
    with pytest.raises(ValueError, match="a private key") as raised:
        Agent(key)
    text = key.hex() if isinstance(key, bytes) else key
    assert len(text) < 4 or text not in str(raised.value)


def test_private_key_shows_nowhere():
    agent = Agent(KEY)
    assert repr(agent) == f"Agent({agent.address})"
    assert KEY[2:] not in repr(agent) + str(agent) + str(vars(agent)) + str(agent.headers("/chat"))
