import asyncio

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct
from sqlalchemy import delete, select

from tollhouse import clock
from tollhouse.accounts import wallets
from tollhouse.accounts.store import agent
from tollhouse.accounts.wallets import AgentHeaders, WalletRegistry
from tollhouse.errors import Problem
from tollhouse.evm import parse_address
from tollhouse.http.terms import WalletCaller

pytestmark = pytest.mark.both_databases

ACCOUNT = Account.from_key("0x" + "11" * 32)
OTHER = Account.from_key("0x" + "22" * 32)
ADDRESS = parse_address(ACCOUNT.address).raw
NONCE = "00112233445566778899aabbccddeeff"


@pytest.fixture
def ring(database):
    return WalletRegistry(database, "service")


async def test_registered_wallet_is_known_by_its_address(ring, database):
    made = await ring.register(ACCOUNT.address.lower(), "journal")
    assert made.agent_id.startswith("agent_")
    assert (made.wallet_address, made.label) == (ACCOUNT.address, "journal")
    assert made.created_at <= clock.iso(clock.now())
    for known in (ring, WalletRegistry(database, "service")):
        assert await known.agent_of(ADDRESS) == made
    other = await ring.register(OTHER.address)
    assert other.agent_id != made.agent_id


async def test_registering_again_changes_nothing(ring, database):
    made = await ring.register(ACCOUNT.address, "journal")
    await ring.set_email(made, "ada@example.org")
    for again in (ring, WalletRegistry(database, "service")):
        for spelling in (ACCOUNT.address, ACCOUNT.address.lower(), ACCOUNT.address.upper()):
            assert await again.register(spelling, "another label") == made
    assert await stored(database) == [(made.agent_id, ACCOUNT.address, "journal", "ada@example.org", made.created_at)]


async def test_wallet_registered_by_many_at_once_is_one_agent(ring, database):
    rings = [ring, WalletRegistry(database, "service"), WalletRegistry(database, "service")]
    made = await asyncio.gather(
        *(rings[number % 3].register(ACCOUNT.address, f"label {number}") for number in range(30))
    )
    assert len({found.agent_id for found in made}) == 1
    assert len({found.label for found in made}) == 1
    assert len(await stored(database)) == 1


async def test_wallets_registered_at_once_are_agents_of_their_own(ring, database):
    accounts = [Account.create() for _ in range(20)]
    made = await asyncio.gather(*(ring.register(account.address) for account in accounts))
    assert [found.wallet_address for found in made] == [account.address for account in accounts]
    assert len({found.agent_id for found in made}) == len(await stored(database)) == 20


@pytest.mark.parametrize("text", ["", "0x", ACCOUNT.address[:-1], ACCOUNT.address.swapcase(), "vitalik.eth"])
async def test_what_is_no_address_is_not_registered(ring, database, text):
    with pytest.raises(ValueError, match="address"):
        await ring.register(text)
    assert await stored(database) == []


async def test_unregistered_wallet_is_nobody_until_it_registers(ring, database):
    elsewhere = WalletRegistry(database, "service")
    assert await ring.agent_of(ADDRESS) is None
    made = await elsewhere.register(ACCOUNT.address)
    assert await ring.agent_of(ADDRESS) == made


async def test_known_agent_costs_no_question_to_the_database(ring, database):
    made = await ring.register(ACCOUNT.address)
    async with database.writing() as connection:
        await connection.execute(delete(agent))
    assert await ring.agent_of(ADDRESS) == made
    assert await WalletRegistry(database, "service").agent_of(ADDRESS) is None


async def test_memory_of_agents_is_bounded_and_forgetting_one_loses_nothing(ring, monkeypatch):
    monkeypatch.setattr(wallets, "MOST_CACHED_AGENTS", 3)
    made = [await ring.register(Account.create().address) for _ in range(7)]
    assert len(ring._cached) == 3
    for known in made:
        assert await ring.agent_of(parse_address(known.wallet_address).raw) == known
    assert len(ring._cached) == 3


def signed_headers(account, message, nonce=NONCE):
    signature = account.sign_message(encode_defunct(text=message)).signature.to_0x_hex()
    return AgentHeaders(account.address, nonce, signature)


async def caller_of(ring, path, headers):
    return await ring.caller(ring.signed_by(path, "", headers))


async def test_signed_call_of_a_registered_wallet_is_its_agents(ring):
    made = await ring.register(ACCOUNT.address)
    caller = await caller_of(ring, "/feeds/stories", signed_headers(ACCOUNT, f"service:/feeds/stories:{NONCE}"))
    assert caller == WalletCaller(made.agent_id, ACCOUNT.address)
    assert caller.subject == made.agent_id


async def test_prefix_is_the_operators(database):
    ring = WalletRegistry(database, "acme")
    await ring.register(ACCOUNT.address)
    assert await caller_of(ring, "/chat", signed_headers(ACCOUNT, f"acme:/chat:{NONCE}"))
    with pytest.raises(Problem, match="did not sign"):
        await caller_of(ring, "/chat", signed_headers(ACCOUNT, f"service:/chat:{NONCE}"))


async def test_good_signature_of_an_unregistered_wallet_says_where_to_register(ring):
    await ring.register(ACCOUNT.address)
    with pytest.raises(Problem, match=r"not registered\. Register it with POST /api/agent/register") as raised:
        await caller_of(ring, "/feeds/stories", signed_headers(OTHER, f"service:/feeds/stories:{NONCE}"))
    assert (raised.value.status, raised.value.code) == (401, "invalid-signature")
    assert OTHER.address in raised.value.detail
    assert raised.value.headers["WWW-Authenticate"].startswith("Agent ")


async def stored(database):
    async with database.reading() as connection:
        return [tuple(row) for row in await connection.execute(select(agent))]
