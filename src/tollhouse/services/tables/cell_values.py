"""What a cell of a table means, as text or as JSON has it: numbers, money, days, moments, truth, addresses, lists."""

import re
from datetime import UTC, date, datetime, time
from functools import cache
from math import isfinite
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import msgspec

Kind = Literal[
    "text", "keyword", "list", "integer", "number", "money", "date", "moment", "boolean", "url", "image", "json"
]
KINDS: tuple[Kind, ...] = get_args(Kind)

DateFormat = Literal[
    "YYYY-MM-DD", "YYYY/MM/DD", "YYYYMMDD", "DD/MM/YYYY", "MM/DD/YYYY", "DD.MM.YYYY", "DD-MM-YYYY", "MM-DD-YYYY"
]
DATE_FORMATS: tuple[DateFormat, ...] = get_args(DateFormat)
DecimalMark = Literal[".", ","]
DECIMAL_MARKS: tuple[DecimalMark, ...] = get_args(DecimalMark)

# What may stand between the values of a list, and in what share of the cells it must for it to be one.
SEPARATORS = (("|", 0.05), (";", 0.1), (",", 0.25))

MAX_URL = 2_000
MONEY_DECIMALS = 6

_SPACES = " \u00a0\u2009\u202f"
_GROUPS = {".": f",'{_SPACES}", ",": f".'{_SPACES}"}
_SYMBOLS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}
_CURRENCIES = (
    "AED ARS AUD BGN BRL CAD CHF CLP CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR ISK JPY KES KRW MAD MXN MYR NGN "
    "NOK NZD PEN PHP PKR PLN RON RSD RUB SAR SEK SGD THB TRY TWD UAH USD VND ZAR"
)
_SIGN = rf"[$€£¥₹]|{_CURRENCIES.replace(' ', '|')}"
_PRICE = re.compile(
    rf"(?:(?P<before>{_SIGN})\s*)?(?P<number>[-+]?[\d.,'{_SPACES}]*\d)(?:\s*(?P<after>{_SIGN}))?", re.ASCII
)
_YES = frozenset({"true", "yes", "y", "t", "1", "on"})
_NO = frozenset({"false", "no", "n", "f", "0", "off"})


def is_empty(cell: Any, empty: tuple[str, ...] = ()) -> bool:
    """Whether a cell says nothing: null, no text, no members, or one of the words that stand for nothing."""
    if cell is None or cell in ([], {}):
        return True
    return isinstance(cell, str) and (not cell.strip() or cell.strip() in empty)


def text_of(cell: Any) -> str:
    """The cell as text. Raises ValueError for what cannot be written."""
    if isinstance(cell, str):
        cell.encode()  # half of a surrogate pair is no text: a ValueError
        return cell.strip()
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return msgspec.json.encode(cell).decode()


def integer_of(cell: Any, mark: DecimalMark = ".") -> int:
    """A whole number. Raises ValueError."""
    number = number_of(cell, mark)
    if number != int(number):
        raise ValueError("is no whole number")
    return int(number)


def number_of(cell: Any, mark: DecimalMark = ".") -> int | float:
    """A number, with its thousands apart or not, `12%` as 12. Raises ValueError."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        raise ValueError("is no number")  # noqa: TRY004 - a cell that does not fit, like any other
    if not isinstance(cell, str):
        return _finite(cell)
    text = cell.strip().removesuffix("%").rstrip()
    if len(text) > 40 or not _number_pattern(mark).fullmatch(text):
        raise ValueError("is no number")
    plain = "".join(sign for sign in text if sign not in _GROUPS[mark]).replace(mark, ".")
    if re.fullmatch(r"[-+]?\d+", plain):
        return int(plain)
    return _finite(float(plain))


def money_of(cell: Any, mark: DecimalMark = ".") -> int | float:
    """An amount, with a currency beside it or not. Raises ValueError."""
    if not isinstance(cell, str):
        return number_of(cell, mark)
    found = _PRICE.fullmatch(cell.strip())
    if not found or (found["before"] and found["after"]):
        raise ValueError("is no amount of money")
    amount = number_of(found["number"], mark)
    if round(amount, MONEY_DECIMALS) != amount:
        raise ValueError(f"has more than {MONEY_DECIMALS} decimals")
    return amount


def currency_of(cell: Any) -> str:
    """The currency beside an amount, as ISO 4217 has it; "" where none is written."""
    found = _PRICE.fullmatch(cell.strip()) if isinstance(cell, str) else None
    sign = (found["before"] or found["after"] or "") if found else ""
    return _SYMBOLS.get(sign, sign)


def date_of(cell: Any, form: DateFormat = "YYYY-MM-DD") -> str:
    """A day as `2026-01-31`; a moment at midnight is one too. Raises ValueError."""
    text = _text(cell)
    day, _, clock = text.replace("T", " ", 1).partition(" ")
    if clock and not re.fullmatch(r"0?0:00(:00(\.0+)?)?(Z|\+00:00)?", clock.strip()):
        raise ValueError("is a moment, and no day")
    return _day(day, form).isoformat()


def moment_of(cell: Any, form: DateFormat = "YYYY-MM-DD") -> str:
    """A moment as RFC 3339 in UTC; one without an offset is taken as UTC, a day as its beginning. Raises ValueError."""
    day, _, clock = _text(cell).replace("T", " ", 1).partition(" ")
    try:
        at = time.fromisoformat(clock.strip().upper().replace(" ", "")) if clock.strip() else time()
        moment = datetime.combine(_day(day, form), at)
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"is no moment such as {form} 08:00:00") from None
    return moment.replace(tzinfo=None).isoformat() + "Z"


def boolean_of(cell: Any) -> bool:
    """Yes or no, in the usual words. Raises ValueError."""
    word = cell.strip().casefold() if isinstance(cell, str) else str(cell).casefold()
    if word in _YES or word in _NO:
        return word in _YES
    raise ValueError("is neither yes nor no")


def url_of(cell: Any) -> str:
    """An http(s) address. Raises ValueError."""
    text = _text(cell)
    is_web = text.lower().startswith(("http://", "https://")) and len(text) <= MAX_URL
    if not is_web or not text.isprintable() or " " in text or not urlsplit(text).hostname:
        raise ValueError("is no http(s) address")
    return text


def list_of(cell: Any, separator: str = "|") -> list[str]:
    """The texts of a list, or of a text with a separator between them; none for a list of nothing."""
    parts = cell if isinstance(cell, list) else text_of(cell).split(separator)
    if any(isinstance(part, list | dict) for part in parts):
        raise ValueError("is a list of more than texts")
    return [text for part in parts if part is not None and (text := text_of(part))]


def _finite(number: float) -> float:
    if (isinstance(number, int) and number.bit_length() > 1_000) or not isfinite(number):
        raise ValueError("is too large a number")
    return number


def _text(cell: Any) -> str:
    if not isinstance(cell, str):
        raise ValueError("is no text")  # noqa: TRY004 - a cell that does not fit, like any other
    return cell.strip()


def _day(text: str, form: DateFormat) -> date:
    found = _day_pattern(form).fullmatch(text)
    if not found:
        raise ValueError(f"is no day such as {form}")
    try:
        return date(int(found["Y"]), int(found["M"]), int(found["D"]))
    except ValueError:
        raise ValueError("is a day that the calendar does not have") from None


@cache
def _day_pattern(form: DateFormat) -> re.Pattern[str]:
    pattern = re.escape(form).replace("YYYY", r"(?P<Y>\d{4})")
    # Where nothing stands between them, or the year comes first, months and days have two digits.
    two = r"\d{2}" if form.startswith("YYYY") else r"\d{1,2}"
    return re.compile(pattern.replace("MM", rf"(?P<M>{two})").replace("DD", rf"(?P<D>{two})"), re.ASCII)


@cache
def _number_pattern(mark: DecimalMark) -> re.Pattern[str]:
    point, group = re.escape(mark), f"[{re.escape(_GROUPS[mark])}]"
    return re.compile(rf"[-+]?(\d+|\d{{1,3}}({group}\d{{3}})+)?({point}\d+)?(?<=\d)([eE][-+]?\d{{1,3}})?", re.ASCII)
