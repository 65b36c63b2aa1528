"""The rows that a phrase describes, and how its conditions are joined and negated while it is read."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf

from msgspec import Struct, field

from tollhouse.questions.linking import Item, Linked, Linker, Meaning
from tollhouse.questions.query import EVERYTHING, AllOf, AnyOf, Condition, Not, Order, Related, Rows, Test

NUMERIC = frozenset({"number", "money"})
NEGATIONS = ("not", "without", "except", "neither", "nor")
COMPARISONS = ("at_least", "at_most", "more", "less", "exactly", "around", "between", "<", ">", "<=", ">=", "~", "=")
_LIGHT = (
    "filler", "all", "in", "of", "by", "to", "from", "that", "be", "do", "with", "also", "only", "those", "around",
)  # fmt: skip
# Words that say what kind of question it is; where they stand is kept.
FORMS = frozenset({
    "how_many", "how_much", "which", "who", "where", "when", "why", "happened", "summary", "timeline", "list",
    "exists", "average", "median", "sum", "share", "compare", "difference", "per", "opinion",
    "judgement", "prediction", "advice", "expert_advice", "small_talk", "common", "be", "do", "have",
    "comparative_more", "comparative_less", "those", "what_about", "how",
    "sort", "whom", "both", "whether", "as_many", "descending", "ascending", "only", "order_by",
})  # fmt: skip


class Part(Struct):
    """A condition of a frame. `key`: the attribute or relation that it is about."""

    condition: Condition
    key: str
    words: str
    at: int
    is_negated: bool = False


class Frame(Struct):
    """The rows that a phrase describes. `has_noun`: a noun for them was read. `is_named`: they were named."""

    kind: str
    parts: list[Part] = field(default_factory=list)
    has_noun: bool = False
    is_named: bool = False
    is_nested: bool = False
    requested: Meaning | None = None
    group: Meaning | None = None
    order: Order | None = None
    order_words: str = ""
    superlative: str = ""
    limit: int | None = None
    skip: int = 0
    at_least: float | None = None
    at_most: float | None = None
    measured: Meaning | None = None
    subject: Part | None = None
    open_party: Meaning | None = None

    @property
    def where(self) -> Condition:
        return all_of([part.condition for part in self.parts])


def _single_negations(linked: Linked) -> tuple[Item, ...]:
    """The items with each negation once: "ne ... pas", "no ... ninguno", where one language says it twice."""
    if linked.language not in {"fr", "es"}:
        return linked.items
    result: list[Item] = []
    last = -10
    for place, item in enumerate(linked.items):
        if item.says("not", "no_one") and not item.says("nor") and not item.find("value"):
            if place - last <= 6 and not any(
                each.says("and", "or", "but", ",", "nor") for each in linked.items[last:place]
            ):
                last = -10
                continue
            last = place
        result.append(item)
    return tuple(result)


def is_attribute(item: Item, items: Sequence[Item]) -> bool:
    """Whether a noun that can be a kind or an attribute of another kind is the attribute, by the words beside it."""
    kinds = {meaning.name for meaning in item.meanings if meaning.role == "kind"}
    owners = {meaning.kind for meaning in item.meanings if meaning.role == "attribute"} - kinds
    if not kinds or not owners:
        return False
    others = {
        meaning.kind
        for other in items
        if other is not item and not any(meaning.kind in kinds for meaning in other.meanings)
        for meaning in other.meanings
        if meaning.role in {"kind", "party", "value"} and meaning.kind
    }
    return bool(owners & others)


def all_of(conditions: Sequence[Condition]) -> Condition:
    flat = [inner for one in conditions for inner in (one.of if isinstance(one, AllOf) else (one,))]
    return flat[0] if len(flat) == 1 else AllOf(tuple(flat))


def any_of(first: Condition, second: Condition) -> Condition:
    """Either condition; values of one attribute become one list."""
    if (
        isinstance(first, Test)
        and isinstance(second, Test)
        and first.comparison == second.comparison
        and first.comparison in {"is", "contains"}
        and first.attribute == second.attribute
    ):
        values = dict.fromkeys((*first.values, *second.values))
        return Test(first.attribute, first.comparison, tuple(values), f"{first.words}, {second.words}")
    of = [inner for one in (first, second) for inner in (one.of if isinstance(one, AnyOf) else (one,))]
    return AnyOf(tuple(of))


def split(condition: Condition) -> list[Condition]:  # noqa: PLR0911
    """A condition with alternatives as one condition for each."""
    if isinstance(condition, Test):
        if condition.comparison != "is" or len(condition.values) < 2:
            return [condition]
        return [Test(condition.attribute, "is", (value,), str(value)) for value in condition.values]
    if isinstance(condition, AnyOf):
        return list(condition.of)
    if isinstance(condition, AllOf):
        for index in range(len(condition.of) - 1, -1, -1):
            alternatives = split(condition.of[index])
            if len(alternatives) > 1:
                return [all_of([*condition.of[:index], one, *condition.of[index + 1 :]]) for one in alternatives]
        return [condition]
    if isinstance(condition, Related):
        return [
            Related(condition.relation, condition.outgoing, one, condition.link, condition.transitive, condition.words)
            for one in split(condition.to)
        ]
    return [condition]


def named_in(condition: Condition) -> Test | None:
    """The row that a condition names, on itself or where its relations lead; None for none or several."""
    if isinstance(condition, Test):
        return condition if condition.attribute == "id" and len(condition.values) == 1 else None
    inner: tuple[Condition, ...] = ()
    if isinstance(condition, Related):
        inner = (condition.to,)
    elif isinstance(condition, AllOf | AnyOf):
        inner = condition.of
    tests = [test for one in inner if (test := named_in(one)) is not None]
    return tests[0] if len(tests) == 1 else None


def negated(condition: Condition) -> Condition:
    return condition.of if isinstance(condition, Not) else Not(condition)


def range_test(attribute: str, low: float | None, high: float | None, *, words: str) -> Condition:
    """A number from `low` to `high`, both included, where they are given."""
    tests = [] if low in {None, -inf} else [Test(attribute, "at_least", (low or 0,), words)]
    tests += [] if high in {None, inf} else [Test(attribute, "at_most", (high or 0,), words)]
    return all_of(tests)


class FrameReader:
    """One pass over the items of a question. `forms` keeps where words of the question's form stand."""

    def __init__(self, linked: Linked, linker: Linker, before: Rows | None = None) -> None:
        self.before = before
        self.refers_back = False
        self.language = linked.language
        self.items = _single_negations(linked)
        self.has_limit = False
        self._mentioned: Condition | None = None
        self._subject: Condition | None = None
        self.than_at = self._place_of_than()
        self.averages = any(item.says("average", "median") for item in self.items)
        self.is_compared = self.than_at >= 0
        self.linker = linker
        self.forms: dict[str, int] = {}
        self.unknown: list[Item] = []
        self.unavailable: list[Item] = []
        self.ignored: list[str] = []
        self.operations: list[tuple[Meaning, int]] = []
        self.outside: list[str] = []
        self.than: Frame | None = None
        self.topic: list[str] = []
        self.i = 0
        self._negation = False
        self._negation_at = -1
        self._conjunction = ""
        self._both = False
        self._transitive = False
        self._either = False
        self._context = ""
        self._light_since_part = False
        self._noun: tuple[Meaning, int] | None = None
        # The frame of the question, or of the other side of its comparison, that is read.
        self._outer: Frame | None = None

    # The items.

    def _place_of_than(self) -> int:
        """Where the other side of a comparison of rows begins; -1 where there is none."""
        compared = as_many = False
        for place, item in enumerate(self.items):
            following = self.at(self.skip_light(place + 1, "how_many", "those"))
            is_row = following is not None and following.number is None and following.find("value", "kind", "party")
            is_more = item.says("more", "less") and following is not None and following.find("value") is not None
            is_than = (
                (compared and (item.says("than") or (as_many and item.says("as")))) or is_more or item.says("outnumber")
            )
            if is_row and is_than and not item.find("value") and following is not None and not following.find("verb"):
                return place
            as_many = as_many or item.says("as_many")
            compares = bool(as_many or item.says("comparative_more", "comparative_less", "difference"))
            compares = compares or item.find("extreme") is not None
            compared = compared or bool(compares) or (self.language != "en" and item.says("more", "less"))
        return -1

    def at(self, index: int) -> Item | None:
        return self.items[index] if 0 <= index < len(self.items) else None

    def skip_light(self, index: int, *more: str) -> int:
        """The place of the next item that is not just an article, a preposition or a filler."""
        while (item := self.at(index)) is not None and self._is_light(item, more):
            index += 1
        return index

    @staticmethod
    def _is_light(item: Item, more: Sequence[str] = ()) -> bool:
        if item.find("value", "kind", "attribute", "party", "verb", "number", "time", "extreme", "range"):
            return False
        return item.says(*_LIGHT, *more)

    # Parts.

    def add(self, frame: Frame, condition: Condition, key: str, words: str, *, at: int | None = None) -> None:
        """Add a condition, under the negation before it, joined to the one before by the word between them."""
        at = self.i if at is None else at
        conjunction, self._conjunction = self._conjunction, ""
        negation, self._negation = self._negation, False
        last = frame.parts[-1] if frame.parts and self._light_since_part else None
        part = Part(negated(condition) if negation else condition, key, words, at, negation)
        self._light_since_part = True
        if last is None or not conjunction or (negation and not last.is_negated):
            frame.parts.append(part)
        elif negation or last.is_negated:
            self._join_negated(frame, last, part, condition, conjunction)
        elif conjunction == "or" or (last.key == key and not self._is_several(frame.kind, key, conjunction)):
            last.condition = any_of(last.condition, condition)
            last.words += f", {words}"
            last.key = key if last.key == key else ""
        else:
            frame.parts.append(part)

    def _join_negated(self, frame: Frame, last: Part, part: Part, condition: Condition, conjunction: str) -> None:
        in_scope = conjunction in {"or", "nor"} or (last.key == part.key and conjunction != "but")
        if not part.is_negated and (not in_scope or not last.is_negated):
            frame.parts.append(part)
        elif last.is_negated and isinstance(last.condition, Not) and in_scope:
            last.condition = Not(any_of(last.condition.of, condition))
            last.words += f", {part.words}"
        else:
            part.condition = negated(condition)
            part.is_negated = True
            frame.parts.append(part)

    def _is_several(self, kind: str, key: str, conjunction: str) -> bool:
        """Whether "A and B" wants both: rows can have several values, or a relation leads to several rows."""
        if conjunction not in {"and", "but"}:
            return False
        attribute = self.linker.attribute_named(kind, key)
        return key != "id" if attribute is None else attribute.several

    def relation_between(self, kind: str, other: str, before: Item | None = None) -> Related | None:
        """The relation between two kinds, seen from the first; of several the one that the word `before` chooses."""
        matched = [item for item in self.linker.relations.values() if {item.source, item.target} == {kind, other}]
        if len(matched) > 1:
            is_said = before is not None and not before.says("of")
            chosen = [item for item in matched if is_said and before and before.says(*item.prepositions)]
            matched = chosen or [item for item in matched if not item.prepositions]
        return Related(matched[0].name, matched[0].source == kind, EVERYTHING) if len(matched) == 1 else None

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Read another phrase, with nothing before it, and come back to this one."""
        saved = self._negation, self._conjunction, self._light_since_part, self._both, self._context
        self._negation = self._light_since_part = self._both = False
        self._conjunction = self._context = ""
        yield
        both = self._both
        self._negation, self._conjunction, self._light_since_part, self._both, self._context = saved
        self._both = self._both or both
