"""Conditions that were read from a shopper's text, as parameters of the product list and clauses of its query."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import eq, ge, gt, le, lt
from typing import Any

from msgspec import Struct, field

from tollhouse.catalogue.query import Clause, Range
from tollhouse.questions.normal_form import groups_of
from tollhouse.questions.query import AllOf, AnyOf, Condition, Not, Test
from tollhouse.services.mattress.attributes.lexicon import words as sellers_words
from tollhouse.services.mattress.product import COOLING, FIRMNESS, SLEEP_POSITIONS
from tollhouse.services.mattress.vocabulary import EVERY_POSITION

# Parts of a text that may be dropped when no product matches all of it, the least important first. Sizes, brands,
# retailers and exclusions are never dropped.
DROPPABLE = (
    "cooling", "in_stock", "availability", "trial", "on_sale", "discount", "firmness", "sleep_position", "feature",
    "material", "price",
)  # fmt: skip
# Numbers that text names in other units than the catalogue's may differ by this many centimetres.
_NEAR_CM = 4
_CENT = 0.01
_ENDS = {"firmness": FIRMNESS, "cooling": COOLING}
_FIELDS = {
    "brand": "brand", "size": "size", "material": "material", "retailer": "retailer", "availability": "availability",
    "sleep_position": "sleep_positions", "firmness": "firmness", "cooling": "cooling", "price": "current_price",
    "in_stock": "in_stock", "discount": "discount", "trial": "tags", "feature": "", "model": "", "text": "",
}  # fmt: skip
_PARAMETERS = {
    "brand": "brand", "size": "size", "material": "material", "retailer": "retailer", "availability": "availability",
    "sleep_positions": "sleep_position", "tags": "tag", "": "text",
}  # fmt: skip
_RANGES = {
    "current_price": ("min_price", "max_price"),
    "firmness": ("firmness_min", "firmness_max"),
    "cooling": ("cooling_min", "cooling_max"),
}
_COMPARES = {"is": eq, "at_least": ge, "above": gt, "at_most": le, "below": lt}
_OPPOSITES = {"at_least": "below", "above": "at_most", "at_most": "above", "below": "at_least"}

Group = tuple[Clause, ...]


class Part(Struct):
    """One condition of a text: its parameters, or groups of clauses where no parameter says the same.

    `attribute` is what it is about, `words` what it was read from. Only some parts may be dropped.
    """

    attribute: str
    words: str
    parameters: dict[str, Any] = field(default_factory=dict)
    where: tuple[Group, ...] = ()
    is_excluding: bool = False

    @property
    def is_droppable(self) -> bool:
        return self.attribute in DROPPABLE and not self.is_excluding


class Translator(Struct, frozen=True):
    """Translates conditions; `trials` are the tags that state a trial, with its nights."""

    trials: Mapping[str, int]

    def parts(self, condition: Condition) -> list[Part]:
        """The parts of a text's condition, in the order of the text, with parameters that can stand together."""
        conditions = condition.of if isinstance(condition, AllOf) else (condition,)
        return _reconciled([self._part(each) for each in conditions])

    def _part(self, condition: Condition) -> Part:
        tests = list(_tests(condition))
        names = list(dict.fromkeys(test.attribute for test in tests))
        groups = _simplified(groups_of(condition, self._test))
        parameters: dict[str, Any] = {}
        where: list[Group] = []
        for group in groups:
            given = _parameters(group)
            if given is None or parameters.keys() & given.keys():
                where.append(group)
            else:
                parameters |= given
        if parameters.keys() == {"sleep_position"} and all(len(group) == 1 for group in where):
            positions = [value for (clause,) in where for value in clause.values]
            parameters = {"sleep_position_all": [*parameters["sleep_position"], *positions]} if where else parameters
            where = []
        words = " ".join(dict.fromkeys(test.words for test in tests if test.words))
        name = {"width": "size", "length": "size", "model": "text"}.get(names[0], names[0])
        is_limit = isinstance(condition, Not) and names == ["price"]
        return Part(name, words, parameters, tuple(where), isinstance(condition, Not) and not is_limit)

    def _test(self, test: Test, negated: bool) -> list[Group]:  # noqa: FBT001 - called by position
        name = test.attribute
        groups: list[Group]
        if test.comparison == "known" and name not in ("trial", "discount"):
            groups = []
        elif name in ("width", "length") or (name == "size" and test.comparison != "is"):
            groups = [(Clause("size", tuple(_sizes(test)), negated=negated),)]
        elif name == "trial":
            groups = [(Clause("tags", tuple(self._trial_tags(test)), negated=negated),)]
        elif name in ("on_sale", "in_stock"):
            groups = [(_flag(name, holds=bool(test.values[0]) != negated),)]
        elif name == "sleep_position" and EVERY_POSITION in test.values:
            every = [Clause("sleep_positions", (each,), negated=negated) for each in SLEEP_POSITIONS[:3]]
            groups = [tuple(every)] if negated else [(clause,) for clause in every]
        elif name == "discount" and test.comparison == "known":
            groups = [(_flag("on_sale", holds=not negated),)]
        elif name not in _FIELDS:
            groups = []
        elif name in ("price", "discount", *_ENDS):
            groups = _range(_FIELDS[name], test, negated=negated)
        else:
            groups = [(Clause(_FIELDS[name], tuple(str(value) for value in test.values), negated=negated),)]
        return groups

    def _trial_tags(self, test: Test) -> list[str]:
        """The tags with a trial of this length; one that no product has where there is none."""
        if test.comparison == "known":
            return list(self.trials)
        nights = float(test.values[0])
        fitting = [tag for tag, each in self.trials.items() if _COMPARES[test.comparison](each, nights)]
        return fitting or [f"{nights:g} night trial"]


def _tests(condition: Condition) -> Iterator[Test]:
    if isinstance(condition, Test):
        yield condition
    elif isinstance(condition, Not):
        yield from _tests(condition.of)
    elif isinstance(condition, AllOf | AnyOf):
        for each in condition.of:
            yield from _tests(each)


def _sizes(test: Test) -> Iterator[str]:
    """The sizes with such a width or length, or wider or narrower than a size."""
    measure = "length" if test.attribute == "length" else "width"
    measures = {size.label: getattr(size, measure) for size in sellers_words().size.labels}
    target = float(measures[str(test.values[0])] if test.attribute == "size" else test.values[0])
    nearest = min(abs(each - target) for each in measures.values())
    for label, each in measures.items():
        is_near = abs(each - target) == nearest <= _NEAR_CM
        if is_near if test.comparison == "is" else _COMPARES[test.comparison](each, target):
            yield label


def _flag(name: str, *, holds: bool) -> Clause:
    if name == "in_stock":
        return Clause("in_stock", (holds,))
    return Clause("discount", ends=Range(maximum=0), negated=holds)


def _range(name: str, test: Test, *, negated: bool) -> list[Group]:
    """A number's range, without ends at the ends of its scale. A denied range is what lies outside it."""
    limit = float(test.values[0])
    if test.comparison == "is":
        ends = [Range(minimum=limit)] if name == "discount" else [Range(value, value) for value in test.values]
        clauses = [Clause(name, ends=each, negated=negated) for each in ends]
        return [(clause,) for clause in clauses] if negated else [tuple(clauses)]
    comparison = _OPPOSITES[test.comparison] if negated else test.comparison
    step = _CENT if name == "current_price" else 1 if name in _ENDS else 1e-9
    lowest, highest = _ENDS.get(name, (float("-inf"), float("inf")))
    low = limit + step * (comparison == "above") if comparison in ("at_least", "above") else lowest
    high = limit - step * (comparison == "below") if comparison in ("at_most", "below") else highest
    if low <= lowest and high >= highest:
        return []
    if low > highest or high < lowest:
        # Nothing lies outside the scale: the empty alternative.
        return [()]
    return [(Clause(name, ends=Range(low if low > lowest else None, high if high < highest else None)),)]


def _simplified(groups: Sequence[Group]) -> list[Group]:
    """Groups without empty ones; ranges of one number that must hold together are one range."""
    result: list[Group] = []
    ranges: dict[str, Range] = {}
    for group in groups:
        if len(group) == 1 and group[0].ends is not None and not group[0].negated and group[0].field in _RANGES:
            ends, name = group[0].ends, group[0].field
            known = ranges.get(name, Range())
            ranges[name] = Range(
                _tightest(known.minimum, ends.minimum, max), _tightest(known.maximum, ends.maximum, min)
            )
        elif group:
            result.append(group)
    return result + [(Clause(name, ends=ends),) for name, ends in ranges.items()]


def _tightest(one: Any, other: Any, choose: Any) -> Any:
    return other if one is None else one if other is None else choose(one, other)


def _parameters(group: Group) -> dict[str, Any] | None:
    """The parameters that say the same as a group; None if there are none."""
    first = group[0]
    if len({(clause.field, clause.negated) for clause in group}) > 1:
        return None
    if len(group) == 1 and first.field == "in_stock":
        return {"in_stock": first.values[0]}
    if len(group) == 1 and first.ends is not None:
        return _range_parameters(first)
    name = _PARAMETERS.get(first.field)
    if name is None or first.ends is not None or (first.negated and len(group) > 1):
        return None
    values = list(dict.fromkeys(value for clause in group for value in clause.values))
    return {f"{name}_not" if first.negated else name: values}


def _range_parameters(clause: Clause) -> dict[str, Any] | None:
    ends = clause.ends
    assert ends is not None
    if clause.field == "discount" and ends == Range(maximum=0):
        return {"on_sale": clause.negated}
    names = _RANGES.get(clause.field)
    if names is None or clause.negated:
        return None
    pairs = zip(names, (ends.minimum, ends.maximum), strict=True)
    return {name: _number(name, end) for name, end in pairs if end is not None}


def _number(name: str, end: Any) -> Any:
    return round(float(end), 2) if name.endswith("price") else int(end)


def _reconciled(parts: list[Part]) -> list[Part]:
    """Parts whose parameters can stand together: several sizes are alternatives, several positions all count."""
    taken: dict[str, Part] = {}
    result: list[Part] = []
    for part in parts:
        for name in list(part.parameters):
            if (before := taken.setdefault(name, part)) is not part:
                _join(name, before, part)
        if part.parameters or part.where:
            result.append(part)
    return result


def _join(name: str, before: Part, part: Part) -> None:
    """Two parts that set one parameter: exclusions add up, one label of a product is any of those named."""
    given, known = part.parameters.pop(name), before.parameters[name]
    if name.endswith("_not") or name in ("brand", "retailer", "material", "availability", "size"):
        common = [size for size in known if size in given] if name == "size" else []
        before.parameters[name] = common or list(dict.fromkeys([*known, *given]))
        before.words = f"{before.words} {part.words}"
    elif name == "sleep_position" and len(known) == len(given) == 1 and known != given:
        before.parameters = {"sleep_position_all": [*known, *given]}
        before.words = f"{before.words} {part.words}"
    elif name in ("text", "tag", "sleep_position", "sleep_position_all"):
        indexed = {"text": "", "tag": "tags"}.get(name, "sleep_positions")
        part.where = (*part.where, (Clause(indexed, tuple(given)),))
    elif name.startswith("min") or name.endswith("_min"):
        before.parameters[name] = max(known, given)
    elif name.startswith("max") or name.endswith("_max"):
        before.parameters[name] = min(known, given)


def merged(parts: Iterable[Part]) -> tuple[dict[str, Any], tuple[Group, ...]]:
    parameters: dict[str, Any] = {}
    groups: list[Group] = []
    for part in parts:
        parameters |= part.parameters
        groups += part.where
    return parameters, tuple(groups)
