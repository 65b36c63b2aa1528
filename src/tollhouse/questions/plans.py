"""Queries as sequences of tokens: the names of a small grammar, and the leaves of a question that they are made of."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast

from msgspec.structs import asdict, replace

from tollhouse.questions.conditions import all_of, any_of, negated
from tollhouse.questions.declined import REASONS
from tollhouse.questions.leaves import IMPLIED, Leaf, LeafType
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
    Not,
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
    operands,
)

# A name of the grammar, or a leaf.
Token: TypeAlias = str | Leaf

_NUMBERS: tuple[Comparison, ...] = ("at_least", "above", "at_most", "below", "is")
_FUNCTIONS: tuple[Function, ...] = ("sum", "average", "median", "smallest", "largest")
_CHANGES: tuple[Function, ...] = ("increase", "decrease", "more", "less")
_FORMS: tuple[OpenForm, ...] = ("happened", "why", "who", "timeline", "summary")
_REFUSED: tuple[Reason, ...] = (
    *dict.fromkeys(REASONS.values()),
    "not_in_data",
    "outside_time",
    "small_talk",
    "unclear",
)

_OTHERS: tuple[str, ...] = ("without", "also", "above_that_of", "below_that_of", "equal_to_that_of")
_BOUNDS = _OTHERS[2:]
# How attributes are computed: "minus" and "ratio" of two, "in_units" of a number, "of_total" in percent.
_COMPUTED = {"minus": "-", "ratio": "/", "in_units": "/", "of_total": "%"}

# How many rows: what bounds them, and by how much the number of the question differs from the bound.
_LIMITS: dict[str, tuple[str, int]] = {
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
        **{f"refuse_{reason}": () for reason in _REFUSED},
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
        **dict.fromkeys(("limit", "skip", *_LIMITS), ("@number", "options")),
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
        **dict.fromkeys(_LIMITS, ("@number", "reach")),
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
    {*_NUMBERS, *(f"row_{name}" for name in _NUMBERS), *_FUNCTIONS, "most", "least", *_COMPUTED}
)


class NoPlan(LookupError):
    """A query that cannot be made of the leaves of its question, or tokens that make no query."""


def following(symbols: tuple[str, ...], token: Token) -> tuple[str, ...]:
    """The symbols that are missing after a token."""
    name = f"@{token.type}" if isinstance(token, Leaf) else token
    return GRAMMAR[symbols[0]][name] + symbols[1:]


# From tokens to a query.


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
        if said not in _COMPUTED:
            raise NoPlan
        first, second = self._leaf().value, ALL if said == "of_total" else self._leaf().value
        return f"{first} {_COMPUTED[said]} {f'{second:g}' if isinstance(second, float) else second}"

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
            elif name in _LIMITS:
                bound, step = _LIMITS[name]
                options[bound] = self._leaf().value + step
            elif name == "text":
                options["words"] = self._words()
            elif name in _OTHERS:
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
        while reach in _LIMITS:
            bound, step = _LIMITS[reach]
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


# From a query to tokens.


def encode(query: Query | Refusal, leaves: Sequence[Leaf], before: Query | None = None) -> list[Token]:
    """The tokens of a query. Raises NoPlan where a part of it comes from no leaf."""
    if isinstance(query, Compare) and isinstance(before, Figure) and before.earlier and len(query.sides) > 1:
        for flags in (("total",), ("difference",)):
            tokens: list[Token] = ["earlier", *flags, "end"]
            if key(Realiser(tokens, before).query()) == key(query):
                return tokens
    return list(_Encoder(leaves).query(query))


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


class _Encoder:
    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._leaves: dict[tuple[str, Any], Leaf] = {}
        self._all = leaves
        for leaf in leaves:
            known = self._leaves.get((leaf.type, key(leaf.value)))
            if known is None or known.item == IMPLIED:
                self._leaves[leaf.type, key(leaf.value)] = leaf

    def query(self, query: Query | Refusal) -> Iterator[Token]:
        if isinstance(query, Refusal):
            reason = query.reason if query.reason in _REFUSED else "unclear"
            yield f"refuse_{reason}"
        elif isinstance(query, List):
            if query.attribute is None:
                yield "list"
            else:
                yield "values"
                yield from self._attribute(query.attribute)
            yield from self._rows(query.rows)
        elif isinstance(query, Figure):
            yield "figure"
            yield from self._measure(query.measure)
            yield from self._rows(query.rows)
        elif isinstance(query, Exists):
            yield "exists"
            yield from self._rows(query.rows)
        elif isinstance(query, Groups):
            yield "groups"
            yield from self._attribute(query.by)
            yield from self._measure(query.measure)
            yield from self._options(query)
            yield from self._rows(query.rows)
        elif isinstance(query, Compare | Call):
            yield from self._with_sides(query)
        elif isinstance(query, Share):
            yield "is_every" if query.is_every else "share"
            yield from self._rows(query.part)
            yield from self._rows(query.whole)
        else:
            yield f"open_{query.form}"
            yield from self._words(query.words)
            yield from self._rows(query.rows)

    def _with_sides(self, query: Compare | Call) -> Iterator[Token]:
        if isinstance(query, Compare):
            yield "compare"
            yield from self._measure(query.measure)
            flags = {"difference": query.difference, "ascending": not query.descending, "total": query.total}
            flags |= {"yes_no": query.is_yes_no, "equal": query.equal}
            sides = query.sides
        else:
            yield "call"
            yield self._leaf("operation", query.operation)
            flags, sides = {"yes_no": query.is_yes_no}, query.rows
            if query.limit is not None:
                yield "limit"
                yield self._leaf("number", float(query.limit))
            if query.words:
                yield "text"
                yield from self._words(query.words)
        yield from sorted(name for name, is_set in flags.items() if is_set)
        yield "end"
        yield from self._sides(sides)

    def _leaf(self, of_type: LeafType, value: Any) -> Leaf:
        leaf = self._leaves.get((of_type, key(value)))
        if leaf is None:
            raise NoPlan(of_type, value)
        return leaf

    def _attribute(self, attribute: str) -> Iterator[Token]:
        first, operator, second = operands(attribute)
        is_number = second[:1].isdigit()
        if operator:
            yield "in_units" if is_number else next(name for name, sign in _COMPUTED.items() if sign == operator)
        yield self._leaf("attribute", first)
        if operator and second != ALL:
            yield self._leaf("number", float(second)) if is_number else self._leaf("attribute", second)

    def _measure(self, measure: Measure) -> Iterator[Token]:
        yield measure.function
        for attribute in (measure.attribute, measure.base):
            if attribute is not None:
                yield from self._attribute(attribute)

    def _options(self, query: Groups) -> Iterator[Token]:
        if not query.descending:
            yield "ascending"
        if query.counts:
            yield "counts"
        for name in ("limit", "skip"):
            if number := getattr(query, name):
                yield name
                yield self._leaf("number", float(number))
        yield from self._limits(query, is_counted=query.measure.function == "count")
        if query.mean:
            yield "mean"
        for name in _OTHERS:
            if (rows := getattr(query, name.partition("_")[0])) is not None:
                yield name
                yield from self._rows(rows)
        yield "end"

    def _limits(self, bounded: Groups | Related, *, is_counted: bool) -> Iterator[Token]:
        """The bounds by the number that the question says: at least eleven is "more than ten" where it says ten."""
        for bound in ("at_least", "at_most"):
            if (number := getattr(bounded, bound)) is None:
                continue
            names = {name: float(number - step) for name, (of, step) in _LIMITS.items() if of == bound}
            said = [name for name, at in names.items() if (leaf := self._leaves.get(("number", at))) and leaf.item >= 0]
            name = said[0] if said and (is_counted or said[0] == bound) else bound
            yield name
            yield self._leaf("number", names[name])

    def _words(self, words: Sequence[str]) -> Iterator[Token]:
        for word in words:
            yield self._leaf("word", word)
        yield "end"

    def _rows(self, rows: Rows) -> Iterator[Token]:
        yield "rows"
        yield self._leaf("kind", rows.kind)
        yield from self._conditions(rows.parts if rows.where != EVERYTHING else ())
        yield "end"
        if rows.order is not None:
            leaf = self._leaves.get(("order", key(rows.order)))
            if leaf is not None:
                yield leaf
            else:
                yield "most" if rows.order.descending else "least"
                yield from self._attribute(rows.order.by)
        if rows.limit is not None:
            yield "limit"
            yield self._leaf("number", float(rows.limit))
        if rows.skip:
            yield "skip"
            yield self._leaf("number", float(rows.skip))
        yield "end"

    def _conditions(self, parts: Sequence[Condition]) -> Iterator[Token]:
        parts = list(parts)
        while parts:
            joined = next(
                (
                    (length, leaf)
                    for length in range(min(3, len(parts)), 1, -1)
                    if (leaf := self._leaves.get(("condition", key(AllOf(tuple(parts[:length])))))) is not None
                ),
                None,
            )
            if joined:
                yield joined[1]
                parts = parts[joined[0] :]
            else:
                yield from self._condition(parts.pop(0))

    def _condition(self, condition: Condition) -> Iterator[Token]:
        leaf = self._leaves.get(("condition", key(condition)))
        if leaf is not None:
            yield leaf
        elif condition == EVERYTHING:
            yield "every"
        elif isinstance(condition, Test):
            yield from self._test(condition)
        elif isinstance(condition, Not):
            yield "not"
            yield from self._condition(condition.of)
        elif isinstance(condition, AllOf | AnyOf):
            yield "all" if isinstance(condition, AllOf) else "any"
            yield from self._conditions(condition.of)
            yield "end"
        elif isinstance(condition, Among):
            yield from self._among(condition.rows)
        else:
            yield "related"
            yield self._leaf("relation", (condition.relation, condition.outgoing))
            yield from self._limits(condition, is_counted=True)
            yield "transitive" if condition.transitive else "each" if condition.every else "direct"
            for test in condition.link:
                link = self._leaves.get(("link", key(test)))
                if link is not None:
                    yield link
                elif test.comparison != "contains":
                    raise NoPlan(test)
                else:
                    yield "contains"
                    yield from self._attribute(test.attribute)
                    yield from self._words(str(test.values[0]).split())
            yield "end"
            yield from self._condition(condition.to)

    def _among(self, rows: Rows) -> Iterator[Token]:
        if rows.of is None:
            yield "among"
            yield from self._rows(rows)
            return
        if rows != Rows(rows.kind, of=Call(rows.of.operation, rows.of.rows)):
            raise NoPlan(rows)
        yield "called"
        yield self._leaf("operation", rows.of.operation)
        yield from self._sides(rows.of.rows)

    def _sides(self, sides: Sequence[Rows]) -> Iterator[Token]:
        for side in sides:
            yield "side"
            yield from self._rows(side)
        yield "end"

    def _test(self, test: Test) -> Iterator[Token]:
        if test.of_row:
            yield f"row_{test.comparison}"
            yield from self._attribute(test.attribute)
            yield self._leaf("condition", Test("id", "is", (test.of_row,)))
        elif test.comparison == "known":
            yield "known"
            yield from self._attribute(test.attribute)
        elif test.comparison in ("is", "contains") and test.values and not isinstance(test.values[0], float):
            yield from self._values(test)
        elif isinstance(test.values[0], str):
            raise NoPlan(test)
        else:
            yield test.comparison
            yield from self._attribute(test.attribute)
            yield self._leaf("number", float(test.values[0]))

    def _values(self, test: Test) -> Iterator[Token]:
        """One of several values, each of which a leaf has."""
        missing = set(test.values)
        chosen: list[Leaf] = []
        for leaf in self._all:
            value = leaf.value
            if leaf.type != "condition" or not isinstance(value, Test) or value.attribute != test.attribute:
                continue
            if value.comparison == test.comparison and value.values and set(value.values) <= missing:
                chosen.append(leaf)
                missing -= set(value.values)
        if missing and test.comparison == "contains" and len(test.values) == 1:
            yield "contains"
            yield from self._attribute(test.attribute)
            yield from self._words(str(test.values[0]).split())
            return
        if missing:
            raise NoPlan(test)
        yield "in"
        yield from chosen
        yield "end"
