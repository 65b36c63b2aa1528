"""The words of shoppers: the declaration of the questions' engine, and the names that occur in the catalogue."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import chain

import msgspec
from msgspec.structs import replace

from tollhouse.questions.vocabulary import Declaration, Named
from tollhouse.services.mattress.attributes.lexicon import words

PRODUCT = "product"
EVERY_POSITION = "all positions"
_TRIAL_TAG = re.compile(r"(\d{1,4})[ -]nights? trial", re.IGNORECASE)
# Words at the ends of shops' names that people leave out.
_SHOP_ENDS = re.compile(r"^the\s+|\s+(?:co|pty|ltd|inc)\.?$", re.IGNORECASE)


@cache
def declaration() -> Declaration:
    """The vocabulary file, with the labels and levels of sellers added."""
    text = files(__package__).joinpath("vocabulary.toml").read_bytes()
    declared = msgspec.toml.decode(text, type=Declaration)
    (kind,) = declared.kinds
    added = _sellers_words()
    levels = {word: level.range for level in words().firmness.levels for word in level.words}
    attributes = tuple(
        replace(each, values=_joined(each.values, added.get(each.name, {})))
        if each.name != "firmness"
        else replace(each, ranges={**levels, **each.ranges})
        for each in kind.attributes
    )
    return replace(declared, kinds=(replace(kind, attributes=attributes),))


def _sellers_words() -> dict[str, dict[str, tuple[str, ...]]]:
    """The labels of sizes, materials and positions with the words for them, without abbreviations."""
    known = words()
    shortest = known.size.abbreviation
    sizes = {
        size.label: tuple(word for word in size.words if len(word) > shortest and "/" not in word)
        for size in known.size.labels
    }
    positions = {label.label: label.words for label in known.sleep_positions.labels}
    positions[EVERY_POSITION] = known.sleep_positions.all_of
    return {
        "size": sizes,
        "material": {label.label: _plain(label.words) for label in known.material.labels},
        "sleep_position": {label: _plain(said) for label, said in positions.items()},
    }


def _plain(phrases: Iterable[str]) -> tuple[str, ...]:
    """Phrases without the stars that stand for endings: the linker inflects words itself."""
    return tuple(phrase.replace("*", "") for phrase in phrases)


def _joined(values: Mapping[str, tuple[str, ...]], more: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {value: (*values.get(value, ()), *more.get(value, ())) for value in dict.fromkeys((*values, *more))}


def trial_nights(tags: Iterable[str]) -> dict[str, int]:
    """The tags that state a trial, with its nights."""
    return {tag: int(match[1]) for tag in tags if (match := _TRIAL_TAG.fullmatch(tag))}


def names_of(brands: Iterable[str], retailers: Mapping[str, str], models: Iterable[str]) -> Iterator[Named]:
    """The names of brands, of retailers, by id, and of models, of which each has one name."""
    for brand in sorted(brands):
        yield from _named(brand, "brand", brand)
    for identity, name in sorted(retailers.items()):
        yield from _named(name, "retailer", identity)
        short = _SHOP_ENDS.sub("", _SHOP_ENDS.sub("", name))
        if short != name:
            yield from _named(short, "retailer", identity)
    for model in sorted(models):
        yield Named(model, PRODUCT, "model", model)


def model_words(title: str, brand: str) -> tuple[str, ...]:
    """The words of a product's title that are no part of its brand and of no attribute."""
    known, own = _known_words(), {part.casefold() for part in brand.split()}
    words = dict.fromkeys(re.findall(r"[^\W\d_]{3,}", title))
    return tuple(word for word in words if word.casefold() not in known and word.casefold() not in own)


@cache
def _known_words() -> frozenset[str]:
    (kind,) = declaration().kinds
    phrases = [*kind.nouns]
    for each in kind.attributes:
        phrases += (*each.values, *each.ranges, *each.nouns, *chain.from_iterable(each.values.values()))
    return frozenset(part for phrase in phrases for part in phrase.casefold().split())


def _named(text: str, name: str, value: str) -> Iterator[Named]:
    yield Named(text, PRODUCT, name, value)
    if "&" in text:
        yield Named(text.replace("&", "and"), PRODUCT, name, value)
        yield Named(text.replace("&", " "), PRODUCT, name, value)
