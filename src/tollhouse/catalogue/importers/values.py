"""Values as feeds and tables write them: numbers, money, dates, booleans, addresses, lists, availability."""

import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache
from math import isfinite
from typing import Any, Literal, TypeGuard, get_args
from urllib.parse import urlsplit

import msgspec

from tollhouse.catalogue.importers.items import FeedItemError

DateFormat = Literal[
    "YYYY-MM-DD",
    "YYYY/MM/DD",
    "YYYYMMDD",
    "DD/MM/YYYY",
    "MM/DD/YYYY",
    "DD.MM.YYYY",
    "DD-MM-YYYY",
    "MM-DD-YYYY",
    "DD MMM YYYY",
    "MMM DD, YYYY",
]
DATE_FORMATS: tuple[DateFormat, ...] = get_args(DateFormat)
DecimalMark = Literal[".", ","]
DECIMAL_MARKS: tuple[DecimalMark, ...] = get_args(DecimalMark)

MAX_URL = 2_000
MONEY_DECIMALS = 6
_MAX_NUMBER_LENGTH = 40

_SPACES = " \u00a0\u2009\u202f"
_GROUPS = {".": f",'{_SPACES}", ",": f".'{_SPACES}"}
# "$" alone does not say whose dollar.
_SYMBOLS = {"A$": "AUD", "AU$": "AUD", "US$": "USD", "NZ$": "NZD", "C$": "CAD", "€": "EUR", "£": "GBP", "¥": "JPY",
            "₹": "INR", "$": ""}  # fmt: skip
_CURRENCIES = frozenset({
    "AED", "ARS", "AUD", "BGN", "BRL", "CAD", "CHF", "CLP", "CNY", "COP", "CZK", "DKK", "EGP", "EUR", "GBP", "HKD",
    "HUF", "IDR", "ILS", "INR", "ISK", "JPY", "KES", "KRW", "MAD", "MXN", "MYR", "NGN", "NOK", "NZD", "PEN", "PHP",
    "PKR", "PLN", "RON", "RSD", "RUB", "SAR", "SEK", "SGD", "THB", "TRY", "TWD", "UAH", "USD", "VND", "ZAR",
})  # fmt: skip
_SIGN = r"(?:AU|A|US|NZ|C)?\$|[€£¥₹]|[A-Za-z]{3}"
_MONEY = re.compile(
    rf"(?:(?P<code>[A-Za-z]{{3}})\s+(?=[^\s\w]))?(?:(?P<before>{_SIGN})\s*)?(?P<number>[-+]?[\d.,'{_SPACES}]*\d)"
    rf"(?:\s*(?P<after>{_SIGN}))?",
    re.IGNORECASE,
)
# In lower case these are hardly words of a language.
_HEADER_CODES = frozenset({"aud", "chf", "eur", "gbp", "jpy", "nok", "nzd", "sek", "usd"})
# One thousand or one and a half, depending on where it was written.
_AMBIGUOUS = re.compile(r"[-+]?\d{1,3}\.\d{3}", re.ASCII)
_COMMA_DECIMALS = re.compile(r"[-+]?[\d.]+,\d{2}", re.ASCII)
_DEGREES = r"([-+]?\d{1,3}(?:\.\d+)?)"
_POINT = re.compile(rf"[(\[]?\s*{_DEGREES}\s*[,;]\s*{_DEGREES}\s*[)\]]?", re.ASCII)
_WKT_POINT = re.compile(rf"POINT\s*\(\s*{_DEGREES}\s+{_DEGREES}\s*\)", re.ASCII | re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_YES = frozenset({"true", "yes", "y", "t", "1", "on", "ja", "oui", "si", "sí", "sim"})
_NO = frozenset({"false", "no", "n", "f", "0", "off", "nein", "nee", "non", "não", "nao"})
YES_OR_NO = _YES | _NO

_AVAILABILITY = {
    "in stock": ("instock", "available", "yes", "true", "1", "availablefororder", "onlineonly", "instoreonly",
                 "inshop"),
    "low stock": ("limitedavailability", "lowstock", "limitedstock"),
    "preorder": ("preorder", "presale"),
    "backorder": ("backorder", "onbackorder", "madetoorder"),
    "out of stock": ("outofstock", "soldout", "unavailable", "no", "false", "0", "reserved", "notavailable"),
    "discontinued": ("discontinued",),
}  # fmt: skip
_AVAILABILITY_BY_WORD = {word: label for label, words in _AVAILABILITY.items() for word in words}


# Prices in product feeds. They raise FeedItemError.


def feed_money(value: Any, name: str = "price", mark: DecimalMark | None = None) -> tuple[Decimal, str]:
    """An amount and the currency beside it ("" without one): 1299, "$1,299.00", "1.299,00 EUR". Raises FeedItemError.

    Without `mark` the decimal mark is detected; "1.490", which can mean two things, is refused.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise FeedItemError(f"the {name} is not a number")
    text = str(value).strip()
    match = _money_match(text)
    number = match["number"].strip() if match else ""
    if mark is None:
        if _AMBIGUOUS.fullmatch(number):
            raise FeedItemError(f"the {name} {text} could be thousands or three decimals")
        mark = "," if _COMMA_DECIMALS.fullmatch(number) else "."
    if not match or not _number_pattern(mark).fullmatch(number):
        raise FeedItemError(f"the {name} is not a number: {text[:_MAX_NUMBER_LENGTH]!r}")
    signs = [sign.upper() for sign in (match["code"], match["before"], match["after"]) if sign]
    codes = [code for sign in signs if (code := _SYMBOLS.get(sign, sign))]
    if len(set(codes)) > 1:
        raise FeedItemError(f"the {name} names two currencies: {text!r}")
    return Decimal(_plain_number(number, mark)), codes[0] if codes else ""


def minor_units(value: Any, decimals: int, name: str = "price") -> Decimal:
    """An amount in whole cents, or the currency's smallest unit. Raises FeedItemError when it is not whole."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole and not (isinstance(value, str) and re.fullmatch(r"-?\d{1,15}", value.strip(), re.ASCII)):
        raise FeedItemError(f"the {name} must be in whole minor units (129900 for 1299.00), not {str(value)[:40]!r}")
    if not 0 <= decimals <= 6:
        raise FeedItemError(f"a currency has 0 to 6 decimals, not {decimals}")
    if abs(int(value)) > 10**15:
        raise FeedItemError(f"the {name} is too large")
    return Decimal(int(value)).scaleb(-decimals)


def availability(value: Any, missing: str = "in stock") -> str:
    """The label of a word, a schema.org address, yes or no, or a number of pieces. Raises FeedItemError."""
    if isinstance(value, bool):
        return "in stock" if value else "out of stock"
    text = str(value).strip() if isinstance(value, str | int | float) else ""
    if re.fullmatch(r"-?\d+(?:\.0+)?", text, re.ASCII):
        return "in stock" if not text.startswith("-") and text.strip("0.") else "out of stock"
    word = re.sub(r"[\s_-]+", "", text.rstrip("/").rsplit("/", 1)[-1].rsplit(":", 1)[-1]).lower()
    if word and word not in _AVAILABILITY_BY_WORD:
        raise FeedItemError(f"the availability {text[:40]!r} is unknown")
    return _AVAILABILITY_BY_WORD[word] if word else missing


# Cells of tables. They raise ValueError.


def is_empty(cell: Any, empty: tuple[str, ...] = ()) -> bool:
    """Whether a cell has no value: null, blank text, no members, or one of the words that stand for nothing."""
    if cell is None or cell in ([], {}):
        return True
    return isinstance(cell, str) and (not cell.strip() or cell.strip() in empty)


def cell_text(cell: Any) -> str:
    """The cell as text. Raises ValueError for what cannot be encoded."""
    if isinstance(cell, str):
        cell.encode()  # half of a surrogate pair raises ValueError
        return cell.strip()
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return msgspec.json.encode(cell).decode()


def parse_integer(cell: Any, mark: DecimalMark = ".") -> int:
    """A whole number. Raises ValueError."""
    number = parse_number(cell, mark)
    if number != int(number):
        raise ValueError("is not a whole number")
    return int(number)


def parse_number(cell: Any, mark: DecimalMark = ".") -> int | float:
    """A number, with or without thousands separators, `12%` as 12. Raises ValueError."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        raise ValueError("is not a number")  # noqa: TRY004 - a cell that does not fit, like any other
    if not isinstance(cell, str):
        return _finite(cell)
    text = cell.strip().removesuffix("%").rstrip()
    mantissa, _, exponent = text.lower().partition("e")
    is_number = len(text) <= _MAX_NUMBER_LENGTH and _number_pattern(mark).fullmatch(mantissa)
    if not is_number or (mantissa != text.lower() and not re.fullmatch(r"[-+]?\d{1,3}", exponent, re.ASCII)):
        raise ValueError("is not a number")
    plain = _plain_number(mantissa, mark)
    if mantissa == text.lower() and "." not in plain:
        return int(plain)
    return _finite(float(f"{plain}e{exponent or 0}"))


def parse_amount(cell: Any, mark: DecimalMark = ".", currency: str = "") -> int | float:
    """An amount of money, with or without a currency beside it, which must be `currency` where both are known.

    Raises ValueError.
    """
    if not isinstance(cell, str):
        return parse_number(cell, mark)
    match = _money_match(cell)
    signs = [sign for sign in (match["code"], match["before"], match["after"]) if sign] if match else []
    if not match or len(signs) > 1 or not {*signs} <= _CURRENCIES | {*_SYMBOLS}:
        raise ValueError("is not an amount of money")
    code = _SYMBOLS.get(signs[0], signs[0]) if signs else ""
    if code and currency and code != currency:
        raise ValueError(f"is in {code}, not in {currency}")
    amount = parse_number(match["number"], mark)
    if round(amount, MONEY_DECIMALS) != amount:
        raise ValueError(f"has more than {MONEY_DECIMALS} decimals")
    return amount


def cell_currency(cell: Any) -> str:
    """The ISO 4217 code of the currency beside an amount, "" without one; "$" is taken for USD."""
    match = _money_match(cell) if isinstance(cell, str) else None
    sign = (match["before"] or match["after"] or "") if match else ""
    return "USD" if sign == "$" else _SYMBOLS.get(sign, sign if sign in _CURRENCIES else "")


def named_currency(header: str) -> str:
    """The ISO 4217 code of the currency that a header names: `Price (€)`, `Cost USD`, `usd_total`; "" without one.

    A code stands at the end, in brackets, or in lower case between underscores: `CAD files` are no dollars.
    """
    if symbol := re.search(r"[A-Z]*\$|[€£¥₹]", header):
        return "USD" if symbol[0] == "$" else _SYMBOLS.get(symbol[0], "")
    codes = re.findall(r"[(\[]\s*([A-Z]{3})\s*[)\]]|\b([A-Z]{3})$", header.strip())
    codes += [(word.upper(), "") for word in header.split("_") if word in _HEADER_CODES]
    return next((code for pair in codes for code in pair if code in _CURRENCIES), "")


def parse_date(cell: Any, form: DateFormat = "YYYY-MM-DD") -> str:
    """A day as `2026-01-31`; a time at midnight counts as a day. Raises ValueError."""
    if "MMM" in form:
        return _day(_text(cell), form).isoformat()
    day, _, clock = _text(cell).replace("T", " ", 1).partition(" ")
    if clock and not re.fullmatch(r"0?0:00(:00(\.0+)?)?(Z|\+00:00)?", clock.strip()):
        raise ValueError("is a time, not a day")
    return _day(day, form).isoformat()


def parse_moment(cell: Any, form: DateFormat = "YYYY-MM-DD") -> str:
    """A time as RFC 3339 in UTC; without an offset it is UTC, and a day is its midnight. Raises ValueError."""
    day, _, clock = _text(cell).replace("T", " ", 1).partition(" ")
    try:
        at = time.fromisoformat(clock.strip().upper().replace(" ", "")) if clock.strip() else time()
        moment = datetime.combine(_day(day, form), at)
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"is not a time such as {form} 08:00:00") from None
    return moment.replace(tzinfo=None).isoformat() + "Z"


def parse_boolean(cell: Any) -> bool:
    """Yes or no, in the usual words. Raises ValueError."""
    word = cell.strip().casefold() if isinstance(cell, str) else str(cell).casefold()
    if word in _YES or word in _NO:
        return word in _YES
    raise ValueError("is neither yes nor no")


def parse_url(cell: Any) -> str:
    """An http or https address. Raises ValueError."""
    text = _text(cell)
    if not is_url(text):
        raise ValueError("is not an http or https address")
    return text


def is_url(value: Any) -> TypeGuard[str]:
    """Whether a value is an http or https address of at most MAX_URL characters."""
    if not isinstance(value, str) or len(value) > MAX_URL or not value.isprintable() or " " in value:
        return False
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def parse_point(cell: Any) -> dict[str, float]:
    """A position as `latitude, longitude` in degrees, in brackets or not, or as WKT's `POINT(longitude latitude)`.

    Raises ValueError.
    """
    text = _text(cell)
    if match := _WKT_POINT.fullmatch(text):
        longitude, latitude = float(match[1]), float(match[2])
    elif match := _POINT.fullmatch(text):
        latitude, longitude = float(match[1]), float(match[2])
    else:
        raise ValueError("is not a position such as 47.37, 8.54")
    if abs(latitude) > 90 or abs(longitude) > 180:
        raise ValueError("is not a position on Earth")
    return {"latitude": latitude, "longitude": longitude}


def parse_list(cell: Any, separator: str = "|") -> list[str]:
    """The texts of a JSON list, or of a text with a separator between them. Raises ValueError."""
    parts = cell if isinstance(cell, list) else cell_text(cell).split(separator)
    if any(isinstance(part, list | dict) for part in parts):
        raise ValueError("is not a list of texts")
    return [text for part in parts if part is not None and (text := cell_text(part))]


def _money_match(text: str) -> re.Match[str] | None:
    text = text.strip()
    return _MONEY.fullmatch(text) if len(text) <= _MAX_NUMBER_LENGTH else None


@cache
def _number_pattern(mark: DecimalMark) -> re.Pattern[str]:
    point, group = re.escape(mark), f"[{re.escape(_GROUPS[mark])}]"
    return re.compile(rf"[-+]?(\d+|\d{{1,3}}({group}\d{{3}})+)?({point}\d+)?(?<=\d)", re.ASCII)


def _plain_number(text: str, mark: DecimalMark) -> str:
    return "".join(sign for sign in text if sign not in _GROUPS[mark]).replace(mark, ".")


def _finite(number: float) -> float:
    if (isinstance(number, int) and number.bit_length() > 1_000) or not isfinite(number):
        raise ValueError("is too large a number")
    return number


def _text(cell: Any) -> str:
    if not isinstance(cell, str):
        raise ValueError("is not text")  # noqa: TRY004 - a cell that does not fit, like any other
    return cell.strip()


def _day(text: str, form: DateFormat) -> date:
    match = _day_pattern(form).fullmatch(text)
    if not match:
        raise ValueError(f"is not a day such as {form}")
    try:
        month = match["M"]
        number = int(month) if month.isdecimal() else _MONTHS.index(month[:3].lower()) + 1
        return date(int(match["Y"]), number, int(match["D"]))
    except ValueError:
        raise ValueError("is not a day of the calendar") from None


@cache
def _day_pattern(form: DateFormat) -> re.Pattern[str]:
    pattern = re.escape(form).replace("YYYY", r"(?P<Y>\d{4})").replace("MMM", r"(?P<M>[A-Za-z]{3,9})\.?")
    # Where nothing stands between them, or the year comes first, months and days have two digits.
    two = r"\d{2}" if form.startswith("YYYY") else r"\d{1,2}"
    return re.compile(pattern.replace("MM", rf"(?P<M>{two})").replace("DD", rf"(?P<D>{two})"), re.ASCII)
