"""What a service declares so that questions about its rows can be read and answered: kinds, attributes, relations.

The declaration is data: a TOML file with the words, and the rows with their values. The engine knows no service.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from tollhouse.questions.grounding import Reference
from tollhouse.questions.query import Scalar

AttributeType = Literal["keyword", "number", "money", "time", "flag", "text", "place"]
Values: TypeAlias = Iterable[Scalar | datetime]


class Attribute(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One attribute of a kind of row, and the words that name it, its values and its orders.

    `nouns` name it ("country", "Land"). `values` gives the phrases of each value, by value: {"Battles": ["battle"]};
    values of the data are known by their own text as well. `ranges` gives phrases for parts of a number's scale:
    {"firm": [7, None]} is at least 7. `most` and `least` are superlatives and comparatives of it ("cheapest" is the
    least price). `units` are the words after its numbers ("dollars", "cm"), each with the factor to the attribute's
    own unit. `scale` is the smallest and largest possible number. `prepositions` introduce it ("in", "by", "from").
    A `preferred` attribute is meant where a bare number could be several ones'. `rows_of` names the relation or kind
    whose number this is ("suppliers"). `several`: a row can have several values, so that "A and B" wants both.
    `year`: the number is that of a year; of several years' the `preferred` one is meant where no year is named.
    `beside_noun`: its words count only where a noun of its kind is said as well ("relations of type ...").
    `inflects`: the phrases of its values are inflected; else every form is given, so that "filing" is not "file".
    `optional`: rows may lack the time, so that "with a date" wants those that have one.
    """

    name: str
    type: AttributeType
    nouns: tuple[str, ...] = ()
    values: dict[str, tuple[str, ...]] = {}
    ranges: dict[str, tuple[float | None, float | None]] = {}
    most: tuple[str, ...] = ()
    least: tuple[str, ...] = ()
    units: dict[str, float] = {}
    scale: tuple[float, float] | None = None
    prepositions: tuple[str, ...] = ()
    preferred: bool = False
    rows_of: str | None = None
    groups: bool = True
    several: bool = False
    year: int | None = None
    beside_noun: bool = False
    inflects: bool = True
    optional: bool = False


class Kind(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of row: "event". `nouns` name it; a noun may imply values: {"battle": {"category": "Battles"}}.

    `usual_order` orders lists that name no order; `person`: "who" asks for it, with the values of `who`.
    `weight`: the attribute by which "most",
    "largest" or "main" without a noun is meant. `links`: the rows are the links of these relations, so that a condition
    on such a row can be one on the link by which other rows are related ("suppliers of X by a deal of 2025").
    """

    name: str
    nouns: tuple[str, ...]
    implied: dict[str, dict[str, str]] = {}
    attributes: tuple[Attribute, ...] = ()
    usual_order: str | None = None
    person: bool = False
    who: dict[str, str] = {}
    weight: str | None = None
    links: tuple[str, ...] = ()


class Relation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A directed relation between rows, and its words, read from source to target.

    `verbs` have the source as their subject ("supply", "sell to"), `inverse_verbs` the target ("buy from").
    `sources` are nouns for the source ("supplier", "vendor"), `targets` for the target ("customer"). `transitive` are
    words by which it is followed further ("indirectly", "upstream"). `link` are attributes of the relation itself.
    `prepositions` are function words that choose it among several relations of two kinds: "from", "to". `operations`
    are those that find its pairs, so that their phrases can mean it: what fails without a row is what it stops.
    """

    name: str
    source: str
    target: str
    verbs: tuple[str, ...] = ()
    inverse_verbs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    transitive: tuple[str, ...] = ()
    symmetric: bool = False
    link: tuple[Attribute, ...] = ()
    prepositions: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()


class Operation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operation of the service's own, and the phrases that ask for it.

    `rows` is how many sets of rows it takes at least and at most; `example` is a question that it answers. `counts`:
    its number is what is asked for.
    """

    name: str
    phrases: tuple[str, ...]
    rows: tuple[int, int] = (0, 0)
    kind: str | None = None
    example: str = ""
    counts: bool = False


class Declaration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The vocabulary file of a service. `unavailable` are subjects that users ask for and the data does not have.

    Each subject has the phrases that name it: {"revenue": ["revenue", "turnover", "Umsatz"]}. `fillers` change nothing.
    `examples` are questions that have answers, for suggestions. `follow_ups` are what may be asked next, by kind of
    row, and under "any" after all; `{country}` is the answer's first group by that attribute or row of that kind.
    `is_learned`: the parser has learned from questions to the service, and reads the names of what it declares.
    """

    kinds: tuple[Kind, ...]
    relations: tuple[Relation, ...] = ()
    operations: tuple[Operation, ...] = ()
    unavailable: dict[str, tuple[str, ...]] = {}
    fillers: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    follow_ups: dict[str, tuple[str, ...]] = {}
    is_learned: bool = False


class Named(Struct, frozen=True):
    """A name that occurs in the data: a row (`attribute` "id") or a value of an attribute, as people write it.

    `exact`: it counts only as written, with its capitals ("US", "IT").
    """

    text: str
    kind: str
    attribute: str
    value: Scalar
    exact: bool = False


class CallResult(Struct, frozen=True):
    """What an operation of the service answers: a text, the rows, names or number that it is about, and links.

    `holds`: it is so as it was asked, not only the other way round.
    """

    text: str
    kind: str = ""
    rows: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    value: float | None = None
    references: tuple[Reference, ...] = ()
    links: tuple[Any, ...] = ()
    holds: bool = True


class Dataset(ABC):
    """The rows of a service at one moment. Subclasses say where the values come from; all methods are pure."""

    declaration: Declaration
    # Whether lines of the texts answer open questions; else only queries do.
    quotes = True

    @abstractmethod
    def rows(self, kind: str) -> Sequence[Any]:
        """The rows of a kind in the service's own order; the same sequence at every call."""

    @abstractmethod
    def id(self, kind: str, row: Any) -> str:
        """The row's id, unique within its kind."""

    @abstractmethod
    def label(self, kind: str, row: Any) -> str:
        """How an answer names the row."""

    @abstractmethod
    def values(self, kind: str, row: Any, attribute: str) -> Values:
        """The row's values of a declared attribute: none, one or several."""

    @abstractmethod
    def names(self) -> Iterable[Named]:
        """Every name in the data that a question can use."""

    def display(self, attribute: str, value: Scalar | datetime) -> str:
        """How an answer writes a value: the country's name for its code."""
        return f"{value:g}" if isinstance(value, float) else str(value)

    def reference(self, kind: str, row: Any) -> Reference | None:
        """What an answer cites for the row; None where it cites nothing."""
        return Reference(self.id(kind, row), self.label(kind, row), None)

    def profile(self, kind: str, row: Any) -> str:
        """The row in a few sentences, for a question about just that row; empty for kinds that have none."""
        return ""

    def related(self, relation: str, row: Any) -> Iterable[tuple[Any, Any]]:
        """The targets of the relation's links that begin at the row, each with its link."""
        return ()

    def link_values(self, relation: str, link: Any, attribute: str) -> Values:
        """The link's values of an attribute that the relation declares."""
        return ()

    def link_reference(self, relation: str, link: Any) -> Reference | None:
        """What an answer cites for the link; None where it cites nothing."""
        return None

    def texts(self, kind: str) -> Mapping[str, str]:
        """The text of each row by id, for words and open questions; empty where the kind has none."""
        return {}

    def call(
        self, operation: str, rows: Sequence[Sequence[Any]], words: Sequence[str], limit: int | None
    ) -> CallResult:
        """Run a declared operation on sets of rows."""
        raise KeyError(operation)

    @property
    def now(self) -> datetime | None:
        """The end of the time that the data covers, from which "today" is read; None if rows have no time."""
        return None

    @property
    def earliest(self) -> datetime | None:
        """The first day that a row names, if that is before what the data covers; None if not."""
        return None

    @property
    def hours(self) -> int | None:
        """How many hours before `now` the data covers; None without a limit."""
        return None
