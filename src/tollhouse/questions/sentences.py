"""Which part of a text is the question: what is said around it changes nothing, but may say what "it" stands for."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tollhouse.questions.frames import NEGATIONS
from tollhouse.questions.linking import Item, Linked, Linker, Meaning, Role

_ENDS = (".", "!", "?", ";", ":")
_ASKS = (
    "how_many", "how_much", "which", "who", "where", "when", "why", "how", "list", "exists", "average", "median",
    "sum", "share", "compare", "difference", "happened", "summary", "timeline", "most", "least",
)  # fmt: skip
_WISHES = ("need", "want", "like", "wish", "wonder", "know", "wondering")
# So many clauses are tried as the question.
MOST_CLAUSES = 16
# Words outside of the question may not be any of these.
_CARRIED: tuple[Role, ...] = ("value", "range", "extreme", "number", "ordinal", "time", "operation", "transitive")
_DASHES = ("-", "\u2013", "\u2014")
_LINKING = ("as", "of", "to", "in", "about")
_OF = Item("of", (Meaning("function", "of"),), 0, 0)
_LINKS: tuple[Role, ...] = (
    *("kind", "attribute", "value", "range", "extreme", "unit", "verb", "party", "operation", "number", "ordinal"),
    *("time", "unavailable", "transitive", "preposition"),
)
# With one of these before it, an unknown word is what the question is about.
_LEADING = ("in", "from", "of", "by", "to", "about", "with", "except", "without", "not", "that")


def focused(linked: Linked) -> Linked:
    """The text without words that are unknown, and stand in sentences and lead-ins that ask nothing.

    "I am writing a piece on X. Who supplies it?" becomes "Who supplies X?". An unknown name is never left out.
    """
    joined = [
        item for place, item in enumerate(linked.items) if not (_is_direct(item) or _is_hyphen(linked.items, place))
    ]
    sentences = _split(_without_preamble(joined), _ENDS)
    with_question = [sentence for sentence in sentences if _asks(sentence)]
    if not with_question:
        return replace(linked, items=tuple(item for sentence in sentences for item in sentence))
    named: Item | None = None
    items: list[Item] = []
    for sentence in sentences:
        if sentence in with_question or not _is_aside(sentence):
            items += _without_asides(sentence, named)
            continue
        named = next((item for item in sentence if item.is_name), named)
    return replace(linked, items=tuple(items))


def _without_preamble(items: Sequence[Item]) -> list[Item]:
    """The text without a clause before the question that says who asks and what for: "I'm writing on X - which …".

    A name in it counts only if the question has none.
    """
    for place in range(1, len(items)):
        starts_wish = items[place].says("i") and items[0].says("as", "of", "to")
        if not (starts_wish or (items[place].says(*_ENDS, ",", *_DASHES) and not items[place].find(*_LINKS))):
            continue
        head, rest = items[:place], list(items[place if starts_wish else place + 1 :])
        if items[place].says(":") and (named := _with_heading(head, rest)):
            return named
        if rest and _leads_in(head, rest, starts_wish=starts_wish):
            rest = _without_preamble(rest)
            if not any(_is_filter(item) for item in rest):
                end = len(rest) - bool(rest[-1].find("mark"))
                names = [item for item in head if _is_filter(item)][-1:]
                rest[end:end] = [each for item in names for each in (_OF, item)]
            return rest
    return list(items)


def _with_heading(head: Sequence[Item], rest: Sequence[Item]) -> list[Item]:
    """The question with the name of its heading in the place of its pronoun; empty if there is none such."""
    names = [item for item in head if item.is_name]
    place = next((place for place, item in enumerate(rest) if item.says("it")), None)
    if len(names) != 1 or place is None or any(item.is_name for item in rest):
        return []
    return [*rest[:place], names[0], *rest[place + 1 :]]


def _leads_in(head: Sequence[Item], rest: Sequence[Item], *, starts_wish: bool) -> bool:
    """Whether a clause before the question holds no question of its own, and the question has all that it needs."""
    asks = any(item.says(*_ASKS) and not item.says("filler", *_LINKING) for item in head)
    if asks or any(item.says(*NEGATIONS) for item in head) or _last_word(head[0]) in _WISHES:
        return False
    unknown = [place for place, item in enumerate(head) if item.find("unknown")]
    is_role = starts_wish and len(head) > 1 and head[0].says("as") and not any(_is_filter(item) for item in head)
    if not (unknown or is_role) or any(item.find("unknown") for item in rest):
        return False
    is_said = head[0].says("i") or starts_wish
    if not is_said and any(item.find(*_LINKS) for item in head):
        return False
    has_value = any(_is_filter(item) for item in rest)
    if any(_may_be_name(head, place) for place in unknown) and not has_value:
        return False
    return any(item.find("kind", "party", "verb", "operation", "attribute") for item in rest)


def with_orders(linked: Linked) -> Linked:
    """The text with each clause of order as one phrase: "when you rank them all by", "sorted according to"."""
    items: list[Item] = []
    for item in linked.items:
        start = _start_of_order(items) if item.says("by", "order_by") else len(items)
        if start < len(items):
            words = " ".join(each.text for each in (*items[start:], item))
            item = Item(words, (Meaning("function", "order_by"),), items[start].start, item.end)  # noqa: PLW2901
            del items[start:]
        items.append(item)
    return replace(linked, items=tuple(items))


def _start_of_order(items: Sequence[Item]) -> int:
    """Where a clause with a verb of order begins that ends here and names no rows: "when you rank everyone"."""
    start = len(items)
    for place in range(len(items) - 1, max(len(items) - 8, -1), -1):
        item = items[place]
        if item.says("sort"):
            start = place
        elif item.says("when", "if") and start < len(items):
            return place
        elif item.find(*_LINKS) or not item.says("filler", "all", "be", "those", "anyone"):
            break
    return start


def questions_within(linked: Linked) -> Iterator[tuple[Linked, tuple[str, ...]]]:
    """The clauses of a text that may be its question, longest first, each with the words around it.

    What stands around it must say nothing of the data: no name, number, time, order or denial, and no verb or noun of
    it unless the one who asks speaks of themselves. "My editor wants to know who supplies AMD, cheers".
    """
    items = linked.items
    marks = {place for place, item in enumerate(items) if item.says(*_ENDS, ",", *_DASHES) and not item.find(*_LINKS)}
    starts = {0, *(place + 1 for place in marks)}
    starts |= {place for place, item in enumerate(items) if item.says(*_ASKS) and not item.says("most", "least")}
    spans = [(start, end) for start in starts for end in (*marks, len(items)) if start < end]
    for start, end in sorted(spans, key=lambda span: (span[0] - span[1], span[0]))[:MOST_CLAUSES]:
        outside = (items[:start], items[end:])
        said = [item for part in outside for item in part if not item.find("mark")]
        is_known = not any(item.find("unknown", "unavailable") for item in items[start:end])
        if said and is_known and all(map(_says_nothing, outside)):
            yield replace(linked, items=items[start:end]), tuple(item.text for item in said)


def _says_nothing(items: Sequence[Item]) -> bool:
    """Whether words around a question cannot change its answer."""
    if any(item.find(*_CARRIED) or item.says(*NEGATIONS) for item in items):
        return False
    if any(_may_be_name(items, place) for place, item in enumerate(items) if item.find("unknown")):
        return False
    for place, item in enumerate(items):
        # "My boss", "I am a journalist": what the data does not have may say who asks.
        before = next((each for each in reversed(items[:place]) if not each.says("all", "be")), None)
        is_lacking = item.find("unavailable") is not None and not item.says("filler")
        if is_lacking and (before is None or not before.says("i")):
            return False
    has_words = any(item.find("kind", "party", "verb", "attribute") for item in items)
    return any(item.says("i") for item in items) or not has_words


def _is_direct(item: Item) -> bool:
    """Relations are direct where nothing else is said."""
    return item.says("direct") and item.find(*_LINKS) is None


def _is_hyphen(items: Sequence[Item], place: int) -> bool:
    """Whether a mark joins two words, as in "second-highest", and not two numbers."""
    beside = items[place - 1 : place + 2 : 2]
    is_between = place > 0 and len(beside) == 2 and all(item.number is None or item.find("ordinal") for item in beside)
    return items[place].says("-") and items[place].glued and is_between


def _split(items: Sequence[Item], marks: Sequence[str]) -> list[list[Item]]:
    parts: list[list[Item]] = [[]]
    for item in items:
        parts[-1].append(item)
        if item.says(*marks) and not item.find(*_LINKS):
            parts.append([])
    return [part for part in parts if part]


def _asks(sentence: Sequence[Item]) -> bool:
    return sentence[-1].says("?") or any(item.says(*_ASKS) and not item.says("filler") for item in sentence)


def _is_aside(sentence: Sequence[Item]) -> bool:
    """A statement of the one who asks, or one that nothing here understands."""
    if sentence[-1].says(":") and sum(item.find("value") is not None for item in sentence) > 1:
        return False  # "France or Spain: which has more?"
    unknown = [place for place, item in enumerate(sentence) if item.find("unknown")]
    if any(_may_be_name(sentence, place) for place in unknown):
        return False
    if any(item.find("time") for item in sentence) and any(item.is_name for item in sentence):
        return False  # "X signed something in September. With whom?"
    return bool(unknown) or any(item.says("i") for item in sentence)


def _may_be_name(sentence: Sequence[Item], place: int) -> bool:
    """Whether an unknown word may be the name of something: with a capital, or after a preposition."""
    before = sentence[place - 1] if place else None
    return (place > 0 and sentence[place].text[:1].isupper()) or (before is not None and before.says(*_LEADING))


def _is_filter(item: Item) -> bool:
    """Whether rows have the phrase as a value, which their relations may have as well."""
    return any(meaning.role == "value" and not meaning.relation for meaning in item.meanings)


def _without_asides(sentence: list[Item], named: Item | None) -> list[Item]:
    """The sentence without a lead-in such as "strictly speaking,", and with the name in the place of its pronoun."""
    clauses = _split(sentence, (",",))
    while len(clauses) > 1 and not any(item.find(*_LINKS) for item in clauses[0]) and _is_aside(clauses[0]):
        del clauses[0]
    sentence = [item for clause in clauses for item in clause]
    if named is None or any(item.is_name for item in sentence):
        return sentence
    place = next((place for place, item in enumerate(sentence) if item.says("it")), None)
    return sentence if place is None else [*sentence[:place], named, *sentence[place + 1 :]]


def _last_word(item: Item) -> str:
    return item.text.lower().rpartition(" ")[2]


def with_quoted_words(linked: Linked, linker: Linker) -> Linked:
    """The text with words that an attribute's text must have as a value of it: "with X in the title"."""
    items = linked.items
    for last, item in enumerate(items):
        texts = [each for each in item.meanings if each.role == "attribute" and _is_text(linker, each)]
        end = _end_of_topic(items, last + 2) if texts and last + 2 < len(items) and items[last + 1].says("about") else 0
        if end:
            words = " ".join(each.text for each in items[last + 2 : end])
            quoted = _quoted(texts, words, item, items[end - 1])
            return replace(linked, items=(*items[:last], quoted, *items[end:]))
        place = last - 1
        while texts and place > 0 and items[place].says("all", "those", "possessive") and not items[place].says("in"):
            place -= 1
        if not texts or place < 2 or not items[place].says("in"):
            continue
        first = next(
            (at for at in range(place - 1, max(place - 4, 0), -1) if items[at].says("with", "have", "about")), None
        )
        if first is None or first + 1 == place:
            continue
        words = " ".join(each.text for each in items[first + 1 : place])
        quoted = _quoted(texts, words, items[first], item)
        return replace(linked, items=(*items[:first], quoted, *items[last + 1 :]))
    return linked


def _end_of_topic(items: Sequence[Item], start: int) -> int:
    """Where the words end that a text is about, if they are nothing but unknown words and names; 0 if not."""
    end = start
    while end < len(items) and (items[end].find("unknown") or items[end].find("value")):
        end += 1
    return end if end > start and (end == len(items) or items[end].find("mark")) else 0


def _quoted(texts: Sequence[Meaning], words: str, first: Item, last: Item) -> Item:
    """Words as the value of the texts of attributes."""
    return Item(words, tuple(Meaning("value", each.name, each.kind, words) for each in texts), first.start, last.end)


def _is_text(linker: Linker, meaning: Meaning) -> bool:
    attribute = linker.attribute(meaning)
    return attribute is not None and attribute.type == "text"


def without_ellipsis(linked: Linked) -> tuple[Linked, list[Item]]:
    """The text without clauses that leave out their verb, and the names in them, which are excluded.

    As in "suppliers of A that B does not (have)", "A's suppliers minus B's", "sells to A but does not to B".
    """
    items = list(linked.items)
    names: list[Item] = []
    for place in range(len(items) - 1, 1, -1):
        if place >= len(items) or not items[place].is_name or not any(item.is_name for item in items[:place]):
            continue
        end = _end_of_clause(items, place)
        start = None if end is None else _start_of_ellipsis(items, place, items[place + 1 : end])
        if start is not None and end is not None:
            names.append(items[place])
            items = items[:start] + items[end:]
    return replace(linked, items=tuple(items)), names


def _end_of_clause(items: Sequence[Item], place: int) -> int | None:
    """Where a clause ends that has only auxiliary verbs after its name; None where it says more."""
    end = place + 1
    while end < len(items) and not items[end].says("?", ".", "!", ",", "and", "but"):
        item = items[end]
        is_short = item.says("do", "have", "be", "not", "'", "filler", "also") or item.text.lower() in {"s", "use"}
        if not is_short or item.find("value", "kind", "attribute", "number", "time"):
            return None
        end += 1
    return end


def _start_of_ellipsis(items: Sequence[Item], place: int, after: Sequence[Item]) -> int | None:
    """Where a clause without its own verb begins, if the name at a place stands in one that is denied."""
    start = place - 1
    denied = any(item.says("not") for item in after) and any(item.says("do", "have", "be") for item in after)
    if denied:
        joined = items[start].says("that", "and", "but", ",", "which")
        return _before_marks(items, start) if joined else None
    is_owner = any(item.says("'") for item in after)
    is_verbless = False
    while start > 0 and (items[start].says("those", "of", "to", "from", "do", "filler") or items[start].text == "that"):
        is_verbless = is_verbless or items[start].says("those", "do")
        start -= 1
    short = is_owner or is_verbless
    if not short or not items[start].says("not", "without", "except") or items[start].find("value"):
        return None
    while start > 0 and items[start - 1].says("do", "but", "and", ",", "also"):
        start -= 1
    return start


def _before_marks(items: Sequence[Item], start: int) -> int:
    while start > 0 and items[start - 1].says(",", "and", "but"):
        start -= 1
    return start
