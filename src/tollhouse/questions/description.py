"""Reads a description, such as a shopper's search, as the conditions and the order that it states.

A description needs no verb and no order of words. Every condition is found where it stands; negations reach the next
condition, and further ones that are listed with it. Words that nothing is known about stay words, and filter nothing.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from tollhouse.questions.amounts import Amount, read_amount
from tollhouse.questions.conditions import range_test
from tollhouse.questions.declined import declined_search
from tollhouse.questions.execution import every_test, singular
from tollhouse.questions.linking import Item, Linked, Linker, Meaning
from tollhouse.questions.normalise import fold, language_data
from tollhouse.questions.query import AllOf, AnyOf, Condition, Not, Open, Order, Reading, Refusal, Rows, Test
from tollhouse.questions.spelling import LINKED, Corrections, as_typed, understood_best
from tollhouse.questions.times import TimePhrase
from tollhouse.questions.vocabulary import Attribute

TEXT = "text"

_STOPS = frozenset({".", ";", "!", "?", "(", ")", ":"})
_NEGATORS = ("not", "without", "except", "neither")
_SUPERLATIVE = ("est", "ste", "sten", "ster", "stes")
_SUPERLATIVE_BEFORE = frozenset({"most", "least", "mas", "menos", "plus", "moins", "le", "la", "el", "am"})
_LISTING = ("without", "except")
_ANY = frozenset({"any", "anyone", "anybody", "every", "everyone", "all", "everything", "anything"})
# What a word of the vocabulary can be, the most specific first.
_ROLES = ("value", "range", "extreme", "attribute")
# Words between a negation and what it denies: "isn't a", "nothing that has".
_LIGHT = ("filler", "all", "be", "of", "also", "anyone", "that", "have")

Joiner = Literal["", "and", "or", "comma"]


class _Stated(Struct):
    """A condition, whether it is denied, and the place of its sentence part; `alternatives` are joined by "or".

    `phrase` is the part between commas. `is_or`: "or" stands before a condition on another attribute. `is_pronoun`: it
    is said of "one", which stands for what was said before.
    """

    alternatives: list[Condition]
    attribute: str
    negated: bool = False
    clause: int = 0
    phrase: int = 0
    is_or: bool = False
    is_pronoun: bool = False


class _State(Struct):
    """What has been read so far, and what waits for the next condition: negations, words and joining words."""

    stated: list[_Stated] = field(default_factory=list)
    order: Order | None = None
    limit: int | None = None
    words: list[tuple[str, bool]] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    understood: list[tuple[str, str]] = field(default_factory=list)
    clause: int = 0
    phrase: int = 0
    is_comma: bool = False
    negations: int = 0
    negator: str = ""
    is_after_negator: bool = False
    joiner: Joiner = ""
    last: _Stated | None = None
    is_unimportant: bool = False
    is_relative: bool = False


def read_description(text: str, linker: Linker, kind: str, *, now: datetime | None = None) -> Reading | Refusal:
    """The rows of a kind that a text describes. The query's words are those left to match as text.

    Times such as "last year" are counted from `now`. A word that is denied and not known is a condition on the rows'
    texts. `ignored` are words for what the data does not have. A superlative has the number of rows as its limit. A
    text that asks for an opinion, a forecast or advice is refused.
    """

    def read(corrections: Corrections) -> tuple[int, float, Reading]:
        linked = linker.link(text, now, corrections=corrections)
        reading = _read_linked(linked, linker, kind)
        query = reading.query
        assert isinstance(query, Open)
        return len(reading.ignored) + sum(len(words.split()) for words in query.words), -LINKED * linked.score, reading

    best = understood_best(linker.spellings(text), read)
    reading = best[0] if best is not None else read(())[2]
    return declined_search(linker.link(text, now, corrections=reading.corrected).items) or reading


def _read_linked(linked: Linked, linker: Linker, kind: str) -> Reading:
    state = _State()
    items = linked.items
    index = 0
    while index < len(items):
        index = _read(linker, kind, items, index, state)
    conditions = tuple(_with_alternatives(state.stated))
    denied = tuple(Not(Test(TEXT, "contains", (words,), words)) for words, negated in state.words if negated)
    where = (*conditions, *denied)
    words = tuple(words for words, negated in state.words if not negated)
    said = " ".join((*(words for _, words in state.understood), *map(repr, where)))
    return Reading(
        Open(Rows(kind, where[0] if len(where) == 1 else AllOf(where), state.order, state.limit), words),
        understood=tuple((key, as_typed(words, linked.corrected)) for key, words in state.understood),
        ignored=tuple(as_typed(words, linked.corrected) for words in state.unused),
        corrected=tuple((typed, word) for typed, word in linked.corrected if word in said),
    )


def narrowed(before: Reading, after: Reading) -> Reading:
    """A description that narrows down or changes the one before: what it says of an attribute counts instead."""
    first, second = before.query, after.query
    assert isinstance(first, Open) and isinstance(second, Open)  # noqa: PT018
    stated = second.rows.parts
    changed = {test.attribute for each in stated if not isinstance(each, Not) for test in every_test(each)}
    remaining = (each for each in first.rows.parts if changed.isdisjoint(t.attribute for t in every_test(each)))
    ordered = second.rows if second.rows.order is not None else first.rows
    where = (*remaining, *(each for each in stated if each not in first.rows.parts))
    rows = Rows(second.rows.kind, where[0] if len(where) == 1 else AllOf(where), ordered.order, ordered.limit)
    return Reading(Open(rows, second.words), after.understood, after.ignored, after.corrected)


def _read(linker: Linker, kind: str, items: Sequence[Item], index: int, state: _State) -> int:
    """Take in what begins at an item; the index of the next one."""
    item = items[index]
    time = item.find("time")
    if time is not None:
        _take_time(_time_attribute(linker, kind, items[:index]), item.text, time.value, state)
        return index + 1
    amount = read_amount(linker, kind, items, index)
    if amount is not None:
        _take_amount(amount, state)
        return amount.end
    own = [meaning for meaning in item.meanings if meaning.kind == kind]
    meaning = next((each for role in _ROLES for each in own if each.role == role), None)
    if item.says("most", "least") and (meaning is None or meaning.role not in ("value", "range")):
        ordered = _ordered_noun(items, index, kind)
        if ordered is not None:
            name, is_upward = ordered
            _take_order(items, index, Order(name, descending=item.says("most") == is_upward), state)
            return index + 2
    if meaning is not None:
        _take_meaning(meaning, linker, items, index, state)
    elif item.find("unavailable") is not None:
        _flush(state, item.text)
    elif item.find("unknown") is not None and not item.find("kind"):
        _take_word(items, index, state)
    else:
        _take_function(items, index, state)
    return index + 1


def _take_meaning(meaning: Meaning, linker: Linker, items: Sequence[Item], index: int, state: _State) -> None:
    """Take in a word of the vocabulary."""
    item = items[index]
    if meaning.role == "value":
        same = [each for each in item.meanings if each.role == "value" and each.name == meaning.name]
        test = Test(meaning.name, "is", tuple(each.value for each in same), item.text)
        if not _is_denied_name(meaning, linker, items, index, state):
            _take(test, meaning.name, state)
        elif state.last is not None:
            # "Not the Yarra Cloud Cumulus" leaves out that model only.
            state.last.alternatives[-1] = AllOf((state.last.alternatives[-1], test))
    elif meaning.role == "range":
        _take(range_test(meaning.name, *meaning.value, words=item.text), meaning.name, state)
    elif meaning.role == "extreme":
        _take_order(items, index, Order(meaning.name, descending=bool(meaning.value)), state)
    else:
        _take_noun(linker.attribute(meaning), items, index, state)


def _is_denied_name(meaning: Meaning, linker: Linker, items: Sequence[Item], index: int, state: _State) -> bool:
    """Whether a name of the data stands right behind another that is denied."""
    last = state.last
    if last is None or not last.negated or last.attribute == meaning.name or state.negations or state.joiner:
        return False
    before = items[index - 1].find("value") if index else None
    attributes = [linker.attribute(each) for each in (before, meaning) if each is not None]
    return len(attributes) == 2 and all(each is not None and not each.values for each in attributes)


def _take(condition: Condition, attribute: str, state: _State) -> None:
    """Add a condition: denied, as an alternative of the one before, or on its own."""
    if state.is_unimportant:
        state.negations, state.is_after_negator = 0, False
        # "I do not mind foam or springs": what is listed with it does not matter either.
        state.is_unimportant = False
        return
    last = state.last
    negated = state.negations % 2 == 1
    if negated and state.is_relative and last is not None and last.negated:
        # "No queens that are not in stock" wants queens in stock.
        last.negated = negated = False
        state.negations = 0
    state.is_relative = False
    if not state.negations and last is not None and last.negated:
        negated = _goes_on(state.joiner, attribute, last.attribute, state.negator)
    is_or = last is not None and state.joiner == "or" and not state.negations and last.negated == negated
    if is_or and last is not None and (last.attribute == attribute or negated):
        last.alternatives.append(condition)
    else:
        state.stated.append(_Stated([condition], attribute, negated, state.clause, state.phrase, is_or))
        state.last = state.stated[-1]
    state.negations, state.is_after_negator, state.joiner = 0, False, ""


def _goes_on(joiner: Joiner, attribute: str, before: str, negator: str) -> bool:
    """Whether a denial reaches a condition that is listed after the denied one."""
    if joiner == "or":
        return True
    return bool(joiner) and attribute == before and (joiner == "and" or negator in _LISTING)


def _take_amount(amount: Amount, state: _State) -> None:
    if amount.condition is None:
        _flush(state, amount.words)
    else:
        if amount.words.lower().startswith("or "):
            state.joiner = "or"
        _take(amount.condition, amount.attribute, state)


def _time_attribute(linker: Linker, kind: str, before: Sequence[Item]) -> str:
    """The time that was named last, else the kind's own; empty if it has none."""
    times = [each for each in linker.kinds[kind].attributes if each.type == "time"]
    named = [meaning.name for item in before if (meaning := item.find("attribute"))]
    last = next((name for name in reversed(named) if any(each.name == name for each in times)), "")
    return last or next((each.name for each in sorted(times, key=lambda each: not each.preferred)), "")


def _take_time(attribute: str, words: str, phrase: TimePhrase, state: _State) -> None:
    tests: list[Condition] = []
    if phrase.since is not None:
        tests.append(Test(attribute, "at_least", (phrase.since.isoformat(),), words))
    if phrase.until is not None:
        tests.append(Test(attribute, "below", (phrase.until.isoformat(),), words))
    if attribute and tests:
        _take(tests[0] if len(tests) == 1 else AllOf(tuple(tests)), attribute, state)
    else:
        _flush(state, words)


def _take_order(items: Sequence[Item], index: int, order: Order, state: _State) -> None:
    """A superlative orders; a comparative without a measure does so as well. A denied one says nothing."""
    if state.negations % 2 == 0 and state.order is None:
        state.order = order
        state.limit = _limit(items, index) if is_superlative(items[index]) else None
        state.understood.append((order.by, items[index].text))
    state.negations, state.is_after_negator = 0, False


def is_superlative(item: Item) -> bool:
    """Whether a phrase is a superlative: "cheapest", "least firm", "der günstigste", "le plus ferme"."""
    words = fold(item.text).split()
    return (
        item.says("most", "least")
        or words[0] in _SUPERLATIVE_BEFORE
        or any(word.endswith(_SUPERLATIVE) for word in words)
    )


def _limit(items: Sequence[Item], index: int) -> int | None:
    """How many rows a superlative means: "the three cheapest"; None for all, in order, as in "the cheapest beds"."""
    beside = items[max(0, index - 1) : index + 2 : 2]
    counted = next(
        (each.number for each in beside if each.number is not None and not each.find("value", "range")), None
    )
    if counted is not None:
        return int(counted) or None
    nouns = [item.text.lower() for item in items[index:] if item.find("kind")]
    return None if nouns and nouns[0] != singular(nouns[0]) else 1


def _ordered_noun(items: Sequence[Item], index: int, kind: str) -> tuple[str, bool] | None:
    """The attribute after a superlative, "the highest price", and whether "most" is its largest value."""
    following = next((item for item in items[index + 1 :] if not (item.says("share") or _is_word(item))), None)
    own = [each for each in (following.meanings if following else ()) if each.kind == kind]
    named = next((each for each in own if each.role == "attribute"), None)
    if named is not None:
        return named.name, True
    extreme = next((each for each in own if each.role == "extreme"), None)
    if extreme is not None:
        return extreme.name, bool(extreme.value)
    # "The least firm", "the most soft": the range says which end of the scale is meant.
    ranged = next((each for each in own if each.role == "range"), None)
    return (ranged.name, ranged.value[0] not in (None, float("-inf"))) if ranged is not None else None


def _take_noun(attribute: Attribute | None, items: Sequence[Item], index: int, state: _State) -> None:
    """An attribute that is only named: "with a trial", "no trial" ask whether there is one."""
    before = next((each for each in reversed(items[:index]) if not each.says("all", "filler", "be")), None)
    if state.is_unimportant:
        state.is_unimportant = False
        return
    is_required = state.is_after_negator or (before is not None and before.says("with", "have", "and", "without"))
    if attribute is not None and attribute.type in ("number", "flag", "money", "time") and is_required:
        _take(Test(attribute.name, "known", (), items[index].text), attribute.name, state)
    state.is_after_negator = False


def _take_word(items: Sequence[Item], index: int, state: _State) -> None:
    """A word that is not known: denied if a negation is waiting and no condition follows that it belongs to."""
    item = items[index]
    if _is_free_of(items, index, state):
        _turn(state)
        return
    following = items[index + 1] if index + 1 < len(items) else None
    if state.negations and following is not None and _belongs(item, following):
        state.unused.append(item.text)
        return
    negated = state.negations % 2 == 1
    previous = items[index - 1] if index else None
    if not negated and state.words and previous is not None and _is_word(previous) and not state.words[-1][1]:
        state.words[-1] = (f"{state.words[-1][0]} {item.text}", False)
    else:
        state.words.append((item.text, negated))
    state.negations, state.is_after_negator, state.joiner, state.last = 0, False, "", None


def _belongs(item: Item, following: Item) -> bool:
    """Whether a denied word belongs to what follows: "no lumpy latex", "not made of foam"."""
    is_participle = item.text.lower().endswith("ed") or item.text.lower() in language_data()["irregular"]
    is_linked = following.says("of", "by", "from", "in", "to", "with") or following.text == ":"
    return following.find("value", "range") is not None or _is_word(following) or (is_participle and is_linked)


def _is_word(item: Item) -> bool:
    return item.find("unknown") is not None and not item.find("kind", "value", "range", "attribute", "unavailable")


def _flush(state: _State, words: str) -> None:
    """Words that cannot be used take the waiting negation with them."""
    state.unused.append(words)
    state.negations, state.is_after_negator, state.joiner, state.last = 0, False, "", None


def _take_function(items: Sequence[Item], index: int, state: _State) -> None:
    """A word that says nothing itself: it joins, denies or separates what stands around it."""
    item = items[index]
    if item.says("unimportant"):
        _forget(items[index - 1] if index else None, state)
    elif item.says("something_else"):
        _turn(state)
    elif item.says(*_NEGATORS) or (item.says("but") and state.is_after_negator):
        # "But" denies as well in "nothing but hybrids".
        _deny(items, index, state)
    elif item.says("but") and _is_of_any(items, index):
        state.negations, state.negator, state.is_after_negator = 1, "except", True
    elif item.text == ":" and state.negations:
        # "Not wanted: latex, foam" denies the whole list.
        state.negator = "except"
    elif item.says("but") or item.text in _STOPS:
        _end_clause(state)
    elif item.says("to") and _joins_ranges(items, index):
        state.joiner = "or"
    else:
        is_first = len(state.stated) == 1 and state.last is state.stated[0] and state.negator == "not"
        is_kind_before = any(each.find("kind") for each in items[:index])
        if item.says("that") and is_first and not is_kind_before and not state.joiner:
            state.is_relative = True
        if item.find("kind") is not None or not item.says(*_LIGHT):
            state.is_after_negator = False
        _join_next(item, state)


def _is_of_any(items: Sequence[Item], index: int) -> bool:
    """Whether "but" leaves out of all: "from any brand but X", "from anyone but X"."""
    before = items[max(0, index - 2) : index]
    is_near = not any(each.find("value", "range", "number") or each.text in {",", *_STOPS} for each in before)
    return is_near and any(each.text.lower() in _ANY for each in before)


def _join_next(item: Item, state: _State) -> None:
    if item.number is not None:
        if item.text.lower() in ("one", "ones") and state.stated and state.stated[-1].is_or:
            state.stated[-1].is_pronoun = True
        state.joiner, state.negations = "", 0
    elif item.text == ",":
        state.phrase, state.is_comma = state.phrase + 1, True
        state.negations, state.joiner, state.is_unimportant = 0, state.joiner or "comma", False
    elif item.says("or", "nor") or item.text == "/":
        # A comma before "or" ends no part: "hybrid double, or a latex queen".
        state.phrase -= state.is_comma
        state.joiner, state.is_comma = "or", False
    elif item.says("and", "both") or item.text in {"&", "+"}:
        state.joiner = "and"


def _turn(state: _State) -> None:
    """Deny the condition before: "after a latex bed something else"."""
    if state.stated and state.stated[-1].clause == state.clause:
        state.stated[-1].negated = not state.stated[-1].negated


def _is_free_of(items: Sequence[Item], index: int, state: _State) -> bool:
    """Whether a word denies the value right before it: "latex-free"."""
    before = next((each for each in reversed(items[:index]) if each.text != "-"), None)
    is_near = before is not None and before.find("value", "range") is not None and not state.joiner
    return is_near and items[index].text.lower() in language_data()["free_of"]


def _joins_ranges(items: Sequence[Item], index: int) -> bool:
    """Whether ranges stand on both sides: "medium to firm"."""
    around = items[max(0, index - 1) : index + 2]
    return len(around) == 3 and all(each.find("range") for each in (around[0], around[2]))


def _deny(items: Sequence[Item], index: int, state: _State) -> None:
    item = items[index]
    if _is_or_not(items, index, state) or item.text.lower() in language_data()["announced_denials"]:
        return
    if state.negations and item.says("neither", "nor"):
        # "No sea ni firme ni blando": one denial, said again.
        return
    if _is_denied_behind(items, index, state):
        state.stated[-1].negated = not state.stated[-1].negated
        return
    state.negations += 1
    state.negator = next((concept for concept in _NEGATORS if items[index].says(concept)), state.negator)
    state.is_after_negator = True


def _is_denied_behind(items: Sequence[Item], index: int, state: _State) -> bool:
    """Whether a denial ends the sentence behind its condition: "memory foam is fine, latex isn't"."""
    following = items[index + 1] if index + 1 < len(items) else None
    is_end = following is None or following.text in {*_STOPS, ","} or following.says("but")
    before = next((each for each in reversed(items[:index]) if not each.says("i", "filler")), None)
    is_said = before is not None and (before.says("be", "do") or before is not items[index - 1])
    is_last = bool(state.stated) and state.last is state.stated[-1] and not state.joiner
    return is_end and is_said and is_last and not state.negations


def _is_or_not(items: Sequence[Item], index: int, state: _State) -> bool:
    """Whether this is "on sale or not": the condition before does not matter."""
    following = items[index + 1] if index + 1 < len(items) else None
    is_end = following is None or following.text in {*_STOPS, ","} or following.says("but")
    if state.joiner != "or" or not is_end or not state.stated:
        return False
    state.stated.pop()
    state.joiner, state.last = "", None
    return True


def _forget(before: Item | None, state: _State) -> None:
    """What does not matter: the condition before in the same part of the sentence, or else the next one."""
    state.negations = 0
    if state.stated and state.last is state.stated[-1] and not state.joiner:
        state.stated.pop()
        state.last = None
    elif before is None or before.find("attribute") is None:
        state.is_unimportant = True


def _end_clause(state: _State) -> None:
    state.clause += 1
    state.is_comma = state.is_relative = False
    state.negations, state.joiner, state.last = 0, "", None
    state.is_after_negator = state.is_unimportant = False


def _with_alternatives(stated: Sequence[_Stated]) -> list[Condition]:
    """The conditions, with alternatives of whole descriptions: "latex queen or memory foam king".

    What stands on the two sides of "or" are descriptions if both say something of one attribute; else only the two
    conditions beside "or" are alternatives.
    """
    result: list[Condition] = []
    branch: list[_Stated] = []
    branches: list[list[_Stated]] = []
    for place, one in enumerate(stated):
        starts = not branch and not branches
        if not starts and (one.phrase != stated[place - 1].phrase or one.clause != stated[place - 1].clause):
            result += _joined([*branches, branch])
            branches, branch = [], []
        if one.is_or and branch:
            branches, branch = [*branches, branch], []
        branch.append(one)
    return [*result, *_joined([*branches, branch])] if branch else result


def _joined(branches: Sequence[list[_Stated]]) -> list[Condition]:
    """The conditions of one part of a text, whose branches are joined by "or"."""
    first = branches[0]
    if len(branches) == 1:
        return [_combined(one) for one in first]
    names = {one.attribute for one in first}
    if any(names.isdisjoint(one.attribute for one in branch) for branch in branches[1:]):
        inner = [_combined(one) for branch in branches for one in branch]
        at = len(first) - 1
        alternatives = [_combined(first[-1]), *(_combined(branch[0]) for branch in branches[1:])]
        rest = [_combined(one) for branch in branches[1:] for one in branch[1:]]
        return [*inner[:at], AnyOf(tuple(alternatives)), *rest]
    described: list[Condition] = []
    for branch in branches:
        own = {one.attribute for one in branch}
        shared = [one for one in first if branch[0].is_pronoun and one.attribute not in own]
        conditions = [_combined(one) for one in (*shared, *branch)]
        described.append(conditions[0] if len(conditions) == 1 else AllOf(tuple(conditions)))
    return [AnyOf(tuple(described))]


def _combined(stated: _Stated) -> Condition:
    """One condition of the alternatives: values of one attribute are one test."""
    first = stated.alternatives[0]
    tests = [each for each in stated.alternatives if isinstance(each, Test) and each.comparison == "is"]
    combined: Condition
    if len(stated.alternatives) == 1:
        combined = first
    elif len(tests) == len(stated.alternatives) and len({test.attribute for test in tests}) == 1:
        values = tuple(dict.fromkeys(value for test in tests for value in test.values))
        combined = Test(tests[0].attribute, "is", values, " ".join(test.words for test in tests))
    else:
        combined = AnyOf(tuple(stated.alternatives))
    return Not(combined) if stated.negated else combined
