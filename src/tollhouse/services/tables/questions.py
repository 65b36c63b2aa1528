"""Questions to a table in words: answers with numbers and rows, and conditions of a search."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.followed_items import FollowedItems
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.query import Clause, Range
from tollhouse.questions.answering import Answer, Engine
from tollhouse.questions.description import read_description
from tollhouse.questions.linking import Linker
from tollhouse.questions.normal_form import Groups, groups_of
from tollhouse.questions.query import AllOf, Condition, Not, Open, Reading, Test
from tollhouse.services.tables.declaration import Declaration
from tollhouse.services.tables.vocabulary import ITEM, TableDataset, build_vocabulary, understood_as

_INCLUSIVE = {"at_least": "minimum", "above": "minimum", "at_most": "maximum", "below": "maximum"}
_OPPOSITES = {"at_least": "below", "above": "at_most", "at_most": "above", "below": "at_least"}


class TableAnswer(Struct, frozen=True):
    """The answer to a question. `value` is the number that it asks for, percent for a share, 1 or 0 for yes or no.

    `ids` are the rows in order, and `names` the groups or values. `understood` has the words of each condition, and the
    words that were not used. `query` is what was computed; null if the question was refused, with questions near it
    in `suggestions`.
    """

    question: str
    answer: str
    value: float | None
    ids: list[str]
    names: list[str]
    understood: dict[str, Any]
    query: dict[str, Any] | None
    suggestions: list[str]
    licence: str
    source: str


class Described(Struct, frozen=True):
    """A search text as conditions: groups of clauses, an order, the words left to match, and how it was read."""

    where: tuple[tuple[Clause, ...], ...]
    sort: str
    text: str
    understood: dict[str, Any]


class TableQuestions:
    """Answers questions from the shown members of a table's rows, of which the changed ones are read again."""

    def __init__(self, declaration: Declaration, catalogue: Catalogue) -> None:
        self._declaration = declaration
        self._catalogue = catalogue
        self._items = FollowedItems[Item](catalogue, lambda item: item)
        self._engine: tuple[tuple[str, int], Engine] | None = None
        self._building = asyncio.Lock()

    @property
    def example(self) -> str:
        """A question that the table answers."""
        return build_vocabulary(self._declaration).examples[0]

    async def prepare(self) -> None:
        await self._current()

    async def answer(self, question: str) -> Answer:
        engine = await self._current()
        return await asyncio.to_thread(engine.answer, question)

    async def describe(self, text: str) -> Described | None:
        """The conditions that a search text states beyond words and values; None if it states none."""
        engine = await self._current()
        reading = read_description(text, engine.linker, ITEM, now=engine.dataset.now)
        query = reading.query if isinstance(reading, Reading) else None
        if not isinstance(query, Open) or not isinstance(reading, Reading):
            return None
        where = query.rows.where
        conditions = where.of if isinstance(where, AllOf) else (where,)
        sort = self._sort(query)
        if not sort and not any(map(_is_stated, conditions)):
            return None
        groups = [group for group in groups_of(where, self._test) if group]
        words = {name: said for name, said in map(_words, conditions) if name}
        understood: dict[str, Any] = {"words": words, "unused": reading.ignored, "corrected": dict(reading.corrected)}
        understood |= {"sort": sort} if sort else {}
        return Described(tuple(groups), sort, " ".join(query.words), {k: v for k, v in understood.items() if v})

    def render(self, question: str, answer: Answer) -> TableAnswer:
        reading = answer.reading
        understood: dict[str, Any] = {}
        if reading is not None:
            sources = {"words": understood_as(reading.understood), "unused": reading.ignored}
            sources["corrected"] = dict(reading.corrected)
            understood = {name: value for name, value in sources.items() if value}
        elif answer.refusal is not None:
            understood = {"refused": answer.refusal.reason, "unused": answer.refusal.words}
        return TableAnswer(
            question=question,
            answer=answer.text,
            value=answer.value,
            ids=list(answer.ids),
            names=list(answer.names),
            understood=understood,
            query=None if answer.query is None else msgspec.to_builtins(answer.query),
            suggestions=list(answer.suggestions),
            licence=self._declaration.licence,
            source=self._declaration.source,
        )

    async def _current(self) -> Engine:
        async with self._building:
            revision = self._catalogue.revision
            if self._engine is None or self._engine[0] != revision:
                before = self._engine[1] if self._engine else None
                items = await self._items.current()
                self._engine = revision, await asyncio.to_thread(table_engine, self._declaration, items, before)
            return self._engine[1]

    def _sort(self, query: Open) -> str:
        order = query.rows.order
        field = self._declaration.fields.get(order.by) if order is not None else None
        if order is None or field is None or not field.sorted:
            return ""
        return f"{'-' if order.descending else ''}{order.by}"

    def _test(self, test: Test, negated: bool) -> Groups[Clause]:  # noqa: FBT001 - called by position
        """The clauses of a test; none for a column that cannot be filtered."""
        field = self._declaration.fields.get(test.attribute)
        if test.comparison == "contains":
            return [(Clause(values=tuple(str(value) for value in test.values), negated=negated),)]
        if test.attribute == "id":
            return [(Clause("id", tuple(str(value) for value in test.values), negated=negated),)]
        if field is None or not field.filtered or test.comparison == "known":
            return []
        if test.comparison == "is":
            values: Sequence[Any] = test.values
            if field.type == "boolean":
                values, negated = (bool(values[0]) != negated,), False
            return [(Clause(test.attribute, tuple(values), negated=negated),)]
        comparison = _OPPOSITES[test.comparison] if negated else test.comparison
        limit: Any = test.values[0]
        groups: Groups[Clause] = [(Clause(test.attribute, ends=Range(**{_INCLUSIVE[comparison]: limit})),)]
        if comparison in ("above", "below"):
            groups.append((Clause(test.attribute, (limit,), negated=True),))
        return groups


def table_engine(table: Declaration, items: Sequence[Item], before: Engine | None = None) -> Engine:
    """What answers questions about a table's items, which are ordered by id.

    What `before` knows of the items that are the same objects is not read again, unless much has changed.
    """
    known = before.dataset if before else None
    dataset = TableDataset(table, items, known if isinstance(known, TableDataset) else None)
    if before is None or dataset.changed_names is None:
        return Engine(dataset, Linker(dataset.declaration, dataset.names(), dataset.words))
    return Engine(dataset, before.linker.renamed(*dataset.changed_names, dataset.words))


def _is_stated(condition: Condition) -> bool:
    """Whether words that are only matched would not say the same: a denial, a number, yes or no."""
    if isinstance(condition, Test):
        is_value = condition.comparison == "is" and all(isinstance(value, str) for value in condition.values)
        return not is_value and condition.comparison not in ("contains", "known")
    if isinstance(condition, Not):
        return True
    return any(map(_is_stated, getattr(condition, "of", ())))


def _words(condition: Condition) -> tuple[str, str]:
    """What a condition is about, and its words."""
    if isinstance(condition, Test):
        return condition.attribute, condition.words
    if isinstance(condition, Not):
        name, said = _words(condition.of)
        return f"not {name}", said
    parts = [_words(each) for each in getattr(condition, "of", ())]
    return parts[0][0] if parts else "", " ".join(dict.fromkeys(said for _, said in parts))
