"""When a country's name stands for its government: it acts, or something of it is spoken of, rather than contains."""

from collections.abc import Sequence

from tollhouse.services.defense.entities.gazetteers import Known
from tollhouse.services.defense.entities.lexicon import CLOSERS, DETERMINERS, PLACE_PREPOSITIONS, PREPOSITIONS
from tollhouse.services.defense.entities.mention import Span

_ACTORS = frozenset(["by", "with", "between", "against", "for", "as", "that", "notably", "ally", "allies"])
_VERBS = frozenset(
    [
        "is",
        "has",
        "will",
        "would",
        "can",
        "could",
        "should",
        "must",
        "was",
        "were",
        "are",
        "have",
        "had",
        "did",
        "does",
        "do",
        "may",
        "said",
        "says",
        "also",
        "not",
    ]
)
_LINKS = frozenset((",", "and", "or", "the"))


def as_governments(lowers: Sequence[str], names: Sequence[Span], known: Sequence[Known]) -> list[Span]:
    """The names, countries among them as organisations where they act; in a list all are what the first one is."""
    countries = {(found.start, found.end) for found in known if found.label == "country"}
    judged: list[Span] = []
    for name in names:
        if name.type != "location" or (name.start, name.end) not in countries:
            judged.append(name)
            continue
        before = judged[-1] if judged else None
        listed = before and before.end < name.start and _LINKS.issuperset(lowers[before.end : name.start])
        if before and listed and (before.start, before.end) in countries:
            judged.append(Span(name.start, name.end, before.type))
        else:
            judged.append(Span(name.start, name.end, "organization") if _acts(lowers, name) else name)
    return judged


def _acts(lowers: Sequence[str], name: Span) -> bool:
    if name.end == len(lowers) and name.start == 0:
        return False
    first = name.start - (name.start > 0 and lowers[name.start - 1] == "the")
    before = lowers[first - 1] if first else ""
    if before in PLACE_PREPOSITIONS:
        return False
    after = lowers[name.end] if name.end < len(lowers) else "."
    if before in _ACTORS or not before or after in _VERBS or after in ("'", "\u2019", "'s", "\u2019s"):
        return True
    return after[0].isalpha() and after not in PREPOSITIONS and after not in CLOSERS and after not in DETERMINERS
