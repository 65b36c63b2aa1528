"""Money in whole micro-USD, converted from and to decimal USD."""

from decimal import Decimal

MICROS_PER_USD = 1_000_000


def micros(amount: Decimal) -> int:
    """`Decimal("0.001")` USD -> `1_000`. The amount has at most six decimals."""
    return int(amount * MICROS_PER_USD)


def usd(micros: int) -> str:
    """`10_000` -> `"0.01"`: exact, without trailing zeros beyond the cents."""
    sign = "-" if micros < 0 else ""
    whole, fraction = divmod(abs(micros), MICROS_PER_USD)
    digits = f"{fraction:06d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole}.{digits}"
