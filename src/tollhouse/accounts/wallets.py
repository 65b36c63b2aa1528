"""Agents: registered wallets, which sign each of their calls."""

import contextlib
import re
import secrets
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tollhouse import clock
from tollhouse.accounts import store
from tollhouse.errors import Problem
from tollhouse.evm import Address, checksummed, parse_address, parse_signature, personal_digest, recover
from tollhouse.http.terms import WalletCaller
from tollhouse.storage.batched_lookup import BatchedLookup
from tollhouse.storage.database import Database

MOST_CACHED_AGENTS = 50_000

_NONCE = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2}){8,64})")


class Agent(Struct, frozen=True):
    """A registered wallet. Its address is checksummed."""

    agent_id: str
    wallet_address: str
    label: str | None
    created_at: str


class AgentHeaders(Struct, frozen=True):
    """`X-Agent-Address`, `X-Agent-Nonce` and `X-Agent-Signature` as they were sent."""

    address: str
    nonce: str
    signature: str


class WalletRegistry:
    """The agents of one server, who sign with `prefix` as the message's first word.

    An agent never changes, so it is cached until others displace it.
    """

    def __init__(self, database: Database, prefix: str) -> None:
        self._database = database
        self._prefix = prefix
        self._cached: dict[bytes, Agent] = {}
        self._lookup = BatchedLookup(self._agents)

    async def register(self, address_text: str, label: str | None = None) -> Agent:
        """The agent of this wallet, registered if it is new; the first label stays. Raises ValueError."""
        address = parse_address(address_text)
        known = await self.agent_of(address.raw)
        return known or self._cache(address.raw, await self._registered(address, label))

    async def set_email(self, agent: Agent, email: str) -> None:
        async with self._database.writing() as connection:
            await store.set_agent_email(connection, agent.agent_id, email)

    async def agent_of(self, address: bytes) -> Agent | None:
        """The agent with this address of 20 bytes, or None when the wallet is not registered."""
        return self._cached.get(address) or await self._lookup.get(address)

    def signed_by(self, path: str, query: str, sent: AgentHeaders) -> bytes:
        """The address that signed this call, of 20 bytes. Raises Problem `invalid-signature`."""
        return signed_by(self._prefix, path, query, sent)

    async def caller(self, signer: bytes) -> WalletCaller:
        """The registered wallet of an address. Raises Problem `invalid-signature`."""
        agent = await self.agent_of(signer)
        if agent is None:
            raise _invalid(
                f"The wallet {checksummed(signer)} is not registered. Register it with POST /api/agent/register."
            )
        return WalletCaller(agent.agent_id, agent.wallet_address)

    async def _registered(self, address: Address, label: str | None) -> Agent:
        async with self._database.writing(lock=f"wallet:{address.text}") as connection:
            row = await store.agent_by_wallet(connection, address.text)
            if row is not None:
                return _agent(row)
            made = Agent(f"agent_{secrets.token_hex(8)}", address.text, label, clock.iso(clock.now()))
            await store.insert_agent(
                connection, id=made.agent_id, wallet_address=address.text, label=label, created_at=made.created_at
            )
        return made

    async def _agents(self, addresses: Sequence[bytes]) -> dict[bytes, Agent]:
        texts = {checksummed(address): address for address in addresses}
        rows = await store.agents_by_wallet(self._database, texts)
        return {texts[text]: self._cache(texts[text], _agent(row)) for text, row in rows.items()}

    def _cache(self, address: bytes, agent: Agent) -> Agent:
        if len(self._cached) >= MOST_CACHED_AGENTS:
            self._cached.pop(next(iter(self._cached)))
        self._cached[address] = agent
        return agent


def signed_by(prefix: str, path: str, query: str, sent: AgentHeaders) -> bytes:
    """The 20 bytes of the address that signed `<prefix>:<path>:<nonce>`, or the same with `?<query>` after the path.

    The nonce stands in the message as it was sent; the query is the request line's, its bytes read as latin-1. Raises
    Problem `invalid-signature` when a header is malformed or another key signed. Says nothing about whether the nonce
    was seen before or the wallet is registered.
    """
    nonce_of(sent.nonce)
    try:
        address, signature = parse_address(sent.address).raw, parse_signature(sent.signature)
    except ValueError as error:
        raise _invalid(f"X-Agent-Address or X-Agent-Signature is malformed: {error}.") from None
    named, nonce = f"{prefix}:{path}".encode(), b":" + sent.nonce.encode()
    for part in (b"", b"?" + query.encode("latin-1")) if query else (b"",):
        with contextlib.suppress(ValueError):
            if recover(personal_digest(named + part + nonce), signature) == address:
                return address
    raise _invalid(
        f"X-Agent-Address did not sign this call. Sign `{prefix}:{path}:` and the nonce as you send it (EIP-191)."
    )


def nonce_of(text: str) -> bytes:
    """The nonce itself, the same in every spelling of its hex. Raises Problem `invalid-signature`."""
    matched = _NONCE.fullmatch(text)
    if matched is None:
        raise _invalid("X-Agent-Nonce must be 8 to 64 random bytes in hexadecimal.")
    return bytes.fromhex(matched[1])


def _invalid(detail: str) -> Problem:
    return Problem("invalid-signature", detail, headers={"WWW-Authenticate": 'Agent error="invalid_signature"'})


def _agent(row: Any) -> Agent:
    return Agent(row.id, row.wallet_address, row.label, row.created_at)
