"""What the tagger sees of each word: its letters, what we know of it beforehand, and the same of its neighbours."""

from collections.abc import Sequence
from functools import lru_cache
from sys import intern

from tollhouse.services.defense.entities import lexicon as known_words
from tollhouse.services.defense.entities.gazetteers import Known

# Which of our word lists holds a word, by a letter each; a word may be in several ("General", "Defense").
_LISTS = (
    ("d", known_words.DEMONYMS),
    ("e", known_words.PEOPLES),
    ("t", known_words.TITLES),
    ("g", known_words.GIVEN),
    ("s", known_words.SURNAMES),
    ("o", known_words.ORGANIZATION_HEADS),
    ("l", known_words.LOCATION_HEADS),
    ("v", known_words.EVENT_HEADS),
    ("m", known_words.CALENDAR),
)
_LOWER_LISTS = (
    ("D", known_words.DETERMINERS),
    ("I", known_words.PREPOSITIONS),
    ("C", known_words.CLOSERS),
    ("J", known_words.ADJECTIVES),
)
_EDGE = ("<>", "<>", "<>", "<>")


def features(words: Sequence[str], known: Sequence[Known]) -> list[list[str]]:
    """A list of features per word. `known` are the known names among the words."""
    case = _case(words)
    labels = _labels(len(words), known)
    seen = [_look(word, case) for word in words]
    padded = [_EDGE, _EDGE, *seen, _EDGE, _EDGE]
    near = ["", *labels, ""]
    return [_features(padded, near, position) for position in range(len(words))]


def _features(seen: Sequence[tuple[str, str, str, str]], labels: Sequence[str], position: int) -> list[str]:
    before2, (word0, shape0, _, class0), (word, shape, ending, class_), (word2, shape2, _, class2), after2 = seen[
        position : position + 5
    ]
    label0, label, label2 = labels[position : position + 3]
    return [
        "w" + word,
        "s" + shape,
        "e" + ending,
        "c" + class_,
        "k" + label,
        "-w" + word0,
        "-s" + shape0,
        "-c" + class0,
        "-k" + label0,
        "+w" + word2,
        "+s" + shape2,
        "+c" + class2,
        "+k" + label2,
        "=c" + before2[3],
        "#c" + after2[3],
        "<" + class0 + "|" + class_ + label + shape,
        ">" + class_ + label + shape + "|" + class2,
        "*" + class0 + "|" + shape + "|" + class2,
    ]


def _case(words: Sequence[str]) -> str:
    """How a sentence is written: all in capitals, with most words capitalised as in headlines, or as usual."""
    letters = [word for word in words if len(word) > 3 and word[0].isalpha()]
    if len(letters) > 2 and all(word.isupper() for word in letters):
        return "capitals"
    raised = sum(word[0].isupper() for word in letters)
    return "headline" if len(letters) > 3 and raised > 0.8 * len(letters) else ""


@lru_cache(maxsize=32768)
def _look(word: str, case: str) -> tuple[str, str, str, str]:
    """A word in lower case, its shape, its ending, and the lists that hold it."""
    lower = word.lower()
    plain = word.capitalize() if case == "capitals" else word
    return lower, intern(case[:1] + _shape(plain)), intern(lower[-3:]), _class(plain, lower)


def _shape(word: str) -> str:
    if word.isalpha():
        if word.islower():
            return "x"
        if word.isupper():
            return "X" if len(word) == 1 else "XX" if len(word) < 6 else "XXX"
        return "Xx" if word[0].isupper() else "xX"
    if word[0].isdigit():
        return "9" if word[-1].isdigit() else "9x"
    if "." in word and word[0].isalpha():
        return "X."
    return "Xx'" if word[0].isupper() else word[0] if not word[0].isalpha() else "x'"


def _class(word: str, lower: str) -> str:
    flags = "".join(letter for letter, entries in _LISTS if word in entries)
    flags += "".join(letter for letter, entries in _LOWER_LISTS if lower in entries)
    head = known_words.HEADS.get(lower)
    return flags + head[:2].upper() if head else flags


def _labels(count: int, known: Sequence[Known]) -> list[str]:
    labels = [""] * count
    for found in known:
        labels[found.start : found.end] = ["I" + found.label] * (found.end - found.start)
        labels[found.start] = "B" + found.label
    return labels
