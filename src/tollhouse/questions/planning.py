"""Reads questions with the parser: the likeliest plan that leaves out nothing of what the question says."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from tollhouse.questions.coverage import is_plausible, nodes, unread
from tollhouse.questions.follow_ups import with_earlier
from tollhouse.questions.leaves import Leaf
from tollhouse.questions.linking import Item, Linked, Linker
from tollhouse.questions.parser import Plan, question_parser
from tollhouse.questions.parser_input import parser_input
from tollhouse.questions.plans import NoPlan, Realiser
from tollhouse.questions.query import (
    AllOf,
    Among,
    AnyOf,
    Call,
    Condition,
    Groups,
    Measure,
    Not,
    Query,
    Reading,
    Refusal,
    Related,
    Rows,
    Share,
    Test,
    operands,
    rows_in,
)
from tollhouse.questions.spelling import Corrections, as_typed
from tollhouse.questions.years import with_years

# Logarithms of probability. A plan below LEAST, or below LEAST_GUESSED if it leaves out an unknown word, is none; one
# above SURE is believed before the grammar. Each word of the vocabulary that a plan leaves out costs LOST; each unknown
# name, and a query no one asks, IMPLAUSIBLE. Chosen on questions that the parser has not learned from: docs/quality.md.
LEAST, LEAST_GUESSED, SURE = -2.0, -0.5, -0.15
LOST = 1.5
IMPLAUSIBLE = 3.0
SPELLINGS = 2
_ENDS = (".", "!", "?", ";", ":")
# With one of these before it, an unknown word at the end is what the question is about.
_LEADING = ("in", "from", "of", "by", "to", "about", "with", "except", "without", "not")


def best_plan(
    text: str, linker: Linker, *, now: datetime | None, hours: int | None, before: Query | None
) -> tuple[float, Reading | Refusal] | None:
    """What the likeliest plan makes of a question, with its score, at most 0; None where there is no plan."""
    return max(likeliest(text, linker, now=now, hours=hours, before=before), key=lambda one: one[0], default=None)


def likeliest(
    text: str, linker: Linker, *, now: datetime | None, hours: int | None, before: Query | None
) -> Iterator[tuple[float, Reading | Refusal]]:
    """What the likeliest plans of a question's likeliest spellings make of it, with their scores, in no order."""
    spelled: list[tuple[float, Corrections]] = list(islice(linker.spellings(text), SPELLINGS)) or [(0.0, ())]
    for cost, corrections in spelled:
        linked = linker.link(text, now, hours, corrections=corrections)
        linked = with_years(replace(linked, items=_without_greetings(linked.items)), linker)
        for score, outcome in _outcomes(linked, linker, before):
            yield score - (cost - spelled[0][0]), outcome


def _without_greetings(items: Sequence[Item]) -> tuple[Item, ...]:
    """The items without greetings and thanks at both ends; all of them where there is nothing else."""
    said = [place for place, item in enumerate(items) if not (item.says("greeting") or item.find("mark"))]
    if not said:
        return tuple(items)
    first, last = said[0], said[-1] + 1
    while last < len(items) and not items[last].says("greeting"):
        last += 1
    return tuple(items[first:last])


def _outcomes(linked: Linked, linker: Linker, before: Query | None) -> Iterator[tuple[float, Reading | Refusal]]:
    if not linked.items or (before is None and linked.items[0].says("and", "but", "what_about", "those")):
        return
    question = parser_input(linked, linker, before)
    for plan in question_parser().plans(question):
        try:
            query = Realiser(plan.tokens, before).query()
        except NoPlan:
            continue
        if isinstance(query, Refusal):
            yield plan.score, query
            continue
        if not _fits(query, linker):
            continue
        unused = _unused(plan, linked)
        names = sum(_can_be_name(item, linked) for item in unused)
        lost = len(unread(linked.items, query, linker, before)) + _unrepeated(linked.items, query)
        score = plan.score - LOST * lost
        score -= IMPLAUSIBLE * (names + (not is_plausible(query)))
        yield score, _reading(with_earlier(query, before), unused, linked)


def _unrepeated(items: Sequence[Item], query: Query) -> int:
    """How often a party's noun is repeated and the query has its relation once: "suppliers of the suppliers of ...".

    A verb beside the noun says no more: "which suppliers supply ...".
    """
    said = Counter(party.relation for item in items if (party := item.find("party")) is not None)
    every = tuple(nodes(query))
    orders = [node.order.by for node in every if isinstance(node, Rows) and node.order is not None]
    counted = [*orders, *(node.attribute for node in every if isinstance(node, Test | Measure) and node.attribute)]
    used = Counter(node.relation for node in every if isinstance(node, Related))
    used.update(part.partition(".")[0] for name in counted for part in operands(name))
    return sum(max(0, times - max(1, used[relation])) for relation, times in said.items() if times > 1)


def _unused(plan: Plan, linked: Linked) -> list[Item]:
    """The unknown words that a plan does not have."""
    used = {token.item for token in plan.tokens if isinstance(token, Leaf)}
    return [item for place, item in enumerate(linked.items) if item.find("unknown") and place not in used]


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
    )


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
    return is_capital or (is_last and is_led)


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
