"""Callers, and the terms of an endpoint: who may call it, which limit a call counts against, and what it costs."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.money import usd

OperatorSetting = Literal["operator_token", "x402_facilitator_auth"]


class KeyCaller(Struct, frozen=True):
    """The holder of an API key. `per_day` and `per_minute` are the key's own limits, where the operator set some."""

    key_id: str
    tier: str
    label: str | None
    created_at: str
    per_day: int | None = None
    per_minute: int | None = None

    @property
    def subject(self) -> str:
        """The name under which this caller's usage is counted."""
        return self.key_id


class WalletCaller(Struct, frozen=True):
    """A registered wallet that signed the call. Its address is checksummed."""

    agent_id: str
    address: str

    @property
    def subject(self) -> str:
        """The name under which this caller's usage is counted."""
        return self.agent_id


class AddressCaller(Struct, frozen=True):
    """A client known only by its address (IPv6 folded to its /64)."""

    address: str

    @property
    def subject(self) -> str:
        """The name under which this caller's usage is counted."""
        return f"address:{self.address}"


class VisitorCaller(AddressCaller, frozen=True):
    """A person who reads the pages without a key, known only by the client's address."""


Caller = KeyCaller | WalletCaller | AddressCaller


class Price(Struct, frozen=True):
    """What one call costs, in micro-USD: a fixed part, and a part for each `unit` of what it returns.

    `unit` is a noun in the singular, such as `row`; empty where there is only the fixed part. `max_micros` is set where
    the cost is known only after the answer: the most that a call costs.
    """

    request_micros: int
    unit: str = ""
    unit_micros: int = 0
    max_micros: int | None = None

    def micros(self, units: int = 0) -> int:
        """What a call that returns so many units costs; the most it can cost where that is known only afterwards."""
        return self.request_micros + units * self.unit_micros if self.max_micros is None else self.max_micros

    @property
    def text(self) -> str:
        """In words: `0.01 USD`, `0.01 USD and 0.00002 USD a row`, `0.001 USD a kilobyte, at most 0.05 USD`."""
        per_unit = f"{usd(self.unit_micros)} USD a {self.unit}" if self.unit_micros else ""
        most = "" if self.max_micros is None else f"at most {usd(self.max_micros)} USD"
        fixed = f"{usd(self.request_micros)} USD" if self.request_micros or not (per_unit or most) else ""
        # What comes on top of the fixed part is said by the answer alone.
        fixed_or_unit = " and ".join(part for part in (fixed, per_unit) if part) if per_unit or not most else ""
        return ", ".join(part for part in (fixed_or_unit, most) if part)

    @property
    def per_request(self) -> str:
        """The price of a request in words: `0.01 USD a request and 0.00002 USD a row`."""
        fixed, _, per_unit = self.text.partition(" and ")
        return f"{fixed} a request and {per_unit}" if per_unit else f"{fixed} a request"


AGENT_CALL = Price(10_000)
"""The price of a call signed by a registered wallet (document 1, section 8)."""


class Terms(Struct, frozen=True):
    """`opens_to` the holder of an API key, anyone who pays for the call, the operator, or anyone.

    `price` is what a call costs. Where a key opens the endpoint, a registered wallet signs the call and pays from its
    credit instead; where anyone may call, that or a payment (x402) continues beyond the free allowance; where it opens
    to a payer, each call is paid in one of these ways. None: not for sale.
    `entitlement`: what the key's plan must include; empty for any plan. `minimum_tier` is the cheapest such plan; the
    application fills it in.
    `is_metered`: a call counts against the limits of the caller's plan, or the free allowance of the client's address
    where no key is needed. With `allowance` named, that is an allowance of its own, of `free_per_day` requests, instead
    of the server's.
    `requests`: how many requests of the day a call counts as, for each plan where that is not one.
    `operator_setting` names the setting whose Bearer token the operator sends; while it is empty, the operator's token
    is sent.
    """

    opens_to: Literal["anyone", "key", "payer", "operator"]
    price: Price | None = None
    entitlement: str = ""
    minimum_tier: str = ""
    is_metered: bool = False
    allowance: str = ""
    free_per_day: int = 0
    operator_setting: OperatorSetting = "operator_token"
    requests: dict[str, int] = {}

    def free_requests(self, usual: int) -> int:
        """How many requests of an address are free each day: `usual` where no allowance of its own is named."""
        return self.free_per_day if self.allowance else usual

    @property
    def takes_payments(self) -> bool:
        """Whether a call can be paid by itself (x402)."""
        return self.price is not None and self.opens_to != "key"


FREE = Terms("anyone")
KEY_UNMETERED = Terms("key")
KEY_OR_AGENT = Terms("key", AGENT_CALL, is_metered=True)
OPERATOR = Terms("operator")


def key_with(entitlement: str, *, price: Price | None = None) -> Terms:
    """A key whose plan includes the entitlement, or a wallet where there is a price for it."""
    return Terms("key", price, entitlement, is_metered=True)


EXPORTED_ROW_MICROS = 10
"""What each row of an export costs beside its request: 1,000 rows cost a cent."""


def free_then_paid(price_micros: int, free_per_day: int = 0, allowance: str = "") -> Terms:
    """Anyone, free within the address's allowance (the server's, or one of its own), then at this price a request."""
    return Terms("anyone", Price(price_micros), is_metered=True, allowance=allowance, free_per_day=free_per_day)


def by_row(terms: Terms) -> Terms:
    """The same terms for an operation that returns whole tables: each row costs something, too."""
    price = terms.price
    assert price is not None, "only what has a price has one for each row"
    return replace(terms, price=Price(price.request_micros, "row", EXPORTED_ROW_MICROS))
