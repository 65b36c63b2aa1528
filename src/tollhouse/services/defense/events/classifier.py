"""What a report is about: its category, relevance to defense, security and politics, and its time.

A small neural network reads the title's text vector; the codes of the provider's rows then correct it. The weights
come from tools/train_event_classifier.py; data/event_classifier.md says from which labels. The time is the date that
a headline names ("killed in August", "10 years after").
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import cache, lru_cache
from importlib import resources
from math import exp, log

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tollhouse.services.defense.article import find_publisher, has_foreign_letters
from tollhouse.services.defense.events.event import Category
from tollhouse.services.defense.ingest.export_parser import Row, cameo_category
from tollhouse.vectors import text_vectors

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
_ADDRESS_DATE = re.compile(r"/(20[0-9]{2})/([01]?[0-9])/([0-3]?[0-9])/")
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


def read_address(url: str, reported_on: date) -> NamedDate:
    """The date in a page's address, as in "/2020/10/31/", if it lies more than RECENT_DAYS before the report's day.

    Such a page is old, whenever the provider came upon it.
    """
    match = _ADDRESS_DATE.search(url)
    day = _day(*map(int, match.groups())) if match else None
    if match is None or day is None or reported_on - day <= timedelta(RECENT_DAYS):
        return _NOTHING
    return NamedDate(day, match[0].strip("/"), is_past=True)


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


# In the order of the model's outputs; its last output is "none of these", which is not relevant.
CATEGORIES: tuple[Category, ...] = ("Battles", "Protests", "Economic", "Political")
# Shares of a report's rows by CAMEO root (14; 18 to 20) and quad class, and their tone. What depends on which rows a
# provider's file keeps, such as actors and countries, is left out: it does not hold for other files.
ROW_FEATURES: tuple[str, ...] = (
    "protest_codes", "violence_codes", "verbal_cooperation", "material_cooperation", "material_conflict", "tone",
)  # fmt: skip
_VIOLENCE = frozenset({"18", "19", "20"})
# One report's evidence is bounded, so that none outweighs three that agree.
_LARGEST_LOG_ODDS = 4.0
# Of an event's publishers, those that name an old date are believed from this share on: others often leave it out.
_PAST_SHARE = 0.2

_SUBJECTS: Mapping[Category, str] = {
    "Battles": "fighting",
    "Protests": "protest",
    "Economic": "trade, sanctions or aid between states",
    "Political": "politics or security",
}
_CODED: Mapping[Category, str] = {
    "Battles": "violence",
    "Protests": "protest",
    "Economic": "economic relations",
    "Political": "politics",
}

# Matrix products of 64-bit numbers, rounded to this many decimals, are the same on every processor.
_DECIMALS = 6
# Titles read at once: their vectors take 4 KB each.
BATCH = 1024

Scores = NDArray[np.float64]


class ClassifierInput(Struct, frozen=True):
    """A report: its title, address and provider rows. Without a headline the title is composed and says nothing.

    `reported_on` is the day that "today" means in the title; None takes it from the rows.
    """

    title: str
    url: str
    rows: Sequence[Row]
    has_headline: bool = True
    reported_on: date | None = None

    @property
    def is_legible(self) -> bool:
        """Whether the model can read the title: it knows hardly any word in letters other than Latin."""
        return self.has_headline and not has_foreign_letters(self.title)


class Classified(Struct, frozen=True):
    """What reports of one event say. `probabilities` has every category; what they lack to 1 is "none of these".

    `relevance` is the probability that the subject is defense, security or politics, 0 where no headline is known.
    `named_day` begins the day, month or year that the title names. `families` are the source families that were read.
    `has_headline`: one of the titles could be read.
    """

    probabilities: dict[Category, float]
    relevance: float
    families: tuple[str, ...]
    why: str
    has_headline: bool = False
    is_retrospective: bool = False
    named_day: date | None = None

    @property
    def category(self) -> Category:
        """A battle or protest from its threshold on, else the likelier of the other two."""
        thresholds = model().thresholds
        likely = [name for name in CATEGORIES[:2] if self.probabilities[name] >= thresholds[name]]
        return max(likely or CATEGORIES[2:], key=self.probabilities.__getitem__)

    @property
    def confidence(self) -> float:
        """The probability that `category` is right."""
        return self.probabilities[self.category]

    @property
    def is_relevant(self) -> bool:
        """Whether the event is served by default."""
        return self.relevance >= model().thresholds["relevance"]


class Model(Struct, frozen=True):
    """Two layers over a text vector, a correction per row feature, and the scores of a composed title.

    The correction is zero for rows with the features `usual`, so that files with other rows do not shift every answer.
    """

    hidden: Scores
    hidden_bias: Scores
    output: Scores
    output_bias: Scores
    rows: Scores
    usual: Scores
    composed: Scores
    thresholds: Mapping[str, float]

    def read_titles(self, titles: Sequence[str]) -> Scores:
        """Unnormalised log probabilities of CATEGORIES and none, a line per title."""
        parts = [self._read(titles[start : start + BATCH]) for start in range(0, len(titles), BATCH)]
        return np.concatenate(parts) if parts else np.empty((0, len(self.output_bias)))

    def _read(self, titles: Sequence[str]) -> Scores:
        layer = np.maximum(title_vectors(titles).astype(np.float64) @ self.hidden + self.hidden_bias, 0)
        answer: Scores = layer @ self.output + self.output_bias
        return answer

    def read_rows(self, reports: Sequence[Sequence[Row]]) -> Scores:
        """What the rows of each report add to the scores of its title, a line per report; zeros without rows."""
        features = np.array([row_features(rows) if rows else self.usual for rows in reports])
        answer: Scores = (features - self.usual) @ self.rows
        return answer


@cache
def model() -> Model:
    """The model that comes with the package, read once. Raises ValueError if it was trained for other features."""
    path = resources.files("tollhouse.services.defense") / "data" / "event_classifier.npz"
    with resources.as_file(path) as file, np.load(file) as stored:
        if tuple(stored["row_features"].tolist()) != ROW_FEATURES:
            raise ValueError("the event classifier was trained for other features: run tools/train_event_classifier.py")
        names = ("hidden", "hidden_bias", "output", "output_bias", "rows", "usual", "composed")
        thresholds = msgspec.json.decode(stored["thresholds"].tobytes(), type=dict[str, float])
        return Model(**{name: stored[name].astype(np.float64) for name in names}, thresholds=thresholds)


def title_vectors(titles: Sequence[str]) -> NDArray[np.float32]:
    """The text vectors of titles without their dates, a line per title."""
    return text_vectors().embed([without_dates(title) for title in titles])


def classify_reports(inputs: Sequence[ClassifierInput]) -> list[Classified]:
    """Classify reports; faster for many at once. One answer per report, in order."""
    if not inputs:
        return []
    trained = model()
    from_title = trained.read_titles([report.title for report in inputs])
    from_title[[not report.is_legible for report in inputs]] = trained.composed
    from_rows = trained.read_rows([report.rows for report in inputs])
    read, decided = normalised(from_title).tolist(), normalised(from_title + from_rows).tolist()
    return [_classified(*each) for each in zip(inputs, read, decided, strict=True)]


def title_relevance(titles: Sequence[str]) -> list[float]:
    """The relevance of titles alone, 0..1; 0 for one that is below the threshold to be served, or not legible."""
    if not titles:
        return []
    relevant = 1 - normalised(model().read_titles(titles))[:, -1]
    least = model().thresholds["relevance"]
    return [
        value if value >= least and not has_foreign_letters(title) else 0.0
        for title, value in zip(titles, relevant.tolist(), strict=True)
    ]


def combine(reports: Sequence[Classified]) -> Classified:
    """What the reports of one event say together: mean bounded log odds, each source family counted once.

    Reports without a headline count only where there is no other. Raises ValueError without a report.
    """
    if not reports:
        raise ValueError("no report to combine")
    if len(reports) == 1:
        return reports[0]
    read = [report for report in reports if report.has_headline] or list(reports)
    families = [report.families for report in read]

    def agreed(values: Sequence[float]) -> float:
        by_family: dict[tuple[str, ...], list[float]] = {}
        for family, value in zip(families, values, strict=True):
            by_family.setdefault(family, []).append(_log_odds(value))
        return _probability(_mean([_mean(group) for group in by_family.values()]))

    probabilities = {name: agreed([report.probabilities[name] for report in read]) for name in CATEGORIES}
    total = max(1.0, sum(probabilities.values()))
    past = [report for report in read if report.is_retrospective]
    is_past = len({report.families for report in past}) >= max(1, _PAST_SHARE * len(set(families)))
    said = [report.named_day for report in (past if is_past else read) if report.named_day]
    answer = Classified(
        {name: round(value / total, _DECIMALS) for name, value in probabilities.items()},
        agreed([report.relevance for report in read]) if read[0].has_headline else 0.0,
        tuple(sorted({family for report in read for family in report.families})),
        "",
        has_headline=read[0].has_headline,
        is_retrospective=is_past,
        named_day=max(said, key=said.count) if said else None,
    )
    same = sum(report.category == answer.category for report in read)
    subject = _SUBJECTS[answer.category]
    reports_say = (
        f"{same} of {len(read)} reports by {len(set(families))} source families read like reports of {subject}"
    )
    why = f"{reports_say}; together {answer.confidence:.2f}{_relevance_reason(answer)}"
    return msgspec.structs.replace(answer, why=why if answer.has_headline else reports[0].why)


def row_features(rows: Sequence[Row]) -> list[float]:
    """One number per name in ROW_FEATURES, from a report's provider rows, of which there is at least one."""
    n = len(rows)
    quads = [row.quad_class for row in rows]
    return [
        sum(row.root_code == "14" for row in rows) / n,
        sum(row.root_code in _VIOLENCE for row in rows) / n,
        *(quads.count(quad) / n for quad in (1, 2, 4)),
        max(-1.0, min(1.0, sum(row.tone for row in rows) / n / 10)),
    ]


def normalised(scores: Scores) -> Scores:
    """Probabilities, each line adding up to 1 but for rounding, from unnormalised log probabilities."""
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    answer: Scores = (odds / odds.sum(axis=1, keepdims=True)).round(_DECIMALS)
    return answer


def _classified(report: ClassifierInput, read: list[float], decided: list[float]) -> Classified:
    families = (find_publisher(report.url).family,)
    probabilities = dict(zip(CATEGORIES, decided, strict=False))
    if not report.is_legible:
        known = "in letters other than Latin" if report.has_headline else "composed from codes"
        why = f"the title is {known}, so the subject is unknown; left out by default"
        return Classified(probabilities, 0.0, families, why)
    reported_on = report.reported_on or _newest_day(report.rows)
    named = _named_date(report, reported_on) if reported_on else None
    # A march on an anniversary takes place today.
    is_past = (
        named is not None
        and named.is_past
        and not ("anniversar" in named.words and probabilities["Protests"] >= model().thresholds["Protests"])
    )
    answer = Classified(
        probabilities, round(1 - decided[-1], _DECIMALS), families, "",
        has_headline=True, is_retrospective=is_past, named_day=named.first_day if named else None,
    )  # fmt: skip
    category = answer.category
    why = f"the title reads like a report of {_SUBJECTS[category]} (probability {read[CATEGORIES.index(category)]:.2f})"
    if report.rows:
        same = sum((cameo_category(row.code) or "Battles") == category for row in report.rows)
        why += f"; {same} of {len(report.rows)} provider rows are coded as {_CODED[category]}"
        why += f"; together {answer.confidence:.2f}"
    if is_past and named:
        why += f'; "{named.words}" dates it in the past'
    return msgspec.structs.replace(answer, why=why + _relevance_reason(answer))


def _named_date(report: ClassifierInput, reported_on: date) -> NamedDate:
    named = read_date(report.title, reported_on)
    address = read_address(report.url, reported_on)
    return address if address.is_past and not named.is_past else named


def _relevance_reason(answer: Classified) -> str:
    if answer.is_relevant:
        return ""
    return f"; relevance to defense, security or politics {answer.relevance:.2f}, too low to be served by default"


def _newest_day(rows: Sequence[Row]) -> date | None:
    added = max((row.added for row in rows), default="")
    return date(int(added[:4]), int(added[4:6]), int(added[6:8])) if added else None


def _log_odds(probability: float) -> float:
    bounded = min(max(probability, 1e-6), 1 - 1e-6)
    return max(-_LARGEST_LOG_ODDS, min(_LARGEST_LOG_ODDS, log(bounded / (1 - bounded))))


def _probability(log_odds: float) -> float:
    return round(1 / (1 + exp(-log_odds)), _DECIMALS)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
