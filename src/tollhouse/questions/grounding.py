"""What a model may say: sentences whose every number stands in what they cite, and which cite something.

A model is shown exhibits, each under a short name such as `f1`, and writes `[f1]` at the start of every sentence that
rests on it. Nothing else leaves: a sentence with a number that no cited exhibit shows, with a name that was not given
out, or without any, is unsupported.
"""

import re
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

from msgspec import Struct

from tollhouse.questions.citations import Citations, Reference

# A digit anywhere is a number that must be shown, whatever it is glued to but a letter before it: F35, conflict_1.
_NUMBER = re.compile(
    r"(?<![\w])(?:(?P<iso>\d{4}-\d{2}-\d{2})(?!\d)|(?P<clock>\d{1,2}:\d{2})(?!\d)"
    r"|(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)(?P<percent>\s*(?:%|percent\b|per cent\b))?)"
)
_MONTHS = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
_MONTH = "|".join(_MONTHS)
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)? ({_MONTH}),? (\d{{4}})\b", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"\b({_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}})\b", re.IGNORECASE)
_SPELLED = {
    "zero": "0",
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
    "eleven": "11",
    "twelve": "12",
    "thirteen": "13",
    "fourteen": "14",
    "fifteen": "15",
    "sixteen": "16",
    "seventeen": "17",
    "eighteen": "18",
    "nineteen": "19",
    "twenty": "20",
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "seventy": "70",
    "eighty": "80",
    "ninety": "90",
}
_LARGE = frozenset(
    {"dozen", "dozens", "hundred", "hundreds", "thousand", "thousands", "million", "millions", "billions"}
)
_WORD = re.compile(r"[a-z]+")
_TEXT_WORD = re.compile(r"[^\W\d_]+")
_SAYS_NOTHING = frozenset(
    (  # noqa: SIM905 - a list of words reads better as one text
        "a about according after all also among an and are as at be been before between both by day during each events "
        "feeds for from had has have he her his hours in into is it its last latest most of on one or other out over "
        "part recent report reported reports she since some sources stories than that the their there these they this "
        "those to under until up was were what when where which while who with within"
    ).split()
)
_DEATHS = re.compile(r"\b(?:dead|died|dies|deaths?|killed|kills|fatalit\w+|casualt\w+|toll|lives)\b", re.IGNORECASE)
_NAMES = re.compile(r"\[([a-z]\d+(?:\s*,\s*[a-z]\d+)*)\]")
_HOURS = re.compile(r"\b24(?:-hour|\s+hours)\b")


class Exhibit(Struct, frozen=True):
    """Something a model may cite. `text` is what it was shown; `value` its figure, `is_deaths` one of deaths."""

    name: str
    text: str
    rests_on: tuple[Reference, ...]
    value: float | None = None
    is_deaths: bool = False
    is_figure: bool = False


class Evidence:
    """The exhibits shown in one answer."""

    def __init__(self) -> None:
        self._exhibits: dict[str, Exhibit] = {}

    def next_name(self, letter: str) -> str:
        """A name that is not given out yet."""
        return f"{letter}{len(self._exhibits) + 1}"

    def show(self, exhibit: Exhibit) -> None:
        """From now on it may be cited."""
        self._exhibits[exhibit.name] = exhibit

    def cited_in(self, text: str) -> list[Exhibit] | None:
        """The exhibits that a text names; None when one of the names was not given out."""
        names = [name.strip() for group in _NAMES.findall(text) for name in group.split(",")]
        if any(name not in self._exhibits for name in names):
            return None
        return [self._exhibits[name] for name in dict.fromkeys(names)]

    def supports(self, sentence: str) -> bool:
        """Whether the sentence cites, and each of its numbers stands in what it cites."""
        cited = self.cited_in(sentence)
        return bool(cited) and self.shows_numbers(sentence, cited or [])

    def leaves_open(self, beginning: str) -> bool:
        """Whether a sentence that begins so, citing nothing yet, has said nothing yet that it would have to cite for.

        Words that were quoted from elsewhere do not count as known: a headline must not speak for this server.
        """
        if any(_numbers(beginning)):
            return False
        shown = " ".join(exhibit.text for exhibit in self._exhibits.values() if exhibit.is_figure)
        known = {*_SAYS_NOTHING, *(word.casefold() for word in _TEXT_WORD.findall(shown))}
        # In capitals a word means more than it says.
        return all(
            word[0].casefold() + word[1:] in known or word in shown.split() for word in _TEXT_WORD.findall(beginning)
        )

    @staticmethod
    def shows_numbers(sentence: str, cited: list[Exhibit]) -> bool:
        """Whether each number of a text stands in these exhibits; deaths only in figures of deaths, or in titles."""
        words = without_names(sentence)
        if _DEATHS.search(words):
            cited = [exhibit for exhibit in cited if exhibit.is_deaths or not exhibit.is_figure]
        return all(any(_shows(exhibit, said) for exhibit in cited) for said in _numbers(words))


def without_names(text: str) -> str:
    """The text without the exhibits' names."""
    return re.sub(r"\s+", " ", _NAMES.sub("", text)).replace(" .", ".").replace(" ,", ",").strip()


def finished(sentence: str, evidence: Evidence, citations: Citations) -> str:
    """A supported sentence as it leaves: the names replaced by one marker before its full stop."""
    cited = evidence.cited_in(sentence) or []
    mark = citations.mark(reference for exhibit in cited for reference in exhibit.rests_on)
    text = without_names(sentence)
    bare = text.rstrip(".!? ")
    return f"{bare}{f' {mark}' if mark else ''}{text[len(bare) :]}"


class _Said(Struct, frozen=True):
    """A number as it is said; `exactly` is a date or a time."""

    text: str
    is_percent: bool = False
    exactly: bool = False


def _numbers(text: str) -> Iterator[_Said]:
    lowered = _HOURS.sub(" ", _with_dates(text))
    for match in _NUMBER.finditer(lowered):
        if match["number"]:
            yield _Said(match["number"].replace(",", ""), bool(match["percent"]))
        else:
            yield _Said(match[0], exactly=True)
    for word in _WORD.findall(lowered.casefold()):
        if word in _SPELLED:
            yield _Said(_SPELLED[word])
        elif word in _LARGE:
            yield _Said(word, exactly=True)


def _with_dates(text: str) -> str:
    text = _DAY_MONTH.sub(lambda m: _iso(m[3], m[2], m[1]), text)
    return _MONTH_DAY.sub(lambda m: _iso(m[3], m[1], m[2]), text)


def _iso(year: str, month: str, day: str) -> str:
    return f"{year}-{_MONTHS.index(month.casefold()) + 1:02}-{int(day):02}"


def _shows(exhibit: Exhibit, said: _Said) -> bool:
    if any(other.text == said.text and other.is_percent == said.is_percent for other in _numbers(exhibit.text)):
        return True
    if said.exactly or exhibit.value is None:
        return False
    value = Decimal(str(exhibit.value)) * (100 if said.is_percent else 1)
    number = Decimal(said.text)
    return value.quantize(Decimal(1).scaleb(number.as_tuple().exponent), ROUND_HALF_UP) == number  # type: ignore[arg-type]
