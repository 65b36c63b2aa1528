"""What a price in a feed is worth: decimal strings, whole cents, minor units, and the many ways shops write a sum."""

import re
from decimal import Decimal, InvalidOperation
from typing import Any

from tollhouse.catalogue.importers.article import Faulty, Price

HIGHEST = Decimal(100_000)
"""No mattress costs more; what does is a wrong unit."""

_DECIMALS = 2
_PLAIN = re.compile(r"-?\d{1,12}(?:\.\d{1,6})?")
# One thousand or one dollar, according to where it was written.
_AMBIGUOUS = re.compile(r"-?\d{1,3}\.\d{3}")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:[,' ]\d{3})+(?:\.\d{1,2})?")
_CONTINENTAL = re.compile(r"-?(?:\d{1,3}(?:\.\d{3})+|\d{1,9}),\d{2}")
_CODE = re.compile(r"\b([A-Z]{3})\b")
_DOLLARS = {"A$": "AUD", "AU$": "AUD", "US$": "USD", "NZ$": "NZD", "C$": "CAD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_SYMBOL = re.compile(r"AU\$|A\$|US\$|NZ\$|C\$|€|£|¥|\$", re.IGNORECASE)


def decimal(value: Any, name: str = "price") -> Decimal:
    """A sum as text or number: 1299, "1,299.00", "$1299", "1.299,00". Raises Faulty when it is none."""
    return money(value, name)[0]


def money(value: Any, name: str = "price") -> tuple[Decimal, str]:
    """A sum and the currency that stands beside it ("" where none does): "1490.00 AUD". Raises Faulty."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise Faulty(f"the {name} is no number")
    text = str(value).strip()
    if len(text) > 40:
        raise Faulty(f"the {name} is no number: {text[:40]!r}")
    currency = ""
    if code := _CODE.search(text.upper()):
        currency, text = code[1], text[: code.start()] + text[code.end() :]
    if symbol := _SYMBOL.search(text):
        currency = currency or _DOLLARS.get(symbol[0].upper(), "")
        text = text[: symbol.start()] + text[symbol.end() :]
    return _read(text.strip(), name), currency


def minor_units(value: Any, decimals: int, name: str = "price") -> Decimal:
    """Whole cents, or whatever a currency's smallest unit is. Raises Faulty where it is not whole."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole and not (isinstance(value, str) and re.fullmatch(r"-?\d{1,15}", value.strip())):
        raise Faulty(f"the {name} must be whole minor units (129900 for 1299.00), not {str(value)[:40]!r}")
    if not 0 <= decimals <= 6:
        raise Faulty(f"a currency has 0 to 6 decimals, not {decimals}")
    if abs(int(value)) > 10**15:
        raise Faulty(f"the {name} is absurd")
    return Decimal(int(value)).scaleb(-decimals)


def priced(now: Decimal, listed: Decimal | None, currency: str = "") -> Price:
    """What is to be paid, and the price before where that is higher: a lower one is no reduction. Raises Faulty."""
    bounded(now, "price")
    is_reduced = listed is not None and listed > now
    if is_reduced:
        bounded(listed, "price before the reduction")
    return Price(now, listed if is_reduced else None, currency)


def bounded(amount: Decimal | None, name: str) -> None:
    """Raises Faulty for what no mattress costs."""
    assert amount is not None, "asked of amounts only"
    if amount <= 0:
        raise Faulty(f"the {name} must be above zero, not {amount:f}")
    if amount > HIGHEST:
        raise Faulty(f"the {name} is absurd: {amount:f}")
    if amount != amount.quantize(Decimal(1).scaleb(-_DECIMALS)):
        raise Faulty(f"the {name} has more than {_DECIMALS} decimals: {amount:f}")


def _read(text: str, name: str) -> Decimal:
    if _AMBIGUOUS.fullmatch(text):
        raise Faulty(f"the {name} {text} could be thousands or three decimals")
    if _PLAIN.fullmatch(text):
        plain = text
    elif _THOUSANDS.fullmatch(text):
        plain = re.sub(r"[,' ]", "", text)
    elif _CONTINENTAL.fullmatch(text):
        plain = text.replace(".", "").replace(",", ".")
    else:
        raise Faulty(f"the {name} is no number: {text[:40]!r}")
    try:
        return Decimal(plain)
    except InvalidOperation:
        raise Faulty(f"the {name} is no number: {text[:40]!r}") from None
