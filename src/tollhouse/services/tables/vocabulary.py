"""The questions' vocabulary of a table, made from its declaration, and its rows as a dataset of questions."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from tollhouse.questions.normalise import fold, language_data, phrase
from tollhouse.questions.places import countries, country_names, find_country
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
_PER = re.compile(r"\s(?:per|pro|je|por|par)\s.*$")
_MARKS = re.compile(r"[?!:*#]+$")
# Words for a title that say nothing of what has it, in the languages of questions.
_TITLES = frozenset(("title", "name", "label", "titel", "titulo", "título", "nombre", "titre", "nom", "bezeichnung"))
_COUNTRY = frozenset(("country", "land", "pais", "pays", "nation"))
# Shorter words of a column's name name no column alone.
SHORTEST_PART = 3
# A column is one of countries if this share of its values are.
MOSTLY = 0.8


class Superlative(Struct, frozen=True, forbid_unknown_fields=True):
    """The superlatives and comparatives of the numbers that a noun in `of` names, or that have one of the `units`.

    `words` name the quantity without comparing it: "how long", "it takes".
    """

    of: tuple[str, ...]
    most: tuple[str, ...]
    least: tuple[str, ...]
    units: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


class TableWords(Struct, frozen=True, forbid_unknown_fields=True):
    """Words for columns of any table; `synonyms` name the same column, units and currencies are by abbreviation.

    `scales` give the sizes of the units of one quantity.
    """

    synonyms: tuple[tuple[str, ...], ...]
    row_nouns: tuple[str, ...]
    money_verbs: tuple[str, ...]
    superlatives: tuple[Superlative, ...]
    units: dict[str, tuple[str, ...]]
    scales: tuple[dict[str, float], ...]
    currencies: dict[str, tuple[str, ...]]


@cache
def table_words() -> TableWords:
    return msgspec.toml.decode(files(__package__).joinpath("words.toml").read_bytes(), type=TableWords)


def build_vocabulary(declaration: tables.Declaration, values: Mapping[str, Collection[Scalar]] = {}) -> Declaration:
    """The vocabulary of a table: nouns for its rows, and an attribute for each column that is shown.

    `values` are those of keywords. Where most are countries, adjectives and other names mean them too.
    """
    nouns = tuple(dict.fromkeys((*_row_nouns(declaration), *table_words().row_nouns)))
    rows = {word for noun in nouns for word in phrase(noun)}
    money = [name for name, field in declaration.fields.items() if field.exported and field.type == "money"]
    attributes = tuple(
        _attribute(name, field, preferred=money == [name])
        for name, field in declaration.fields.items()
        if field.exported and field.type in _TYPES
    )
    attributes = tuple(_with_units(tuple(_with_parts(tuple(_with_synonyms(attributes)), rows))))
    attributes = tuple(_with_countries(each, values.get(each.name, ())) for each in attributes)
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


def _with_parts(attributes: Sequence[Attribute], rows: Collection[str]) -> Iterator[Attribute]:
    """The attributes with those words of their nouns that no other attribute, nor `rows`, has: "tickets sold"."""
    parts = [
        dict.fromkeys(word for noun in each.nouns for word in phrase(noun) if len(word) >= SHORTEST_PART)
        for each in attributes
    ]
    times = Counter(word for words in parts for word in words)
    said = language_data()["en"]
    functions = {
        word for concept, phrases in said.items() if concept != "filler" for text in phrases for word in phrase(text)
    }
    for attribute, words in zip(attributes, parts, strict=True):
        own = [
            word
            for word in words
            if times[word] == 1 and word not in functions and word not in rows and word not in table_words().units
        ]
        yield replace(attribute, nouns=tuple(dict.fromkeys((*attribute.nouns, *own))))


def _with_units(attributes: Sequence[Attribute]) -> Iterator[Attribute]:
    """The attributes without units of other sizes that are those of another attribute's numbers."""
    own = {word for each in attributes for word, factor in each.units.items() if factor == 1}
    for attribute in attributes:
        units = {word: factor for word, factor in attribute.units.items() if factor == 1 or word not in own}
        yield replace(attribute, units=units)


def _with_countries(attribute: Attribute, values: Collection[Scalar]) -> Attribute:
    """The attribute with every way to write a country, by its value or its name, if most of its values are countries.

    Codes of two letters are often of something else, such as languages and states of the US: they count only where the
    column is called a country.
    """
    is_called_so = not _COUNTRY.isdisjoint(map(fold, attribute.nouns))
    texts = [str(value) for value in values if is_called_so or len(str(value)) > 2]
    known = {country.alpha2: text for text in texts if (country := find_country(text))}
    if not known or len(known) < MOSTLY * len(values):
        return attribute
    forms = {
        known.get(country.alpha2, country.name): tuple(
            dict.fromkeys(name.text for name in country_names(country, ITEM, "", with_codes=False))
        )
        for country in countries().values()
    }
    return replace(attribute, values=forms)


def _row_nouns(declaration: tables.Declaration) -> Iterator[str]:
    """The table's name, its last word, and what its titles are titles of: "film" of a column "Film Title"."""
    name = declaration.name.replace("-", " ")
    title = declaration.fields.get(declaration.table.title or "")
    named = [word for word in _nouns(declaration.table.title, title)[0].split() if word not in _TITLES] if title else []
    for noun in filter(None, (name, name.split()[-1], " ".join(named))):
        yield from dict.fromkeys((noun[:-1] if noun.endswith("s") and not noun.endswith("ss") else noun, noun))


def _nouns(name: str, field: tables.Field) -> tuple[str, ...]:
    """The nouns of a column: its label without a unit, and its name."""
    noun = _MARKS.sub("", _UNIT.sub("", field.label or field.column or name)).strip().casefold()
    plain = _without_unit(noun.replace("_", " "))
    return tuple(dict.fromkeys(filter(None, (plain, noun, name.replace("_", " ")))))


def _attribute(name: str, field: tables.Field, *, preferred: bool) -> Attribute:
    label = field.label or field.column or name
    unit = _unit(match[1] if (match := _UNIT.search(label)) else "", name)
    nouns = _nouns(name, field)
    is_number = field.type in ("integer", "number", "money")
    measured = _measured(field, set(fold(" ".join(nouns)).split()), unit, preferred=preferred) if is_number else []
    return Attribute(
        name=name,
        type=_TYPES[field.type],
        nouns=tuple(dict.fromkeys((*nouns, *(word for each in measured for word in each.words))))
        if field.type != "boolean"
        else (),
        values={"true": nouns} if field.type == "boolean" else {},
        most=tuple(word for each in measured for word in each.most),
        least=tuple(word for each in measured for word in each.least),
        units=_units(field, unit) if is_number else {},
        preferred=preferred,
        several=field.type == "list",
    )


def _measured(field: tables.Field, words: set[str], unit: str, *, preferred: bool) -> list[Superlative]:
    """The superlatives of a number, by its nouns, else by its unit."""
    known = table_words().superlatives
    named = [each for each in known if words & set(each.of)]
    if field.type == "money" and not named:
        return [each for each in known if "price" in each.of] if preferred else []
    return named or [each for each in known if unit and _plain(unit) in each.units]


def _without_unit(noun: str) -> str:
    """A column's noun without the unit at its end, and what it is measured by: "height m", "price per 100 g"."""
    *words, last = _PER.sub("", noun).split() or [""]
    return " ".join(words) if words and last in table_words().units else " ".join([*words, last])


def _unit(written: str, name: str) -> str:
    """The unit that is written behind a column's label, or that its name ends with."""
    ending = name.rpartition("_")[2]
    return written or (ending if "_" in name and ending in table_words().units else "")


def _plain(unit: str) -> str:
    return unit.casefold().replace("²", "2")


def _units(field: tables.Field, unit: str) -> dict[str, float]:
    """The unit of a column with its names, and other units of the same quantity with their sizes beside it."""
    known = table_words()
    if field.type == "money":
        words = known.currencies.get(field.currency.upper(), ())
        return dict.fromkeys((*words, *filter(None, (field.currency,))), 1.0)
    if not unit:
        return {}
    plain = _plain(unit)
    scale = next((each for each in known.scales if plain in each), {})
    # Short abbreviations are other words too: "m" is a million.
    others = {
        word: size / scale[plain]
        for other, size in scale.items()
        for word in (*known.units[other], *((other,) if len(other) > 1 else ()))
        if other != plain
    }
    return others | dict.fromkeys((unit, *known.units.get(plain, ())), 1.0)


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
        self._table = table
        self._items = tuple(items)
        self.by_id = {str(item["id"]): item for item in self._items}
        gone = before.missing_in(self) if before else []
        if before is None or not before.by_id or len(gone) > MOST_CHANGED * len(before.by_id):
            before = None
        self.declaration = before.declaration if before else build_vocabulary(table, self._keywords())
        (kind,) = self.declaration.kinds
        self._texts = [each.name for each in kind.attributes if each.type == "text"]
        self.words: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()
        self.value_counts: dict[str, Counter[Any]] = {
            each.name: Counter() for each in kind.attributes if each.type == "keyword"
        }
        self.changed_names: tuple[list[Named], list[Named]] | None = None
        if before is None:
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

    def _keywords(self) -> dict[str, set[Any]]:
        """The values of each column of keywords but the title."""
        fields = self._table.fields.items()
        names = [name for name, field in fields if field.exported and field.type == "keyword"]
        names = [name for name in names if name != self._table.table.title]
        return {name: {item[name] for item in self._items if item.get(name) is not None} for name in names}

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
