"""The date that a headline names, and whether the headline tells of the past: "killed in August", "10 years after"."""

import re
from datetime import date, timedelta
from functools import lru_cache

from msgspec import Struct

# A named day up to this long before the report is news; an older one is the past.
RECENT_DAYS = 7
# A month without a year is the last one of that name, or the next one if that is nearer and the headline looks ahead.
_LOOKING_AHEAD = re.compile(r"\b(?:will|to|plans?|set|due|ahead|next|expected|scheduled|until|by|upcoming)\b")

_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
           "december")  # fmt: skip
_MONTH_NUMBERS = {name[:3]: number for number, name in enumerate(_MONTHS, 1)} | {"sept": 9}
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)}|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.?"
_DAY = r"(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>1[0-9]{3}|20[0-9]{2})"
_COUNT = (
    r"(?:[0-9]{1,4}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty"
    r"|fifty|sixty|seventy|eighty|ninety|(?:a )?hundred|several|many|some)"
)

# "14 November 1918", "November 14, 1918" anywhere; "on July 2nd", or "July 2nd" where it opens the headline. Elsewhere
# a day without a year only names a thing: "Jan. 6 panel".
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_DAY} (?:of )?{_MONTH},? {_YEAR}\b",
        rf"\b{_MONTH} {_DAY},? {_YEAR}\b",
        rf"(?:^|\bon ){_DAY} (?:of )?{_MONTH}(?![-\w])",
        rf"(?:^|\bon ){_MONTH} {_DAY}(?![-\w%])",
    )
)
_IN_MONTH = re.compile(rf"\b(?:(?P<before>\w+) )?{_MONTH},? {_YEAR}\b")
_IN_MONTH_ALONE = re.compile(rf"\b(?:in|last) (?P<month>{'|'.join(_MONTHS)})(?![-\w]| [0-9])")
_IN_YEAR = re.compile(rf"(?:^|\bin (?:the )?){_YEAR}s?\b(?![-'/]| ?(?:to|election|vote|polls?|cup|games|olympics)\b)")
# Names of groups may occur once in a pattern, so these have none.
_MONTH_NAME = _MONTH.replace("?P<month>", "?:")
_DAY_NUMBER = r"[0-3]?[0-9](?:st|nd|rd|th)?"
_CALENDAR = re.compile(
    rf"\b(?:{_DAY_NUMBER} (?:of )?{_MONTH_NAME}|{_MONTH_NAME} {_DAY_NUMBER})(?:,? [0-9]{{4}})?(?![-\w%])"
    rf"|\b{_MONTH_NAME},? (?:1[0-9]{{3}}|20[0-9]{{2}})\b",
    re.IGNORECASE,
)
_LASTING = frozenset({"since", "by", "until", "till", "before", "after", "for", "from"})
# Spans that lead to the past, whatever the report's day. "A year after" counts where it opens the headline.
_AGO = re.compile(
    rf"\b{_COUNT} (?:years?|decades?|centur(?:y|ies)|months?) (?:ago|later)\b"
    rf"|\b{_COUNT} (?:years|decades) on\b(?! the)|^{_COUNT} (?:years?|decades?) (?:after|since)\b"
    r"|\b(?:years|decades|centuries|months) (?:ago|later)\b|\blast (?:year|month|century|decade)\b"
)
_COMMEMORATION = re.compile(
    r"\banniversar(?:y|ies)\b|\bcentenary\b|\bcentennial\b|\bthis day in\b|\bon this day\b|\btoday (?:in )?history\b"
    r"|\b[0-9]{1,2}(?:th|st) century\b"
)
# Every match of the two has one of these; looking for them is much faster.
_CUES = ("year", "month", "decad", "centur", "centen", "anniversar", "this day", "today")
_DIGIT = re.compile(r"[0-9]")


class NamedDate(Struct, frozen=True):
    """What a headline says of the time. `first_day` begins the period that it names, None if it names none.

    `words` are the headline's words that say so, empty if there are none.
    """

    first_day: date | None = None
    words: str = ""
    is_past: bool = False


_NOTHING = NamedDate()


@lru_cache(maxsize=4096)
def read_date(title: str, reported_on: date) -> NamedDate:
    """The date that a title names and whether it lies more than RECENT_DAYS before the day of the report.

    Names of weekdays are recent and ignored. Of a month without a year the nearest fits; a year alone counts where it
    opens the title or follows "in", unless it only dates an election or a competition.
    """
    text = " ".join(title.lower().replace("\u2019", "'").split())
    has_digit = _DIGIT.search(text) is not None
    named = _named_day(text, reported_on) if has_digit else None
    if named is None and (has_digit or "in " in text or "last " in text):
        named = _named_month(text, reported_on)
    if named is None and has_digit:
        named = _named_year(text, reported_on)
    cue = None
    if any(word in text for word in _CUES):
        cue = _COMMEMORATION.search(text) or _AGO.search(text)
    if named and (named.is_past or not cue):
        return named
    return NamedDate(named.first_day if named else None, cue[0], is_past=True) if cue else _NOTHING


def without_dates(title: str) -> str:
    """The title without calendar dates, whose words mean something else: "March 12" is no march."""
    return _CALENDAR.sub(" ", title) if _DIGIT.search(title) else title


def _named_day(text: str, reported_on: date) -> NamedDate | None:
    for pattern in _DATES:
        match = pattern.search(text)
        if match is None:
            continue
        month, day = _MONTH_NUMBERS[_stem(match["month"])], int(match["day"])
        if "year" in pattern.groupindex:
            named = _day(int(match["year"]), month, day)
        else:
            days = [_day(reported_on.year + offset, month, day) for offset in (-1, 0, 1)]
            named = min((day for day in days if day), key=lambda day: abs((day - reported_on).days), default=None)
        if named:
            return NamedDate(named, match[0].strip(), is_past=reported_on - named > timedelta(RECENT_DAYS))
    return None


def _named_month(text: str, reported_on: date) -> NamedDate | None:
    match = _IN_MONTH.search(text)
    if match:
        if match["before"] in _LASTING:
            return None
        year = int(match["year"])
    else:
        match = _IN_MONTH_ALONE.search(text)
        if match is None:
            return None
        ahead = (_MONTH_NUMBERS[_stem(match["month"])] - reported_on.month) % 12
        is_next = ahead == 0 or (ahead < 6 and _LOOKING_AHEAD.search(text) is not None)
        year = reported_on.year + (reported_on.month + ahead > 12) - (not is_next)
    month = _MONTH_NUMBERS[_stem(match["month"])]
    following = date(year + month // 12, month % 12 + 1, 1)
    is_past = reported_on - following >= timedelta(RECENT_DAYS)
    return NamedDate(date(year, month, 1), match[0].strip(), is_past=True) if is_past else None


def _named_year(text: str, reported_on: date) -> NamedDate | None:
    match = _IN_YEAR.search(text)
    if match is None:
        return None
    year = int(match["year"])
    is_past = reported_on - date(year, 12, 31) > timedelta(RECENT_DAYS)
    return NamedDate(date(year, 1, 1), match[0].strip(), is_past=True) if is_past else None


def _stem(month: str) -> str:
    return "sept" if month.startswith("sept") else month[:3]


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
