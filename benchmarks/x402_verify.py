"""Payments a second that one core verifies without asking the chain, against the official x402 SDK in the same run.

From the text of a `PAYMENT-SIGNATURE` header to the verdict; every payment is another one. The baseline is the PyPI
package `x402` with coincurve and a chain that answers at once; the bare recovery of the key by coincurve's library is
what nothing can be faster than. `--seconds` is for each contender in each round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterable
from itertools import cycle
from pathlib import Path
from time import process_time
from typing import Any, TypeVar

from coincurve import PublicKey
from eth_account import Account
from keyed_events import usual_python

from tollhouse.evm import ORDER, parse_signature
from tollhouse.payments.x402.headers import read_payment
from tollhouse.payments.x402.types import Requirement, VerificationFailure
from tollhouse.payments.x402.verification import (
    authorization_digest,
    check_validity,
    match_requirement,
    recover_eoa_signature,
)

GOAL_PER_SECOND = 10_000
WALLETS, SIGNED, ROUNDS = 50, 1_000, 7
BASELINE = Path(__file__).parent / "baselines" / "x402_sdk.py"
ASKED = Requirement(8453, 1_000, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "0x" + "42" * 20, 60)
DOMAIN = {"name": "USD Coin", "version": "2", "chainId": 8453, "verifyingContract": ASKED.asset}
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5)
    seconds = parser.parse_args().seconds
    python = usual_python()
    wallets = [Account.from_key(number.to_bytes(32)) for number in range(1, WALLETS + 1)]
    payments = [paid(wallets[number % WALLETS]) for number in range(SIGNED)]
    headers = [encoded(payment) for payment in payments]
    digests = [bare(header) for header in headers]
    probes = {
        "a_signature_of_high_s": encoded(twin(payments[0])),
        "version_99": encoded(payments[0] | {"x402Version": 99}),
    }
    found: dict[str, list[float]] = {"verifications": [], "sdk": [], "recoveries": []}
    for number in range(ROUNDS):
        found["verifications"].append(rate(is_valid, headers, seconds))
        sdk = by_sdk(python, headers, probes, seconds)
        found["sdk"].append(sdk["per_s"])
        found["recoveries"].append(rate(recovers, digests, seconds))
        print(f"round {number + 1}/{ROUNDS}: {found['verifications'][-1]:,.0f}/s", file=sys.stderr)
    ours = {name: is_valid(header) for name, header in probes.items()}
    print(json.dumps(told(found) | {"accepts": ours, "sdk_accepts": sdk["accepts"]}, indent=2))


def told(found: dict[str, list[float]]) -> Json:
    """Medians of the rounds, and of the rounds' ratios."""
    per_second = statistics.median(found["verifications"])
    return {
        "claim": "one core verifies at least 10,000 payments a second",
        **{f"{name}_per_s": round(statistics.median(rates)) for name, rates in found.items()},
        "ratio_to_sdk": ratio(found["verifications"], found["sdk"]),
        "ratio_to_bare_recovery": ratio(found["verifications"], found["recoveries"]),
        "goal_per_s": GOAL_PER_SECOND,
        "is_met": per_second >= GOAL_PER_SECOND,
    }


def ratio(rates: list[float], baseline: list[float]) -> float:
    return round(statistics.median(ours / theirs for ours, theirs in zip(rates, baseline, strict=True)), 2)


def rate(is_good: Callable[[T], bool], signed: Iterable[T], seconds: float) -> float:
    """How many are verified in a second of processor time; every one must be good."""
    begun = process_time()
    for number, one in enumerate(cycle(signed), 1):
        assert is_good(one), "a good payment was refused"
        spent = process_time() - begun
        if spent >= seconds:
            return number / spent
    raise AssertionError("nothing was signed")


def is_valid(header: str) -> bool:
    try:
        payment = read_payment("", header)
    except Exception:  # noqa: BLE001 - whatever it says, the payment was not taken
        return False
    if payment is None or isinstance(match_requirement([ASKED], payment), VerificationFailure):
        return False
    return check_validity(payment, time.time()) is None and recover_eoa_signature(payment, ASKED) is not None


def by_sdk(python: Path, headers: list[str], probes: dict[str, str], seconds: float) -> Json:
    task = {"headers": headers, "probes": probes, "requirement": ASKED.v2(), "seconds": seconds}
    done = subprocess.run([python, BASELINE], input=json.dumps(task), text=True, check=True, stdout=subprocess.PIPE)
    answer: Json = json.loads(done.stdout)
    return answer


def bare(header: str) -> tuple[bytes, bytes]:
    """A payment's digest and signature, as the library takes them."""
    payment = read_payment("", header)
    assert payment is not None
    return authorization_digest(payment, ASKED), parse_signature(payment.signature.hex()).compact


def recovers(signed: tuple[bytes, bytes]) -> bool:
    digest, signature = signed
    return PublicKey.from_signature_and_message(signature, digest, hasher=None) is not None


def paid(wallet: Any) -> Json:
    now = int(time.time())
    nonce = os.urandom(32)
    message = {"from": wallet.address, "to": ASKED.pay_to, "value": ASKED.amount_micros, "validAfter": now - 600,
               "validBefore": now + 3_600, "nonce": nonce}  # fmt: skip
    signature = wallet.sign_typed_data(DOMAIN, TYPES, message).signature.to_0x_hex()
    numbers = {name: str(message[name]) for name in ("value", "validAfter", "validBefore")}
    authorization = message | numbers | {"nonce": "0x" + nonce.hex()}
    payload = {"signature": signature, "authorization": authorization}
    return {"x402Version": 2, "resource": {"url": "https://toll.example/"}, "accepted": ASKED.v2(), "payload": payload}


def twin(payment: Json) -> Json:
    """The same payment with the other signature that anybody can make of the first (EIP-2)."""
    made = payment["payload"]["signature"][2:]
    mirrored = f"0x{made[:64]}{ORDER - int(made[64:128], 16):064x}{'1b' if made[128:] == '1c' else '1c'}"
    return payment | {"payload": payment["payload"] | {"signature": mirrored}}


def encoded(payment: Json) -> str:
    return b64encode(json.dumps(payment).encode()).decode()


if __name__ == "__main__":
    main()
