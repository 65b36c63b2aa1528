"""Reads questions: the likeliest plan that leaves out nothing of what the question says, or why there is none."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from itertools import islice, pairwise
from math import exp, log
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.questions.conditions import all_of
from tollhouse.questions.coverage import nodes, unread
from tollhouse.questions.declined import REASONS
from tollhouse.questions.leaves import IMPLIED, Leaf, years_of
from tollhouse.questions.linking import Item, Linked, Linker
from tollhouse.questions.normalise import LANGUAGES, MOST_TOKENS, language_data, tokenise
from tollhouse.questions.parser import Plan, question_parser
from tollhouse.questions.parser_input import MOST_ITEMS, parser_input
from tollhouse.questions.plans import NoPlan, Realiser, key
from tollhouse.questions.query import (
    EVERYTHING,
    AllOf,
    Among,
    AnyOf,
    Call,
    Compare,
    Condition,
    Exists,
    Figure,
    Groups,
    List,
    Not,
    Open,
    Query,
    Reading,
    Refusal,
    Related,
    Rows,
    Share,
    Test,
    rows_in,
)
from tollhouse.questions.spelling import MARGIN, Corrections, as_typed
from tollhouse.questions.years import with_years

# Logarithms of probability. A plan below LEAST is none; nor is one that leaves out unknown words and is below
# LEAST_GUESSED, divided by the cube of their number. Each
# word of the vocabulary that a plan leaves out costs LOST, each unknown name UNKNOWN_NAME.
# Chosen on questions that the parser has not learned from: docs/quality.md.
LEAST, LEAST_GUESSED = -2.0, -0.5
# The latter for vocabularies that the parser has not learned from, such as those of tables.
LEAST_GUESSED_ELSEWHERE = -0.2
LOST = 1.5
UNKNOWN_NAME = 3.0
# A query with more parts than these is none that a person asks for.
MOST_PARTS = 80
SPELLINGS = 3
# So many figures before are kept for their sum.
MOST_EARLIER = 4
_RISES, _FALLS = ("comparative_more", "increase"), ("comparative_less", "decrease")
_ENDS = (".", "!", "?", ";", ":")
# With one of these before it, an unknown word at the end is what the question is about.
_LEADING = ("in", "from", "of", "by", "to", "about", "with", "except", "without", "not", "have")


class Question(Struct, frozen=True):
    """A question to a service. `now` and `hours` are the end and the length of what its data covers.

    `before` is the query of the question before in the same conversation. `is_sound` tells queries that the data can
    answer from others.
    """

    text: str
    linker: Linker
    now: datetime | None = None
    hours: int | None = None
    before: Query | None = None
    is_sound: Callable[[Query], bool] = lambda _: True

    def spellings(self, *, widely: bool = False) -> list[tuple[float, Corrections]]:
        """The likeliest spellings with their costs; the question as it stands where no word is misspelt."""
        return list(islice(self.linker.spellings(self.text, widely=widely), SPELLINGS)) or [(0.0, ())]

    def linked(self, corrections: Corrections) -> Linked:
        """The items of the question as the parser reads them."""
        linked = self.linker.link(self.text, self.now, self.hours, corrections=corrections)
        return with_years(replace(linked, items=_without_greetings(linked.items)), self.linker)


class Outcome(Struct, frozen=True):
    """What a plan makes of a question, with its score, at most 0; `linked` is the question as it was spelled for it.

    `is_learned`: the parser has learned from questions to the service.
    """

    score: float
    made: Reading | Refusal
    linked: Linked
    is_learned: bool

    @property
    def ignored(self) -> int:
        """How many unknown words are left out."""
        return len(self.made.ignored) if isinstance(self.made, Reading) else 0

    @property
    def is_likely(self) -> bool:
        guessed = LEAST_GUESSED if self.is_learned else LEAST_GUESSED_ELSEWHERE
        return self.score >= (guessed / self.ignored**3 if self.ignored else LEAST)


def read_question(question: Question) -> Reading | Refusal:
    """The query of a question, or why it has none."""
    if len(question.text) > MOST_TOKENS and len(tokenise(question.text)) >= MOST_TOKENS:
        return Refusal("unclear")
    outcomes = _likely(question)
    if question.before is not None and not (outcomes and outcomes[0].is_likely):
        alone = _likely(replace(question, before=None))
        stands_alone = alone and alone[0].score >= LEAST_GUESSED and not _points_back(alone[0].linked.items)
        outcomes = alone if stands_alone else outcomes
    linked = outcomes[0].linked if outcomes else question.linked(())
    made = outcomes[0].made if outcomes else None
    outside = [item.text for item in linked.items if _is_outside(item, made)]
    if not outcomes or not outcomes[0].is_likely:
        return Refusal("outside_time", tuple(outside)) if outside else _unread(linked)
    best = outcomes[0]
    if isinstance(best.made, Refusal):
        return _with_words(best.made, linked)
    if outside:
        return Refusal("outside_time", tuple(outside))
    if _is_ambiguous(best, outcomes[1:]):
        return Refusal("ambiguous", tuple(typed for typed, _ in linked.corrected))
    return best.made


def _is_outside(item: Item, made: Reading | Refusal | None) -> bool:
    """Whether an item is a time that the data does not cover, and no year that a query compares numbers with."""
    time = item.find("time")
    if time is None or not time.value.outside:
        return False
    tests = (node for node in nodes(made.query) if isinstance(node, Test)) if isinstance(made, Reading) else ()
    numbers = {value for test in tests for value in test.values if not isinstance(value, str)}
    return numbers.isdisjoint(years_of(time.value))


def _likely(question: Question) -> list[Outcome]:
    """The likeliest outcomes; with more words as misspelt ones if only then one is likely, or leaves out nothing."""
    outcomes = likeliest(question)
    is_likely = bool(outcomes) and outcomes[0].is_likely
    if is_likely and not outcomes[0].ignored:
        return outcomes
    widely = likeliest(question, widely=True)
    whole = [outcome for outcome in widely if outcome.score >= LEAST_GUESSED and not outcome.ignored]
    if is_likely:
        return whole or outcomes
    return widely if widely and widely[0].is_likely else outcomes


def _is_ambiguous(best: Outcome, others: Sequence[Outcome]) -> bool:
    """Whether another spelling, which is as near, is another question."""
    assert isinstance(best.made, Reading)
    query = key(best.made.query)
    return any(
        other.linked.corrected != best.linked.corrected
        and other.score >= best.score - MARGIN
        and isinstance(other.made, Reading)
        and key(other.made.query) != query
        for other in others
    )


def _unread(linked: Linked) -> Refusal:
    """Why a question has no likely plan: the words that are not known, or nothing that can be named."""
    unavailable = [item.text for item in linked.items if item.find("unavailable")]
    unknown = [as_typed(item.text, linked.corrected) for item in linked.items if item.find("unknown")]
    if unavailable:
        return Refusal("not_in_data", tuple(unavailable))
    return Refusal("unknown_words", tuple(unknown)) if unknown else Refusal("unclear")


def _with_words(refusal: Refusal, linked: Linked) -> Refusal:
    """A refusal that the parser chose, with the words that it rests on; without any, it is not said for certain."""
    concepts = [concept for concept, reason in REASONS.items() if reason == refusal.reason]
    words = [item.text for item in linked.items if item.says(*concepts)]
    if refusal.reason == "not_in_data":
        words = [item.text for item in linked.items if item.find("unavailable")]
        return replace(refusal, words=tuple(words)) if words else _unread(linked)
    return _unread(linked) if refusal.reason == "unclear" else replace(refusal, words=tuple(words))


def likeliest(question: Question, *, widely: bool = False) -> list[Outcome]:
    """What the likeliest plans of a question's likeliest spellings make of it, the likeliest first.

    `widely`: ordinary words may be misspelt function words, and others words of the texts; nothing where no word is.
    """
    near = question.spellings()
    spelled = question.spellings(widely=True) if widely else near
    if widely and spelled == near:
        return []
    outcomes = [
        Outcome(score - (cost - spelled[0][0]), made, linked, question.linker.declaration.is_learned)
        for cost, corrections in spelled
        for linked in (question.linked(corrections),)
        for score, made in _joined(_outcomes(linked, question))
    ]
    return sorted(outcomes, key=lambda outcome: -outcome.score)


def _joined(outcomes: Iterable[tuple[float, Reading | Refusal]]) -> Iterator[tuple[float, Reading | Refusal]]:
    """The outcomes of one question, those that are the same with the sum of their probabilities."""
    same: dict[Any, list[tuple[float, Reading | Refusal]]] = {}
    for score, made in outcomes:
        same.setdefault(key(made.query if isinstance(made, Reading) else made), []).append((score, made))
    for group in same.values():
        best = max(group, key=lambda each: each[0])
        yield min(0.0, best[0] + log(sum(exp(score - best[0]) for score, _ in group))), best[1]


def _without_greetings(items: Sequence[Item]) -> tuple[Item, ...]:
    """The items without greetings and thanks at both ends; all of them where there is nothing else."""
    said = [place for place, item in enumerate(items) if not (item.says("greeting") or item.find("mark"))]
    if not said:
        return tuple(items)
    first, last = said[0], said[-1] + 1
    while last < len(items) and not items[last].says("greeting"):
        last += 1
    return tuple(items[first:last])


def with_earlier(query: Query, before: Query | None) -> Query:
    """The query with the figures before it, for a sum or difference of them; or with the list before it."""
    if isinstance(before, List) and isinstance(query, List):
        is_pair = before.rows.kind == query.rows.kind and before.rows.where != query.rows.where
        return replace(query, earlier=(before.rows,)) if is_pair else query
    if not isinstance(before, Figure) or not isinstance(query, Figure) or before.measure != query.measure:
        return query
    if before.rows.kind != query.rows.kind or before.rows == query.rows:
        return query
    return replace(query, earlier=(before.rows, *before.earlier)[:MOST_EARLIER])


def _outcomes(linked: Linked, question: Question) -> Iterator[tuple[float, Reading | Refusal]]:
    linker, before = question.linker, question.before
    if not linked.items or len(linked.items) > MOST_ITEMS:
        return
    if before is None and linked.items[0].says("and", "but", "those"):
        return
    for plan in question_parser().plans(parser_input(linked, linker, before)):
        try:
            realised = Realiser(plan.tokens, before).query()
        except NoPlan:
            continue
        if isinstance(realised, Refusal):
            yield plan.score, realised
            continue
        query = _with_implied(realised, plan, linked)
        if not _is_plausible(query) or not _fits(query, linker) or not question.is_sound(query):
            continue
        aside = _aside(plan, linked, is_learned=linker.declaration.is_learned)
        unused = [item for item in _unused(plan, linked) if item not in aside]
        names = sum(_can_be_name(item, linked) for item in [*unused, *_respelled(plan, linked)])
        said = [item for item in linked.items if item not in aside]
        lost = unread(said, query, linker, before)
        vital = sum(item.find("number", "transitive") is not None for item in lost)
        forgotten = len(lost) - vital + _forgotten(linked.items, query, before) + _invented(plan, linked)
        score = plan.score - LOST * forgotten - UNKNOWN_NAME * (names + vital)
        yield score, _reading(with_earlier(_as_compared(query, linked.items), before), unused, linked)


def _aside(plan: Plan, linked: Linked, *, is_learned: bool) -> list[Item]:
    """The ordinary words of clauses that a plan has nothing of: "For my paper: ...", unless another points to them."""
    items = linked.items
    used = {token.item for token in plan.tokens if isinstance(token, Leaf)} - {IMPLIED}
    if not used or any(item.says("those") for item in items):
        return []
    ends = [-1, *(place for place, item in enumerate(items) if item.find("mark")), len(items)]
    apart = [items[start + 1 : end] for start, end in pairwise(ends) if used.isdisjoint(range(start + 1, end))]
    return [item for clause in apart for item in clause if _is_ordinary(item, linked, is_learned=is_learned)]


def _is_ordinary(item: Item, linked: Linked, *, is_learned: bool) -> bool:
    """Whether a word is neither a name nor a value; to other vocabularies any unknown word may be one."""
    if item.find("unknown"):
        return is_learned and not _can_be_name(item, linked)
    return not item.find("value", "number", "time", "range")


def _is_plausible(query: Query) -> bool:
    """Whether a person would ask for it: not for so many conditions, nor to compare or join rows with themselves."""
    sides = rows_in(query) if isinstance(query, Call | Compare) else ()
    return sum(1 for _ in nodes(query)) <= MOST_PARTS and len(set(sides)) == len(sides)


def _as_compared(query: Query, items: Sequence[Item]) -> Query:
    """A difference of two sums with the sign that its words give it: "how much less ..." is positive if it fell."""
    measure = getattr(query, "measure", None)
    if not isinstance(query, Figure) or measure is None or measure.function not in ("more", "less"):
        return query
    said = {word for item in items for word in item.text.lower().split()}
    is_more, is_less = (
        any(item.says(*concepts) for item in items) or not said.isdisjoint(_phrases(concepts))
        for concepts in (_RISES, _FALLS)
    )
    if is_more == is_less:
        return query
    return replace(query, measure=replace(measure, function="more" if is_more else "less"))


def _forgotten(items: Sequence[Item], query: Query, before: Query | None) -> int:
    """How many conditions of the question before are lost where some of its rows are wanted: "only the", "of those"."""
    if before is None or not _points_back(items) or isinstance(query, Call | Compare | Share):
        return 0
    rows, old = rows_in(query)[0], next(iter(rows_in(before)), None)
    if old is None or old.kind != rows.kind:
        return 0
    tested = {part.attribute for part in rows.parts if isinstance(part, Test)}
    parts = [part for part in old.parts if not (isinstance(part, Test) and part.attribute in tested)]
    said = str(key(rows.where))
    return sum(str(key(part)) not in said for part in parts if part != EVERYTHING)


def _points_back(items: Sequence[Item]) -> bool:
    """Whether words stand for rows of the question before."""
    return items[0].says("only") or any(item.says("those") for item in items)


@cache
def _phrases(concepts: tuple[str, ...]) -> frozenset[str]:
    """The phrases of these concepts in every language."""
    every = language_data()
    return frozenset(
        text for language in LANGUAGES for concept in concepts for text in every[language].get(concept, ())
    )


def _unused(plan: Plan, linked: Linked) -> list[Item]:
    """The unknown words that a plan does not have."""
    used = {token.item for token in plan.tokens if isinstance(token, Leaf)}
    return [item for place, item in enumerate(linked.items) if item.find("unknown") and place not in used]


def _invented(plan: Plan, linked: Linked) -> int:
    """How many conditions no word stands for, beyond the words that the plan does not have, each of which could."""
    leaves = [token for token in plan.tokens if isinstance(token, Leaf)]
    used = {leaf.item for leaf in leaves}
    free = sum(place not in used and not item.find("function", "mark") for place, item in enumerate(linked.items))
    if used == {IMPLIED} and not free:
        return sum(leaf.type != "kind" for leaf in leaves)
    return max(0, sum(leaf.item == IMPLIED and leaf.type in ("condition", "link") for leaf in leaves) - free)


def _with_implied(query: Query, plan: Plan, linked: Linked) -> Query:
    """The query with what the noun of its only rows implies: novels are fiction."""
    if not isinstance(query, List | Figure | Exists | Groups):
        return query
    others = {token.item for token in plan.tokens if isinstance(token, Leaf) and token.type != "kind"}
    known = {(test.attribute, test.values) for test in nodes(query) if isinstance(test, Test)}
    for place, item in enumerate(linked.items):
        meaning = item.find("kind")
        if meaning is None or place in others or meaning.name != query.rows.kind:
            continue
        tests = [Test(name, "is", (value,), item.text) for name, value in meaning.value or ()]
        if tests and all((test.attribute, test.values) not in known for test in tests):
            query = replace(query, rows=replace(query.rows, where=all_of([query.rows.where, *tests])))
    return query


def _respelled(plan: Plan, linked: Linked) -> Iterator[Item]:
    """The words that a plan does not have and that were typed otherwise: "groq" is a name, not "grow"."""
    used = {token.item for token in plan.tokens if isinstance(token, Leaf)}
    for place, item in enumerate(linked.items):
        if place not in used and as_typed(item.text, linked.corrected) != item.text:
            yield item


def _fits(query: Query, linker: Linker) -> bool:
    """Whether the kinds of rows have the attributes and relations that a query wants of them."""
    if isinstance(query, Call):
        least, most = linker.operations[query.operation].rows
        if not least <= len(query.rows) <= most:
            return False
    every = [node for node in nodes(query) if isinstance(node, Rows)]
    needed = [rows.order.by for rows in every if rows.order is not None]
    measure = getattr(query, "measure", None)
    needed += [name for name in (getattr(measure, "attribute", None), getattr(measure, "base", None)) if name]
    # Values are shown and grouped by of attributes alone, not of how many of something there are.
    shown = [name for name in (getattr(query, "by", None), getattr(query, "attribute", None)) if name]
    kind = every[0].kind if every else ""
    if isinstance(query, Groups) and not all(_has(linker, rows.kind, query.by) for rows in rows_in(query)):
        return False
    if isinstance(query, Share) and query.part.kind != query.whole.kind:
        return False
    return (
        all(_has(linker, kind, name) for name in needed)
        and all(name == "id" or linker.attribute_named(kind, name) is not None for name in shown)
        and all(_is_of(linker, rows.kind, rows.where) for rows in every)
        and (isinstance(query, Open) or all(_can_hold(linker, rows) for rows in every))
    )


def _can_hold(linker: Linker, rows: Rows) -> bool:
    """Whether its conditions can all hold: a row has one value of most attributes, and lies in one range."""
    values: dict[str, set[Any]] = {}
    # A number does not compare with a time, which is text.
    least: dict[tuple[str, bool], Any] = {}
    most: dict[tuple[str, bool], Any] = {}
    for test in (part for part in rows.parts if isinstance(part, Test) and part.values and not part.of_row):
        attribute, name, first = linker.attribute_named(rows.kind, test.attribute), test.attribute, test.values[0]
        at = name, isinstance(first, str)
        if test.comparison == "is" and (name == "id" or (attribute is not None and not attribute.several)):
            values[name] = values.get(name, set(test.values)) & set(test.values)
        elif test.comparison in ("above", "at_least"):
            least[at] = max(least.get(at, first), first)
        elif test.comparison in ("below", "at_most"):
            most[at] = min(most.get(at, first), first)
    return all(values.values()) and all(least[at] <= most[at] for at in least.keys() & most.keys())


def _is_of(linker: Linker, kind: str, condition: Condition) -> bool:
    """Whether rows of the kind can be tested so."""
    if isinstance(condition, Test):
        return _has(linker, kind, condition.attribute)
    if isinstance(condition, Related):
        relation = linker.relations[condition.relation]
        ends = (relation.source, relation.target) if condition.outgoing else (relation.target, relation.source)
        declared = {each.name for each in relation.link}
        has_links = all(
            test.attribute in declared or linker.of_link(relation.name, test.attribute) for test in condition.link
        )
        return ends[0] == kind and has_links and _is_of(linker, ends[1], condition.to)
    if isinstance(condition, Not):
        return _is_of(linker, kind, condition.of)
    if isinstance(condition, Among):
        return condition.rows.kind == kind
    return all(_is_of(linker, kind, part) for part in condition.of)


def _has(linker: Linker, kind: str, name: str) -> bool:
    """Whether rows of the kind have an attribute, or links of a relation that are counted."""
    if name == "id" or linker.attribute_named(kind, name.removesuffix(".values")) is not None:
        return True
    relation = linker.relations.get(name.partition(".")[0])
    return relation is not None and kind == (relation.target if name.endswith(".in") else relation.source)


def _can_be_name(item: Item, linked: Linked) -> bool:
    """Whether an unknown word is written as a name, or stands where the question names what it is about."""
    place = linked.items.index(item)
    before = linked.items[place - 1] if place else None
    is_capital = item.text[:1].isupper() and before is not None and linked.language != "de"
    is_last = place == len(linked.items) - 1 or linked.items[place + 1].says(*_ENDS)
    is_led = before is not None and (before.says(*_LEADING) or before.find("verb", "stranded") is not None)
    # Of two unknown words at the end, the first may be a misspelt preposition.
    is_led = is_led or (place > 1 and linked.items[place - 1].find("unknown") is not None)
    return is_capital or (is_last and is_led) or _is_counted(place, linked.items)


def _is_counted(place: int, items: Sequence[Item]) -> bool:
    """Whether a word, and no known noun behind it, is what the question counts: "how many tanks", "combien de X"."""
    said = [item for item in items[:place] if not item.says("of")][-1:]
    is_adjective = any(item.find("kind", "party", "attribute") for item in items[place + 1 : place + 3])
    return bool(said) and said[0].says("how_many") and not is_adjective


def _reading(query: Query, unused: Sequence[Item], linked: Linked) -> Reading:
    ignored = tuple(as_typed(item.text, linked.corrected) for item in unused)
    typed = ((name, as_typed(words, linked.corrected)) for name, words in _understood(query))
    understood = tuple(dict.fromkeys(typed))
    return Reading(query, understood, ignored, linked.corrected, guessed=bool(ignored))


def _understood(query: Query) -> Iterator[tuple[str, str]]:
    """The attribute or relation of each condition, with its words."""
    for rows in rows_in(query):
        yield from _in_rows(rows)


def _in_rows(rows: Rows) -> Iterator[tuple[str, str]]:
    yield from _in_condition(rows.where)
    if rows.order is not None:
        yield rows.order.by, ""


def _in_condition(condition: Condition) -> Iterator[tuple[str, str]]:
    if isinstance(condition, Test):
        yield condition.attribute, condition.words
    elif isinstance(condition, Related):
        yield condition.relation, condition.words
        yield from _in_condition(condition.to)
    elif isinstance(condition, AllOf | AnyOf):
        for part in condition.of:
            yield from _in_condition(part)
    elif isinstance(condition, Not):
        yield from _in_condition(condition.of)
    elif isinstance(condition, Among):
        yield from _in_rows(condition.rows)
