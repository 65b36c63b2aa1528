"""Reads numbers with what compares and measures them: "under $1,500", "at least three months", "7 out of 10"."""

from collections.abc import Iterator, Sequence
from typing import Literal, cast

from msgspec import Struct

from tollhouse.questions.linking import Item, Linker, Meaning
from tollhouse.questions.normalise import language_data
from tollhouse.questions.query import AllOf, Comparison, Condition, Not, Test
from tollhouse.questions.vocabulary import Attribute

# "Around" means this share more or less.
ROUGHLY = 0.15
PERCENT = "percent"
# Below this a bare number before an unknown word counts that word, and is no amount: "at least 5 zones".
_LEAST_BARE = 100

# These stand behind their number; other words of approximation before it.
_OR_SO = frozenset({"or so", "or thereabouts", "oder so", "o asi", "ou a peu pres"})
_SKIPPED = ("all", "filler", "of", "be", "in", "have", "about", "also", "that")
_CLAUSE_ENDS = frozenset({".", ";", "!", "?", ",", "(", ")"})
_SIGNS: dict[str, "Relation"] = {
    "<": "below",
    "<=": "at_most",
    "≤": "at_most",
    ">": "above",
    ">=": "at_least",
    "≥": "at_least",
    "~": "around",
    "=": "is",
}
_CONCEPTS: tuple[tuple[str, "Relation"], ...] = (
    ("between", "between"), ("around", "around"), ("exactly", "is"), ("at_least", "at_least"), ("at_most", "at_most"),
    ("more", "above"), ("less", "below"), ("or_more", "above"), ("or_less", "below"),
)  # fmt: skip

Relation = Comparison | Literal["", "between", "around"]


class Amount(Struct, frozen=True):
    """An amount up to item `end`. Without a condition its words could not be used."""

    end: int
    words: str
    attribute: str = ""
    condition: Condition | None = None


class _Number(Struct, frozen=True):
    """A number up to item `end`, with the currency or unit that was said; `of`: what it is out of."""

    value: float
    end: int
    is_money: bool = False
    units: tuple[Meaning, ...] = ()
    is_percent: bool = False
    of: float | None = None
    is_multiplied: bool = False


def read_amount(linker: Linker, kind: str, items: Sequence[Item], index: int) -> Amount | None:
    """The amount that begins at an item, with a noun or comparison before it; None if there is none."""
    return _Reader(linker, kind, items).read(index)


class _Reader:
    def __init__(self, linker: Linker, kind: str, items: Sequence[Item]) -> None:
        self._linker = linker
        self._kind = linker.kinds[kind]
        self._items = items

    def read(self, index: int) -> Amount | None:
        noun, at = self._noun_before(index)
        denial = self._at(at) if noun is not None else None
        is_denied = denial is not None and denial.says("not", "except")
        relation, compared, at = self._relation(at + is_denied)
        if noun is None and relation:
            # "At least firmness 8".
            noun, at = self._noun_before(self._skip(at))
        valued = self._compared_value(relation, at)
        if valued is not None and noun is None:
            return valued
        first = self._number(self._skip(at))
        if first is None:
            return None
        if noun is not None and not self._measures(noun, first):
            return None
        relation, numbers, end = self._second(relation, first)
        relation, end = self._after(relation, end, is_bare=noun is None)
        if noun is None and compared is None:
            after, behind = self._noun_after(end)
            if after is not None and self._measures(after, numbers[0]):
                noun, end = after, behind
        words = " ".join(item.text for item in self._items[index:end])
        attribute = self._attribute(noun or compared, numbers, relation, end)
        if attribute is None:
            is_used = relation or first.units or first.is_money or first.is_percent or self._is_unavailable(end)
            return Amount(end + self._is_unavailable(end), words) if is_used else None
        condition = _condition(attribute, relation, numbers, words)
        return Amount(end, words, attribute.name, Not(condition) if is_denied else condition)

    # What stands before the number.

    def _at(self, index: int) -> Item | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def _skip(self, index: int) -> int:
        while (item := self._at(index)) is not None and self._is_light(item):
            index += 1
        return index

    @staticmethod
    def _is_light(item: Item) -> bool:
        if item.find("number", "value", "range", "attribute", "extreme", "unit", "kind", "unknown", "unavailable"):
            return False
        is_comparison = any(item.says(concept) for concept, _ in _CONCEPTS if concept not in _SKIPPED)
        return (item.says(*_SKIPPED) and not is_comparison) or item.text in {":", "="}

    def _own(self, item: Item | None, *roles: str) -> Meaning | None:
        if item is None:
            return None
        return next((each for each in item.meanings if each.role in roles and each.kind == self._kind.name), None)

    def _noun_before(self, index: int) -> tuple[Attribute | None, int]:
        meaning = self._own(self._at(index), "attribute")
        attribute = self._linker.attribute(meaning) if meaning else None
        is_amount = attribute is not None and attribute.type in ("number", "money")
        if not is_amount or self._own(self._at(index), "value") or self._comparative(index):
            return None, index
        return attribute, self._skip(index + 1)

    def _relation(self, index: int) -> tuple[Relation, Attribute | None, int]:
        """The comparison at an item, the attribute of a comparative ("firmer than"), and where the number may begin."""
        item = self._at(index)
        compared = self._comparative(index)
        if compared is not None or item is None:
            return compared or ("", None, index)
        if item.text in _SIGNS:
            return _SIGNS[item.text], None, index + 1
        concepts = _CONCEPTS if not item.find("value", "range") else ()
        relation = next((relation for concept, relation in concepts if item.says(concept)), None)
        if relation is not None:
            following = self._skip(index + 1)
            around = self._at(following)
            return relation, None, following + 1 if around is not None and around.says("around") else index + 1
        is_from = item.says("from") and self._number(self._skip(index + 1)) is not None
        return ("at_least", None, index + 1) if is_from else ("", None, index)

    def _comparative(self, index: int) -> tuple[Relation, Attribute | None, int] | None:
        """A comparative with what follows it: "firmer than", "less expensive than"."""
        item = self._at(index)
        if item is None:
            return None
        is_inverted = item.says("comparative_less", "less")
        place = index + 1 if is_inverted or item.says("comparative_more", "more") else index
        meaning = self._own(self._at(place), "extreme")
        than = self._at(place + 1)
        if meaning is None or than is None or not than.says("than"):
            return None
        is_more = bool(meaning.value) != is_inverted
        return ("above" if is_more else "below"), self._linker.attribute(meaning), place + 2

    def _compared_value(self, relation: Relation, index: int) -> Amount | None:
        """A comparison with a value of the vocabulary: "bigger than a queen", "queen or larger"."""
        start = self._skip(index)
        meaning = self._own(self._at(start), "value", "range")
        if meaning is None:
            return None
        end = start + 1
        if not relation or relation in ("around", "between", "is"):
            following = self._at(end)
            if following is None or not following.says("or_more", "or_less") or self._number(self._skip(end + 1)):
                return None
            if following.says("at_least", "at_most") and self._own(self._at(self._skip(end + 1)), "value", "range"):
                return None  # "medium-firm, at least a queen"
            relation, end = ("at_least" if following.says("or_more") else "at_most"), end + 1
        words = " ".join(item.text for item in self._items[index:end])
        attribute = self._linker.attribute(meaning)
        if attribute is None or attribute.type not in ("keyword", "number"):
            return None
        value = meaning.value
        if meaning.role == "range":
            low, high = meaning.value
            value = {"above": high, "at_most": high, "below": low, "at_least": low}[relation]
        return Amount(end, words, attribute.name, Test(attribute.name, _compared(relation), (value,), words))

    # The number and what stands after it.

    def _number(self, index: int) -> _Number | None:
        item = self._at(index)
        is_money = False
        if item is not None and item.says("currency"):
            is_money, index = True, index + 1
            item = self._at(index)
        if item is None or item.number is None or item.find("value", "range"):
            return None
        value, at = item.number, index + 1
        multiplied = is_multiplied(item.text)
        of: float | None = None
        following, last = self._at(at), self._at(at + 1)
        if following is not None and last is not None and last.number is not None and _is_out_of(following):
            of, at = last.number, at + 2
        units: tuple[Meaning, ...] = ()
        is_percent = False
        while (following := self._at(at)) is not None:
            units_here = tuple(
                each for each in following.meanings if each.role == "unit" and each.kind == self._kind.name
            )
            if following.text == "%" or (following.says("share") and following.text.lower() in {"percent", "per cent"}):
                is_percent = True
            elif following.says("currency"):
                is_money = True
            elif units_here and not units:
                units = units_here
                is_money = is_money or any(self._is_money(each) for each in units_here)
            elif following.text != "-" or not following.glued or not self._unit_follows(at):
                break
            at += 1
        return _Number(value, at, is_money, units, is_percent, of, multiplied)

    def _unit_follows(self, index: int) -> bool:
        return self._own(self._at(index + 1), "unit", "attribute") is not None

    def _is_money(self, unit: Meaning) -> bool:
        attribute = self._linker.attribute(unit)
        return attribute is not None and attribute.type == "money"

    def _second(self, relation: Relation, first: _Number) -> tuple[Relation, tuple[_Number, ...], int]:
        """The other end of a range: "500 to 700", "between one and two thousand"."""
        joiner = self._at(first.end)
        allowed = ("to", "at_most", "and") if relation in ("between", "at_least") else ("to", "or")
        is_joined = joiner is not None and (joiner.text == "-" or joiner.says(*allowed))
        second = self._number(self._skip(first.end + 1)) if is_joined else None
        if second is None or relation not in ("", "between", "at_least"):
            return relation, (first,), first.end
        if joiner is not None and joiner.says("or"):
            return "is", (first, second), second.end
        high = second.value
        low = with_scale(first.value, high, is_said_once=second.is_multiplied and not first.is_multiplied)
        units, is_money = first.units or second.units, first.is_money or second.is_money
        is_percent, of = first.is_percent or second.is_percent, first.of or second.of
        ends = sorted((low, high))
        return "between", tuple(_Number(end, second.end, is_money, units, is_percent, of) for end in ends), second.end

    def _after(self, relation: Relation, index: int, *, is_bare: bool) -> tuple[Relation, int]:
        """A comparison behind the number: "900 or less", "1.5k max"."""
        item = self._at(index)
        if item is None or relation in ("between", "above", "below") or item.find("value", "unit"):
            return relation, index
        if item.text == "+" and item.glued:
            return "at_least", index + 1
        if item.says("around") and item.text.lower() in _OR_SO:
            return "around", index + 1
        if relation and item.says("at_least", "at_most"):
            return relation, index  # "max $800, at least a double"
        if item.says("or_more", "or_less") and not (is_bare and item.says("and", "with")):
            return ("at_least" if item.says("or_more") else "at_most"), index + 1
        return relation, index

    def _noun_after(self, index: int) -> tuple[Attribute | None, int]:
        """An attribute that names the number before it: "107 cm wide", "200 nights' trial"."""
        at = index
        while (item := self._at(at)) is not None and at < index + 2 and self._is_light(item) and not item.says("have"):
            if item.says("that"):
                return None, index
            at += 1
        if self._own(self._at(at), "value"):
            return None, index
        meaning = self._own(self._at(at), "attribute")
        attribute = self._linker.attribute(meaning) if meaning else None
        if attribute is None or attribute.type not in ("number", "money"):
            return None, index
        return attribute, at + 1

    # What the number is about.

    def _attribute(
        self, said: Attribute | None, numbers: Sequence[_Number], relation: Relation, end: int
    ) -> Attribute | None:
        number = numbers[0]
        is_price = number.is_money or (relation not in ("", "is") and number.value >= _LEAST_BARE and not number.units)
        if said is None and not is_price and self._is_unavailable(end):
            return None
        if said is not None and self._measures(said, number):
            return said
        if number.is_money:
            fitting = [each for each in self._kind.attributes if each.type == "money"]
        elif number.is_percent:
            fitting = [each for each in self._kind.attributes if PERCENT in each.units]
        elif number.of is not None:
            fitting = [each for each in self._kind.attributes if each.scale and each.scale[1] == number.of]
        elif number.units:
            near = set(self._named_near(end))
            fitting = [each for each in self._kind.attributes if each.name in near & {u.name for u in number.units}]
        else:
            is_amount = said is None and relation not in ("", "is") and not self._counts(number, end)
            fitting = [each for each in self._kind.attributes if each.preferred and is_amount]
        return fitting[0] if fitting else None

    def _counts(self, number: _Number, end: int) -> bool:
        """Whether a number counts an unknown word that follows: "at least 5 zones"."""
        following = self._at(end)
        is_word = following is not None and following.find("unknown") is not None and following.text.islower()
        return is_word and number.value < _LEAST_BARE

    @staticmethod
    def _measures(attribute: Attribute, number: _Number) -> bool:
        if number.is_money:
            return attribute.type == "money"
        if number.of is not None:
            return attribute.scale is not None and attribute.scale[1] == number.of
        if attribute.scale is not None and not attribute.scale[0] <= number.value <= attribute.scale[1]:
            return False
        return not number.units or any(unit.name == attribute.name for unit in number.units)

    def _is_unavailable(self, index: int) -> bool:
        item = self._at(index)
        return item is not None and item.find("unavailable") is not None and not item.find("value", "attribute")

    def _named_near(self, index: int) -> Iterator[str]:
        """The attributes that are named in the part of the sentence in which an item stands."""
        for step in (-1, 1):
            at = index - 1 if step < 0 else index
            while (item := self._at(at)) is not None and item.text not in _CLAUSE_ENDS:
                meaning = self._own(item, "attribute", "extreme")
                if meaning is not None:
                    yield meaning.name
                at += step


def _condition(attribute: Attribute, relation: Relation, numbers: Sequence[_Number], words: str) -> Condition:
    # "Queen for $900" is a budget.
    relation = relation or ("at_most" if attribute.type == "money" else "is")
    return compared(attribute.name, relation, [_converted(attribute, number) for number in numbers], words)


def compared(attribute: str, relation: Relation, values: Sequence[float], words: str) -> Condition:
    """That a number is one of these values, between two of them, or above or below the first."""
    if relation == "around":
        values, relation = [round(values[0] * (1 - ROUGHLY), 6), round(values[0] * (1 + ROUGHLY), 6)], "between"
    if relation == "between" and len(values) > 1:
        low, high = min(values), max(values)
        return AllOf((Test(attribute, "at_least", (low,), words), Test(attribute, "at_most", (high,), words)))
    tested = tuple(map(float, values)) if _compared(relation) == "is" else (float(values[0]),)
    return Test(attribute, _compared(relation), tested, words)


def with_scale(low: float, high: float, *, is_said_once: bool) -> float:
    """The lower end with the multiplier that is said once for both: "between one and two thousand"."""
    if not is_said_once or low * 100 > high:
        return low
    return low * next((scale for scale in (1e9, 1e6, 1e3, 1e2) if high >= scale), 1)


def _compared(relation: Relation) -> Comparison:
    return cast("Comparison", "is" if relation in {"", "between", "around"} else relation)


def _is_out_of(item: Item) -> bool:
    return item.text == "/" or (item.says("from") and item.text.lower().startswith("out"))


def is_multiplied(words: str) -> bool:
    """Whether a number is said with a multiplier: "two thousand", "2k"."""
    multipliers = language_data()["multipliers"]
    return words.lower().endswith("k") or any(word in multipliers for word in words.lower().split())


def _converted(attribute: Attribute, number: _Number) -> float:
    """The number in the attribute's own unit."""
    if number.is_percent:
        return number.value * attribute.units.get(PERCENT, 1.0)
    unit = next((each for each in number.units if each.name == attribute.name), None)
    return number.value * float(unit.value if unit is not None else 1.0)
