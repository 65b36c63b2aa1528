"""The questions' vocabulary of a table, made from its declaration, and its rows as a dataset of questions."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse import clock
from tollhouse.catalogue.followed_items import MOST_CHANGED
from tollhouse.catalogue.items import Item
from tollhouse.questions.execution import words_of
from tollhouse.questions.normalise import fold
from tollhouse.questions.query import Scalar
from tollhouse.questions.vocabulary import Attribute, AttributeType, Dataset, Declaration, Kind, Named, Values
from tollhouse.services.tables import declaration as tables

ITEM = "item"
# Names of rows and values longer than this are no names that people write.
LONGEST_NAME = 80
_TYPES: dict[tables.Kind, AttributeType] = {
    "text": "text", "keyword": "keyword", "list": "keyword", "integer": "number", "number": "number",
    "money": "money", "date": "time", "moment": "time", "boolean": "flag",
}  # fmt: skip
# Units stand behind a label in brackets ("Area (km²)") or at the end of a name ("area_km").
_UNIT = re.compile(r"\s*[(\[]([^)\]]{1,12})[)\]]\s*$")
_MARKS = re.compile(r"[?!:*#]+$")


class Superlative(Struct, frozen=True, forbid_unknown_fields=True):
    """The superlatives and comparatives of the numbers that a noun in `of` names."""

    of: tuple[str, ...]
    most: tuple[str, ...]
    least: tuple[str, ...]


class TableWords(Struct, frozen=True, forbid_unknown_fields=True):
    """Words for columns of any table; `synonyms` name the same column, units and currencies are by abbreviation."""

    synonyms: tuple[tuple[str, ...], ...]
    row_nouns: tuple[str, ...]
    money_verbs: tuple[str, ...]
    superlatives: tuple[Superlative, ...]
    units: dict[str, tuple[str, ...]]
    currencies: dict[str, tuple[str, ...]]


@cache
def table_words() -> TableWords:
    return msgspec.toml.decode(files(__package__).joinpath("words.toml").read_bytes(), type=TableWords)


def build_vocabulary(declaration: tables.Declaration) -> Declaration:
    """The vocabulary of a table: a noun for its rows, and an attribute for each column that is shown."""
    money = [name for name, field in declaration.fields.items() if field.exported and field.type == "money"]
    attributes = tuple(
        _attribute(name, field, preferred=money == [name])
        for name, field in declaration.fields.items()
        if field.exported and field.type in _TYPES
    )
    attributes = tuple(_with_synonyms(attributes))
    nouns = tuple(dict.fromkeys((*_row_nouns(declaration), *table_words().row_nouns)))
    kind = Kind(name=ITEM, nouns=nouns, attributes=attributes)
    described = [each for each in attributes if each.name != declaration.table.title]
    # "Books that cost less than 20 euros": the amount says what it is.
    fillers = table_words().money_verbs if money else ()
    return Declaration(kinds=(kind,), fillers=fillers, examples=tuple(_examples(nouns[0], described)))


def _with_synonyms(attributes: Sequence[Attribute]) -> Iterator[Attribute]:
    """The attributes with other nouns of theirs, unless two attributes could be meant by them."""
    groups = {word: group for group in table_words().synonyms for word in group}
    used = [{fold(noun) for noun in each.nouns} for each in attributes]
    for attribute, own in zip(attributes, used, strict=True):
        others = {noun for nouns in used if nouns is not own for noun in nouns}
        matched = [groups[noun] for noun in own if noun in groups and others.isdisjoint(groups[noun])]
        more = [word for group in matched for word in group if word not in own]
        yield replace(attribute, nouns=(*attribute.nouns, *dict.fromkeys(more))) if attribute.nouns else attribute


def _row_nouns(declaration: tables.Declaration) -> Iterator[str]:
    name = declaration.name.replace("-", " ")
    yield name[:-1] if name.endswith("s") and not name.endswith("ss") else name
    yield name
    last = name.split()[-1]
    yield last[:-1] if last.endswith("s") and not last.endswith("ss") else last


def _attribute(name: str, field: tables.Field, *, preferred: bool) -> Attribute:
    label = field.label or field.column or name
    unit = match[1] if (match := _UNIT.search(label)) else ""
    noun = _MARKS.sub("", _UNIT.sub("", label)).strip().casefold()
    plain = _without_unit(noun.replace("_", " "))
    nouns = tuple(dict.fromkeys(filter(None, (plain, noun, name.replace("_", " ")))))
    words = set(fold(" ".join(nouns)).split())
    superlatives = [each for each in table_words().superlatives if words & set(each.of)]
    if field.type == "money" and not superlatives:
        superlatives = [each for each in table_words().superlatives if "price" in each.of] if preferred else []
    is_number = field.type in ("integer", "number", "money")
    return Attribute(
        name=name,
        type=_TYPES[field.type],
        nouns=nouns if field.type != "boolean" else (),
        values={"true": nouns} if field.type == "boolean" else {},
        most=tuple(word for each in superlatives for word in each.most) if is_number else (),
        least=tuple(word for each in superlatives for word in each.least) if is_number else (),
        units=_units(field, unit, name) if is_number else {},
        preferred=preferred,
        several=field.type == "list",
    )


def _without_unit(noun: str) -> str:
    """A column's noun without the unit at its end: "height m"."""
    *words, last = noun.split() or [""]
    return " ".join(words) if words and last in table_words().units else noun


def _units(field: tables.Field, unit: str, name: str) -> dict[str, float]:
    """The unit of a column, with its names."""
    known = table_words()
    if field.type == "money":
        words = known.currencies.get(field.currency.upper(), ())
        return dict.fromkeys((*words, *filter(None, (field.currency,))), 1.0)
    ending = name.rpartition("_")[2]
    own = unit or (ending if "_" in name and ending in known.units else "")
    plain = own.casefold().replace("²", "2")
    return dict.fromkeys((own, *known.units.get(plain, ())), 1.0) if own else {}


def _examples(noun: str, attributes: Sequence[Attribute]) -> Iterator[str]:
    """Questions that the table answers, to be suggested."""
    plural = noun if noun.endswith("s") else f"{noun}s"
    yield f"How many {plural} are there?"
    for attribute in attributes:
        if attribute.type in ("number", "money"):
            yield f"Which {noun} has the highest {attribute.nouns[0]}?"
            yield f"What is the average {attribute.nouns[0]} of the {plural}?"
        elif attribute.type == "keyword":
            yield f"How many {plural} are there by {attribute.nouns[0]}?"


class TableDataset(Dataset):
    """The shown members of a table's items, with the values of keywords and the titles as names.

    The items are ordered by id. Of those `before`, the same objects are not read again. `words` are those of the texts,
    with the number of their items. `changed_names` are the names that were there before and no longer are, and those
    that are there since; None without an earlier dataset, or if so much has changed that all was read.
    """

    def __init__(self, table: tables.Declaration, items: Iterable[Item], before: "TableDataset | None" = None) -> None:
        self.declaration = before.declaration if before else build_vocabulary(table)
        self._table = table
        self._items = tuple(items)
        (kind,) = self.declaration.kinds
        self._texts = [each.name for each in kind.attributes if each.type == "text"]
        self.by_id = {str(item["id"]): item for item in self._items}
        self.words: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()
        self.value_counts: dict[str, Counter[Any]] = {
            each.name: Counter() for each in kind.attributes if each.type == "keyword"
        }
        self.changed_names: tuple[list[Named], list[Named]] | None = None
        gone = before.missing_in(self) if before else []
        if before is None or len(gone) > MOST_CHANGED * len(before.by_id):
            self._count(self._items, 1)
            return
        self.words, self.labels = before.words.copy(), before.labels.copy()
        self.value_counts = {name: counts.copy() for name, counts in before.value_counts.items()}
        new = self.missing_in(before)
        self._count(gone, -1)
        self._count(new, 1)
        if self.rows_are_named == before.rows_are_named:
            removed = [name for name in dict.fromkeys(before.names_of(gone)) if not self.has_name(name)]
            added = [name for name in dict.fromkeys(self.names_of(new)) if not before.has_name(name)]
            self.changed_names = removed, added

    @property
    def rows_are_named(self) -> bool:
        """Whether a title is the name of its row: it is no other row's."""
        return self._table.table.title in self._texts or len(self.labels) == len(self._items)

    def missing_in(self, other: "TableDataset") -> list[Item]:
        """The items that the other has not, or not as they are here."""
        return [item for identity, item in self.by_id.items() if other.by_id.get(identity) is not item]

    def names_of(self, items: Sequence[Item]) -> Iterator[Named]:
        """The names in these items, which may repeat."""
        for attribute in self._named_attributes():
            values = (str(value) for item in items for value in self.values(ITEM, item, attribute))
            yield from _names(attribute, ((value, value) for value in values))
        if self.rows_are_named:
            yield from _names("id", ((self.label(ITEM, item), str(item["id"])) for item in items))

    def has_name(self, name: Named) -> bool:
        """Whether this is the name of a value or of a row."""
        if name.attribute != "id":
            return name.value in self.value_counts[name.attribute]
        item = self.by_id.get(str(name.value))
        return item is not None and self.label(ITEM, item) == name.text

    def _count(self, items: Sequence[Item], by: int) -> None:
        for item in items:
            _add(self.labels, (self.label(ITEM, item),), by)
            _add(self.words, {word for name in self._texts for word in words_of(str(item.get(name) or ""))}, by)
            for attribute, counts in self.value_counts.items():
                _add(counts, set(self.values(ITEM, item, attribute)), by)

    def rows(self, kind: str) -> Sequence[Item]:
        return self._items

    def id(self, kind: str, row: Item) -> str:
        return str(row["id"])

    def label(self, kind: str, row: Item) -> str:
        return str(row.get(self._table.table.title) or row["id"])

    def values(self, kind: str, row: Item, attribute: str) -> Values:
        value = row.get(attribute)
        if value is None:
            return ()
        if isinstance(value, list):
            return tuple(value)
        if self._table.fields[attribute].type in ("date", "moment"):
            return (datetime.fromisoformat(value),)
        return (value,)

    def display(self, attribute: str, value: Scalar | datetime) -> str:
        field = self._table.fields.get(attribute)
        text = super().display(attribute, value)
        return text[:10] if field is not None and field.type == "date" else text

    def names(self) -> Iterator[Named]:
        for attribute in self._named_attributes():
            values = sorted(map(str, self.value_counts[attribute]))
            yield from _names(attribute, ((value, value) for value in values))
        if self.rows_are_named:
            yield from _names("id", ((self.label(ITEM, item), str(item["id"])) for item in self._items))

    def _named_attributes(self) -> list[str]:
        """The attributes whose values are names."""
        title = self._table.table.title if self.rows_are_named else ""
        return [name for name in self.value_counts if name != title]

    def texts(self, kind: str) -> Mapping[str, str]:
        return {str(item["id"]): "\n".join(str(item.get(name) or "") for name in self._texts) for item in self._items}

    @property
    def now(self) -> datetime | None:
        """Now, where the table has times."""
        return clock.now() if any(each.type == "time" for each in self.declaration.kinds[0].attributes) else None


def _names(attribute: str, pairs: Iterable[tuple[str, str]]) -> Iterator[Named]:
    """The texts with their values, without those that are too long to be written."""
    return (Named(text, ITEM, attribute, value) for text, value in pairs if len(text) <= LONGEST_NAME)


def _add(counts: Counter[Any], keys: Iterable[Any], by: int) -> None:
    for key in keys:
        counts[key] += by
        if not counts[key]:
            del counts[key]


def understood_as(what: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The words of each condition and order, by what they are about."""
    words: dict[str, str] = {}
    for name, said in what:
        words[name] = f"{words[name]} {said}" if name in words else said
    return words
