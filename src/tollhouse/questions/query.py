"""Questions as typed queries: what a question asks of a service's rows, independent of its words.

A query is plain data: it can be shown to a caller, kept in a conversation, and given by a language model as the
arguments of a tool.
"""

from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct

# A time is RFC 3339 text with an offset.
Scalar: TypeAlias = str | float | bool

Comparison = Literal["is", "at_least", "above", "at_most", "below", "contains", "known"]


class Test(Struct, frozen=True, tag="test"):
    """A condition on one attribute; a row with several values passes when one of them does.

    "is" compares with any of `values`; the four orders compare with the only value; "contains" wants all words of each
    value in the text; "known" wants the row to have a value. `words` are the question's own, for showing. With
    `of_row`, the value of the row with that id is compared with: "more customers than TSMC". An attribute can be
    computed from others (see `operands`): "less money in FY2026 than in FY2025" is "money - money_2025" below 0.
    """

    # pytest takes any imported class of such a name for tests.
    __test__: ClassVar[bool] = False

    attribute: str
    comparison: Comparison
    values: tuple[Scalar, ...] = ()
    words: str = ""
    of_row: str = ""


class Related(Struct, frozen=True, tag="related"):
    """A condition on the rows that a relation leads to: one of them must pass `to`.

    `outgoing`: the row is the relation's source, and `to` tests its targets. `link` narrows the relation by its own
    attributes, such as the product that is supplied. `transitive` follows the relation any number of times.
    `at_least` and `at_most` bound how many different rows that pass it leads to, and `every` wants all of them.
    """

    relation: str
    outgoing: bool
    to: "Condition"
    link: tuple[Test, ...] = ()
    transitive: bool = False
    words: str = ""
    at_least: int | None = None
    at_most: int | None = None
    every: bool = False


class AllOf(Struct, frozen=True, tag="all"):
    """Every condition holds; without conditions, always."""

    of: tuple["Condition", ...] = ()


class AnyOf(Struct, frozen=True, tag="any"):
    """At least one condition holds."""

    of: tuple["Condition", ...]


class Not(Struct, frozen=True, tag="not"):
    """The condition does not hold. A row without a value for a tested attribute passes."""

    of: "Condition"


class Among(Struct, frozen=True, tag="among"):
    """The row is one of those chosen by an order and a limit ("the three largest"), or that an operation finds."""

    rows: "Rows"


Condition: TypeAlias = Test | Related | AllOf | AnyOf | Not | Among
EVERYTHING = AllOf()


class Order(Struct, frozen=True):
    """`by` names an attribute, or a relation whose links are counted: "supplies.in", "supplies.out"."""

    by: str
    descending: bool = True


class Rows(Struct, frozen=True):
    """The rows of one kind that pass `where`, in an order; `skip` leaves the first ones out ("the third largest").

    `limit` None: as many as there are. A superlative without a number has limit 1 and returns all equals. `of`: only
    rows that an operation finds.
    """

    kind: str
    where: Condition = EVERYTHING
    order: Order | None = None
    limit: int | None = None
    skip: int = 0
    of: "Call | None" = None

    @property
    def parts(self) -> tuple[Condition, ...]:
        """The conditions that must all hold."""
        return self.where.of if isinstance(self.where, AllOf) else (self.where,)

    @property
    def is_named(self) -> bool:
        """Whether the rows are asked for by their names alone."""
        return isinstance(self.where, Test) and self.where.attribute == "id"


Operator = Literal["-", "/", "%"]
OPERATORS: tuple[Operator, ...] = ("-", "/", "%")
# The second operand that stands for the sum over all rows of the kind.
ALL = "all"


def operands(attribute: str) -> tuple[str, str, str]:
    """The first operand, the operator and the second operand of a computed attribute; of another itself and nothing.

    "money - money_2025" is a difference, "money / money_2025" a quotient, "money / 0.001" an amount in another unit,
    and "money % all" each row's percentage of the sum over all rows of its kind.
    """
    first, *rest = attribute.split(" ")
    return (first, rest[0], rest[1]) if len(rest) == 2 and rest[0] in OPERATORS else (attribute, "", "")


Function = Literal["count", "sum", "average", "median", "smallest", "largest", "increase", "decrease", "more", "less"]


class Measure(Struct, frozen=True):
    """A number of rows: how many, or a function of one attribute's values.

    An increase and a decrease are percentages of the sum of another attribute, `base`: of the year before. "more" and
    "less" are differences of the two sums.
    """

    function: Function = "count"
    attribute: str | None = None
    base: str | None = None


COUNT = Measure()


class List(Struct, frozen=True, tag="list"):
    """The rows themselves. `attribute`: just that value of each ("the ticker of NVIDIA", "the countries of ...").

    `earlier` are the rows of the list in the question before, if both name a row: "what do those two have in common?".
    """

    rows: Rows
    attribute: str | None = None
    earlier: tuple[Rows, ...] = ()


class Figure(Struct, frozen=True, tag="figure"):
    """One number of the rows. `earlier` are the rows of the same figure in the questions before, the newest first."""

    rows: Rows
    measure: Measure = COUNT
    earlier: tuple[Rows, ...] = ()


class Exists(Struct, frozen=True, tag="exists"):
    """Whether there are such rows: yes with them, or no."""

    rows: Rows


class Groups(Struct, frozen=True, tag="groups"):
    """The rows by the values of an attribute, each with its measure; ordered, the first `limit` after `skip`.

    `at_least` and `at_most` bound their measure. `counts`: how many groups there are is what is asked; `mean`: the mean
    of their measures. Only groups count that rows of `also` have and no row of `without` has, by the same attribute:
    "countries with both battles and protests", "countries with battles but without protests". The measure of `above`,
    `below` and `equal` bounds that of the groups: "countries with more events than Pakistan".
    """

    rows: Rows
    by: str
    measure: Measure = COUNT
    descending: bool = True
    limit: int | None = None
    skip: int = 0
    at_least: float | None = None
    at_most: float | None = None
    counts: bool = False
    mean: bool = False
    without: Rows | None = None
    also: Rows | None = None
    above: Rows | None = None
    below: Rows | None = None
    equal: Rows | None = None

    @property
    def others(self) -> tuple[Rows, ...]:
        """The rows beside the grouped ones."""
        every = (self.without, self.also, self.above, self.below, self.equal)
        return tuple(rows for rows in every if rows is not None)


class Compare(Struct, frozen=True, tag="compare"):
    """The same measure of several sides; `difference` asks by how much the first exceeds the second.

    `total` asks for the sum of all sides. `is_yes_no`: whether the first is the largest (smallest, if not `descending`)
    of all; with `equal`, whether all are the same.
    """

    sides: tuple[Rows, ...]
    measure: Measure = COUNT
    difference: bool = False
    descending: bool = True
    is_yes_no: bool = False
    total: bool = False
    equal: bool = False


class Share(Struct, frozen=True, tag="share"):
    """The share of `part` in `whole`, by number of rows.

    `is_every`: whether every row of `whole` is one of `part` is what is asked.
    """

    part: Rows
    whole: Rows
    is_every: bool = False


class Call(Struct, frozen=True, tag="call"):
    """An operation that the service declares, with rows and words as its arguments: a path, a failure.

    `is_yes_no`: whether it finds anything is what is asked.
    """

    operation: str
    rows: tuple[Rows, ...] = ()
    words: tuple[str, ...] = ()
    limit: int | None = None
    is_yes_no: bool = False


OpenForm = Literal["happened", "why", "who", "timeline", "summary"]


class Open(Struct, frozen=True, tag="open"):
    """A question for passages: which texts answer it, within `rows`. `words` are what the texts should say."""

    rows: Rows
    words: tuple[str, ...]
    form: OpenForm = "happened"


Query: TypeAlias = List | Figure | Exists | Groups | Compare | Share | Call | Open


def rows_in(query: Query) -> tuple[Rows, ...]:
    """Every set of rows that a query names, in its order."""
    if isinstance(query, Compare):
        return query.sides
    if isinstance(query, Share):
        return query.part, query.whole
    if isinstance(query, Groups):
        return query.rows, *query.others
    return query.rows if isinstance(query, Call) else (query.rows,)


class Reading(Struct, frozen=True):
    """A question that was understood. `ignored` are words that were left out, `corrected` typos with their correction.

    `understood` gives, for each condition and order in the query, the words that it came from. `guessed`: an unknown
    word was left out, and the answer says so.
    """

    query: Query
    understood: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    corrected: tuple[tuple[str, str], ...] = ()
    guessed: bool = False


Reason = Literal[
    "unknown_words",
    "not_in_data",
    "no_text",
    "opinion",
    "prediction",
    "advice",
    "outside_time",
    "small_talk",
    "ambiguous",
    "unclear",
]


class Refusal(Struct, frozen=True):
    """A question that has no query: why, the words that are to blame, and questions near it that have answers."""

    reason: Reason
    words: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
