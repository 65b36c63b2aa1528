"""What the words of a question can contribute to its query: conditions, kinds, attributes, relations, numbers."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast
from weakref import WeakKeyDictionary

from msgspec import Struct

from tollhouse.questions.conditions import all_of, range_test
from tollhouse.questions.linking import ORDINAL_ENDINGS, Item, Linker, Meaning
from tollhouse.questions.query import (
    AllOf,
    Among,
    Call,
    Condition,
    Groups,
    List,
    Measure,
    Not,
    Order,
    Query,
    Related,
    Rows,
    Test,
    rows_in,
)
from tollhouse.questions.times import TimePhrase
from tollhouse.questions.vocabulary import Attribute

LeafType = Literal["kind", "condition", "link", "attribute", "relation", "operation", "number", "word", "order"]
# The item of a leaf that no word stands for: the kinds of the service, and what joins them.
IMPLIED = -1
_ORDERED = ("number", "money", "time")


class Leaf(Struct, frozen=True):
    """One thing that a query can be made of. `item` is the place of its words, or IMPLIED.

    `value` is the name of a kind, attribute, relation or operation, a condition, a number, an order or a word. `hint`
    says more about it to the parser: an attribute's type, a direction.
    """

    type: LeafType
    value: Any
    item: int = IMPLIED
    hint: str = ""


def leaves_of(items: Sequence[Item], linker: Linker) -> list[Leaf]:
    """The leaves of a question's items, and those that its service implies."""
    if linker not in _IMPLIED:
        _IMPLIED[linker] = tuple(_implied(linker))
    leaves = dict.fromkeys(_IMPLIED[linker])
    for place, item in enumerate(items):
        leaves.update(dict.fromkeys(_of_item(items, place, item, linker)))
    return list(leaves)


_IMPLIED: WeakKeyDictionary[Linker, tuple[Leaf, ...]] = WeakKeyDictionary()


def _implied(linker: Linker) -> Iterator[Leaf]:
    """What the service declares can be meant without a word that names it."""
    for of_type, value in linker.described:
        yield Leaf(cast("LeafType", of_type), value, hint=_implied_hint(of_type, value, linker))
    for number in (0.0, 1.0, 2.0):
        yield Leaf("number", number)


def _implied_hint(of_type: str, value: Any, linker: Linker) -> str:
    """The part that something declared has: the weight of a kind, a preferred attribute, a relation between kinds."""
    if of_type == "attribute":
        kinds = [kind for kind in linker.declaration.kinds if linker.attribute_named(kind.name, value) is not None]
        if any(kind.weight == value for kind in linker.declaration.kinds):
            return "weight"
        attributes = [linker.attribute_named(kind.name, value) for kind in kinds]
        is_preferred = any(each is not None and each.preferred for each in attributes)
        return "preferred" if is_preferred else attributes[0].type if attributes and attributes[0] else "counted"
    if of_type == "relation":
        relation = linker.relations[value[0]]
        is_first = relation is linker.declaration.relations[0]
        return "first" if is_first else "implied" if relation.source != relation.target else "other"
    return ""


def _of_item(items: Sequence[Item], place: int, item: Item, linker: Linker) -> Iterator[Leaf]:
    grouped: dict[tuple[str, str, str], list[Meaning]] = defaultdict(list)
    for meaning in item.meanings:
        if meaning.role == "value":
            grouped[meaning.kind, meaning.relation, meaning.name].append(meaning)
        else:
            yield from _of_meaning(items, place, item, meaning, linker)
    for (kind, relation, name), meanings in grouped.items():
        attribute = linker.attribute(meanings[0])
        is_text = attribute is not None and attribute.type == "text"
        values = tuple(dict.fromkeys(meaning.value for meaning in meanings))
        hint = "text" if is_text else "name" if name == "id" else "value"
        for each in dict.fromkeys((values, *((value,) for value in values[:3]))):
            test = Test(name, "contains" if is_text else "is", each, item.text)
            yield Leaf("link" if relation else "condition", test, place, hint)
            if kind in linker.kinds and linker.kinds[kind].links:
                yield Leaf("link", test, place, hint)
    if item.find(
        "unknown", "value", "kind", "party", "verb", "operation", "attribute", "unavailable", "number", "time"
    ):
        yield Leaf("word", item.text, place)


def _of_meaning(  # noqa: C901, PLR0912
    items: Sequence[Item], place: int, item: Item, meaning: Meaning, linker: Linker
) -> Iterator[Leaf]:
    role, name = meaning.role, meaning.name
    if role == "kind":
        yield Leaf("kind", name, place)
        if meaning.value:
            tests = [Test(attribute, "is", (value,), item.text) for attribute, value in meaning.value]
            yield Leaf("condition", all_of(tests), place, "implied")
        for counted in _counting(name, linker):
            yield Leaf("attribute", counted, place, "counted")
    elif role == "attribute":
        attribute = linker.attribute(meaning)
        yield Leaf("attribute", name, place, attribute.type if attribute else "")
        if attribute is not None and any(kind.name == name for kind in linker.declaration.kinds):
            yield Leaf("kind", name, place)
        for counted in _counting(name, linker):
            yield Leaf("attribute", counted, place, "counted")
        if attribute is not None and attribute.several:
            yield Leaf("attribute", f"{name}.values", place, "counted")
    elif role in ("extreme", "unit"):
        yield Leaf("attribute", name, place, role)
        yield from (
            _one_unit(items, place, meaning)
            if role == "unit"
            else (Leaf("order", Order(name, bool(meaning.value)), place),)
        )
    elif role == "range":
        yield Leaf("condition", range_test(name, *meaning.value, words=item.text), place, "range")
    elif role in ("verb", "party", "stranded"):
        is_source = bool(meaning.value)
        relation = meaning.relation
        yield Leaf("relation", (relation, is_source), place, role)
        yield Leaf("relation", (relation, not is_source), place, role)
        for end in ("in", "out"):
            yield Leaf("attribute", f"{relation}.{end}", place, f"{role}:{(end == 'in') == is_source}")
        if role == "party":
            for counted in _counting(relation, linker):
                yield Leaf("attribute", counted, place, "counted")
            yield Leaf("kind", meaning.kind, place, "party")
    elif role == "transitive":
        yield Leaf("relation", (meaning.relation, True), place, role)
        yield Leaf("relation", (meaning.relation, False), place, role)
    elif role == "operation":
        yield from _of_operation(name, place, linker)
        yield Leaf("operation", name, place)
        counting = linker.counting(linker.operations[name])
        if counting.name != name:
            yield Leaf("operation", counting.name, place, "counting")
    elif role == "number":
        yield from _numbers(items, place, float(meaning.value), linker)
    elif role == "ordinal":
        yield Leaf("number", float(meaning.value), place, "ordinal")
        yield Leaf("number", float(meaning.value) - 1, place, "before")
    elif role == "time":
        for year in years_of(meaning.value):
            yield Leaf("number", float(year), place, "year")
        for kind in linker.declaration.kinds:
            for attribute in kind.attributes:
                if attribute.type == "time":
                    yield from _times(attribute, meaning, item, place)
        for attribute in _link_times(linker):
            for test in _since_until(attribute, meaning, item):
                yield Leaf("link", test, place, "time")


def _one_unit(items: Sequence[Item], place: int, unit: Meaning) -> Iterator[Leaf]:
    """The number of a unit that has none before it: "an hour", "half an hour"."""
    before = items[max(0, place - 2) : place]
    if not any(item.number is not None for item in before):
        is_half = any(item.says("half") for item in before)
        yield Leaf("number", float(unit.value) / (2 if is_half else 1), place, "scaled")


def _of_operation(operation: str, place: int, linker: Linker) -> Iterator[Leaf]:
    """The relations whose pairs an operation finds, and how many they are."""
    for relation in linker.declaration.relations:
        if operation in relation.operations:
            yield Leaf("relation", (relation.name, True), place, "operation")
            yield Leaf("relation", (relation.name, False), place, "operation")
            for end in ("in", "out"):
                yield Leaf("attribute", f"{relation.name}.{end}", place, "operation")


def years_of(time: TimePhrase) -> set[int]:
    """The years that a time of whole years begins and ends with, and that after it: a number can be one of them."""
    since, until = (
        moment.year if moment and (moment.month, moment.day) == (1, 1) else None for moment in (time.since, time.until)
    )
    return {year for year in (since, until, until and until - 1) if year}


def _link_times(linker: Linker) -> Iterator[Attribute]:
    """The times of links, whether these are rows or not."""
    of_links = [attribute for relation in linker.declaration.relations for attribute in relation.link]
    of_links += [attribute for kind in linker.declaration.kinds if kind.links for attribute in kind.attributes]
    yield from {attribute.name: attribute for attribute in of_links if attribute.type == "time"}.values()


def _since_until(attribute: Attribute, meaning: Meaning, item: Item) -> list[Test]:
    since, until = meaning.value.since, meaning.value.until
    tests = [Test(attribute.name, "at_least", (since.isoformat(),), item.text)] if since else []
    return tests + ([Test(attribute.name, "below", (until.isoformat(),), item.text)] if until else [])


def _times(attribute: Attribute, meaning: Meaning, item: Item, place: int) -> Iterator[Leaf]:
    until = meaning.value.until
    tests = _since_until(attribute, meaning, item)
    if tests:
        yield Leaf("condition", all_of(tests), place, "time")
    if len(tests) > 1:
        yield Leaf("condition", tests[0], place, "since")
        yield Leaf("condition", tests[1], place, "until")
    if until:
        yield Leaf("condition", Test(attribute.name, "at_least", (until.isoformat(),), item.text), place, "after")


def _numbers(items: Sequence[Item], place: int, value: float, linker: Linker) -> Iterator[Leaf]:
    """The number as it stands, and in the units of the attributes that words beside it name."""
    yield Leaf("number", value, place, "ordinal" if _is_ordinal(items, place) else "")
    if _is_ordinal(items, place):
        yield Leaf("number", value - 1, place, "before")
    factors = {
        float(meaning.value)
        for item in items[max(0, place - 1) : place + 3]
        for meaning in item.meanings
        if meaning.role == "unit"
    }
    factors |= {
        attribute.units.get("usd", 1.0)
        for kind in linker.declaration.kinds
        for attribute in kind.attributes
        if attribute.type == "money"
    }
    for factor in factors - {1.0}:
        yield Leaf("number", value * factor, place, "scaled")
    for rough in (1 - 0.15, 1 + 0.15):
        yield Leaf("number", round(value * rough, 6), place, "low" if rough < 1 else "high")


def _is_ordinal(items: Sequence[Item], place: int) -> bool:
    following = items[place + 1] if place + 1 < len(items) else None
    return following is not None and following.glued and following.text.lower() in ORDINAL_ENDINGS


def _counting(noun: str, linker: Linker) -> Iterator[str]:
    """The attributes and relations that count what a noun names."""
    for kind in linker.declaration.kinds:
        for attribute in kind.attributes:
            if attribute.rows_of == noun:
                yield attribute.name
    for relation in linker.declaration.relations:
        if relation.source != relation.target and noun in (relation.source, relation.target):
            yield f"{relation.name}.{'out' if noun == relation.target else 'in'}"


def is_ordered(leaf: Leaf, linker: Linker) -> bool:
    """Whether a leaf is an attribute whose values have an order: a number, a time, or how many there are."""
    if leaf.type != "attribute":
        return False
    attributes = [attribute for kind in linker.kinds if (attribute := linker.attribute_named(kind, leaf.value))]
    return "." in leaf.value or any(attribute.type in _ORDERED for attribute in attributes)


def leaves_before(before: Query | None) -> list[tuple[str, Leaf]]:  # noqa: C901
    """What a follow-up question can take from the query before, each with the words that it came from."""
    if before is None:
        return []
    pairs: list[tuple[str, Leaf]] = []
    for number, rows in enumerate(rows_in(before)):
        if not number:
            pairs.append(("", Leaf("kind", rows.kind)))
        pairs += [pair for part in rows.parts if part != AllOf() for pair in _of_condition(part)]
        if rows.order is not None:
            pairs.append(("", Leaf("order", rows.order, hint="before")))
            pairs.append(("", Leaf("attribute", rows.order.by, hint="before")))
        if rows.limit is not None:
            pairs.append(("", Leaf("number", float(rows.limit), hint="before")))
    if isinstance(before, Groups):
        pairs.append(("", Leaf("attribute", before.by, hint="grouped")))
    if isinstance(before, List) and before.attribute:
        pairs.append(("", Leaf("attribute", before.attribute, hint="before")))
    measure: Measure | None = getattr(before, "measure", None)
    if measure is not None and measure.attribute:
        pairs.append(("", Leaf("attribute", measure.attribute, hint="measured")))
    if isinstance(before, Call):
        pairs.append(("", Leaf("operation", before.operation, hint="before")))
        if before.rows:
            called = Among(Rows(before.rows[0].kind, of=before))
            pairs.append(("", Leaf("condition", called, hint="before")))
    return pairs


def _of_condition(condition: Condition) -> Iterator[tuple[str, Leaf]]:
    """A condition of the query before, and the relation and the rows inside it."""
    yield _words(condition), Leaf("condition", condition, hint="before")
    if isinstance(condition, Not):
        yield from _of_condition(condition.of)
    elif isinstance(condition, Related):
        yield condition.words, Leaf("relation", (condition.relation, condition.outgoing), hint="before")
        yield condition.words, Leaf("relation", (condition.relation, not condition.outgoing), hint="reversed")
        yield from _of_condition(condition.to)


def _words(condition: Condition) -> str:
    return str(
        getattr(condition, "words", "")
        or (_words(condition.of) if hasattr(condition, "of") and not isinstance(condition.of, tuple) else "")
    )
