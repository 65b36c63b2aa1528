"""What a schedule of crashes sends: signed calls, calls with a key, payments and deposits, all signed beforehand."""

import json
import os
import random
import time
from collections.abc import AsyncIterator, Iterator, Sequence

from msgspec import Struct, structs

from tests.payments.crashes.in_process_server import MOST_MICROS, PAGE_MICROS
from tests.payments.crashes.upstream import FORMS
from tests.payments.x402.signed_payments import (
    UPTO_REQUIREMENT,
    authorization,
    encoded,
    payload,
    permit,
    permit_signature,
    signature,
    upto,
)
from tollhouse.admission.context import AppContext
from tollhouse.client import Agent
from tollhouse.evm import address_of, checksummed, parse_private_key
from tollhouse.payments.chain.contracts import call_data
from tollhouse.payments.chain.local_chain import Account, LocalChain

DOLLAR = 1_000_000
CALLS, KEYED_CALLS, PAYERS, PAYMENTS = 24, 8, 3, 4
PROXIED = "/proxied"


class Attempt(Struct):
    """One request as it is sent; `about` is what it is about: a nonce, a key, or the hash of a deposit.

    The client of one that `gives_up` does not send it again when the upstream fails.
    """

    kind: str
    owner: int
    about: str
    method: str
    path: str
    headers: dict[str, str]
    body: str = ""
    gives_up: bool = False

    @property
    def is_passed_stream(self) -> bool:
        """Whether its answer is passed on while it arrives: the same payment may open the request again."""
        return self.path.startswith(PROXIED) and not self.path.endswith("/short")


class House(Struct):
    """The accounts of the servers of one database."""

    seller: Account
    treasury: Account
    relayer: Account


class Plan(Struct):
    """What a schedule sends, and the accounts it belongs to."""

    attempts: list[Attempt]
    wallets: list[str]
    agents: list[str]
    deposits: dict[str, int]
    key: str


class Planner:
    """Makes the attempts of a schedule, as its random numbers decide."""

    def __init__(self, numbers: random.Random, house: House) -> None:
        self.random = numbers
        self.house = house

    async def plan(self, context: AppContext, chain: LocalChain) -> Plan:
        """Accounts with tokens, wallets registered, a key, deposits mined, and everything signed."""
        wallets = [new_account() for _ in range(4)]
        agents = [(await context.wallets.register(wallet.address)).agent_id for wallet in wallets]
        key = (await context.keys.create("ada@example.org", "enterprise", "")).text
        deposits = {tx_hash: owner async for tx_hash, owner in self._deposited(chain, wallets)}
        attempts = [
            _claim(claimant, wallets[claimant].address, tx_hash)
            for tx_hash, owner in deposits.items()
            for claimant in (owner, owner, len(wallets) - 1)
        ]
        payers = [new_account() for _ in range(PAYERS)]
        for number, payer in enumerate(payers):
            # The last payer cannot pay everything.
            await chain.fund_usdc(payer.address, PAGE_MICROS * (1 if number == len(payers) - 1 else 12))
            await chain.approve_permit2(payer.address)
            attempts += [self._payment(number, payer) for _ in range(PAYMENTS)]
        attempts += self._signed(wallets)
        attempts += [
            Attempt("keyed", 0, key, "GET", self._proxied("keyed"), {"authorization": f"Bearer {key}"})
            for _ in range(KEYED_CALLS)
        ]
        for attempt in attempts:
            attempt.gives_up = attempt.path.startswith(PROXIED) and self.random.random() < 0.5
        return Plan(attempts, [one.address for one in wallets], agents, deposits, key)

    async def _deposited(self, chain: LocalChain, wallets: Sequence[Account]) -> AsyncIterator[tuple[str, int]]:
        """The hash of each deposit and its owner. The last wallet deposits nothing and claims what others sent."""
        for owner, wallet in enumerate(wallets[:-1]):
            for _ in range(self.random.choice((1, 1, 2))):
                micros = DOLLAR + self.random.randrange(1_000)
                await chain.fund_usdc(wallet.address, micros)
                transfer = call_data("transfer(address,uint256)", self.house.treasury.address, micros)
                tx_hash = await chain.send(wallet.address, chain.usdc_address, transfer)
                await chain.wait_mined(tx_hash)
                yield tx_hash, owner

    def _signed(self, wallets: Sequence[Account]) -> Iterator[Attempt]:
        signers = [Agent(wallet.private_key) for wallet in wallets]
        for _ in range(CALLS):
            owner = self.random.randrange(len(wallets))
            path = self.random.choice(("/page", "/page", "/missing", "/fails", *[self._proxied("keyed")] * 4))
            headers = signers[owner].headers(path.removeprefix(PROXIED))
            yield Attempt("call", owner, headers["X-Agent-Nonce"], "GET", path, headers)

    def _proxied(self, name: str) -> str:
        return f"{PROXIED}/{name}/{self.random.choice(FORMS)}"

    def _payment(self, number: int, payer: Account) -> Attempt:
        far = str(int(time.time()) + 3_000)
        if self.random.random() < 0.4:
            return self._maximum(number, payer, far)
        told = authorization(
            **{"from": payer.address, "to": self.house.seller.address, "value": str(PAGE_MICROS), "validBefore": far}
        )
        sent = {"x402Version": 1, "scheme": "exact", "network": "base",
                "payload": payload(told, signature(told, payer.private_key))}  # fmt: skip
        path = self.random.choice(("/bought", "/bought-missing", *[self._proxied("bought")] * 3))
        return Attempt("payment", number, told["nonce"], "GET", path, {"x-payment": encoded(sent)})

    def _maximum(self, number: int, payer: Account, deadline: str) -> Attempt:
        """A payment of scheme `upto` for an answer that costs less."""
        seller, relayer = self.house.seller.address, self.house.relayer.address
        required = structs.replace(UPTO_REQUIREMENT, amount_micros=MOST_MICROS, pay_to=seller, facilitator=relayer)
        witness = {"to": seller, "facilitator": relayer}
        told = permit({"amount": str(MOST_MICROS)}, witness, **{"from": payer.address}, deadline=deadline)
        sent = upto(told, permit_signature(told, payer.private_key), accepted=required.v2())
        nonce, path = f"0x{int(told['nonce']):064x}", self.random.choice(("/measured", self._proxied("measured")))
        return Attempt("payment", number, nonce, "GET", path, {"payment-signature": encoded(sent)})


def _claim(owner: int, wallet: str, tx_hash: str) -> Attempt:
    body = json.dumps({"wallet_address": wallet, "tx_hash": tx_hash})
    return Attempt("deposit", owner, tx_hash, "POST", "/api/agent/deposit", {"content-type": "application/json"}, body)


def new_account() -> Account:
    key = os.urandom(32)
    return Account(checksummed(address_of(parse_private_key(key).public_key)), "0x" + key.hex())
