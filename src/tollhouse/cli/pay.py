"""`tollhouse pay`: make one request and pay for it (x402), to try a server or a toll."""

import sys
from base64 import b64decode
from decimal import Decimal
from typing import Annotated

import httpx2
import msgspec
from cyclopts import Parameter

from tollhouse.client import Payer
from tollhouse.config.loader import variables
from tollhouse.money import MICROS_PER_USD

SECONDS = 90
KEY = "PAYER_KEY"


def pay(
    url: Annotated[str, Parameter(help="URL of the request, with its query")],
    *,
    at_most: Annotated[Decimal, Parameter(help="The most to pay, in USD")] = Decimal("0.10"),
) -> None:
    """Request a URL and pay for it if it costs something, with the wallet whose key is in the variable PAYER_KEY.

    Prints the body of the answer on standard output, and what was paid on standard error.
    """
    with httpx2.Client(timeout=SECONDS) as client:
        try:
            answer = client.get(url)
            required = answer.headers.get("PAYMENT-REQUIRED")
            if answer.status_code == httpx2.codes.PAYMENT_REQUIRED and required:
                answer = client.get(url, headers=_payer().headers(required, int(at_most * MICROS_PER_USD)))
        except httpx2.HTTPError as error:
            raise ValueError(f"{url}: {type(error).__name__}: {error}") from None
    print(f"HTTP {answer.status_code}{_receipt(answer)}", file=sys.stderr)
    print(answer.text)
    if not answer.is_success:
        sys.exit(1)


def _payer() -> Payer:
    key = variables().get(KEY)
    if not key:
        raise ValueError(f"set {KEY} to the private key of a wallet with USDC")
    return Payer(key)


def _receipt(answer: httpx2.Response) -> str:
    """What the answer says of a payment. One whose answer cost nothing has no transaction."""
    receipt = answer.headers.get("PAYMENT-RESPONSE")
    transaction = msgspec.json.decode(b64decode(receipt))["transaction"] if receipt else ""
    return f", paid in transaction {transaction}" if transaction else ", unpaid"
