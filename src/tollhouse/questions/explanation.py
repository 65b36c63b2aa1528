"""What an answer says beside its text: how the question was understood, its figures, why not, and what to ask next."""

import re
from collections.abc import Iterator

from msgspec import Struct

from tollhouse.questions.answering import Answer, Engine
from tollhouse.questions.execution import Result
from tollhouse.questions.query import COUNT, Compare, Exists, Figure, Groups, List, Open, Query, Reading, Reason, Share
from tollhouse.questions.vocabulary import Dataset
from tollhouse.questions.wording import Wording

MOST_FIGURES = 60
FOLLOW_UPS = 3
# A longer name does not read well in a question.
LONGEST_NAME = 40
_BLANK = re.compile(r"\{(\w+)\}")


class UnderstoodPart(Struct, frozen=True):
    """A condition or order of the query, and the words of the question that it came from."""

    part: str
    words: str


class Correction(Struct, frozen=True):
    """A word as typed, and as it was read."""

    typed: str
    read: str


class Understanding(Struct, frozen=True):
    """The question as it was understood. `about` are the rows in words; `ignored` are words that were left out."""

    about: str
    parts: tuple[UnderstoodPart, ...]
    ignored: tuple[str, ...]
    corrected: tuple[Correction, ...]


class NamedFigure(Struct, frozen=True):
    """One figure of an answer; the value is null where no row has one."""

    name: str
    value: float | None


class Figures(Struct, frozen=True):
    """The figures that an answer rests on, in its order. `total` counts those that are not listed too.

    `measure` is "count" or the function and attribute ("sum of deaths"). `is_time`: the names are days or times.
    """

    title: str
    measure: str
    is_time: bool
    total: int
    rows: tuple[NamedFigure, ...]


class RefusedBecause(Struct, frozen=True):
    """Why a question was refused: a code, the reason in words, and the words of the question that are to blame."""

    code: Reason
    detail: str
    words: tuple[str, ...]


class Explanation(Struct, frozen=True):
    """`understood` is null if the question was refused, `figures` where there are fewer than two.

    `suggestions` are questions that have answers: what to ask next, or those nearest to a refused one.
    """

    understood: Understanding | None = None
    figures: Figures | None = None
    refusal: RefusedBecause | None = None
    suggestions: tuple[str, ...] = ()


def explain(engine: Engine, answer: Answer) -> Explanation:
    """The explanation of an answer."""
    if answer.refusal is not None:
        because = RefusedBecause(answer.refusal.reason, engine.reason(answer.refusal), answer.refusal.words)
        return Explanation(refusal=because, suggestions=answer.suggestions)
    if answer.query is None:
        return Explanation()
    understood = _understood(engine, answer.query, answer.reading)
    return Explanation(understood, figures(engine, answer.query), suggestions=follow_ups(engine, answer))


def explain_reading(engine: Engine, answer: Answer) -> Explanation:
    """The explanation of an answer that a language model worded: nothing is said of why the engine would refuse it."""
    return explain(engine, answer) if answer.refusal is None else Explanation(suggestions=answer.suggestions)


def figures(engine: Engine, query: Query) -> Figures | None:
    """The figures of a query's result; None for a query without a series of them."""
    if not isinstance(query, Groups | Compare | Share | List):
        return None
    result, wording = engine.tables.run(query), Wording(engine.tables)
    rows = _figures_of_rows(engine, result) if isinstance(query, List) else _figures_of_sides(result, wording)
    if len(rows) < 2:
        return None
    is_time = isinstance(query, Groups) and wording.is_time(query.rows.kind, query.by)
    title = engine.describe(query)
    if isinstance(query, Groups):
        title = f"{title} by {wording.noun(query.by)}"
    shown = sorted(rows, key=lambda row: row.name) if is_time else rows
    return Figures(title, _measure(query, wording), is_time, len(rows), tuple(shown[:MOST_FIGURES]))


def follow_ups(engine: Engine, answer: Answer) -> tuple[str, ...]:
    """Declared questions that follow this one and have an answer that says more than nothing."""
    suggested: list[str] = []
    texts = {answer.text}
    for question in _candidates(engine, answer):
        following = engine.answer(question, answer.query)
        is_new = following.query != answer.query and following.text not in texts
        if following.refusal is None and is_new and _says_something(following):
            texts.add(following.text)
            suggested.append(question)
        if len(suggested) == FOLLOW_UPS:
            break
    return tuple(suggested)


def _candidates(engine: Engine, answer: Answer) -> Iterator[str]:
    """The declared questions of the answer's kind of row, then those of any kind, with its names filled in."""
    query, declared = answer.query, engine.dataset.declaration.follow_ups
    rows = query.rows if isinstance(query, Groups | List | Figure | Exists | Open) else None
    names = {}
    if isinstance(query, Groups):
        names = {query.by: answer.names}
    elif isinstance(query, List) and query.attribute is None:
        names = {query.rows.kind: answer.names}
    known = {name: values[0] for name, values in names.items() if values and len(values[0]) <= LONGEST_NAME}
    for pattern in (*(declared.get(rows.kind, ()) if rows else ()), *declared.get("any", ())):
        blanks = _BLANK.findall(pattern)
        if all(blank in known for blank in blanks):
            yield pattern.format(**known)


def _says_something(answer: Answer) -> bool:
    if answer.reading is None or answer.reading.ignored:
        return False
    if isinstance(answer.query, Groups):
        return len(answer.names) > 1
    return bool(answer.value if answer.value is not None else answer.ids or answer.names)


def _understood(engine: Engine, query: Query, reading: Reading | None) -> Understanding:
    if reading is None:
        return Understanding(engine.describe(query), (), (), ())
    parts = tuple(UnderstoodPart(part, words.strip(" ?!.,")) for part, words in reading.understood)
    corrected = tuple(Correction(typed, read) for typed, read in reading.corrected)
    return Understanding(engine.describe(query), parts, reading.ignored, corrected)


def _figures_of_sides(result: Result, wording: Wording) -> list[NamedFigure]:
    query = result.query
    if isinstance(query, Compare):
        names = [wording.describe(rows, None) for rows in query.sides]
    elif isinstance(query, Share):
        names = [wording.describe(query.part, None), wording.describe(query.whole, None)]
    else:
        names = [side.name for side in result.sides]
    return [NamedFigure(name, side.value) for name, side in zip(names, result.sides, strict=True)]


def _figures_of_rows(engine: Engine, result: Result) -> list[NamedFigure]:
    """The values that the rows are ordered by."""
    query = result.query
    assert isinstance(query, List)
    by = query.rows.order.by if query.rows.order else None
    if by is None or not _has_numbers(engine.dataset, result.kind, by):
        return []
    rows = engine.dataset.rows(result.kind)
    values = [engine.dataset.values(result.kind, rows[place], by) for place in result.places]
    numbers = [next((float(one) for one in of_row if isinstance(one, int | float)), None) for of_row in values]
    names = [engine.dataset.label(result.kind, rows[place]) for place in result.places]
    return [NamedFigure(name, number) for name, number in zip(names, numbers, strict=True)]


def _has_numbers(dataset: Dataset, kind: str, attribute: str) -> bool:
    declared = next(one for one in dataset.declaration.kinds if one.name == kind)
    return any(one.name == attribute and one.type in ("number", "money") for one in declared.attributes)


def _measure(query: Query, wording: Wording) -> str:
    if isinstance(query, List):
        return wording.noun(query.rows.order.by) if query.rows.order else ""
    measure = query.measure if isinstance(query, Groups | Compare) else COUNT
    return "count" if measure == COUNT else f"{measure.function} of {wording.noun(measure.attribute or '')}"
