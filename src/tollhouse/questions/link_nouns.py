"""Decides whether a word names links as rows of their own ("investments"), or what its relation leads to."""

from msgspec.structs import replace

from tollhouse.questions.linking import Item, Linked, Linker, Meaning, Role
from tollhouse.questions.vocabulary import Kind

_OTHERS: tuple[Role, ...] = ("party", "operation", "verb", "stranded")


def with_link_nouns(linked: Linked, linker: Linker) -> Linked:
    """The items, each noun of links that is a relation noun or an operation as well with only what it is here."""
    kinds = {kind.name: kind for kind in linker.declaration.kinds if kind.links}
    if not kinds:
        return linked
    items = list(linked.items)
    for place, item in enumerate(items):
        noun = next((each for each in item.meanings if each.role == "kind" and each.name in kinds), None)
        if noun is None or not item.find(*_OTHERS):
            continue
        others = [*linked.items[:place], *linked.items[place + 1 :]]
        is_row = _names_links(item, others, kinds[noun.name], linker)
        remaining = (each for each in item.meanings if (each.role not in _OTHERS if is_row else each != noun))
        items[place] = replace(item, meanings=tuple(remaining))
    linked = replace(linked, items=tuple(items))
    if _has_link_noun(linked, linker):
        linked = replace(linked, items=tuple(_without_operation(item, items, linker) for item in items))
    return linked


def _has_link_noun(linked: Linked, linker: Linker) -> bool:
    """Whether a text has a noun of links."""
    kinds = {kind.name for kind in linker.declaration.kinds if kind.links}
    return any(each.role == "kind" and each.name in kinds for item in linked.items for each in item.meanings)


def _without_operation(item: Item, items: list[Item], linker: Linker) -> Item:
    """A phrase as it is beside a noun of links: no operation where the rows that this needs are not named."""
    operation = item.find("operation")
    if operation is None or sum(each.is_name for each in items) >= linker.operations[operation.name].rows[0]:
        return item
    remaining = tuple(each for each in item.meanings if each.role != "operation")
    return replace(item, meanings=remaining or item.meanings)


def _names_links(item: Item, others: list[Item], kind: Kind, linker: Linker) -> bool:
    operation = item.find("operation")
    if operation is not None:
        # An operation needs its rows.
        named = sum(each.is_name for each in others)
        return named < linker.operations[operation.name].rows[0] or any(_is_said_of(each, kind) for each in others)
    if any(each.find("attribute") and _is_said_of(each, kind) for each in others):
        return True
    return not any(_is_of_rows(meaning, kind) for each in others for meaning in each.meanings)


def _is_said_of(item: Item, kind: Kind) -> bool:
    """Whether a phrase can only be said of the links."""
    meanings = [each for each in item.meanings if each.role in {"attribute", "value", "range", "time"}]
    has_time = any(attribute.type == "time" for attribute in kind.attributes)
    return bool(meanings) and all(
        has_time if each.role == "time" else each.kind == kind.name or each.relation in kind.links for each in meanings
    )


def _is_of_rows(meaning: Meaning, kind: Kind) -> bool:
    """Whether a meaning is of rows that the links lead to."""
    of = meaning.name if meaning.role == "kind" else meaning.kind
    if meaning.role == "verb":
        return meaning.relation in kind.links
    return meaning.role in {"kind", "value", "party", "extreme"} and of not in {"", kind.name}
