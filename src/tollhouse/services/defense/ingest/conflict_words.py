"""Which words of a URL's path speak for or against "this reports a battle"."""

import re
import tomllib
from importlib.resources import files
from string import ascii_lowercase

from tollhouse.services.defense.ingest.memo import Memo

TABLES = tomllib.loads(
    files("tollhouse.services.defense").joinpath("data", "conflict_words.toml").read_text(encoding="utf-8")
)
GROUPS: tuple[str, ...] = tuple(TABLES["words"])

_PATH = re.compile(r"(?i:https?)://[^/?#]*(/[^?#]*)")
_LETTERS = ascii_lowercase.encode()
_ONLY_LETTERS = bytes(sign if sign in _LETTERS else ord(" ") for sign in range(256))
# A year of an earlier century is history; later ones are dates of publication. That a word begins at its 1 is said
# after the 1, because a pattern that begins with a plain character is found several times faster.
_OLD_YEAR = re.compile(r"1(?<=\b1)[5-9][0-9]{2}\b")
_MEMORY = (GROUPS.index("memory"),)


def word_counts(url: str) -> list[float]:
    """How often each group of GROUPS occurs in the path, at most 2. Host, query and ids say nothing."""
    counts = [0.0] * len(GROUPS)
    match = _PATH.match(url)
    if not match:
        return counts
    path = match[1].lower()
    words = path.encode("ascii", "replace").translate(_ONLY_LETTERS).split()
    for groups in (*filter(None, map(_GROUPS_OF.__getitem__, words)), *(_MEMORY for _ in _OLD_YEAR.findall(path))):
        for group in groups:
            if counts[group] < 2:
                counts[group] += 1
    return counts


def _index() -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Whole words, and beginnings of words, each with the groups it belongs to."""
    whole: dict[str, list[int]] = {}
    beginnings: dict[str, list[int]] = {}
    for group, words in enumerate(TABLES["words"].values()):
        for word in words.split():
            (beginnings if word.endswith("*") else whole).setdefault(word.rstrip("*"), []).append(group)
    return whole, beginnings


_WHOLE, _BEGINNINGS = _index()


def _groups(word: bytes) -> tuple[int, ...]:
    text = word.decode()
    found = set(_WHOLE.get(text, ()))
    for end in range(3, len(text) + 1):
        found.update(_BEGINNINGS.get(text[:end], ()))
    return tuple(sorted(found)) if len(text) > 1 else ()


_GROUPS_OF = Memo(_groups)
