"""The terms of a route: what `toll(...)` declares, as a decorator of its handler or in a table of routes."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from tollhouse.http.terms import Price, Terms, free_then_paid, key_with
from tollhouse.money import MICROS_PER_USD

Handler = TypeVar("Handler", bound=Callable[..., Any])

MARK = "__toll__"


@dataclass(frozen=True, slots=True)
class Toll:
    """The terms of a route. Called with a handler, it marks that handler and returns it.

    `price` is in micro-USD; None where the route only counts against plans. `free_per_day` is the free allowance of a
    client address on this route; None for that of the settings, which it shares with all others.
    """

    price: int | None
    free_per_day: int | None = None
    requires_key: bool = False
    entitlement: str = ""

    def __call__(self, handler: Handler) -> Handler:
        """Mark a handler. The framework's own decorator goes above this one."""
        try:
            setattr(handler, MARK, self)
        except AttributeError:
            raise TypeError(
                f"@toll goes between the framework's decorator and the function, not on {handler!r}"
            ) from None
        return handler

    def terms(self, allowance: str) -> Terms:
        """Who may call and what it costs. `allowance` is the name of the route's own allowance."""
        if self.price is None or self.requires_key:
            return key_with(self.entitlement, price=None if self.price is None else Price(self.price))
        if self.free_per_day is None:
            return free_then_paid(self.price)
        return free_then_paid(self.price, self.free_per_day, allowance)


def toll(
    price: str | Decimal | None = None,
    *,
    free_per_day: int | None = None,
    requires_key: bool = False,
    entitlement: str = "",
) -> Toll:
    """The terms of a route.

    `price` is what a call costs in USD, as a text: `"0.002"`. Anyone may call: `free_per_day` calls of a client address
    are free, those beyond it are paid for (from a wallet's credit, or with x402), or count against the plan of a key.
    With `requires_key`, an API key is needed, or a wallet that pays the price of each call from its credit; without a
    price, wallets may not call. `entitlement` is what the key's plan must include. Raises ValueError.

        @app.get("/forecast")
        @toll("0.002", free_per_day=50)
        async def forecast(): ...
    """
    needs_key = requires_key or bool(entitlement)
    if price is None and not needs_key:
        raise ValueError("a toll needs a price, unless it requires a key")
    if needs_key and free_per_day is not None:
        raise ValueError("free_per_day is the allowance of callers without a key; set it or requires_key, not both")
    if free_per_day is not None and free_per_day < 0:
        raise ValueError("free_per_day must not be negative")
    return Toll(None if price is None else _micros(price), free_per_day, needs_key, entitlement)


def _micros(price: str | Decimal) -> int:
    try:
        micros = Decimal(str(price)) * MICROS_PER_USD
    except InvalidOperation:
        micros = Decimal("NaN")
    if not micros.is_finite() or micros <= 0 or micros % 1:
        raise ValueError(f"a price is in USD, greater than zero, in whole millionths: {str(price)!r} is not")
    return int(micros)
