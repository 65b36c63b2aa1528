"""The words by which a service declares what queries are made of; the parser compares them with those of questions."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tollhouse.questions.query import Scalar, Test
from tollhouse.questions.vocabulary import Attribute, Declaration, Kind, Relation

# So many of the words of something declared describe it.
MOST_NOUNS = 4
# An attribute with more values than these has none that is meant without its words.
MOST_VALUES = 20

# A part of a query: its type, and what it is there.
Part: TypeAlias = tuple[str, Any]
# The texts that name each value of an attribute, by its kind and name.
ValueTexts: TypeAlias = Mapping[tuple[str, str], Mapping[Scalar, Sequence[str]]]


def declared_words(declaration: Declaration, texts: ValueTexts) -> dict[Part, str]:
    """The first words of everything declared, and of the values of attributes that have few.

    Kinds, attributes and operations are parts by their names, relations by their name and whether rows are their
    sources, values by their test.
    """
    words: dict[Part, list[str]] = defaultdict(list)
    for kind in declaration.kinds:
        for part, said in _of_kind(kind, texts):
            words[part] += said
    for relation in declaration.relations:
        for part, said in _of_relation(relation):
            words[part] += said
    for operation in declaration.operations:
        words["operation", operation.name] += operation.phrases[: 2 * MOST_NOUNS]
    return {
        part: " ".join((*said, part[1].replace("_", " ")) if isinstance(part[1], str) else said)
        for part, said in words.items()
    }


def _of_kind(kind: Kind, texts: ValueTexts) -> Iterator[tuple[Part, Sequence[str]]]:
    yield ("kind", kind.name), kind.nouns[:MOST_NOUNS]
    if kind.weight:
        yield ("attribute", kind.weight), ()
    for attribute in kind.attributes:
        yield (
            ("attribute", attribute.name),
            (*attribute.nouns[:MOST_NOUNS], *attribute.most[:2], *attribute.least[:2]),
        )
        if attribute.several:
            yield ("attribute", f"{attribute.name}.values"), ("number", *attribute.nouns[:2])
        for test, said in _of_values(attribute, texts.get((kind.name, attribute.name), {})):
            yield ("condition", test), said
            if kind.links:
                yield ("link", test), said


def _of_values(attribute: Attribute, texts: Mapping[Scalar, Sequence[str]]) -> Iterator[tuple[Test, Sequence[str]]]:
    """Each value that is declared or that few share, and that a flag holds or not; places are always named."""
    if attribute.type == "place":
        return
    if attribute.type == "flag":
        nouns = attribute.nouns or attribute.values.get("true", ())
        for holds in (True, False):
            yield Test(attribute.name, "is", (holds,)), nouns[:MOST_NOUNS]
    elif len(attribute.values) <= MOST_VALUES:
        for value, phrases in attribute.values.items():
            yield Test(attribute.name, "is", (value,)), (value, *phrases[:MOST_NOUNS])
    if attribute.type == "keyword" and len(texts) <= MOST_VALUES:
        for named, said in texts.items():
            yield Test(attribute.name, "is", (named,)), said[:2]


def _of_relation(relation: Relation) -> Iterator[tuple[Part, Sequence[str]]]:
    yield ("relation", (relation.name, True)), (*relation.verbs[:MOST_NOUNS], *relation.sources[:2])
    yield ("relation", (relation.name, False)), (*relation.inverse_verbs[:MOST_NOUNS], *relation.targets[:2])
    yield ("attribute", f"{relation.name}.out"), ("number", *relation.targets[:2])
    yield ("attribute", f"{relation.name}.in"), ("number", *relation.sources[:2])
    for attribute in relation.link:
        for value, phrases in attribute.values.items():
            yield ("link", Test(attribute.name, "is", (value,))), (value, *phrases[:MOST_NOUNS])
