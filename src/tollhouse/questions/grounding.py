"""Grounding: citations, the evidence that a model may cite, and the stream of supported sentences.

A model is shown exhibits, each under a short name such as `f1`, and writes `[f1]` at the start of every sentence that
rests on it. A sentence is supported if it cites an exhibit, every name it cites exists, and every number and every
proper name in it occurs in a cited exhibit. Only supported sentences are sent; the others are removed.

A sentence that begins with its citation is sent word by word. One that cites at its end is sent from its start only as
far as its words state nothing by themselves: common words, and words from descriptions of figures; the rest is held
until it cites. When a number is unsupported, the rest of the sentence is held as well. If the sentence stays
unsupported, what was sent of it is retracted.
"""

import re
from collections.abc import Container, Iterable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

from msgspec import Struct

MOST_PER_CLAIM = 25


class Reference(Struct, frozen=True):
    """Something a caller can look up. `url` is null where it has none."""

    id: str
    title: str
    url: str | None


class Citations:
    """The references of one answer, each numbered once, when it is first pointed at."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.cited: list[Reference] = []

    def mark(self, references: Iterable[Reference]) -> str:
        """The marker to put after a claim; empty without references."""
        numbers = sorted({self._number(reference) for reference in list(references)[:MOST_PER_CLAIM]})
        return "".join(f"[{part}]" for part in _ranges(numbers))

    def _number(self, reference: Reference) -> int:
        if reference.id not in self._numbers:
            self.cited.append(reference)
            self._numbers[reference.id] = len(self.cited)
        return self._numbers[reference.id]


def _ranges(numbers: list[int]) -> list[str]:
    parts: list[tuple[int, int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1] = (parts[-1][0], number)
        else:
            parts.append((number, number))
    return [str(first) if first == last else f"{first}-{last}" for first, last in parts]


# A digit anywhere is a number that must be shown, whatever it is glued to but a letter before it: F35, conflict_1.
_NUMBER = re.compile(
    r"(?<![\w])(?:(?P<iso>\d{4}-\d{2}-\d{2})(?!\d)|(?P<clock>\d{1,2}:\d{2})(?!\d)"
    r"|(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)(?P<percent>\s*(?:%|percent\b|per cent\b))?)"
)
MONTHS = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
_MONTH = "|".join(MONTHS)
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)? ({_MONTH}),? (\d{{4}})\b", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"\b({_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}})\b", re.IGNORECASE)
_TO_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_SPELLED = {word: str(number) for number, word in enumerate(_TO_TWENTY.split()) if word != "one"}
_TENS = ("thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SPELLED |= {word: str(10 * tens) for tens, word in enumerate(_TENS, 3)}
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
DEATHS = re.compile(r"\b(?:dead|died|dies|deaths?|killed|kills|fatalit\w+|casualt\w+|toll|lives)\b", re.IGNORECASE)
_NAMES = re.compile(r"\[([a-z]\d+(?:\s*,\s*[a-z]\d+)*)\]")
_POSSESSIVE = re.compile(r"['\u2019]s?\b")
_HOURS = re.compile(r"\b24(?:-hour|\s+hours)\b")


class Exhibit(Struct, frozen=True):
    """Something a model may cite. `text` is what it was shown; `value` its figure, `is_deaths` one of deaths."""

    name: str
    text: str
    references: tuple[Reference, ...]
    value: float | None = None
    is_deaths: bool = False
    is_figure: bool = False


# Words in capitals that are no names of anybody: months, days, "UTC".
_CALENDAR = frozenset(
    {*MONTHS, *"monday tuesday wednesday thursday friday saturday sunday".split(), "utc", "i"}  # noqa: SIM905
)
# What makes an adjective or plural of a name: Eritrean, Iranian, Israeli, Taiwanese.
_ENDINGS = frozenset({"s", "n", "an", "ian", "i", "ese", "ish", "ic"})


class Evidence:
    """The exhibits shown in one answer. `names` are words in lower case that are names wherever they stand."""

    def __init__(self, names: Container[str] = frozenset()) -> None:
        self._names = names
        self._exhibits: dict[str, Exhibit] = {}

    def next_name(self, letter: str) -> str:
        """A name that is not in use."""
        return f"{letter}{len(self._exhibits) + 1}"

    def show(self, exhibit: Exhibit) -> None:
        """Allow an exhibit to be cited."""
        self._exhibits[exhibit.name] = exhibit

    def cited_in(self, text: str) -> list[Exhibit] | None:
        """The exhibits that a text names; None when one of the names was not given out."""
        names = [name.strip() for group in _NAMES.findall(text) for name in group.split(",")]
        if any(name not in self._exhibits for name in names):
            return None
        return [self._exhibits[name] for name in dict.fromkeys(names)]

    def supports(self, sentence: str) -> bool:
        """Whether the sentence cites, and each of its numbers and names stands in what it cites."""
        cited = self.cited_in(sentence)
        return bool(cited) and self.shows_all(sentence, cited or [])

    def shows_all(self, sentence: str, cited: list[Exhibit]) -> bool:
        """Whether each number and each proper name of a text stands in these exhibits."""
        return self.shows_numbers(sentence, cited) and self.shows_names(sentence, cited)

    def shows_names(self, sentence: str, cited: list[Exhibit]) -> bool:
        """Whether each capitalized word stands in these exhibits; the first one counts only if it is a known name."""
        words = _TEXT_WORD.findall(_POSSESSIVE.sub("", without_names(sentence)))
        shown = {word.casefold() for exhibit in cited for word in _TEXT_WORD.findall(_POSSESSIVE.sub("", exhibit.text))}
        names = [word.casefold() for place, word in enumerate(words) if self._is_name(word, is_first=place == 0)]
        return all(name in shown or any(_same_stem(name, word) for word in shown) for name in names)

    def _is_name(self, word: str, *, is_first: bool) -> bool:
        if not word[0].isupper() or word.casefold() in _CALENDAR or word.casefold() in _SAYS_NOTHING:
            return False
        return not is_first or word.casefold() in self._names

    def leaves_open(self, beginning: str) -> bool:
        """Whether a sentence that begins so, citing nothing yet, states nothing yet that it would have to cite for.

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
        if DEATHS.search(words):
            cited = [exhibit for exhibit in cited if exhibit.is_deaths or not exhibit.is_figure]
        return all(any(_shows(exhibit, number) for exhibit in cited) for number in _numbers(words))


def without_names(text: str) -> str:
    return re.sub(r"\s+", " ", _NAMES.sub("", text)).replace(" .", ".").replace(" ,", ",").strip()


def finished(sentence: str, evidence: Evidence, citations: Citations) -> str:
    """A supported sentence as it leaves: the names replaced by one marker before its full stop."""
    cited = evidence.cited_in(sentence) or []
    mark = citations.mark(reference for exhibit in cited for reference in exhibit.references)
    text = without_names(sentence)
    bare = text.rstrip(".!? ")
    return f"{bare}{f' {mark}' if mark else ''}{text[len(bare) :]}"


class _Number(Struct, frozen=True):
    """A number as written. `exactly`: a date, a time or a word such as "dozens"."""

    text: str
    is_percent: bool = False
    exactly: bool = False


def _numbers(text: str) -> Iterator[_Number]:
    text = _DAY_MONTH.sub(lambda m: _iso(m[3], m[2], m[1]), text)
    text = _MONTH_DAY.sub(lambda m: _iso(m[3], m[1], m[2]), text)
    lowered = _HOURS.sub(" ", text)
    for match in _NUMBER.finditer(lowered):
        if match["number"]:
            yield _Number(match["number"].replace(",", ""), bool(match["percent"]))
        else:
            yield _Number(match[0], exactly=True)
    for word in _WORD.findall(lowered.casefold()):
        if word in _SPELLED:
            yield _Number(_SPELLED[word])
        elif word in _LARGE:
            yield _Number(word, exactly=True)


def _iso(year: str, month: str, day: str) -> str:
    return f"{year}-{MONTHS.index(month.casefold()) + 1:02}-{int(day):02}"


def _same_stem(name: str, word: str) -> bool:
    """Whether one word is the other with an ending: "eritrean" and "eritrea"."""
    shorter, longer = sorted((name, word), key=len)
    return longer.startswith(shorter) and longer[len(shorter) :] in _ENDINGS


def _shows(exhibit: Exhibit, number: _Number) -> bool:
    if any(other.text == number.text and other.is_percent == number.is_percent for other in _numbers(exhibit.text)):
        return True
    if number.exactly or exhibit.value is None:
        return False
    value = Decimal(str(exhibit.value)) * (100 if number.is_percent else 1)
    rounded = Decimal(number.text)
    return value.quantize(Decimal(1).scaleb(rounded.as_tuple().exponent), ROUND_HALF_UP) == rounded  # type: ignore[arg-type]


_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\[A-Z\"'(•*-])|\n+")
_SHORTENED = re.compile(r"(?:\b(?:No|Mr|Mrs|Ms|Dr|Gen|Lt|Col|Sgt|St|vs|approx|Inc|Ltd|Corp)|\b[A-Z])\.[\"')]*$")
# With what it cites, or with a word.
_BEGINNING = re.compile(r"\s*(?:(?:[-*•]\s*)?(?:\[[a-z]\d+(?:\s*,\s*[a-z]\d+)*\]\s*)+|[^\W\d_])")

# The rest of a number, of a name's marker or of a capitalized word may be to come.
_UNDECIDED = re.compile(r"(?:\S*\d[\d.,:%-]*|\[[^\]]*|(?<=[\w,;:)] )[^\W\d_a-z][^\W\d_]*)$")
# The marker of what a sentence cites goes before these.
_STOPS = ".!? "


class Delta(Struct, frozen=True, tag="delta"):
    """More of the answer's text."""

    text: str


class Step(Struct, frozen=True, tag="step"):
    """What is being done: the question is read, or a query runs. `detail` says how, or which."""

    name: Literal["read", "query"]
    detail: str


class Retract(Struct, frozen=True, tag="retract"):
    """Cut the answer's text back to its first `length` characters."""

    length: int


class SentenceStream:
    """Takes a model's text in pieces and releases the supported sentences."""

    def __init__(self, evidence: Evidence, citations: Citations) -> None:
        self._evidence = evidence
        self._citations = citations
        self._pending = ""
        self._begun = ""
        self._is_held = False
        self.text = ""

    @property
    def cited(self) -> tuple[Reference, ...]:
        """What the text points at, in the order of its markers."""
        return tuple(self._citations.cited)

    def take(self, piece: str) -> Iterator[Delta | Retract]:
        """The changes to send after this piece."""
        self._pending += piece
        while end := self._sentence_end():
            sentence, self._pending = self._pending[: end.start()], self._pending[end.end() :]
            yield from self._close(sentence)
        yield from self._lead()

    def finish(self) -> Iterator[Delta | Retract]:
        """The changes to send at the end of the text."""
        sentence, self._pending = self._pending, ""
        yield from self._close(sentence)

    def _sentence_end(self) -> re.Match[str] | None:
        return next(
            (end for end in _END.finditer(self._pending) if not _SHORTENED.search(self._pending[: end.start()])), None
        )

    def _lead(self) -> Iterator[Delta]:
        """Release the part of an unfinished sentence that can be judged."""
        # A digit may be the beginning of another number, and a bracket of another name.
        known = _UNDECIDED.sub("", self._pending)
        if self._is_held or not _BEGINNING.match(known):
            return
        if not self._can_release(known):
            self._is_held = True
            return
        ready = without_names(known).rstrip(_STOPS)
        if len(ready) > len(self._begun) and ready.startswith(self._begun):
            yield self._out(ready[len(self._begun) :], is_new=not self._begun)
            self._begun = ready

    def _can_release(self, known: str) -> bool:
        cited = self._evidence.cited_in(known)
        if cited:
            return self._evidence.shows_all(known, cited)
        return cited is not None and self._evidence.leaves_open(known)

    def _close(self, sentence: str) -> Iterator[Delta | Retract]:
        """Release the rest of a complete sentence, or retract its beginning."""
        begun, self._begun, self._is_held = self._begun, "", False
        if not sentence.strip():
            return
        if self._evidence.supports(sentence):
            whole = finished(sentence, self._evidence, self._citations)
            if whole.startswith(begun):
                yield self._out(whole[len(begun) :], is_new=not begun)
                return
            yield self._back(begun)
            yield self._out(whole, is_new=True)
            return
        if begun:
            yield self._back(begun)

    def _out(self, text: str, *, is_new: bool) -> Delta:
        added = f" {text}" if is_new and self.text else text
        self.text += added
        return Delta(added)

    def _back(self, begun: str) -> Retract:
        self.text = self.text[: len(self.text) - len(begun)].rstrip()
        return Retract(len(self.text))
