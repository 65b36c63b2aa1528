"""Times in a question: "since 10:00", "last 3 hours", "yesterday", "on 14 November", and those outside the window."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from tollhouse.questions.grounding import MONTHS

WINDOW_HOURS = 24

_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in MONTHS)
_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "eight": 8, "ten": 10, "twelve": 12}
_HOURS = re.compile(r"\b(?:in |within |over |during )?(?:the )?(?:last|past|previous) (\d{1,3}|[a-z]+ )?\s*hours?\b")
_CLOCK = r"(\d{1,2})(?::(\d{2}))?\s*(am|pm|h|o'clock)?(?:\s*(?:utc|gmt))?"
_SINCE = re.compile(rf"\b(?:since|after)\s+{_CLOCK}(?![\d-])(?!\s*(?:{_MONTH})\b)")
_UNTIL = re.compile(rf"\b(?:before|until|till|up to)\s+{_CLOCK}(?![\d-])(?!\s*(?:{_MONTH})\b)")
_BETWEEN = re.compile(rf"\b(?:between|from)\s+{_CLOCK}\s+(?:and|to|until|till)\s+{_CLOCK}(?![\d-])")
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_YEAR = r"(?:,? (\d{4}))?"
_DAY_MONTH = re.compile(rf"\b(?:on )?(?:the )?(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTH})\b{_YEAR}")
_MONTH_DAY = re.compile(rf"\b(?:on )?({_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?\b{_YEAR}")
_DAYS = re.compile(r"\b(today|yesterday|this morning|so far today)\b")
_WHOLE = re.compile(r"\b(?:in |within |over |during )?(?:the )?(?:last|past) (?:24 hours|24h|day)\b|\bright now\b")
_OUTSIDE = re.compile(
    r"\b(?:(?:last|past|previous|this|next) (?:\w+ )?(?:week|month|year|decade|century|weekend)s?"
    r"|(?:last|past) \w+ days|tomorrow|(?:in|since|during|of|year) (?:1[0-9]{3}|20[0-9]{2})"
    r"|\w+ (?:days|weeks|months|years) ago|ever since|in history|of all time)\b"
)


@dataclass(frozen=True, slots=True)
class TimeExpressions:
    """What a text says of time, and the text without it. `outside` are words that lead out of the window."""

    text: str
    day: date | None = None
    since: datetime | None = None
    until: datetime | None = None
    outside: str = ""


def find_times(text: str, as_of: datetime) -> TimeExpressions:
    """The times in a lower-case text, read from the end of the window, which is taken for now."""
    result: dict[str, Any] = {}
    for pattern, read in _READERS:
        match = pattern.search(text)
        if match:
            try:
                stated = read(match, as_of)
            except ValueError:
                stated = {"outside": match[0].strip()}
            result = {**stated, **result}
            text = f"{text[: match.start()]} {text[match.end() :]}"
    return TimeExpressions(text, **result)


def _hours(match: re.Match[str], as_of: datetime) -> dict[str, Any]:
    stated = (match[1] or "1").strip()
    hours = int(stated) if stated.isdigit() else _NUMBERS.get(stated, 0)
    if hours == WINDOW_HOURS:
        return {}
    if not 0 < hours < WINDOW_HOURS:
        return {"outside": match[0].strip()}
    return {"since": as_of - timedelta(hours=hours)}


def _clock(match: re.Match[str], as_of: datetime, group: int = 1) -> datetime:
    """The last time before now that a clock showed this: its hour, minute and half of the day are three groups."""
    hour, minute = int(match[group]), int(match[group + 1] or 0)
    if match[group + 2] == "pm" and hour < 12:
        hour += 12
    moment = datetime.combine(as_of.date(), time(hour, minute), UTC)
    return moment if moment <= as_of else moment - timedelta(days=1)


def _on(match: re.Match[str], as_of: datetime, year: str | None, month: str, day: str) -> dict[str, Any]:
    """The day of this year, the current one if absent, and month, a number or an English name."""
    number = int(month) if month.isdecimal() else 1 + [name[:3] for name in MONTHS].index(month[:3])
    stated = date(int(year or as_of.year), number, int(day))
    if not as_of.date() - timedelta(days=1) <= stated <= as_of.date():
        return {"outside": match[0].strip()}
    return {"day": stated}


_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], dict[str, Any]]], ...] = (
    (_WHOLE, lambda _match, _as_of: {}),
    (_HOURS, _hours),
    (_ISO, lambda match, as_of: _on(match, as_of, match[1], match[2], match[3])),
    (_DAY_MONTH, lambda match, as_of: _on(match, as_of, match[3], match[2], match[1])),
    (_MONTH_DAY, lambda match, as_of: _on(match, as_of, match[3], match[1], match[2])),
    (_BETWEEN, lambda match, as_of: {"since": _clock(match, as_of), "until": _clock(match, as_of, group=4)}),
    (_SINCE, lambda match, as_of: {"since": _clock(match, as_of)}),
    (_UNTIL, lambda match, as_of: {"until": _clock(match, as_of)}),
    (_DAYS, lambda match, as_of: {"day": as_of.date() - timedelta(days=match[1] == "yesterday")}),
    (_OUTSIDE, lambda match, _as_of: {"outside": match[0].strip()}),
)
