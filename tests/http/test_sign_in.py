"""`sign-in-with-x`: a signed message opens a wallet's credit once, for one path of one host, for five minutes."""

import asyncio
import json
import secrets
from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from tests.http.test_agent_calls import PRICE, WALLET, code_of, serving

STRANGER = Account.from_key(b"\x09" * 32)
PATHS = ("/page", "/x402/page", "/siwx/page")


@pytest.fixture
async def house(database_url, tmp_path):
    async with serving(database_url, tmp_path, public_url="http://test") as house:
        yield house


def at(seconds):
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def message(path="/siwx/page", **changed: object):
    members = {
        "domain": "test",
        "address": WALLET.address,
        "uri": f"http://test/mounted{path}",
        "version": "1",
        "chainId": "eip155:8453",
        "type": "eip191",
        "nonce": secrets.token_hex(16),
        "issuedAt": at(-1),
        "expirationTime": at(60),
        **changed,
    }
    return {name: value for name, value in members.items() if value is not None}


def text_of(sent):
    """The message as EIP-4361 writes it, line by line."""
    names = {"uri": "URI", "version": "Version", "chainId": "Chain ID", "nonce": "Nonce", "issuedAt": "Issued At",
             "expirationTime": "Expiration Time", "notBefore": "Not Before", "requestId": "Request ID"}  # fmt: skip
    statement = f"{sent['statement']}\n" if "statement" in sent else ""
    lines = [f"{sent['domain']} wants you to sign in with your Ethereum account:", sent["address"], "", statement]
    lines += [f"{name}: {sent[key].removeprefix('eip155:')}" for key, name in names.items() if key in sent]
    lines += ["Resources:", *(f"- {one}" for one in sent["resources"])] if "resources" in sent else []
    return "\n".join(lines)


def header(sent, wallet=WALLET, **changed: object):
    signature = "0x" + wallet.sign_message(encode_defunct(text=text_of(sent))).signature.hex()
    return {"sign-in-with-x": b64encode(json.dumps({**sent, "signature": signature, **changed}).encode()).decode()}


@pytest.mark.parametrize("path", PATHS)
async def test_message_opens_the_credit_of_its_wallet_at_every_path_with_a_price(house, path):
    await house.deposit(3 * PRICE)
    answer = await house.call(path, header(message(path)))
    assert (answer.status_code, answer.headers["x-credits-tier"]) == (200, "agent")
    whole = message(path, uri=f"http://test/mounted{path}?", statement="Pay.", requestId="7", notBefore=at(-9),
                    expirationTime=None, resources=["http://test/", "ipfs://x"])  # fmt: skip
    assert (await house.call(path, header(whole))).status_code == 200
    assert await house.balance() == PRICE


REFUSED = {
    "other host": {"domain": "other.example"},
    "other host of the address": {"uri": "http://other.example/mounted/siwx/page"},
    "other scheme": {"uri": "https://test/mounted/siwx/page"},
    "other path": {"uri": "http://test/mounted/x402/page"},
    "other query": {"uri": "http://test/mounted/siwx/page?limit=1"},
    "other chain": {"chainId": "eip155:1"},
    "other version": {"version": "2"},
    "other kind of key": {"type": "ed25519"},
    "future": {"issuedAt": at(3_600)},
    "too old": {"issuedAt": at(-301)},
    "expired": {"expirationTime": at(-1)},
    "not yet valid": {"notBefore": at(3_600)},
    "no time": {"issuedAt": "2026-13-01T00:00:00Z"},
    "short nonce": {"nonce": "abc"},
    "two lines in one": {"statement": "Pay.\n\nURI: http://test/mounted/siwx/page"},
    "no address": {"address": "0x1"},
}


@pytest.mark.parametrize("changed", REFUSED.values(), ids=REFUSED)
async def test_message_for_anything_else_opens_nothing(house, changed):
    await house.deposit(PRICE)
    refused = await house.call("/siwx/page", header(message(**changed)))
    assert code_of(refused, 401) == "invalid-signature"
    assert (house.endpoints.runs, await house.balance()) == (0, PRICE)


async def test_header_that_its_wallet_did_not_sign_opens_nothing(house):
    await house.deposit(PRICE)
    raw = ("not base64!", b64encode(b"[" * 4_000).decode(), b64encode(b"{}").decode(), "A" * 9_000)
    forged = (header(message(), nonce=secrets.token_hex(16)), header(message(), STRANGER),
              header(message(), signature="0x00"))  # fmt: skip
    for sent in (*({"sign-in-with-x": one} for one in raw), *forged):
        assert code_of(await house.call("/siwx/page", sent), 401) == "invalid-signature"
    assert await house.balance() == PRICE


@pytest.mark.both_databases
async def test_twenty_copies_at_once_are_one_call(house):
    await house.deposit(20 * PRICE)
    sent = header(message())
    answers = await asyncio.gather(*(house.call("/siwx/page", sent) for _ in range(20)))
    assert sorted(one.status_code for one in answers) == [200, *[401] * 19]
    assert {one.json()["code"] for one in answers if one.status_code == 401} == {"nonce-reused"}
    assert code_of(await house.call("/siwx/page", sent), 401) == "nonce-reused"
    assert (house.endpoints.runs, await house.balance()) == (1, 19 * PRICE)


async def test_short_credit_is_402_and_leaves_the_message_valid(house):
    sent = header(message())
    refused = await house.call("/siwx/page", sent)
    assert code_of(refused, 402) == "insufficient-balance"
    await house.deposit(PRICE)
    assert (await house.call("/siwx/page", sent)).status_code == 200
    stranger = message(address=STRANGER.address)
    refused = await house.call("/siwx/page", header(stranger, STRANGER))
    assert code_of(refused, 402) == "insufficient-balance"
    assert "not registered" in refused.json()["detail"]
    assert await house.balance() == 0


async def test_message_beside_other_credentials_is_ambiguous(house):
    for other in ({"Authorization": "Bearer x"}, {"X-Agent-Address": WALLET.address}):
        refused = await house.call("/siwx/page", {**header(message()), **other})
        assert code_of(refused, 400) == "ambiguous-credentials"


async def test_host_that_is_not_the_servers_binds_nothing(database_url, tmp_path):
    async with serving(database_url, tmp_path) as house:
        await house.deposit(PRICE)
        elsewhere = message(domain="evil.example", uri="http://evil.example/mounted/siwx/page")
        refused = await house.call("/siwx/page", {**header(elsewhere), "Host": "evil.example"})
        assert code_of(refused, 403) == "origin-not-allowed"
        assert await house.balance() == PRICE
