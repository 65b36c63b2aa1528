"""Queries as sequences of tokens: the names of a small grammar, and the leaves of a question that they are made of."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from msgspec.structs import asdict, replace

from tollhouse.questions.conditions import all_of, any_of, negated
from tollhouse.questions.declined import REASONS
from tollhouse.questions.leaves import Leaf
from tollhouse.questions.query import (
    ALL,
    EVERYTHING,
    AllOf,
    Among,
    AnyOf,
    Call,
    Compare,
    Comparison,
    Condition,
    Exists,
    Figure,
    Function,
    Groups,
    List,
    Measure,
    Open,
    OpenForm,
    Order,
    Query,
    Reason,
    Refusal,
    Related,
    Rows,
    Share,
    Test,
)

# A name of the grammar, or a leaf.
Token: TypeAlias = str | Leaf

_NUMBERS: tuple[Comparison, ...] = ("at_least", "above", "at_most", "below", "is")
_FUNCTIONS: tuple[Function, ...] = ("sum", "average", "median", "smallest", "largest")
_CHANGES: tuple[Function, ...] = ("increase", "decrease", "more", "less")
_FORMS: tuple[OpenForm, ...] = ("happened", "why", "who", "timeline", "summary")
REFUSED: tuple[Reason, ...] = (
    *dict.fromkeys(REASONS.values()),
    "not_in_data",
    "outside_time",
    "small_talk",
    "unclear",
)

OTHERS: tuple[str, ...] = ("without", "also", "above_that_of", "below_that_of", "equal_to_that_of")
_BOUNDS = OTHERS[2:]
# How attributes are computed: "minus" and "ratio" of two, "in_units" of a number, "of_total" in percent.
COMPUTED = {"minus": "-", "ratio": "/", "in_units": "/", "of_total": "%"}

# How many rows: what bounds them, and by how much the number of the question differs from the bound.
LIMITS: dict[str, tuple[str, int]] = {
    "at_least": ("at_least", 0),
    "at_most": ("at_most", 0),
    "more_than": ("at_least", 1),
    "fewer_than": ("at_most", -1),
}
_CONDITIONS: dict[str, tuple[str, ...]] = {
    "@condition": (),
    "in": ("points",),
    "not": ("condition",),
    "any": ("conditions",),
    "all": ("conditions",),
    "every": (),
    "among": ("rows",),
    "related": ("@relation", "reach", "links", "condition"),
    "contains": ("@attribute", "words"),
    "known": ("@attribute",),
    "called": ("@operation", "sides"),
    **dict.fromkeys(_NUMBERS, ("@attribute", "@number")),
    **{f"row_{name}": ("@attribute", "@condition") for name in _NUMBERS},
}

# What each symbol may begin with, and the symbols that follow it. "@" points to a leaf of that type.
GRAMMAR: dict[str, dict[str, tuple[str, ...]]] = {
    "query": {
        "list": ("rows",),
        "values": ("@attribute", "rows"),
        "figure": ("measure", "rows"),
        "exists": ("rows",),
        "groups": ("@attribute", "measure", "options", "rows"),
        "compare": ("measure", "flags", "sides"),
        "share": ("rows", "rows"),
        "is_every": ("rows", "rows"),
        "call": ("@operation", "flags", "sides"),
        "earlier": ("flags",),
        **{f"open_{form}": ("words", "rows") for form in _FORMS},
        **{f"refuse_{reason}": () for reason in REFUSED},
    },
    "measure": {
        "count": (),
        **dict.fromkeys(_FUNCTIONS, ("@attribute",)),
        **dict.fromkeys(_CHANGES, ("@attribute", "@attribute")),
    },
    "options": {
        "end": (),
        "ascending": ("options",),
        "counts": ("options",),
        "mean": ("options",),
        "without": ("rows", "options"),
        "also": ("rows", "options"),
        **dict.fromkeys(("limit", "skip", *LIMITS), ("@number", "options")),
        **dict.fromkeys(_BOUNDS, ("rows", "options")),
    },
    "flags": {
        "end": (),
        **dict.fromkeys(("difference", "ascending", "yes_no", "total", "equal"), ("flags",)),
        "limit": ("@number", "flags"),
        "text": ("words", "flags"),
    },
    "sides": {"end": (), "side": ("rows", "sides")},
    "rows": {"rows": ("@kind", "conditions", "order")},
    "conditions": {"end": (), **{name: (*parts, "conditions") for name, parts in _CONDITIONS.items()}},
    "condition": _CONDITIONS,
    "points": {"end": (), "@condition": ("points",)},
    "reach": {
        "direct": (),
        "transitive": (),
        "each": (),
        **dict.fromkeys(LIMITS, ("@number", "reach")),
    },
    "links": {"end": (), "@link": ("links",), "contains": ("@attribute", "words", "links")},
    "order": {
        "end": (),
        "@order": ("order",),
        "most": ("@attribute", "order"),
        "least": ("@attribute", "order"),
        "limit": ("@number", "order"),
        "skip": ("@number", "order"),
    },
    "words": {"end": (), "@word": ("words",)},
}
for _type in ("kind", "condition", "attribute", "relation", "operation", "number", "word"):
    GRAMMAR[f"@{_type}"] = {f"@{_type}": ()}
GRAMMAR["operand"] = {"@attribute": ()}
GRAMMAR["@attribute"] |= {
    **dict.fromkeys(("minus", "ratio"), ("operand", "operand")),
    "in_units": ("operand", "@number"),
    "of_total": ("operand",),
}
NAMES: tuple[str, ...] = tuple(
    dict.fromkeys(name for rules in GRAMMAR.values() for name in rules if not name.startswith("@"))
)


# The names after which an attribute must be a number or a time.
ORDERING: frozenset[str] = frozenset(
    {*_NUMBERS, *(f"row_{name}" for name in _NUMBERS), *_FUNCTIONS, "most", "least", *COMPUTED}
)


class NoPlan(LookupError):
    """A query that cannot be made of the leaves of its question, or tokens that make no query."""


def following(symbols: tuple[str, ...], token: Token) -> tuple[str, ...]:
    """The symbols that are missing after a token."""
    name = f"@{token.type}" if isinstance(token, Leaf) else token
    return GRAMMAR[symbols[0]][name] + symbols[1:]


class Realiser:
    """Makes the query of a sequence of tokens, after the query before. Raises NoPlan for tokens that make none."""

    def __init__(self, tokens: Sequence[Token], before: Query | None) -> None:
        self._tokens = list(tokens)
        self._at = 0
        self._before = before

    def query(self) -> Query | Refusal:
        name = self._name()
        if name.startswith("refuse_"):
            return Refusal(cast("Reason", name.removeprefix("refuse_")))
        if name.startswith("open_"):
            words = self._words()
            return Open(self._rows(), words, cast("OpenForm", name.removeprefix("open_")))
        made: dict[str, Callable[[], Query]] = {
            "list": self._list,
            "values": self._values,
            "figure": self._figure,
            "exists": self._exists,
            "groups": self._groups,
            "compare": self._compare,
            "earlier": self._earlier,
            "share": self._share,
            "is_every": self._every,
            "call": self._call,
        }
        return made[name]()

    def _next(self) -> Token:
        if self._at >= len(self._tokens):
            raise NoPlan
        self._at += 1
        return self._tokens[self._at - 1]

    def _name(self) -> str:
        token = self._next()
        if isinstance(token, Leaf):
            raise NoPlan
        return token

    def _leaf(self) -> Leaf:
        token = self._next()
        if not isinstance(token, Leaf):
            raise NoPlan
        return token

    def _attribute(self) -> str:
        said = self._next()
        if isinstance(said, Leaf):
            return str(said.value)
        if said not in COMPUTED:
            raise NoPlan
        first, second = self._leaf().value, ALL if said == "of_total" else self._leaf().value
        return f"{first} {COMPUTED[said]} {f'{second:g}' if isinstance(second, float) else second}"

    def _list(self) -> Query:
        return List(self._rows())

    def _values(self) -> Query:
        attribute = self._attribute()
        return List(self._rows(), attribute)

    def _figure(self) -> Query:
        measure = self._measure()
        return Figure(self._rows(), measure)

    def _exists(self) -> Query:
        return Exists(self._rows())

    def _groups(self) -> Query:
        by, measure = self._attribute(), self._measure()
        options = self._options()
        rows = self._rows()
        return Groups(rows, by, measure, not options.pop("ascending", False), **options)

    def _compare(self) -> Query:
        measure, flags = self._measure(), self._options()
        sides = self._sides()
        flags.pop("limit", None)
        return Compare(sides, measure, descending=not flags.pop("ascending", False), **flags)

    def _earlier(self) -> Query:
        before, flags = self._before, self._options()
        if not isinstance(before, Figure) or not before.earlier:
            raise NoPlan
        return Compare((*reversed(before.earlier), before.rows), before.measure, **flags)

    def _share(self) -> Query:
        return Share(self._rows(), self._rows())

    def _every(self) -> Query:
        return Share(self._rows(), self._rows(), is_every=True)

    def _call(self) -> Query:
        operation, flags = self._leaf().value, self._options()
        known = {name: flags[name] for name in ("limit", "is_yes_no") if name in flags}
        return Call(operation, self._sides(), flags.get("words", ()), **known)

    def _measure(self) -> Measure:
        name = self._name()
        if name == "count":
            return Measure()
        attribute = self._attribute()
        return Measure(cast("Function", name), attribute, self._attribute() if name in _CHANGES else None)

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        while (name := self._name()) != "end":
            if name in ("limit", "skip"):
                options[name] = int(self._leaf().value)
            elif name in LIMITS:
                bound, step = LIMITS[name]
                options[bound] = self._leaf().value + step
            elif name == "text":
                options["words"] = self._words()
            elif name in OTHERS:
                options[name.partition("_")[0]] = self._rows()
            else:
                options["is_yes_no" if name == "yes_no" else name] = True
        return options

    def _sides(self) -> tuple[Rows, ...]:
        sides: list[Rows] = []
        while self._name() == "side":
            sides.append(self._rows())
        return tuple(sides)

    def _words(self) -> tuple[str, ...]:
        words: list[str] = []
        while isinstance(token := self._next(), Leaf):
            words.append(token.value)
        return tuple(words)

    def _rows(self) -> Rows:
        if self._name() != "rows":
            raise NoPlan
        kind, conditions = self._leaf().value, self._conditions()
        rows = Rows(kind, all_of(conditions) if conditions else EVERYTHING)
        while (said := self._next()) != "end":
            if isinstance(said, Leaf):
                rows = replace(rows, order=said.value)
            elif said in ("most", "least"):
                rows = replace(rows, order=Order(self._attribute(), said == "most"))
            else:
                rows = replace(rows, **{said: int(self._leaf().value)})
        return rows

    def _conditions(self) -> list[Condition]:
        conditions: list[Condition] = []
        while (condition := self._condition()) is not None:
            conditions.append(condition)
        return conditions

    def _condition(self) -> Condition | None:  # noqa: C901, PLR0911, PLR0912
        said = self._next()
        if isinstance(said, Leaf):
            return cast("Condition", said.value)
        if said == "end":
            return None
        if said == "every":
            return EVERYTHING
        if said == "in":
            return self._one_of()
        if said == "not":
            return negated(self._needed())
        if said == "any":
            return AnyOf(tuple(self._conditions()))
        if said == "all":
            return AllOf(tuple(self._conditions()))
        if said == "among":
            return Among(self._rows())
        if said == "called":
            return self._called()
        if said == "related":
            return self._related()
        attribute = self._attribute()
        if said == "contains":
            words = self._words()
            return Test(attribute, "contains", (" ".join(words),), " ".join(words))
        if said == "known":
            return Test(attribute, "known")
        other = self._leaf()
        if said.startswith("row_"):
            if not isinstance(other.value, Test):
                raise NoPlan
            comparison = cast("Comparison", said.removeprefix("row_"))
            return Test(attribute, comparison, (), other.value.words, str(other.value.values[0]))
        return Test(attribute, cast("Comparison", said), (float(other.value),))

    def _needed(self) -> Condition:
        condition = self._condition()
        if condition is None:
            raise NoPlan
        return condition

    def _one_of(self) -> Condition:
        conditions: list[Condition] = []
        while isinstance(token := self._next(), Leaf):
            conditions.append(token.value)
        if not conditions:
            raise NoPlan
        joined = conditions[0]
        for condition in conditions[1:]:
            joined = any_of(joined, condition)
        return joined

    def _called(self) -> Condition:
        operation, sides = self._leaf().value, self._sides()
        if not sides:
            raise NoPlan
        return Among(Rows(sides[0].kind, of=Call(operation, sides)))

    def _related(self) -> Condition:
        (relation, outgoing), reach = self._leaf().value, self._name()
        bounds: dict[str, Any] = {}
        while reach in LIMITS:
            bound, step = LIMITS[reach]
            bounds[bound] = int(self._leaf().value) + step
            reach = self._name()
        links: list[Test] = []
        while (token := self._next()) != "end":
            if isinstance(token, Leaf):
                links.append(token.value)
            else:
                attribute, words = self._attribute(), self._words()
                links.append(Test(attribute, "contains", (" ".join(words),), " ".join(words)))
        bounds["every"] = reach == "each"
        return Related(relation, outgoing, self._needed(), tuple(links), reach == "transitive", **bounds)


def key(part: Any) -> Any:
    """A part of a query without the words it came from and the order of conditions and values, for comparing."""
    if isinstance(part, tuple):
        return tuple(map(key, part))
    if isinstance(part, AllOf | AnyOf):
        return (type(part).__name__, *sorted(map(key, part.of), key=str))
    if hasattr(part, "__struct_fields__"):
        values = {name: key(value) for name, value in asdict(part).items() if name not in ("words", "earlier")}
        if isinstance(part, Open):
            values["words"] = part.words
        if isinstance(part, Test):
            values["values"] = tuple(sorted(values["values"], key=str))
        return (type(part).__name__, *values.items())
    return float(part) if isinstance(part, int) and not isinstance(part, bool) else part
