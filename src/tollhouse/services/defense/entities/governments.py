"""Whether a country's name means its government, which acts, or the place: "Iran warns Israel", "floods in Iran"."""

from collections.abc import Sequence

from tollhouse.services.defense.entities import lexicon

# After these the country is a party: "war with Ukraine", "sanctions against Russia", "talks between Iran and Iraq".
_AGENTS = frozenset(["by", "with", "between", "against"])
_BORDERS = frozenset(["border", "borders", "frontier", "bordering", "shared"])
_SAYS = frozenset(["says", "said", "will", "would", "should", "must", "may", "can", "could", "wants", "has", "had"])
_LONGEST_SMALL = 4
_LED = frozenset(["led", "backed", "brokered", "aligned", "allied", "sponsored", "funded"])
_HYPHENS = frozenset("-\u2010\u2011\u2013")
_OBJECT_STARTS = lexicon.DETERMINERS | lexicon.QUANTIFIERS | {"to", "that", "it", "new", "more"}


def acts(words: Sequence[str], lowers: Sequence[str], start: int, end: int) -> bool:
    """Whether the country in words `start` to `end` is a subject that says or does something, or a party."""
    first = start - (start > 0 and lowers[start - 1] == "the")
    before = lowers[first - 1] if first else ""
    if before in _AGENTS:
        return not (first > 1 and lowers[first - 2] in _BORDERS)
    if before in lexicon.PREPOSITIONS or before in lexicon.PLACE_PREPOSITIONS:
        return False
    if before and _base(before, lexicon.ADDRESSES):
        return True
    after = lowers[end] if end < len(words) else ""
    if after in _HYPHENS:
        return end + 1 < len(words) and lowers[end + 1] in _LED
    # The other subject decides where two act: "Russia and Iran agree".
    if after in ("and", "&") and end + 2 < len(words) and words[end + 1][0].isupper():
        return _is_verb(words, lowers, end + 2, plural=True)
    return _is_verb(words, lowers, end, plural=before in ("and", "&", ","))


def _is_verb(words: Sequence[str], lowers: Sequence[str], position: int, *, plural: bool) -> bool:
    """Whether the word at `position` is the verb of a subject before it, also after an adverb."""
    if position < len(words) and lowers[position].endswith("ly"):
        position += 1
    # A capital begins another name, unless the headline raises all words.
    is_raised = position < len(words) and not words[position].islower()
    if position >= len(words) or (is_raised and any(w.islower() and len(w) > _LONGEST_SMALL for w in words)):
        return False
    lower = lowers[position]
    if lower in _SAYS or lower in lexicon.PASTS:
        return True
    after = words[position + 1] if position + 1 < len(words) else ""
    if lower == "to":
        return after.lower() in lexicon.VERBS
    base = lower if plural and lower in lexicon.VERBS else _base(lower, lexicon.VERBS)
    # What may be a plural noun too needs an object: "strikes targets", but "Iran protests spread".
    is_noun = lower.endswith("s") and base in lexicon.MODIFIERS
    has_object = after[:1].isupper() or after[:1].isdigit() or after.lower() in _OBJECT_STARTS
    return base is not None and (has_object or not is_noun)


def _base(lower: str, verbs: frozenset[str]) -> str | None:
    """The verb of a form that ends in s or ed."""
    for ending, instead in (("ies", "y"), ("es", ""), ("s", ""), ("ied", "y"), ("ed", ""), ("d", "")):
        base = lower.removesuffix(ending) + instead
        if lower.endswith(ending) and base in verbs:
            return base
    return None
