"""The terms of an operation: who may call it, what it draws on, what it costs."""

from typing import Literal

from msgspec import Struct

from tollhouse.accounts.plans import AGENT_CALL_MICROS
from tollhouse.caller import Tier


class Terms(Struct, frozen=True):
    """`opens_to` a key of at least `minimum_tier`, to the operator, or to anyone.

    `is_metered`: one call of the caller's plan is used. `agent_price_micros`: what the same costs a registered
    wallet that signs the call, in micro-USD; None where wallets may not call. What anyone may call and is metered draws
    on the free allowance of the client's address; `request_price_micros` is what each request beyond it costs (x402).
    With `allowance` named, that is an allowance of its own, of `free_per_day` requests, instead of the server's.
    `operator_token` names the setting whose Bearer the operator sends; while it is empty, only this machine may call.
    """

    opens_to: Literal["anyone", "key", "operator"]
    minimum_tier: Tier = "free"
    is_metered: bool = False
    agent_price_micros: int | None = None
    request_price_micros: int | None = None
    allowance: str = ""
    free_per_day: int = 0
    operator_token: Literal["admin_token", "x402_facilitator_auth"] = "admin_token"  # noqa: S105 - a setting's name


FREE = Terms("anyone")
KEY_UNMETERED = Terms("key")
KEY_OR_AGENT = Terms("key", is_metered=True, agent_price_micros=AGENT_CALL_MICROS)
OPERATOR = Terms("operator")


def free_then_paid(price_micros: int, free_per_day: int = 0, allowance: str = "") -> Terms:
    """Anyone, free within the address's allowance (the server's, or one of its own), then at this price a request."""
    return Terms(
        "anyone", is_metered=True, request_price_micros=price_micros, allowance=allowance, free_per_day=free_per_day
    )
