"""What the parser reads of a question: hashed features of its items and leaves, and a vector of each item's words."""

from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.questions.leaves import IMPLIED, Leaf, is_ordered, leaves_before, leaves_of
from tollhouse.questions.linking import Item, Linked, Linker, Meaning
from tollhouse.questions.normalise import fold
from tollhouse.questions.query import Condition, Not, Query, Related, Test

FEATURES = 4096
"""Buckets of hashed features."""

MOST_ITEMS = 64
_EXACT_NUMBERS = 3
_DESCRIBED = frozenset({"kind", "attribute", "relation", "operation", "condition", "link"})


class ParserInput(Struct, frozen=True):
    """A question for the parser: features of each item, the item's words, and features of each leaf.

    Leaves of the query before have items of their own, after those of the question. `leaf_words` are those of what
    the service declares, empty for other leaves. `ordered` are the attributes whose values have an order.
    """

    leaves: tuple[Leaf, ...]
    features: tuple[tuple[int, ...], ...]
    words: tuple[str, ...]
    leaf_features: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    leaf_words: tuple[str, ...]
    ordered: frozenset[int]


def parser_input(linked: Linked, linker: Linker, before: Query | None, *, is_named: bool | None = None) -> ParserInput:
    """What the parser reads of a linked question after the query before.

    `is_named`: features have the names of what the service declares. The parser knows those of services that it has
    learned from; to others, types stand for them.
    """
    named = linker.declaration.is_learned if is_named is None else is_named
    items = linked.items[:MOST_ITEMS]
    leaves = leaves_of(items, linker)
    features = [_of_item(item, linked.language, None if named else linker) for item in items]
    words = [item.text for item in items]
    shapes = [letters(item.text) for item in items]
    if before is not None:
        features.append((_hash(f"before:{type(before).__name__}"),))
        words.append("")
        shapes.append(())
    for said, leaf in leaves_before(before):
        leaves.append(replace(leaf, item=len(features)))
        features.append((_hash("before"), *(_hash(f"before:{name}") for name in _leaf_names(leaf, named))))
        words.append(said)
        shapes.append(())
    leaf_features = tuple(_of_leaf(leaf, named) for leaf in leaves)
    leaf_words = tuple(_described(leaf, linker) for leaf in leaves)
    ordered = frozenset(place for place, leaf in enumerate(leaves) if is_ordered(leaf, linker))
    return ParserInput(tuple(leaves), tuple(features), tuple(words), leaf_features, tuple(shapes), leaf_words, ordered)


def _described(leaf: Leaf, linker: Linker) -> str:
    value = replace(leaf.value, words="") if isinstance(leaf.value, Test) else leaf.value
    return linker.described.get((leaf.type, value), "") if leaf.type in _DESCRIBED else ""


@lru_cache(maxsize=5_000)
def _of_leaf(leaf: Leaf, named: bool) -> tuple[int, ...]:  # noqa: FBT001 - called by position
    return tuple(_hash(name) for name in _leaf_names(leaf, named))


@lru_cache(maxsize=20_000)
def _hash(name: str) -> int:
    return crc32(name.encode()) % FEATURES


@lru_cache(maxsize=20_000)
def letters(text: str) -> tuple[int, ...]:
    """The groups of three letters of the words."""
    padded = f" {fold(text)} "
    return tuple(_hash(f"letters:{padded[at : at + 3]}") for at in range(len(padded) - 2))


# The features of a name or a value of the data, and of a word that is not known.
VALUE, UNKNOWN = _hash("value"), _hash("unknown")


def _of_item(item: Item, language: str, unnamed: Linker | None) -> tuple[int, ...]:
    """With a linker, which knows the types, the names of what it declares are left out."""
    names = [name for meaning in item.meanings for name in _of_meaning(meaning, unnamed)]
    names.append(f"language:{language}")
    if item.text[:1].isupper():
        names.append("capital")
    return tuple(_hash(name) for name in dict.fromkeys(names))


def _of_meaning(meaning: Meaning, unnamed: Linker | None) -> tuple[str, ...]:  # noqa: PLR0911
    role, name = meaning.role, meaning.name
    if role in ("function", "mark"):
        return (f"{role}:{name}",)
    if role == "unknown":
        return (role,)
    if role == "number":
        value = float(meaning.value)
        size = (
            f"{value:g}" if value <= _EXACT_NUMBERS else "year" if 1900 < value < 2100 else f"e{len(str(int(value)))}"
        )
        return role, f"number:{size}"
    if role == "time":
        return role, f"time:{bool(meaning.value.since)}:{bool(meaning.value.until)}"
    if role in ("verb", "party", "stranded"):
        names = [] if unnamed else [f"relation:{meaning.relation}", f"{role}:{meaning.relation}"]
        return role, f"{role}:{bool(meaning.value)}", *names
    if role == "extreme":
        return (
            role,
            f"extreme:{bool(meaning.value)}",
            *(_typed(meaning, unnamed) if unnamed else (f"attribute:{name}",)),
        )
    if role == "kind":
        return role, *(() if unnamed else (f"kind:{name}",)), *(("implies",) if meaning.value else ())
    named = _typed(meaning, unnamed) if unnamed else (f"{role}:{name}",)
    return role, *named, *((f"{role}:link",) if meaning.relation else ())


def _typed(meaning: Meaning, linker: Linker) -> tuple[str, ...]:
    """In the place of an attribute's name, its type."""
    attribute = linker.attribute(meaning)
    return (f"type:{attribute.type}",) if attribute is not None else ()


def _leaf_names(leaf: Leaf, named: bool) -> list[str]:  # noqa: FBT001 - called by position
    names = [f"leaf:{leaf.type}", f"leaf:{leaf.type}:{leaf.hint}"]
    if leaf.item == IMPLIED:
        names.append("implied")
    value = leaf.value
    if leaf.type in ("kind", "operation", "attribute"):
        names += [f"leaf:{leaf.type}={value}"] if named else []
    elif leaf.type == "relation":
        names.append(f"leaf:outgoing={value[1]}")
        names += [f"leaf:relation={value[0]}", f"leaf:relation={value}"] if named else []
    elif leaf.type == "number":
        names.append(f"leaf:number={value:g}" if abs(value) <= _EXACT_NUMBERS else "leaf:large")
    elif leaf.type == "order":
        names += [f"leaf:by={value.by}"] if named else []
        names.append(f"leaf:descending={value.descending}")
    elif leaf.type in ("condition", "link"):
        names += _of_condition(value, named)
    return names


def _of_condition(condition: Condition, named: bool) -> list[str]:  # noqa: FBT001 - called by position
    if isinstance(condition, Test):
        about = [f"tests:{condition.attribute}"] if named else []
        flags = [f"flag:{value}" for value in condition.values if isinstance(value, bool)]
        return [*about, f"compares:{condition.comparison}", f"values:{len(condition.values) > 1}", *flags]
    if isinstance(condition, Related):
        return ["related", *([f"related:{condition.relation}:{condition.outgoing}"] if named else [])]
    if isinstance(condition, Not):
        return ["negated", *_of_condition(condition.of, named)]
    parts: Sequence[Condition] = getattr(condition, "of", ())
    return [type(condition).__name__, *(name for part in parts[:2] for name in _of_condition(part, named))]
