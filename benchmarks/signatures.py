"""What a wallet's signature costs to verify: signed calls and payments a second on one core, against eth-account.

Every signature is of another message. The baselines, in the same run: eth-account with coincurve, as it is installed
here, which recovers the signer but refuses no malformed nonce, no failed checksum and no twin of a signature (EIP-2);
and the bare recovery of the key by coincurve's library, which nothing can be faster than. `--seconds` is for each
contender in each round; their order alternates.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable
from itertools import cycle
from time import process_time
from typing import Any, TypeVar

from coincurve import PublicKey
from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data

from tollhouse.accounts.wallets import AgentHeaders, signed_by
from tollhouse.client import Agent
from tollhouse.evm import (
    Domain,
    TransferWithAuthorization,
    parse_address,
    parse_signature,
    personal_digest,
    recover,
    transfer_digest,
)

GOAL_PER_SECOND = 10_000
WALLETS, SIGNED, ROUNDS = 50, 2_000, 15
PATH = "/feeds/defense-brief"
USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
DOMAIN = Domain("USD Coin", "2", 8453, parse_address(USDC).raw)
TYPES = {
    "TransferWithAuthorization": [
        {"name": "from", "type": "address"},
        {"name": "to", "type": "address"},
        {"name": "value", "type": "uint256"},
        {"name": "validAfter", "type": "uint256"},
        {"name": "validBefore", "type": "uint256"},
        {"name": "nonce", "type": "bytes32"},
    ]
}

T = TypeVar("T")
Json = dict[str, Any]
Payment = tuple[Json, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.3)
    seconds = parser.parse_args().seconds
    calls, payments = signed_calls(), signed_payments()
    digests = [(personal_digest(message_of(call)), parse_signature(call.signature).compact) for call in calls]
    contenders: dict[str, Callable[[], float]] = {
        "calls": lambda: rate(call_is_good, calls, seconds),
        "first_calls": lambda: rate(first_call_is_good, calls, seconds),
        "calls_by_eth_account": lambda: rate(call_recovers, calls, seconds),
        "recoveries": lambda: rate(digest_recovers, digests, seconds),
        "payments": lambda: rate(payment_is_good, payments, seconds),
        "payments_by_eth_account": lambda: rate(payment_recovers, payments, seconds),
    }
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(ROUNDS):
        for name in list(contenders)[:: -1 if number % 2 else 1]:
            found[name].append(contenders[name]())
        print(f"round {number + 1}/{ROUNDS}: {found['calls'][-1]:,.0f} calls/s", file=sys.stderr)
    print(json.dumps(told(found), indent=2))


def told(found: dict[str, list[float]]) -> Json:
    """Verifications a second and their ratios to the baselines: medians of the rounds, and of the rounds' ratios."""
    calls = statistics.median(found["calls"])
    return {
        "claim": "one core verifies at least 10,000 signed calls a second",
        **{f"{name}_per_s": round(statistics.median(rates)) for name, rates in found.items()},
        "calls_ratio": ratio(found["calls"], found["calls_by_eth_account"]),
        "calls_ratio_to_bare_recovery": ratio(found["calls"], found["recoveries"]),
        "payments_ratio": ratio(found["payments"], found["payments_by_eth_account"]),
        "goal_per_s": GOAL_PER_SECOND,
        "is_met": calls >= GOAL_PER_SECOND,
    }


def ratio(rates: list[float], baseline: list[float]) -> float:
    return round(statistics.median(ours / theirs for ours, theirs in zip(rates, baseline, strict=True)), 2)


def rate(is_good: Callable[[T], bool], signed: Iterable[T], seconds: float) -> float:
    """How many are verified in a second of processor time; every one must be good."""
    begun = process_time()
    for number, one in enumerate(cycle(signed), 1):
        assert is_good(one), "a good signature was refused"
        spent = process_time() - begun
        if spent >= seconds:
            return number / spent
    raise AssertionError("nothing was signed")


def signed_calls() -> list[AgentHeaders]:
    agents = [Agent(number.to_bytes(32, "big")) for number in range(1, WALLETS + 1)]
    return [AgentHeaders(*agents[number % WALLETS].headers(PATH).values()) for number in range(SIGNED)]


def call_is_good(call: AgentHeaders) -> bool:
    return signed_by("service", PATH, "", call) == parse_address(call.address).raw


def first_call_is_good(call: AgentHeaders) -> bool:
    """As from a wallet that has not called lately: its address must be read and its checksum computed."""
    parse_address.cache_clear()
    return call_is_good(call)


def call_recovers(call: AgentHeaders) -> bool:
    signer = Account.recover_message(encode_defunct(message_of(call)), signature=call.signature)
    return bool(signer == call.address)


def message_of(call: AgentHeaders) -> bytes:
    return f"service:{PATH}:{call.nonce}".encode()


def digest_recovers(signed: tuple[bytes, bytes]) -> bool:
    digest, signature = signed
    return PublicKey.from_signature_and_message(signature, digest, hasher=None) is not None


def signed_payments() -> list[Payment]:
    account = Account.from_key((7).to_bytes(32, "big"))
    payments = []
    for number in range(200):
        message = {
            "from": account.address,
            "to": "0x" + "42" * 20,
            "value": "1000",
            "validAfter": "0",
            "validBefore": "1900000000",
            "nonce": f"0x{number:064x}",
        }
        payments.append((message, account.sign_message(as_typed_data(message)).signature.to_0x_hex()))
    return payments


def payment_is_good(payment: Payment) -> bool:
    message, signature = payment
    transfer = TransferWithAuthorization(
        parse_address(message["from"]).raw,
        parse_address(message["to"]).raw,
        int(message["value"]),
        int(message["validAfter"]),
        int(message["validBefore"]),
        bytes.fromhex(message["nonce"][2:]),
    )
    return recover(transfer_digest(DOMAIN, transfer), parse_signature(signature)) == transfer.sender


def payment_recovers(payment: Payment) -> bool:
    message, signature = payment
    return bool(Account.recover_message(as_typed_data(message), signature=signature) == message["from"])


def as_typed_data(message: Json) -> Any:
    numbers = {name: int(message[name]) for name in ("value", "validAfter", "validBefore")}
    return encode_typed_data(
        domain_data={"name": "USD Coin", "version": "2", "chainId": 8453, "verifyingContract": USDC},
        message_types=TYPES,
        message_data=message | numbers | {"nonce": bytes.fromhex(message["nonce"][2:])},
    )


if __name__ == "__main__":
    main()
