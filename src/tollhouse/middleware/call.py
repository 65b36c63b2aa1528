"""What the toll knows about a call, for the application behind it."""

from msgspec import Struct

from tollhouse.caller import Caller
from tollhouse.statistics.recorder import Payment


class TollCall(Struct, frozen=True):
    """`scope["tollhouse"]`, and `request.state.tollhouse` in Starlette, FastAPI and Litestar, on routes with a toll.

    `caller` is who calls: the holder of a key, a wallet, or only a client address. `payment` is what pays for the call
    if it is answered (`plan`, `allowance`, `credit` or `x402`), and `payer` the wallet of an x402 payment, else empty.
    """

    caller: Caller | None
    payment: Payment
    payer: str
    address: str
