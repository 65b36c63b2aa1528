"""Answers to questions: a reading is run, and what it found is put into words with citations, or refused."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from rapidfuzz import fuzz, process

from tollhouse.questions.conditions import all_of, named_in
from tollhouse.questions.execution import Places, Result, Tables, every_test, words_of
from tollhouse.questions.grounding import Citations, Reference
from tollhouse.questions.linking import Linker, Meaning
from tollhouse.questions.normalise import language_of, tokenise
from tollhouse.questions.planning import Question, likeliest, read_question
from tollhouse.questions.plans import key
from tollhouse.questions.query import (
    COUNT,
    EVERYTHING,
    AllOf,
    AnyOf,
    Call,
    Compare,
    Condition,
    Exists,
    Figure,
    Groups,
    List,
    Measure,
    Open,
    Query,
    Reading,
    Reason,
    Refusal,
    Related,
    Rows,
    Scalar,
    Share,
    Test,
    rows_in,
)
from tollhouse.questions.retrieval import Passages
from tollhouse.questions.vocabulary import Dataset
from tollhouse.questions.wording import Wording

MOST_NAMED = 12
MOST_CITED = 25
MOST_IDS = 1_000
SUGGESTIONS = 2
# A plan at least as likely (logarithm) that finds something makes an answer that there is nothing doubtful.
DOUBTED = -2.5
MIDNIGHT = "T00:00"


class Answer(Struct, frozen=True):
    """An answer. `value` is the number asked for: percent for a share, 1 and 0 for yes and no.

    `ids` are the rows in order, at most MOST_IDS, `names` the groups or attribute values, `links` the links by which
    rows pass. `query` and `reading` are None if refused, and `refusal` is None if not.
    """

    text: str
    value: float | None = None
    kind: str = ""
    ids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    links: tuple[Any, ...] = ()
    citations: tuple[Reference, ...] = ()
    query: Query | None = None
    reading: Reading | None = None
    refusal: Refusal | None = None
    suggestions: tuple[str, ...] = ()


class Engine:
    """Answers questions from one dataset. It keeps nothing between two questions.

    `linker` is made from the dataset where none is given.
    """

    def __init__(self, dataset: Dataset, linker: Linker | None = None) -> None:
        self.dataset = dataset
        self.tables = Tables(dataset)
        self.linker = linker or Linker(dataset.declaration, dataset.names(), self.tables.knows_words, dataset.earliest)

    def read(self, text: str, before: Query | None = None) -> Reading | Refusal:
        """The question as a query, after the conversation's previous one; or why it has none."""
        return read_question(self.question(text, before))

    def question(self, text: str, before: Query | None = None) -> Question:
        """The question as it is planned, after the conversation's previous query."""
        return Question(text, self.linker, self.dataset.now, self.dataset.hours, before, self._is_sound)

    def _is_sound(self, query: Query) -> bool:
        """Whether all rows that a query names are of the kind that it asks for, and its times are those of the data."""
        tests = ((rows.kind, test) for rows in rows_in(query) for test in every_test(rows.where))
        return all(self._can_have(kind, test, value) for kind, test in tests for value in test.values)

    def _can_have(self, kind: str, test: Test, value: Scalar) -> bool:
        if test.attribute == "id" and test.comparison == "is":
            return self.tables.place_of(kind, str(value)) is not None
        attribute = self.linker.attribute_named(kind, test.attribute)
        if attribute is None or attribute.type != "time":
            return True
        return isinstance(value, str) and (MIDNIGHT in value or not self.tables.are_days(kind, test.attribute))

    def answer(self, text: str, before: Query | None = None) -> Answer:
        """The answer to a question, after the conversation's previous query."""
        reading = self.read(text, before)
        if isinstance(reading, Refusal):
            return self.refuse(text, reading)
        answer = self.answer_reading(text, reading)
        if not isinstance(answer, Refusal) and _is_none(answer) and not reading.guessed:
            answer = self._confirmed(self.question(text, before), reading, answer)
        return self.refuse(text, answer) if isinstance(answer, Refusal) else answer

    def _confirmed(self, question: Question, reading: Reading, none: Answer) -> Answer | Refusal:
        """An answer that there is nothing, unless another likely reading of the question, or of a word, has one."""
        for other in likeliest(question):
            if other.score < DOUBTED or not isinstance(other.made, Reading):
                continue
            if key(other.made.query) == key(reading.query):
                continue
            answer = self.answer_reading(question.text, replace(other.made, guessed=False))
            if isinstance(answer, Answer) and not _is_none(answer):
                return Refusal("unclear")
        tests = {(test.words, test.attribute) for rows in rows_in(reading.query) for test in every_test(rows.where)}
        for item in question.linked(reading.corrected).items:
            # The same letters can name a company by its ticker, and a country by its code.
            used = [meaning for meaning in item.meanings if (item.text, meaning.name) in tests]
            others = [meaning for meaning in item.meanings if meaning.role == "value" and meaning not in used]
            if used and any(self._has_rows(other) for other in others if other.kind == used[0].kind):
                return Refusal("unclear", (item.text,))
        return none

    def _has_rows(self, meaning: Meaning) -> bool:
        is_of_link = meaning.relation or meaning.kind not in self.tables.kinds
        return not is_of_link and bool(self.tables.mask(meaning.kind, Test(meaning.name, "is", (meaning.value,))).any())

    def answer_reading(self, text: str, reading: Reading) -> Answer | Refusal:
        """The answer to a question that has been read."""
        try:
            return self._answer(text, reading)
        except (KeyError, IndexError, ValueError):
            # The words belong to rows of several kinds that no relation joins.
            return Refusal("unclear")

    def _answer(self, text: str, reading: Reading) -> Answer | Refusal:
        query = reading.query
        if isinstance(query, Open) and (query.words or self.passages.has_lines):
            opened = self._opened(text, query, reading)
            if opened is not None or query.words:
                return opened or Refusal("no_text", self.passages.unknown(query.words))
            return Refusal("unclear") if query.rows.where == EVERYTHING else self.answer_query(query, reading)
        answer = self.answer_query(query, reading)
        if answer.ids:
            return answer
        doubtful = self._phrase_behind_nothing(reading)
        return Refusal("unclear", (doubtful,)) if doubtful else self._from_rows_with_words(reading) or answer

    @cached_property
    def passages(self) -> Passages:
        """The lines of the texts, for open questions."""
        return Passages(self.tables)

    def describe(self, query: Query) -> str:
        """The rows that a query is about, in words."""
        wording = Wording(self.tables)
        if isinstance(query, Groups):
            return f"{wording.describe(query.rows, None)}{wording.remaining(query)}"
        return "; ".join(wording.describe(rows, None) for rows in rows_in(query))

    def _opened(self, text: str, query: Open, reading: Reading) -> Answer | None:
        """The passages that answer an open question; of one in another language, those about what it names."""
        opened = self._from_texts(query, reading)
        if opened is None and not self.tables.mask(query.rows.kind, query.rows.where).any():
            # No row is so, but a text may say so.
            named = tuple(test.words for test in every_test(query.rows.where))
            opened = self._from_texts(replace(query, rows=Rows(query.rows.kind), words=(*query.words, *named)), reading)
        is_foreign = bool(query.words) and language_of(tokenise(text)) != "en"
        if opened is not None or not is_foreign or query.rows.where == EVERYTHING:
            return opened
        opened = self._from_texts(replace(query, words=()), reading)
        words = ", ".join(f"“{word}”" for word in query.words)
        return opened and replace(opened, text=f"{opened.text} The texts are in English; not looked for: {words}.")

    def _from_texts(self, query: Open, reading: Reading | None = None) -> Answer | None:
        """The passages that answer an open question; None where there are none."""
        opened = self.passages.find(query) if self.dataset.quotes else ()
        if not opened:
            return None
        citations, parts, ids = Citations(), list[str](), list[str]()
        for passage in opened:
            row = self.dataset.rows(passage.kind)[passage.place]
            reference = self.dataset.reference(passage.kind, row)
            when = f"{datetime.fromtimestamp(passage.time, UTC):%Y-%m-%d %H:%M}: " if query.form == "timeline" else ""
            parts.append(f"{when}{passage.text} {citations.mark([reference] if reference else [])}".rstrip())
            ids.append(self.dataset.id(passage.kind, row))
        text = f"Reported: {'; '.join(parts)}."
        kinds = {passage.kind for passage in opened}
        return Answer(
            text + (_noted(reading) if reading else ""),
            kind=kinds.pop() if len(kinds) == 1 else "",
            ids=tuple(ids),
            citations=tuple(citations.cited),
            query=query,
            reading=reading,
        )

    def answer_query(self, query: Query, reading: Reading | None = None) -> Answer:
        """The answer to a query that has been read already."""
        result = self.tables.run(query)
        return _Writer(self.tables, result, self.dataset.declaration.examples[:SUGGESTIONS]).answer(reading)

    def _phrase_behind_nothing(self, reading: Reading) -> str:
        """The phrase of several words without which there are rows: that no text has it says nothing of its meaning.

        Of a reading without an unknown word, that word.
        """
        query = reading.query
        if reading.guessed:
            return reading.ignored[-1]
        if not isinstance(query, List | Figure | Exists | Groups) or len(rows_in(query)) > 1:
            return ""
        tests = [part for part in query.rows.parts if isinstance(part, Test)]
        if isinstance(query, List) and query.attribute is None and len(tests) > 1:
            # "Who makes NVIDIA's HBM?" does not ask for NVIDIA.
            named = [test.words for test in tests if test.attribute == "id" and len(test.values) == 1]
            if named:
                return named[0]
        where, phrases = _without_phrases(query.rows.where)
        return phrases[0] if phrases and self.tables.mask(query.rows.kind, where).any() else ""

    def _from_rows_with_words(self, reading: Reading) -> Answer | None:
        """The rows whose texts have the words of a list that is empty because no value has them; None if not so."""
        query = reading.query
        if not isinstance(query, List) or query.attribute is not None or query.rows.order is not None:
            return None
        rows = query.rows
        parts = rows.parts
        tests = [part for part in parts if isinstance(part, Test)]
        is_text = [test.comparison == "contains" for test in tests]
        if not any(is_text) or len(tests) < len(parts):
            return None
        speaking = _speaking_of(self.tables, rows)
        if speaking is None or speaking[0] != rows.kind:
            return None
        every = self.dataset.rows(rows.kind)
        holds = self.tables.mask(rows.kind, all_of([test for test in tests if not self._is_word(rows.kind, test)]))
        ids = tuple(self.dataset.id(rows.kind, every[place]) for place in speaking[1] if holds[place])
        if not ids:
            return None
        words = ", ".join(f"“{test.words}”" for test in tests)
        answer = self.answer_query(List(Rows(rows.kind, Test("id", "is", ids, words))), reading)
        return replace(
            answer, text=f"No {self.tables.kinds[rows.kind].nouns[0]} lists that; by the texts: {answer.text}"
        )

    def _is_word(self, kind: str, test: Test) -> bool:
        """Whether texts can say what a test asks: a word or a keyword, no place, number or time."""
        attribute = self.linker.attribute_named(kind, test.attribute)
        return attribute is not None and attribute.type in ("text", "keyword")

    def refuse(self, text: str, refusal: Refusal) -> Answer:
        """A refusal in words, with the nearest questions that have answers."""
        why = self.reason(refusal)
        near = refusal.suggestions or self.suggestions(text)
        offer = f" You can ask: {' '.join(f'“{question}”' for question in near)}" if near else ""
        return Answer(f"I cannot answer that: {why}{offer}", refusal=refusal, suggestions=near)

    def reason(self, refusal: Refusal) -> str:
        """Why a question is refused, in words."""
        words = ", ".join(f"“{word[:60]}”" for word in refusal.words[:5])
        if refusal.reason == "unclear" and words:
            return f"I could not relate {words} to the rest of the question."
        return _REASONS[refusal.reason].format(words=words or "that", window=self._window())

    def suggestions(self, text: str) -> tuple[str, ...]:
        """The examples of the service that are nearest to the question."""
        examples = self.dataset.declaration.examples
        near = process.extract(text, examples, scorer=fuzz.token_set_ratio, limit=SUGGESTIONS)
        return tuple(example for example, _, _ in near)

    def _window(self) -> str:
        now, hours = self.dataset.now, self.dataset.hours
        if not now or not hours:
            return "the data"
        return f"the data, which reaches from {now - timedelta(hours=hours):%Y-%m-%d} to {now:%Y-%m-%d %H:%M} UTC"


_REASONS: dict[Reason, str] = {
    "unknown_words": "I do not know {words}, and the answer may depend on it.",
    "no_text": "no text of the data answers it.",
    "not_in_data": "the data says nothing about {words}.",
    "opinion": "it asks for an opinion, and I state only what the data holds.",
    "prediction": "it asks about the future, and the data holds only what has been recorded.",
    "advice": "it asks for advice, and I state only what the data holds.",
    "outside_time": "{words} lies outside {window}.",
    "small_talk": "it asks nothing about the data.",
    "ambiguous": "{words} may be misspelt, and could be several things.",
    "unclear": "I did not understand the question.",
}


class _Writer:
    """Puts one result into words."""

    def __init__(self, tables: Tables, result: Result, suggestions: tuple[str, ...]) -> None:
        self._tables = tables
        self._suggestions = suggestions
        self._dataset = tables.dataset
        self._wording = Wording(tables)
        self._result = result
        self._citations = Citations()

    def answer(self, reading: Reading | None) -> Answer:
        result, query = self._result, self._result.query
        text = _WRITERS[type(query)](self)
        if reading is not None:
            text += _noted(reading)
        return Answer(
            text,
            value=self._value(),
            kind=result.kind,
            ids=self._leading_rows() or tuple(self._ids(self._shown_places())),
            names=self._names(),
            links=self._links(),
            citations=tuple(self._citations.cited),
            query=query,
            reading=reading,
            suggestions=self._suggestions,
        )

    def _shown_places(self) -> Places:
        """The rows of the answer; of a comparison of named rows, those."""
        query = self._result.query
        if isinstance(query, Compare) and query.measure == COUNT and all(rows.is_named for rows in query.sides):
            return np.concatenate([side.places for side in self._result.sides])
        return self._result.places[:0] if self._has_no_groups() else self._result.places

    def _has_no_groups(self) -> bool:
        """Whether no group is within the bounds of a query for groups."""
        return isinstance(self._result.query, Groups) and not self._result.sides

    def _value(self) -> float | None:
        """The number asked for; of one row's attribute, that; of a row that is only named, its most important one."""
        result, query = self._result, self._result.query
        if not isinstance(query, List) or len(result.places) != 1:
            return result.value
        attribute = query.attribute or (self._weight(result.kind) if query.rows.is_named else None)
        if attribute is None:
            return result.value
        values = self._dataset.values(result.kind, self._dataset.rows(result.kind)[result.places[0]], attribute)
        numbers = [float(value) for value in values if isinstance(value, int | float)]
        return numbers[0] if len(numbers) == 1 else None

    def _weight(self, kind: str) -> str | None:
        """The attribute by which rows of the kind are the largest."""
        declared = self._tables.kinds[kind]
        return declared.weight if declared.weight in {attribute.name for attribute in declared.attributes} else None

    def _names(self) -> tuple[str, ...]:
        """The groups, the values of the attribute, the side of a comparison that is ahead, or the rows."""
        result, query = self._result, self._result.query
        if result.called is not None and result.called.names:
            return result.called.names
        if isinstance(query, List) and query.attribute:
            return tuple(dict.fromkeys(self._values(query.rows.kind, result.places[:MOST_IDS], query.attribute)))
        if isinstance(query, Compare):
            known = [side.value for side in result.sides if side.value is not None]
            best = (max(known) if query.descending else min(known)) if known else None
            shared = set.intersection(*(set(_tests(rows.where)) for rows in query.sides))
            return tuple(
                self._wording.value(test)
                for rows, side in zip(query.sides, result.sides, strict=True)
                for test in _tests(rows.where)
                if side.value == best and test not in shared
            )
        if result.sides or self._has_no_groups():
            return tuple(side.name for side in result.sides if side.name)
        rows = self._dataset.rows(result.kind) if len(result.places) else ()
        return tuple(self._dataset.label(result.kind, rows[place]) for place in result.places[:MOST_IDS])

    def _leading_rows(self) -> tuple[str, ...]:
        """The named row that is ahead in a comparison of what named rows have; empty for other answers."""
        result, query = self._result, self._result.query
        if not isinstance(query, Compare) or query.is_yes_no or result.value is not None:
            return ()
        named = [named_in(rows.where) for rows in query.sides]
        known = [side.value for side in result.sides if side.value is not None]
        if not known or any(test is None for test in named) or (query.measure == COUNT and query.sides[0].is_named):
            return ()
        best = max(known) if query.descending else min(known)
        pairs = zip(named, result.sides, strict=True)
        return tuple(str(test.values[0]) for test, side in pairs if test is not None and side.value == best)

    def _links(self) -> tuple[Any, ...]:
        if self._result.called:
            return self._result.called.links
        links = [
            link
            for rows in rows_in(self._result.query)
            if rows.kind == self._result.kind
            for _, link in self._tables.links_behind(self._result.places, rows.where)
        ]
        return tuple(dict.fromkeys(links))

    def called(self) -> str:
        called = self._result.called
        assert called is not None
        marks = self._citations.mark(called.references)
        query = self._result.query
        lead = ("Yes. " if self._result.value else "No. ") if isinstance(query, Call) and query.is_yes_no else ""
        return f"{lead}{called.text} {marks}".rstrip()

    def listed(self) -> str:
        query = self._result.query
        assert isinstance(query, List)
        rows, places = query.rows, self._result.places
        if not len(places):
            return self._none(rows)
        if query.attribute:
            return self._attributes(query.attribute, places)
        if profiles := self._profiles((rows,)):
            return profiles
        total = self._result.total
        shown = f"{len(places)} of {total}" if len(places) < total else str(total)
        return f"{shown} {self._wording.describe(rows, total)}: {self._named(places)}."

    def figured(self) -> str:
        query = self._result.query
        assert isinstance(query, Figure)
        what = self._wording.describe(query.rows, self._result.total)
        if query.measure == COUNT:
            if not self._result.value:
                return self._none(query.rows)
            return f"{_number(self._result.value)} {what} {self._marks(self._result.places)}".rstrip() + "."
        attribute = query.measure.attribute or ""
        if query.measure.base is not None and self._result.value is not None:
            nouns = f"from {self._wording.noun(query.measure.base)} to {self._wording.noun(attribute)}"
            marks = self._marks(self._result.places)
            is_share = query.measure.function in ("increase", "decrease")
            change = f"{self._result.value:.1f}%" if is_share else _number(self._result.value)
            name = query.measure.function if is_share else f"difference ({query.measure.function})"
            return f"The {name} {nouns} of {what} is {change} {marks}".rstrip() + "."
        if np.isnan(self._tables.amounts(query.rows.kind, attribute)[self._result.places]).all():
            return f"None of {self._result.total} {what} has a known {self._wording.noun(attribute)}."
        value = _number(self._result.value)
        marks = self._marks(self._extremes(query.measure))
        head = f"The {_measure(query.measure, self._wording.noun(attribute))} of {self._result.total} {what}"
        return f"{head} is {value} {marks}".rstrip() + "."

    def existed(self) -> str:
        query = self._result.query
        assert isinstance(query, Exists)
        if not len(self._result.places):
            return f"No. {self._none(query.rows)}"
        total = self._result.total
        if total == 1:
            return f"Yes: {self._named(self._result.places)}."
        return f"Yes: {total} {self._wording.describe(query.rows, total)}: {self._named(self._result.places)}."

    def grouped(self) -> str:
        query = self._result.query
        assert isinstance(query, Groups)
        what, by = self._wording.describe(query.rows, 2), self._wording.noun(query.by)
        remaining = self._wording.remaining(query)
        if not self._result.sides:
            return f"0 values of {by} among the {what}{remaining}." if remaining else self._none(query.rows)
        named = "; ".join(
            f"{side.name} {_number(side.value)} {self._marks(side.places)}".rstrip()
            for side in self._result.sides[:MOST_NAMED]
        )
        if query.counts:
            return f"{_number(self._result.value)} values of {by} among the {what}{remaining}: {named}."
        counted = query.measure == COUNT
        measure = "" if counted else _measure(query.measure, self._wording.noun(query.measure.attribute or ""))
        order = ("most" if query.descending else "fewest") if counted else "highest" if query.descending else "lowest"
        if query.mean:
            head = f"{f'{measure} of ' if measure else ''}{what}{remaining}"
            mean = _number(self._result.value)
            number = f"{len(self._result.sides)} value{'' if len(self._result.sides) == 1 else 's'} of {by}"
            return f"On average {mean} for each of {number}: {head}, {order} first: {named}."
        if query.limit == 1:
            return f"The {by} with the {order}{f' {measure} of' if measure else ''} {what}{remaining}: {named}."
        head = f"{f'{measure} of ' if measure else ''}{what}"
        return f"{head[:1].upper()}{head[1:]} by {by}{remaining}, {order} first: {named}."

    def compared(self) -> str:
        query = self._result.query
        assert isinstance(query, Compare)
        if query.measure == COUNT and (profiles := self._profiles(query.sides)):
            return profiles
        parts = [
            f"{self._named(side.places)} {_number(side.value)}"
            if rows.limit
            else f"{_number(side.value)} {self._wording.describe(rows, side.value)} {self._marks(side.places)}".rstrip()
            for rows, side in zip(query.sides, self._result.sides, strict=True)
        ]
        text = "; ".join(parts)
        if query.is_yes_no and self._result.value is not None:
            return f"{'Yes' if self._result.value else 'No'}: {text}."
        if query.total:
            return f"{_number(self._result.value)} together: {text}."
        if self._result.value is not None:
            more = "more" if self._result.value >= 0 else "fewer"
            return f"{_number(abs(self._result.value))} {more}: {text}."
        known = [side.value for side in self._result.sides if side.value is not None]
        best = (max(known) if query.descending else min(known)) if known else None
        leading = [part for part, side in zip(parts, self._result.sides, strict=True) if side.value == best]
        word = "most" if query.descending else "fewest"
        return (
            f"They are equal: {text}."
            if len(leading) > 1
            else f"The {word}: {leading[0] if leading else 'no figure'}. All: {text}."
        )

    def shared(self) -> str:
        query = self._result.query
        assert isinstance(query, Share)
        part, whole = self._result.sides
        of = self._wording.describe(query.whole, whole.value)
        if query.is_every:
            return self._every(query, of)
        if self._result.value is None:
            return f"There is no share to state: there are no {of}."
        described = f"{_number(part.value)} {self._wording.describe(query.part, part.value)}"
        marks = self._marks(part.places)
        return f"{self._result.value:.1f}%: {f'{described} {marks}'.rstrip()}, of {_number(whole.value)} {of}."

    def _every(self, query: Share, of: str) -> str:
        """Whether every row is one of the part, and which are not."""
        holds, whole = self._result.sides
        if not whole.value:
            return f"No: there are no {of}."
        part = self._wording.describe(query.part, 2)
        marks = self._marks(holds.places)
        if self._result.value:
            return f"Yes: all {_number(whole.value)} {of} are among the {part} {marks}".rstrip() + "."
        verb = "is" if holds.value == 1 else "are"
        so = f"{_number(holds.value)} of {_number(whole.value)} {of} {verb} among the {part} {marks}".rstrip()
        return f"No: {so}; not {self._named(self._result.places)}."

    def opened(self) -> str:
        query = self._result.query
        assert isinstance(query, Open)
        if not len(self._result.places):
            return self._none(query.rows)
        if profiles := self._profiles((query.rows,)):
            return profiles
        what = self._wording.describe(query.rows, self._result.total)
        return f"{self._result.total} {what}: {self._named(self._result.places)}."

    def _profiles(self, sides: Sequence[Rows]) -> str:
        """The profiles of rows that are asked for by their names; empty for other rows."""
        texts = []
        for rows in sides:
            if not rows.is_named:
                return ""
            every = self._dataset.rows(rows.kind)
            for place in self._tables.select(rows)[0]:
                text = self._dataset.profile(rows.kind, every[place])
                texts.append(f"{text} {self._marks([place], rows.kind)}".rstrip() if text else "")
        return " ".join(texts) if all(texts) else ""

    def _attributes(self, attribute: str, places: Places) -> str:
        rows = self._dataset.rows(self._result.kind)
        noun = self._wording.noun(attribute)
        parts = []
        for place in places[:MOST_NAMED]:
            values = self._values(self._result.kind, places[places == place], attribute)
            known = ", ".join(values) or f"no known {noun}"
            parts.append(
                f"{self._dataset.label(self._result.kind, rows[place])}: {known} {self._marks([place])}".rstrip()
            )
        return f"{noun[:1].upper()}{noun[1:]} of {'; '.join(parts)}."

    def _values(self, kind: str, places: Iterable[int], attribute: str) -> list[str]:
        rows = self._dataset.rows(kind)
        return [
            self._dataset.display(attribute, value)
            for place in places
            for value in self._dataset.values(kind, rows[place], attribute)
        ]

    def _none(self, rows: Rows) -> str:
        """That there is nothing: only said alone where the texts do not speak of it."""
        text = f"0 {self._wording.describe(rows, 0)}."
        speaking = _speaking_of(self._tables, rows)
        if not speaking:
            return text
        kind, places = speaking
        some = f"{len(places)} {self._wording.plural(kind, len(places))}"
        return f"{text} But the texts of {some} have these words: {self._named(places, kind)}."

    def _extremes(self, measure: Measure) -> Places:
        """The rows that have the smallest or largest value; all of them for other measures."""
        places = self._result.places
        if measure.function not in ("smallest", "largest") or measure.attribute is None:
            return places
        amounts = self._tables.amounts(self._result.kind, measure.attribute)[places]
        chosen: Places = places[amounts == self._result.value]
        return chosen

    def _named(self, places: Places, kind: str | None = None) -> str:
        """The rows by their labels, each with its citation where it has one of its own."""
        kind = kind or self._result.kind
        rows = self._dataset.rows(kind)
        parts = [
            f"{self._dataset.label(kind, rows[place])} {self._marks([place], kind)}".rstrip()
            for place in places[:MOST_NAMED]
        ]
        more = (
            f"; and {len(places) - MOST_NAMED} more {self._marks(places[MOST_NAMED:], kind)}".rstrip()
            if len(places) > MOST_NAMED
            else ""
        )
        return f"{'; '.join(parts)}{more}"

    def _marks(self, places: Sequence[int] | Places, kind: str | None = None) -> str:
        """The marker of what supports these rows: the links by which they pass, else the rows themselves."""
        kind = kind or self._result.kind
        array = np.asarray(places, np.int64)
        references: list[Reference | None] = []
        for rows in rows_in(self._result.query):
            if rows.kind == kind:
                links = self._tables.links_behind(array, rows.where)
                references += [self._dataset.link_reference(relation, link) for relation, link in links]
        if not any(references):
            every = self._dataset.rows(kind)
            references = [self._dataset.reference(kind, every[place]) for place in array[:MOST_CITED]]
        return self._citations.mark(reference for reference in references if reference is not None)

    def _ids(self, places: Places) -> list[str]:
        rows = self._dataset.rows(self._result.kind) if len(places) else ()
        return [self._dataset.id(self._result.kind, rows[place]) for place in places[:MOST_IDS]]


_WRITERS: dict[type, Callable[[_Writer], str]] = {
    List: _Writer.listed,
    Figure: _Writer.figured,
    Exists: _Writer.existed,
    Groups: _Writer.grouped,
    Compare: _Writer.compared,
    Share: _Writer.shared,
    Call: _Writer.called,
    Open: _Writer.opened,
}


def _is_none(answer: Answer) -> bool:
    """Whether an answer says that there are no such rows."""
    is_of_rows = isinstance(answer.query, List | Figure | Exists | Groups)
    return is_of_rows and not answer.ids and not answer.names and not answer.value


def _measure(measure: Measure, noun: str) -> str:
    return {"sum": f"total {noun}", "average": f"average {noun}", "median": f"median {noun}"}.get(
        measure.function, f"{measure.function} {noun}"
    )


def _tests(condition: Condition) -> Iterable[Test]:
    """The tests of a condition, also those on related rows, without the negated ones."""
    if isinstance(condition, Test):
        yield condition
    elif isinstance(condition, AllOf | AnyOf):
        for part in condition.of:
            yield from _tests(part)
    elif isinstance(condition, Related):
        yield from _tests(condition.to)


def _without_phrases(condition: Condition) -> tuple[Condition, list[str]]:
    """The condition without the phrases of several words that texts of links must have, and those phrases."""
    if isinstance(condition, AllOf):
        parts = [_without_phrases(part) for part in condition.of]
        return AllOf(tuple(part for part, _ in parts)), [phrase for _, phrases in parts for phrase in phrases]
    if not isinstance(condition, Related):
        return condition, []
    phrases = [test for test in condition.link if test.comparison == "contains" and len(words_of(test.words)) > 1]
    others = tuple(test for test in condition.link if test not in phrases)
    return replace(condition, link=others), [test.words for test in phrases]


def _speaking_of(tables: Tables, rows: Rows) -> tuple[str, Places] | None:
    """Rows of any kind whose texts have the words of every condition."""
    words = [word for test in _stated(rows.where) for word in words_of(test.words)]
    known = [word for word in dict.fromkeys(words) if len(word) > 2]
    for kind in tables.kinds if known else ():
        index = tables.words(kind)
        places = [set(index.get(word, np.empty(0, np.int64)).tolist()) for word in known]
        if both := sorted(set.intersection(*places)):
            return kind, np.array(both, np.int64)
    return None


def _stated(condition: Condition) -> Iterable[Test]:
    """The tests that must hold."""
    if isinstance(condition, Test):
        yield condition
    elif isinstance(condition, AllOf):
        for part in condition.of:
            yield from _stated(part)


def _noted(reading: Reading) -> str:
    """What an answer says of words that were corrected or left out."""
    notes = ["I read this as stated, without a word that I do not know."] if reading.guessed else []
    notes += [f"Not used: {', '.join(f'“{word}”' for word in reading.ignored)}."] if reading.ignored else []
    return _corrections(reading.corrected) + "".join(f" {note}" for note in notes)


def _corrections(corrections: Iterable[tuple[str, str]]) -> str:
    return "".join(f" “{typed}” was read as “{corrected}”." for typed, corrected in corrections)


def _number(value: float | None) -> str:
    if value is None:
        return "no figure"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
