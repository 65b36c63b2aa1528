"""Invented vocabularies, which the parser of questions learns from as services that it does not know.

vocabularies/*.toml have the words of each as people say them, by language; what a service would declare is made of
them, each time with other words left out, and its rows are drawn.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from tollhouse.questions.answering import Engine
from tollhouse.questions.vocabulary import (
    Attribute,
    AttributeType,
    CallResult,
    Dataset,
    Declaration,
    Kind,
    Named,
    Operation,
    Relation,
    Values,
)
from tools.question_generator.slots import LANGUAGES, Value, places

# Texts by language. A noun is "plural/singular", in German "/dative plural", with ":" and its gender; a verb is
# "plural/third person/participle/past", in English "//past" where it has no passive.
Texts = dict[str, list[str]]

FOLDER = Path(__file__).parent / "vocabularies"
NOW = datetime(2020, 11, 15, tzinfo=UTC)
COUNTRIES = 14
DECLARED = (0.9, 0.45)
"""How often each word after the first of its language is declared, by version of a vocabulary."""


class SaidAttribute(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attribute with what is said of it.

    `phrase` stands after a noun or "are" ("from {v}"), `adj` before a noun or after "are", `do` after "who" ("weigh
    {n}/weighs {n}"); {v} is a value, {n} an amount, {t} a time. `at` are amounts.
    """

    type: AttributeType = "keyword"
    several: bool = False
    en: list[str] = []
    de: list[str] = []
    es: list[str] = []
    fr: list[str] = []
    values: dict[str, Texts] | list[str] = []
    phrase: Texts = field(default_factory=dict, name="is")
    adj: Texts = {}
    do: Texts = {}
    at: list[float] = []
    years: tuple[int, ...] = (1998, 2005, 2010, 2015, 2018)
    units: dict[str, float] = {}
    unit: dict[str, str] = {}
    most: Texts = {}
    least: Texts = {}
    how: Texts = {}
    time: bool = False

    def texts(self, value: str) -> Iterable[str]:
        """What a value is called in any language."""
        return chain.from_iterable(self.values[value].values()) if isinstance(self.values, dict) else (value,)


class SaidKind(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of row, its nouns, and the names of its rows."""

    en: list[str]
    de: list[str] = []
    es: list[str] = []
    fr: list[str] = []
    names: list[str]
    person: bool = False
    weight: str | None = None
    attributes: dict[str, SaidAttribute] = {}


class SaidRelation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A relation from the first to the second of `ends`.

    It has its verbs, those of its target (`inverse`), and the nouns of both ends.
    """

    ends: tuple[str, str]
    en: list[str]
    de: list[str] = []
    es: list[str] = []
    fr: list[str] = []
    inverse: Texts = {}
    sources: Texts = {}
    targets: Texts = {}
    transitive: Texts = {}
    link: dict[str, SaidAttribute] = {}


class SaidOperation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operation on rows of a kind; its questions have names of rows as {a} and {b}."""

    kind: str
    rows: tuple[int, int]
    phrases: tuple[str, ...]
    en: list[str] = []
    de: list[str] = []
    es: list[str] = []
    fr: list[str] = []


class Vocabulary(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that is said of an invented service. `unavailable` are subjects without data."""

    kinds: dict[str, SaidKind]
    relations: dict[str, SaidRelation] = {}
    operations: dict[str, SaidOperation] = {}
    unavailable: dict[str, Texts] = {}


@cache
def vocabularies() -> Mapping[str, Vocabulary]:
    """Each vocabulary by its name."""
    return {
        file.stem: msgspec.toml.decode(file.read_text("utf-8"), type=Vocabulary)
        for file in sorted(FOLDER.glob("*.toml"))
    }


def texts_of(said: Any, language: str) -> list[str]:
    """The texts in a language: nouns, verbs or questions."""
    texts: list[str] = getattr(said, language)
    return texts


def parts_of(text: str) -> tuple[list[str], str]:
    """The forms of a noun or a verb, and its gender."""
    forms, _, gender = text.partition(":")
    return forms.split("/"), gender or "m"


@cache
def countries(name: str) -> Sequence[Value]:
    """The countries that rows of a vocabulary are from."""
    every = places(lambda _, english: english)
    return random.Random(name).sample(every, COUNTRIES)  # noqa: S311


@cache
def engine(name: str, version: int) -> Engine:
    """An engine of a vocabulary; the versions declare different words."""
    return Engine(_Rows(name, vocabularies()[name], version))


class _Rows(Dataset):
    """Rows with the names of a vocabulary, and values and links that are drawn."""

    def __init__(self, name: str, said: Vocabulary, version: int) -> None:
        self._said = said
        self._countries = countries(name)
        chance = random.Random(f"{name}{version}")  # noqa: S311
        self.declaration = _Declarer(chance, DECLARED[version]).declaration(said)
        self._values: dict[tuple[str, str, str], Values] = {
            (kind, row, attribute): [self._value(each, chance)]
            for kind, of in said.kinds.items()
            for row in of.names
            for attribute, each in of.attributes.items()
        }
        self._links: dict[tuple[str, str], list[tuple[str, int]]] = {}
        for relation, related in said.relations.items():
            targets = said.kinds[related.ends[1]].names
            for row in said.kinds[related.ends[0]].names:
                others = [target for target in chance.sample(targets, chance.randint(0, 3)) if target != row]
                self._links[relation, row] = [(target, number) for number, target in enumerate(others)]

    def _value(self, attribute: SaidAttribute, chance: random.Random) -> Any:
        if attribute.type == "time":
            return datetime(chance.choice(attribute.years), chance.randint(1, 12), 1, tzinfo=UTC)
        if attribute.type == "flag":
            return chance.random() < 0.5
        if attribute.type == "place":
            return chance.choice(self._countries).gold
        return float(chance.choice(attribute.at)) if attribute.at else chance.choice(list(attribute.values))

    def rows(self, kind: str) -> Sequence[str]:
        return self._said.kinds[kind].names

    def id(self, kind: str, row: str) -> str:
        return row

    def label(self, kind: str, row: str) -> str:
        return row

    def values(self, kind: str, row: str, attribute: str) -> Values:
        return self._values[kind, row, attribute]

    def related(self, relation: str, row: str) -> Iterable[tuple[str, int]]:
        return self._links[relation, row]

    def link_values(self, relation: str, link: int, attribute: str) -> Values:
        said = self._said.relations[relation].link[attribute]
        return (
            [datetime(said.years[link], 1, 1, tzinfo=UTC)]
            if said.time
            else [list(said.values)[link % len(said.values)]]
        )

    def call(
        self, operation: str, rows: Sequence[Sequence[str]], words: Sequence[str], limit: int | None
    ) -> CallResult:
        return CallResult(" ".join(row for side in rows for row in side))

    @property
    def now(self) -> datetime:
        return NOW

    def names(self) -> Iterator[Named]:
        for kind, said in self._said.kinds.items():
            for name in said.names:
                yield Named(name, kind, "id", name)
                if said.person and " " in name:
                    yield Named(name.rpartition(" ")[2], kind, "id", name)
            for name, attribute in said.attributes.items():
                if isinstance(attribute.values, list):
                    yield from (Named(value, kind, name, value) for value in attribute.values)
                if attribute.type == "place":
                    for country in self._countries:
                        words = {
                            text
                            for by_form in country.words.values()
                            for form in ("", "adj", "de")
                            for text in by_form.get(form, ())
                        }
                        yield from (
                            Named(text, kind, name, country.gold, exact=len(text) < 3) for text in sorted(words)
                        )


class _Declarer:
    """Declares a vocabulary as one person would, with some of its words."""

    def __init__(self, chance: random.Random, share: float) -> None:
        self._chance, self._share = chance, share

    def declaration(self, said: Vocabulary) -> Declaration:
        return Declaration(
            kinds=tuple(
                Kind(
                    name=name,
                    nouns=self._nouns(kind),
                    attributes=tuple(self._attribute(each, of) for each, of in kind.attributes.items()),
                    person=kind.person,
                    weight=kind.weight,
                )
                for name, kind in said.kinds.items()
            ),
            relations=tuple(self._relation(name, relation) for name, relation in said.relations.items()),
            operations=tuple(
                Operation(name=name, phrases=each.phrases, rows=each.rows, kind=each.kind)
                for name, each in said.operations.items()
            ),
            unavailable={name: tuple(chain(*texts.values())) for name, texts in said.unavailable.items()},
        )

    def _some(self, texts: Sequence[str]) -> list[str]:
        return [text for place, text in enumerate(texts) if not place or self._chance.random() < self._share]

    def _nouns(self, said: Any) -> tuple[str, ...]:
        """Singular and, as some write it, plural. A regular English plural is known without being declared."""
        nouns: list[str] = []
        for language in LANGUAGES:
            for text in self._some(said.get(language, []) if isinstance(said, dict) else texts_of(said, language)):
                forms, _ = parts_of(text)
                is_regular = language == "en" and forms[0] == f"{forms[1]}s"
                nouns += [forms[-1 if len(forms) == 1 else 1]]
                nouns += [] if is_regular and self._chance.random() > self._share else [forms[0]]
        return tuple(dict.fromkeys(nouns))

    def _verbs(self, said: Any) -> tuple[str, ...]:
        """The plural, with the participles that are irregular and what is said in the singular in other languages."""
        verbs: list[str] = []
        for language in LANGUAGES:
            for text in self._some(said.get(language, []) if isinstance(said, dict) else texts_of(said, language)):
                forms, _ = parts_of(text)
                verbs.append(forms[0])
                if language != "en":
                    verbs += self._some(["", *forms[1:]])[1:]
                else:
                    verbs += [form for form in forms[2:] if form and not form.split()[0].endswith("ed")]
        return tuple(dict.fromkeys(verbs))

    def _relation(self, name: str, said: SaidRelation) -> Relation:
        return Relation(
            name=name,
            source=said.ends[0],
            target=said.ends[1],
            verbs=self._verbs(said),
            inverse_verbs=self._verbs(said.inverse),
            sources=self._nouns(said.sources),
            targets=self._nouns(said.targets),
            transitive=tuple(chain(*said.transitive.values())),
            link=tuple(self._attribute(each, of) for each, of in said.link.items()),
        )

    def _attribute(self, name: str, said: SaidAttribute) -> Attribute:
        leading = [
            text.removesuffix(" {v}") for texts in said.phrase.values() for text in texts if text.endswith(" {v}")
        ]
        values = {value: tuple(said.texts(value)) for value in said.values} if isinstance(said.values, dict) else {}
        adjectives = tuple(text for texts in said.adj.values() for text in texts)
        return Attribute(
            name=name,
            type="time" if said.time else said.type,
            nouns=self._nouns(said),
            values={"true": adjectives} if said.type == "flag" else values,
            most=tuple(self._some(list(chain(*said.most.values())))),
            least=tuple(self._some(list(chain(*said.least.values())))),
            units=said.units,
            prepositions=tuple(self._some(leading)),
            several=said.several,
        )
