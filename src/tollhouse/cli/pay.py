"""`tollhouse pay`: make one request and pay for it (x402), to try a server or a toll."""

import sys
from decimal import Decimal
from typing import Annotated

import msgspec
from cyclopts import Parameter

from tollhouse.client import Call, Client, LimitedPayer, Payer, ProblemError, SpendingLimit, TollhouseError
from tollhouse.config.loader import variables
from tollhouse.money import MICROS_PER_USD, usd

SECONDS = 90
KEY = "PAYER_KEY"


def pay(
    url: Annotated[str, Parameter(help="URL of the request, with its query")],
    *,
    at_most: Annotated[Decimal, Parameter(help="The most to pay, in USD")] = Decimal("0.10"),
) -> None:
    """Request a URL and pay for it if it costs something, with the wallet whose key is in the variable PAYER_KEY.

    Prints the body of the answer on standard output, and what was paid on standard error. An answer that is lost on its
    way is requested again with the same payment.
    """
    key, most = variables().get(KEY), int(at_most * MICROS_PER_USD)
    if not key:
        raise ValueError(f"set {KEY} to the private key of a wallet with USDC")
    payer = LimitedPayer(Payer(key), SpendingLimit(per_call_micros=most, total_micros=most))
    try:
        with Client(url, "", payer, timeout_seconds=SECONDS) as client:
            answer = client.send(Call("GET", url))
    except ProblemError as problem:
        print(f"HTTP {problem.status}, unpaid", file=sys.stderr)
        print(msgspec.json.encode(problem.members).decode())
        sys.exit(1)
    except TollhouseError as error:
        raise ValueError(f"{url}: {error}") from None
    paid = f"{usd(answer.paid_micros)} USD paid in transaction {answer.transaction}" if answer.transaction else "unpaid"
    print(f"HTTP {answer.status}, {paid}", file=sys.stderr)
    print(answer.text)
