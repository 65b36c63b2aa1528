"""The servers that are attacked, what is sent to them, and what must be true of the money after each attack."""

import asyncio
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.payments.x402.signed_payments import SELLER, authorization, encoded, payload, signature
from tests.waiting import until
from tollhouse.admission.context import AppContext
from tollhouse.client import Agent
from tollhouse.evm import address_of, checksummed, parse_private_key
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import ACCOUNTS, Account, LocalChain
from tollhouse.payments.deposits import Reconciliation
from tollhouse.payments.ledger.types import Transfer

TREASURY = ACCOUNTS[4]
PAGE = "/mattress/api/products?limit=1"
FEED_PATH = "/feeds/events"
FEED = f"/defense{FEED_PATH}?limit=1"
PAGE_MICROS, CALL_MICROS, DOLLAR = 1_000, 10_000, 1_000_000
ANSWER_SECONDS = 60.0
AT_ONCE = 16
MOST_RETRIES = 10
BUSY = {"overloaded", "payment-pending"}
"""What a server answers that has no time yet; nothing is wrong with what was sent."""

Json = dict[str, Any]

_addresses = itertools.count(1)


def new_address() -> str:
    """A client address that no other attempt comes from, in a network of its own."""
    number = next(_addresses)
    return f"{20 + number // 62_500 % 100}.{number // 250 % 250}.{number % 250}.{os.getpid() % 250}"


@dataclass(frozen=True)
class Answer:
    """What came back. Status 0: the server closed the connection without an answer."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of the problem, empty for what is none."""
        with suppress(ValueError, AttributeError):
            return str(self.json.get("code", ""))
        return ""


@dataclass
class Target:
    """The processes of one deployment, its database, and the chain it is paid on."""

    kind: str
    ports: list[int]
    context: AppContext
    chain: LocalChain
    operator_key: str
    sent: int = 0
    given: int = 0
    """What the seller was paid on the chain without this deployment."""
    statuses: Counter[int] = field(default_factory=Counter)

    async def send(
        self,
        path: str = PAGE,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
        body: bytes = b"",
        process: int = 0,
        address: str = "",
    ) -> Answer:
        """One attempt, on a connection of its own, from an address of its own unless one is given.

        Where a busy server says when to send it again, that is done, as clients do; any other 503 is the answer.
        """
        port = self.ports[process % len(self.ports)]
        members = {"Host": f"127.0.0.1:{port}", "X-Forwarded-For": address or new_address(), "Connection": "close"}
        members |= {"Content-Length": str(len(body)), "Content-Type": "application/json"} if body else {}
        head = [
            f"{method} {path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in (members | dict(headers or {})).items()),
        ]
        raw = "\r\n".join([*head, "", ""]).encode("utf-8", "surrogateescape") + body
        answer = await self.send_bytes(raw, port=port)
        for _ in range(MOST_RETRIES):
            if answer.status != 503 or answer.code not in BUSY:
                break
            await asyncio.sleep(int(answer.headers["retry-after"]))
            answer = await self.send_bytes(raw, port=port)
        return answer

    async def send_bytes(self, raw: bytes, *, port: int = 0, seconds: float = ANSWER_SECONDS) -> Answer:
        """One attempt, byte for byte; the first answer to it, status 0 if there is none after so long."""
        self.sent += 1
        try:
            answer = await exchange(port or self.ports[0], raw, seconds)
        except TimeoutError:
            assert seconds < ANSWER_SECONDS, raw[:300]
            answer = Answer(0)
        self.statuses[answer.status] += 1
        assert answer.status < 500 or answer.status == 503, (raw[:300], answer)
        return answer

    async def at_once(self, attempts: Iterable[Any]) -> list[Any]:
        """The results of coroutines that run AT_ONCE at a time, in their order."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(attempt: Any) -> Any:
            async with gate:
                return await attempt

        return await asyncio.gather(*map(one, attempts))

    async def refuses(self, status: int, path: str = PAGE, headers: Mapping[str, str] | None = None) -> None:
        """Wait until every process answers this with that status, which it goes on to do."""

        async def is_refused() -> bool:
            answers = await asyncio.gather(*(self.send(path, headers, process=number) for number in range(4)))
            return all(answer.status == status for answer in answers)

        await until(is_refused)

    async def post(self, path: str, members: Any, headers: Mapping[str, str] | None = None, **options: Any) -> Answer:
        return await self.send(path, headers, method="POST", body=msgspec.json.encode(members), **options)

    async def payer(self, micros: int = 100 * PAGE_MICROS) -> Account:
        """A new account with tokens."""
        key = os.urandom(32)
        account = Account(checksummed(address_of(parse_private_key(key).public_key)), "0x" + key.hex())
        if micros:
            await self.chain.fund_usdc(account.address, micros)
        return account

    async def wallet(self, micros: int = 1_000_000, **options: Any) -> Agent:
        """A registered wallet with that much credit, deposited on the chain."""
        account = await self.payer(micros)
        registered = await self.post("/api/agent/register", {"wallet_address": account.address}, **options)
        assert registered.status == 200
        if micros:
            tx_hash = await self.chain.transfer_usdc(account.address, TREASURY.address, micros)
            await self.chain.wait_mined(tx_hash)
            credited = await self.deposit(account.address, tx_hash, **options)
            assert credited.status == 200, credited
        return Agent(account.private_key)

    async def deposit(self, wallet: str, tx_hash: object, **options: Any) -> Answer:
        return await self.post("/api/agent/deposit", {"wallet_address": wallet, "tx_hash": tx_hash}, **options)

    async def new_key(self, email: str, **options: Any) -> str:
        created = await self.post("/api/keys/create", {"email": email}, **options)
        assert created.status == 200, created
        return str(created.json["api_key"])

    async def earned(self) -> int:
        """What the seller holds on the chain, which both deployments pay into."""
        return await token_balance(self.chain.client, self.chain.usdc_address, SELLER.address)

    async def held(self, account: Account | Agent) -> int:
        return await token_balance(self.chain.client, self.chain.usdc_address, account.address)

    async def credit(self, wallet: Agent) -> int:
        """The wallet's credit, when no call of it is in flight any more."""
        agent = await self.context.wallets.agent_of(bytes.fromhex(wallet.address[2:]))
        assert agent is not None
        state = None

        async def is_settled() -> bool:
            nonlocal state
            state = await self.context.ledger.account(f"agent:{agent.agent_id}")
            return not state.reserved_micros

        await until(is_settled)
        assert state is not None
        return int(state.balance_micros)

    async def payments_booked(self) -> list[Transfer]:
        return await self.context.ledger.transfers("x402", 0.0)

    async def reconcile(self) -> Reconciliation:
        """Every credited deposit, compared with the chain."""
        assert self.context.deposits is not None
        return await self.context.deposits.reconcile()

    async def is_balanced(self) -> bool:
        report = await self.context.ledger.verify()
        assert report.balanced, report.differences
        return not report.pending


def first(payer: Account, *, header: str = "X-Payment", **changes: Any) -> dict[str, str]:
    """The header of a version 1 payment for PAGE; `changes` are of its authorization."""
    return {header: encoded(members(payer, **changes))}


def members(payer: Account, **changes: Any) -> Json:
    """A version 1 payment for PAGE, valid for long enough that nothing on a slow machine outlives it."""
    told = authorization(**{"from": payer.address, "validBefore": far()} | changes)
    return {"x402Version": 1, "scheme": "exact", "network": "base", "payload": payload(told, sign(told, payer))}


def sign(told: Json, payer: Account, **domain: Any) -> str:
    return signature(told, payer.private_key, **domain)


def far() -> str:
    return str(int(time.time()) + 600)


async def exchange(port: int, raw: bytes, seconds: float = ANSWER_SECONDS) -> Answer:
    """The first answer to these bytes; status 0 where the server closes the connection. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        with closing(writer), suppress(OSError, EOFError, asyncio.LimitOverrunError):
            with suppress(OSError):  # It may close while we still send, which is its right.
                writer.write(raw)
                await writer.drain()
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            length = int(headers.get("content-length", 0))
            body = b"" if raw.startswith(b"HEAD ") else await reader.readexactly(length)
            return Answer(int(lines[0].split()[1]), headers, body)
    return Answer(0)
