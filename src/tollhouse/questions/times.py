"""Times in a question: dates, hours, "since 10:00", "last 3 hours", "yesterday", in four languages."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any

from msgspec import Struct

from tollhouse.questions.normalise import language_data

Range = tuple[datetime | None, datetime | None]

_MONTHS = {
    form: number
    for number, names in enumerate(language_data()["months"], 1)
    for name in names.split()
    for form in {name, name[:3], *({"sept"} if name == "september" else ())}
    if form not in {"mar", "mai", "may"} or number == 5 or form == "mar"
}
_MONTH = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_NUMBER = (
    "(?:half(?: an)?|"
    "\\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|few|couple of|eine[rn]?|zwei|drei|vier|"
    "funf|sechs|zwolf|una?|dos|tres|cuatro|cinco|seis|doce|une?|deux|trois|quatre|cinq|douze)"
)
_UNITS = {
    "minute": "minut\\w*|mins?",
    "hour": "hours?|hrs?|h|stunden?|horas?|heures?",
    "day": "days?|tage?n?|dias?|jours?",
    "week": "weeks?|wochen?|semanas?|semaines?",
    "month": "months?|monate?n?|mes(?:es)?|mois",
    "year": "years?|jahre?n?|anos?|ans?|annees?",
    "decade": "decades?|century|centuries",
}
_DAYS_OF = {"day": 1, "week": 7, "month": 30, "year": 365, "decade": 3650}
_UNIT = "(?:" + "|".join(f"(?P<{name}>{words})" for name, words in _UNITS.items()) + r")\b"
_LAST = r"(?:last|past|previous|letzten?r?|vergangenen?|ultim[oa]s?|pasad[oa]s?|dernier\w*)"
_LEAD = (
    r"(?:(?:in|within|over|during|for|on|from|at|of|am|im|wahrend|en|durante|el|la|los|las|pendant|au cours des|les|ces"
    r"|le) )*(?:the |den |der |las |los |les |ces |these )?"
)
_HOURS = {word: number for word, number in language_data()["numbers"].items() if 1 <= number <= 12}
_HOUR = rf"(?:{'|'.join(_HOURS)})(?=\s?(?:am|pm|a\.m|p\.m|o'clock|uhr|in the|this|today|yesterday|heute|gestern)\b)"
_CLOCK = (
    r"(?:um |las |la )?(?P<{0}h>[01]?\d|2[0-4]|HOUR)(?:(?::|h)(?P<{0}m>\d{{2}}))?\s?"
    r"(?P<{0}half>am|pm|a\.m\.?|p\.m\.?|h|o'clock|uhr|heures|utc|gmt|horas)?(?:\s?(?:utc|gmt))?"
    r"(?![\d./-]|\s?(?:\d|%))"
).replace("HOUR", _HOUR)
_TENS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_DAYS = {
    word: number
    for number, word in enumerate(
        (
            *_TENS, "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth",
            "eighteenth", "nineteenth", "twentieth", *(f"twenty-{word}" for word in _TENS), "thirtieth", "thirty-first",
        ),
        1,
    )
}  # fmt: skip
_DAY = r"(?:\d{1,2}|" + "|".join(sorted(_DAYS, key=len, reverse=True)) + ")"
# What can follow a day that is said without its month: not a superlative, nor what it counts.
_DAY_ENDS = r"(?= ?(?:[,;:.!?)]|$)| (?:and|or|to|until|than|of the month|compared|versus|vs|alone|only)\b)"
_ARTICLE = "(?: the| el| le| dem| den| der)?(?: year| jahre?| ano| annee)?"
_SINCE = (
    r"(?:since|after|from|later than|nach|seit|ab|desde|despues de|depuis|apres|a partir de|posterior(?:es)? a"
    rf"|posterieure?s? a){_ARTICLE}"
)
_UNTIL = (
    r"(?:before|until|till|up to|by|earlier than|older than|prior to|alter als|fruher als|vor|bis|antes del?|hasta"
    rf"|avant|anterior(?:es)? a|anterieure?s? a){_ARTICLE}"
)
_PREPOSITION = re.compile(f"{_SINCE}|{_UNTIL}")
_BETWEEN = r"(?:between|from|zwischen|entre|von|de|desde)"
_AND = r"(?:and|to|until|till|und|bis|y|a|et|-)"
_DATE = (
    (
        r"(?:(?P<{0}iso>\d{{4}}-\d{{2}}-\d{{2}})"
        r"|(?P<{0}d>DAY)(?:st|nd|rd|th|er|\.)?(?: of| de)? (?P<{0}mon>MONTH)(?:,?(?: de)? (?P<{0}y>\d{{4}}))?"
        r"|(?P<{0}mon2>MONTH)(?: the)? (?P<{0}d2>DAY)(?:st|nd|rd|th)?\b(?!:)(?:,? (?P<{0}y2>\d{{4}}))?"
        r"|(?P<{0}d3>\d{{1,2}})[./](?P<{0}m3>\d{{1,2}})[./](?P<{0}y3>\d{{4}}))"
    )
    .replace("MONTH", _MONTH)
    .replace("DAY", _DAY.replace("{", "{{").replace("}", "}}"))
)
_WEEKDAYS = {
    form: number
    for number, names in enumerate(
        ("monday montag lunes lundi", "tuesday dienstag martes mardi", "wednesday mittwoch miercoles mercredi",
         "thursday donnerstag jueves jeudi", "friday freitag viernes vendredi", "saturday samstag sabado samedi",
         "sunday sonntag domingo dimanche")
    )
    for form in names.split()
}  # fmt: skip
_PARTS = {
    "this morning|heute morgen|heute fruh|heute vormittag|esta manana|ce matin": (0, 0, 12),
    "this afternoon|heute nachmittag|esta tarde|cet apres-midi": (0, 12, 18),
    "this evening|tonight|heute abend|esta noche|ce soir": (0, 18, 24),
    "last night|overnight|letzte nacht|anoche|cette nuit|la nuit derniere": (-1, 18, 30),
    "yesterday morning|gestern morgen|ayer por la manana|hier matin": (-1, 0, 12),
    "yesterday afternoon|gestern nachmittag|ayer por la tarde|hier apres-midi": (-1, 12, 18),
    "yesterday evening|gestern abend|ayer por la noche|hier soir": (-1, 18, 24),
    "day before yesterday|vorgestern|anteayer|avant-hier": (-2, 0, 24),
    "yesterday|gestern|ayer|hier": (-1, 0, 24),
    "so far today|today|heute|hoy|aujourd.hui": (0, 0, 24),
}


class TimePhrase(Struct, frozen=True):
    """A time in a text: from `since` to before `until`; `outside` the covered hours, in part or wholly."""

    start: int
    end: int
    since: datetime | None
    until: datetime | None
    outside: bool = False


def find_times(
    folded: str, now: datetime | None, hours: int | None, earliest: datetime | None = None
) -> list[TimePhrase]:
    """The times in a folded text, the first reading of each place, with `now` as the end of what the data covers.

    Dates may go back to `earliest`, the first day that the rows name; times such as "last week" only `hours`.
    """
    result: list[TimePhrase] = []
    for pattern, read in _READERS:
        for match in pattern.finditer(folded):
            if any(match.start() < other.end and other.start < match.end() for other in result):
                continue
            # Where the data covers no certain hours, "from 20" is a number.
            if hours is None and read in _CLOCKS and not any(match.groupdict().get(name) for name in _CLOCK_MARKS):
                continue
            try:
                span = read(match, now)
            except (ValueError, OverflowError):
                span = (datetime.min.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))
            if span is not None:
                whole = pattern is _WHOLE
                within = read in {_day, _part, _weekday}
                since = hours if earliest is None or now is None or not _is_dated(span) else _hours_since(earliest, now)
                outside = not whole and _is_outside(span, now, since, within=within)
                result.append(TimePhrase(match.start(), match.end(), *((None, None) if whole else span), outside))
    return _joined(sorted(_on_day(result), key=lambda phrase: phrase.start), folded)


def is_time_preposition(word: str) -> bool:
    """Whether a folded word can stand before a time: "since", "vor"."""
    return _PREPOSITION.fullmatch(word) is not None


def _joined(times: list[TimePhrase], folded: str) -> list[TimePhrase]:
    """The times without the day, or part of a day, beside an hour of it: "before 9 am today"."""
    result = times[:1]
    for then in times[1:]:
        last = result[-1]
        hour, day = (then, last) if _is_dated((last.since, last.until)) else (last, then)
        is_of = all(
            day.since and day.until and day.since <= end <= day.until for end in (hour.since, hour.until) if end
        )
        if is_of and not folded[last.end : then.start].strip(" ,"):
            outside = last.outside or then.outside
            result[-1] = TimePhrase(last.start, then.end, hour.since, hour.until, outside)
        else:
            result.append(then)
    return result


def _on_day(times: list[TimePhrase]) -> list[TimePhrase]:
    """The times with the hours moved to the day that stands beside them: "before noon on 15 November"."""
    day = timedelta(days=1)
    days = [each for each in times if each.since and each.until == each.since + day and _is_dated((each.since, None))]
    if len(days) != 1 or len(times) != 2:
        return times
    hours = next(each for each in times if each is not days[0])
    ends = [end for end in (hours.since, hours.until) if end is not None]
    if not ends or days[0].since is None or (len(ends) > 1 and _is_dated((hours.since, hours.until))):
        return times
    shift = days[0].since - datetime.combine(ends[0].date(), time(0), UTC)
    moved = [None if end is None else end + shift for end in (hours.since, hours.until)]
    return [days[0], TimePhrase(hours.start, hours.end, moved[0], moved[1], days[0].outside)]


def _is_dated(span: Range) -> bool:
    """Whether a time begins and ends with days: "last week" ends now."""
    return all(moment is None or moment.hour == moment.minute == 0 for moment in span)


def _hours_since(earliest: datetime, now: datetime) -> int:
    return int((now - earliest) / timedelta(hours=1))


def _is_outside(span: Range, now: datetime | None, hours: int | None, *, within: bool) -> bool:
    """Whether a time leads out of the covered hours; a day (`within`) only has to overlap them."""
    since, until = span
    if now is None:
        return False
    if since is not None and since > now:
        return True
    if hours is None:
        return False
    first = now - timedelta(hours=hours)
    if until is not None and until <= first:
        return True
    return not within and since is not None and since < first


def _amount(text: str) -> float | None:
    if text.isdigit():
        return int(text)
    first = text.split(maxsplit=1)[0]
    if first == "half":
        return 0.5
    if first in {"few", "couple"}:
        return None
    number = language_data()["numbers"].get(first)
    return int(number) if number else 1


def _unit(match: re.Match[str]) -> str:
    return next(name for name in _UNITS if match[name])


def _ago(match: re.Match[str], now: datetime | None) -> Range | None:
    """The last hours or days: "last 3 hours"."""
    if now is None:
        return None
    number = _amount((match["n"] or match["n2"] or "1").strip()) or 3
    unit = _unit(match)
    if unit == "minute":
        return now - timedelta(minutes=number), None
    if unit == "hour":
        return now - timedelta(hours=number), None
    return now - timedelta(days=number * _DAYS_OF[unit]), None


def _before_now(match: re.Match[str], now: datetime | None) -> Range | None:
    """A moment so long ago: the hour or the day of it."""
    if now is None:
        return None
    number, unit = _amount(match["n"].strip()) or 3, _unit(match)
    if unit in {"hour", "minute"}:
        moment = now - timedelta(hours=number if unit == "hour" else 1)
        return moment, moment + timedelta(hours=1)
    return _whole_day(now - timedelta(days=number * _DAYS_OF[unit]))


def _whole_day(moment: datetime) -> Range:
    start = datetime.combine(moment.date(), time(0), UTC)
    return start, start + timedelta(days=1)


def _clock(match: re.Match[str], prefix: str, now: datetime) -> datetime:
    """The last time before now that a clock showed this."""
    said, half = match[f"{prefix}h"], match[f"{prefix}half"] or ""
    hour = _HOURS[said] if said in _HOURS else int(said)
    if half.startswith("p") and hour < 12:
        hour += 12
    if half.startswith("a") and hour == 12:
        hour = 0
    extra = timedelta(days=1) if hour == 24 else timedelta()
    moment = datetime.combine(now.date(), time(hour % 24, int(match[f"{prefix}m"] or 0)), UTC) + extra
    return moment if moment <= now else moment - timedelta(days=1)


def _date(match: re.Match[str], prefix: str, now: datetime | None) -> datetime:
    if match[f"{prefix}iso"]:
        return datetime.fromisoformat(match[f"{prefix}iso"]).replace(tzinfo=UTC)
    if match[f"{prefix}d3"]:
        day, month, year = (int(match[f"{prefix}{part}3"]) for part in ("d", "m", "y"))
        return datetime(year, month, day, tzinfo=UTC)
    month = _MONTHS[(match[f"{prefix}mon"] or match[f"{prefix}mon2"]).rstrip(".")]
    day = _day_of_month(match[f"{prefix}d"] or match[f"{prefix}d2"])
    stated = match[f"{prefix}y"] or match[f"{prefix}y2"]
    if stated is None and now is None:
        raise ValueError("a date without a year")
    year = int(stated) if stated else now.year if now else 0
    moment = datetime(year, month, day, tzinfo=UTC)
    if not stated and now and moment > now + timedelta(days=31):
        moment = moment.replace(year=year - 1)
    return moment


def _day_of_month(text: str) -> int:
    return _DAYS.get(text) or int(text)


def _last_such_day(match: re.Match[str], now: datetime | None) -> Range | None:
    """The last day before the end of the data with this number: "on the 14th"."""
    if now is None:
        return None
    day = _day_of_month(match["d"])
    last = next((at for back in range(62) if (at := now - timedelta(days=back)).day == day), None)
    if last is None:
        return None
    start, end = _whole_day(last)
    assert start is not None and end is not None  # noqa: PT018
    return _led(match["lead"], start, end)


def _day(match: re.Match[str], now: datetime | None) -> Range | None:
    moment = _date(match, "a", now)
    return _led(match["lead"], moment, moment + timedelta(days=1))


def _days(match: re.Match[str], now: datetime | None) -> Range | None:
    return _date(match, "a", now), _date(match, "b", now) + timedelta(days=1)


def _month(match: re.Match[str], now: datetime | None) -> Range | None:
    if now is None and not match["y"]:
        return None
    month = _MONTHS[match["mon"].rstrip(".")]
    year = int(match["y"]) if match["y"] else now.year - (month > now.month) if now else 0
    start = datetime(year, month, 1, tzinfo=UTC)
    return _led(match["lead"], start, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC))


def _iso_month(match: re.Match[str], _now: datetime | None) -> Range | None:
    year, month = int(match["y"]), int(match["m"])
    start = datetime(year, month, 1, tzinfo=UTC)
    return _led(match["lead"], start, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC))


def _years(match: re.Match[str], _now: datetime | None) -> Range | None:
    first, last = int(match["y"]), int(match["y2"] or match["y"])
    start, end = datetime(first, 1, 1, tzinfo=UTC), datetime(last + 1, 1, 1, tzinfo=UTC)
    return (start, end) if match["y2"] else _led(match["lead"], start, end)


def _led(lead: str | None, start: datetime, end: datetime) -> Range:
    if re.match("after|later than|nach|despues|apres|posteri", lead or ""):
        return end, None
    if re.match(_SINCE, lead or ""):
        return start, None
    return (None, start) if re.match(_UNTIL, lead or "") else (start, end)


def _weekday(match: re.Match[str], now: datetime | None) -> Range | None:
    if now is None:
        return None
    back = (now.weekday() - _WEEKDAYS[match["weekday"]]) % 7
    start, end = _whole_day(now - timedelta(days=back))
    assert start is not None and end is not None  # noqa: PT018
    return _led(match["lead"], start, end)


def _part(match: re.Match[str], now: datetime | None) -> Range | None:
    if now is None:
        return None
    shift, first, last = next(hours for words, hours in _PARTS.items() if re.fullmatch(words, match["part"]))
    midnight = datetime.combine(now.date(), time(0), UTC) + timedelta(days=shift)
    if shift == -1 and first == 18 and last == 30 and now.hour < 6:
        last = 24 + now.hour
    return _led(match["lead"], midnight + timedelta(hours=first), midnight + timedelta(hours=last))


def _half_day(match: re.Match[str], now: datetime | None) -> Range | None:
    if now is None:
        return None
    noon = bool(re.search("noon|mittag|mediodia|midi", match[0])) and "mitternacht" not in match[0]
    moment = datetime.combine(now.date(), time(12 if noon else 0), UTC)
    moment -= timedelta(days=moment > now)
    return _led(match["lead"], moment, moment)


def _since_clock(match: re.Match[str], now: datetime | None) -> Range | None:
    return None if now is None else (_clock(match, "a", now), None)


def _until_clock(match: re.Match[str], now: datetime | None) -> Range | None:
    return None if now is None else (None, _clock(match, "a", now))


def _between_clocks(match: re.Match[str], now: datetime | None) -> Range | None:
    if now is None:
        return None
    since, until = _clock(match, "a", now), _clock(match, "b", now)
    return (since - timedelta(days=1) if since > until else since), until


def _wide(_match: re.Match[str], now: datetime | None) -> Range | None:
    """This week, last year, ever: longer than what a feed covers."""
    return None if now is None else (now - timedelta(days=365), None)


def _future(_match: re.Match[str], now: datetime | None) -> Range | None:
    return None if now is None else (now + timedelta(days=1), None)


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})")


_CLOCKS = (_since_clock, _until_clock, _between_clocks)
_CLOCK_MARKS = ("am", "ahalf", "bm", "bhalf")
_OF_DATA = r"(?: (?:of|in|covered by) (?:the |this |your )?(?:recording|recorded period|data|feeds?|dataset)\b)?"
_LED = rf"(?P<lead>{_SINCE} |{_UNTIL} )?"
_WHOLE = _compile(
    rf"{_LEAD}{_LAST} (?:24 ?(?:{_UNITS['hour']})|day)\b|right now\b|in den letzten 24 stunden"
    r"|(?:les|ces) 24 dernieres heures"
)
_YEAR = r"(?P<y>1[89]\d\d|20\d\d)(?P<y2>)\b(?![.,]\d|-(?:0[1-9]|1[0-2])\b)"
_WIDE = (
    r"(?:this|diese[rsn]?|est[ea]|cette|ce) (?:week|month|year|decade|century|weekend|woche|monat|jahr|semana|mes|ano"
    r"|semaine|mois|annee)\b|ever since|of all time|in history"
    r"|(?:last|past) (?:weekend|summer|winter|spring|autumn|fall|quarter)"
    r"|(?:la semana|el mes|el ano) pasad[oa]|la semaine derniere|le mois dernier|l'an dernier|l'annee derniere"
)
_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Any], Range | None]], ...] = (
    (_WHOLE, lambda _match, now: None if now is None else (None, None)),
    (_compile(rf"{_LEAD}(?:{_LAST} (?P<n>{_NUMBER} )?|(?P<n2>{_NUMBER} ){_LAST} ){_UNIT}{_OF_DATA}"), _ago),
    (_compile(rf"(?P<n>{_NUMBER}) {_UNIT} ago"), _before_now),
    (_compile(rf"(?:vor|hace|il y a) (?P<n>{_NUMBER}) {_UNIT}"), _before_now),
    (_compile(rf"{_BETWEEN}(?: the)? {_DATE.format('a')} {_AND}(?: the)? {_DATE.format('b')}"), _days),
    (_compile(rf"(?:(?:on|am|el|le) )?(?:the )?{_LED}{_DATE.format('a')}"), _day),
    (
        _compile(rf"(?:on )?{_LED}the (?P<d>{_DAY})(?:(?<=\d)(?:st|nd|rd|th))?{_DAY_ENDS}(?<![ \d]\d)(?<!\d\d)"),
        _last_such_day,
    ),
    (_compile(rf"(?:on |am |el |le |last )*{_LED}(?P<weekday>{'|'.join(_WEEKDAYS)})s?\b"), _weekday),
    (_compile(rf"{_LED}(?P<part>{'|'.join(_PARTS)})\b"), _part),
    (_compile(rf"{_LED}(?:midnight|noon|midday|mitternacht|mittag|medianoche|mediodia|minuit|midi)\b"), _half_day),
    (_compile(rf"{_BETWEEN} {_CLOCK.format('a')} {_AND} {_CLOCK.format('b')}"), _between_clocks),
    (_compile(rf"{_BETWEEN} (?P<y>1\d{{3}}|20\d\d) {_AND} (?P<y2>1\d{{3}}|20\d\d)\b"), _years),
    (
        _compile(rf"(?P<lead>(?:in|of|during|dated|im jahr|aus|von|en|the year|year|{_SINCE}|{_UNTIL}) ){_YEAR}"),
        _years,
    ),
    (_compile(rf"{_SINCE} {_CLOCK.format('a')}"), _since_clock),
    (_compile(rf"{_UNTIL} {_CLOCK.format('a')}"), _until_clock),
    (
        _compile(
            rf"(?P<lead>(?:in|of|during|im|en|au|{_SINCE}|{_UNTIL}) (?:early |late )?)"
            rf"(?P<mon>{_MONTH})(?:,?(?: of| de)? (?P<y>\d{{4}}))?"
        ),
        _month,
    ),
    (
        _compile(rf"(?P<lead>(?:{_SINCE}|{_UNTIL}|in|of|dated) )?(?P<mon>{_MONTH}),?(?: of| de)? (?P<y>\d{{4}})\b"),
        _month,
    ),
    (
        _compile(rf"(?P<lead>(?:{_SINCE}|{_UNTIL}|in|of|dated) )?(?P<y>(?:19|20)\d\d)-(?P<m>0[1-9]|1[0-2])\b(?!-)"),
        _iso_month,
    ),
    (_compile(rf"(?P<lead>de ){_YEAR}"), _years),
    (_compile(_WIDE), _wide),
    (_compile(r"tomorrow|next (?:week|month|year|weekend|few)"), _future),
)
