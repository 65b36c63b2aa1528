"""Idioms of the grammar in their plain form: "A beats B on customers" is "A has more customers than B".

A rule is a pattern of concepts and kinds of words, and what stands in its place. So each says for all words of a
concept, of all services, what would else need phrases of its own.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tollhouse.questions.frames import COMPARISONS, NUMERIC
from tollhouse.questions.linking import Item, Linked, Linker, Meaning
from tollhouse.questions.spelling import TYPO_COST

# An element is a concept, or NAME, NOUN (what is counted), ROWS (a noun of rows), NUMBER, MORE and so on.
# "?" after it: it may be missing; "*": any number. In a result a number is the place of an element, else it is a
# concept.
_RULES: tuple[tuple[str, tuple[int | str, ...]], ...] = (
    ("and those of", ("and", 2)),
    ("NAME common with NAME", (0, "and", 3, "common")),
    ("NAME common all* NOUN with NAME", (0, "and", 5, "common", 3)),
    ("common NOUN NAME NAME", ("common", 1, "of", 2, "and", 3)),
    ("outnumber NAME PREPOSITION all* how_many? all* NOUN", ("have", "comparative_more", 6, "than", 1)),
    ("MORE any_other ROWS?", ("most",)),
    ("MORE NOUN than any_other ROWS?", ("most", 1)),
    ("with how_many all* NOUN be? COMPARISON? than? NUMBER", ("with", 5, 7, 3)),
    ("AHEAD PREPOSITION? all* how_many? VALUE* NOUN", ("have", "most", 4, 5)),
    ("ORDINAL WITHIN all* how_many? NOUN", (0, "most", 4)),
    ("sort difference all* NOUN", ("order_by", 3)),
)
# So many letters at least have the parts of a German word.
SHORTEST_PART = 4
# What German verbs leave at the end of a clause.
_PREFIXES = frozenset({"ab", "an", "auf", "aus", "bei", "ein", "her", "mit", "vor", "weg", "zu", "zurück", "zusammen"})


def with_plain_forms(linked: Linked, linker: Linker) -> Linked:
    """The text with its idioms in their plain form."""
    items = _with_counted_nouns(_with_joined_verbs(linked, linker))
    for pattern, result in _RULES:
        items = _rewritten(items, pattern.split(), result, linker)
    return replace(linked, items=tuple(_with_pairs(items)))


def _with_counted_nouns(items: Sequence[Item]) -> list[Item]:
    """Say "number of suppliers" for "supplier count"."""
    result: list[Item] = []
    for item in items:
        last = result[-1] if result else None
        if item.text.lower() in {"count", "counts"} and last is not None and last.find("party", "kind"):
            result[-1:] = [_said("number of", "how_many"), last]
        else:
            result.append(item)
    return result


def _with_joined_verbs(linked: Linked, linker: Linker) -> list[Item]:
    """German verbs with their prefix from the end, "hängt ... ab", and French ones without "-elle"."""
    items = list(linked.items)
    if linked.language == "fr":
        at = [
            i
            for i, item in enumerate(items[:-1])
            if item.says("-") and item.glued and items[i + 1].says("it", "filler")
        ]
        return [item for i, item in enumerate(items) if i not in at and i - 1 not in at]
    last = max((i for i, item in enumerate(items) if not item.find("mark")), default=-1)
    if linked.language == "de":
        items = [each for item in items for each in _parts(item, linker)]
        last = max((i for i, item in enumerate(items) if not item.find("mark")), default=-1)
    if linked.language == "de" and last > 0 and items[last].text.lower() in _PREFIXES:
        particle = items[last].text.lower()
        for place, item in enumerate(items[:last]):
            for after in ("", *(f" {each.text}" for each in items[place:last] if each.says("from", "in", "to", "by"))):
                joined = linker.link(particle + item.text.lower() + after).items if item.find("unknown") else ()
                if len(joined) == 1 and joined[0].find("verb", "operation"):
                    return [*items[:place], *joined, *items[place + 1 : last], *items[last + 1 :]]
    return items


def _parts(item: Item, linker: Linker) -> tuple[Item, ...]:
    """The two words that an unknown German word joins: "Speicherlieferanten"."""
    word = item.text
    if not item.find("unknown") or len(word) < 2 * SHORTEST_PART or not word.isalpha():
        return (item,)
    for cut in range(len(word) - SHORTEST_PART, SHORTEST_PART - 1, -1):
        joined = linker.link(f"{word[:cut].removesuffix('s')} {word[cut:]}", language="de").items
        is_known = len(joined) == 2 and joined[0].find("kind", "value") and joined[1].find("kind", "party", "attribute")
        if is_known and joined[0].cost < TYPO_COST:
            return joined
    return (item,)


def _with_pairs(items: Sequence[Item]) -> list[Item]:
    """Say "both" for "the two" without a noun."""
    result: list[Item] = []
    for place, item in enumerate(items):
        following = items[place + 1] if place + 1 < len(items) else None
        is_article = place > 0 and items[place - 1].says("all", "those") and items[place - 1].number is None
        is_pronoun = following is None or following.says("have", "common", "be", "do", "?", "together", "sum", "of")
        is_noun = following is not None and following.find("kind", "party", "attribute", "value", "unit", "extreme")
        result.append(
            _said(item.text, "both") if item.number == 2 and is_article and is_pronoun and not is_noun else item
        )
    return result


def _said(text: str, concept: str) -> Item:
    return Item(text, (Meaning("function", concept),), 0, 0)


def _rewritten(items: list[Item], pattern: list[str], result: Sequence[int | str], linker: Linker) -> list[Item]:
    place = 0
    while place < len(items):
        matched = _match(items, place, pattern, linker)
        if matched is not None:
            groups, end = matched
            words = " ".join(item.text for item in items[place:end])
            new = [
                each for part in result for each in (groups[part] if isinstance(part, int) else [_said(words, part)])
            ]
            items = [*items[:place], *new, *items[end:]]
            place += len(new)
        else:
            place += 1
    return items


def _match(
    items: Sequence[Item], place: int, pattern: Sequence[str], linker: Linker
) -> tuple[list[list[Item]], int] | None:
    """The items of each element of a pattern that begins at a place, and where it ends."""
    groups: list[list[Item]] = []
    for element in pattern:
        name, group = element.rstrip("?*"), list[Item]()
        while place < len(items) and _is(items[place], name, linker) and (element.endswith("*") or not group):
            group.append(items[place])
            place += 1
        if not group and name == element:
            return None
        groups.append(group)
    return groups, place


def _is(item: Item, name: str, linker: Linker) -> bool:
    """Whether an item can stand for an element of a pattern."""
    if name == "NAME" or item.is_name:
        return name == "NAME" and item.is_name
    if name == "NOUN":
        attribute = next((linker.attribute(each) for each in item.meanings if each.role == "attribute"), None)
        return item.find("party", "kind") is not None or (attribute is not None and attribute.type in NUMERIC)
    return _KINDS[name](item) if name in _KINDS else item.says(name)


_KINDS: dict[str, Callable[[Item], bool]] = {
    "ROWS": lambda item: item.find("kind", "party") is not None,
    "NUMBER": lambda item: item.number is not None,
    "COMPARISON": lambda item: item.number is None and item.says(*COMPARISONS) and not item.find("value", "kind"),
    "PREPOSITION": lambda item: item.says("in", "by", "of", "from", "to") and not item.find("value", "kind"),
    "AHEAD": lambda item: item.says("ahead") and not item.says("than"),
    "ORDINAL": lambda item: item.find("ordinal") is not None,
    "WITHIN": lambda item: item.says("in", "by") and not item.says("of", "from"),
    "VALUE": lambda item: item.find("value") is not None and item.find("kind", "party") is None,
    "MORE": lambda item: item.says("comparative_more", "more"),
}
