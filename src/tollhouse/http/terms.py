"""The terms of an endpoint: who may call it, which limit a call counts against, and what it costs."""

from typing import Literal

from msgspec import Struct

# The price of a call signed by a registered wallet (document 1, section 8).
AGENT_CALL_MICROS = 10_000

OperatorSetting = Literal["operator_token", "x402_facilitator_auth"]


class Terms(Struct, frozen=True):
    """`opens_to` the holder of an API key, the operator, or anyone.

    `entitlement`: what the key's plan must include; empty for any plan. `minimum_tier` is the cheapest such plan; the
    application fills it in (`with_plans`).
    `is_metered`: a call counts against the limits of the caller's plan, or the free allowance of the client's address
    where no key is needed. `agent_price_micros`: the price in micro-USD for a registered wallet that signs the call;
    None where wallets may not call. `request_price_micros`: the price of each request beyond the allowance (x402).
    With `allowance` named, that is an allowance of its own, of `free_per_day` requests, instead of the server's.
    `operator_setting` names the setting whose Bearer token the operator sends; while it is empty, the operator's token
    is sent.
    """

    opens_to: Literal["anyone", "key", "operator"]
    entitlement: str = ""
    minimum_tier: str = ""
    is_metered: bool = False
    agent_price_micros: int | None = None
    request_price_micros: int | None = None
    allowance: str = ""
    free_per_day: int = 0
    operator_setting: OperatorSetting = "operator_token"

    @property
    def credit_price_micros(self) -> int | None:
        """What a signed call takes from a wallet's credit: the agent price, else the price per request."""
        return self.request_price_micros if self.agent_price_micros is None else self.agent_price_micros


FREE = Terms("anyone")
KEY_UNMETERED = Terms("key")
KEY_OR_AGENT = Terms("key", is_metered=True, agent_price_micros=AGENT_CALL_MICROS)
OPERATOR = Terms("operator")


def key_with(entitlement: str, *, agent_price_micros: int | None = None) -> Terms:
    """A key whose plan includes the entitlement, or a wallet where there is a price for it."""
    return Terms("key", entitlement, is_metered=True, agent_price_micros=agent_price_micros)


def free_then_paid(price_micros: int, free_per_day: int = 0, allowance: str = "") -> Terms:
    """Anyone, free within the address's allowance (the server's, or one of its own), then at this price a request."""
    return Terms(
        "anyone", is_metered=True, request_price_micros=price_micros, allowance=allowance, free_per_day=free_per_day
    )
