"""The official x402 SDK verifying payments: headers as a JSON list on standard input, what it took on standard output.

It is installed with coincurve, and its chain answers at once: what is measured is the SDK's own work.
"""

import json
import sys
from collections.abc import Callable
from itertools import cycle
from time import process_time
from typing import Any

from x402.http.utils import decode_payment_signature_header
from x402.mechanisms.evm.exact.facilitator import ExactEvmScheme
from x402.schemas import PaymentRequirements


class InstantChain:
    """Every payer is a key, the asset is a contract, and every simulated transfer succeeds."""

    def __init__(self, asset: str) -> None:
        self._asset = asset.lower()

    def get_code(self, address: str) -> bytes:
        return b"\x60" if address.lower() == self._asset else b""

    def read_contract(self, *_: Any) -> None:
        return None


def main() -> None:
    told = json.load(sys.stdin)
    requirements = PaymentRequirements.model_validate(told["requirement"])
    scheme = ExactEvmScheme(InstantChain(requirements.asset))

    def is_valid(header: str) -> bool:
        return scheme.verify(decode_payment_signature_header(header), requirements).is_valid

    assert is_valid(told["headers"][0])
    per_s = rate(is_valid, told["headers"], told["seconds"])
    answers = {name: is_valid(header) for name, header in told["probes"].items()}
    print(json.dumps({"per_s": per_s, "accepts": answers}))


def rate(is_valid: Callable[[str], bool], headers: list[str], seconds: float) -> float:
    """How many are verified in a second of processor time; every one must be good."""
    begun = process_time()
    for number, header in enumerate(cycle(headers), 1):
        assert is_valid(header), "a good payment was refused"
        spent = process_time() - begun
        if spent >= seconds:
            return number / spent
    raise AssertionError("there are no payments")


if __name__ == "__main__":
    main()
