"""Which words of a URL's path speak for or against "this reports a battle"."""

import re
import tomllib
from functools import lru_cache
from importlib.resources import files

TABLES = tomllib.loads(
    files("tollhouse.services.defense").joinpath("data", "conflict_words.toml").read_text(encoding="utf-8")
)
GROUPS: tuple[str, ...] = tuple(TABLES["words"])

_PATH = re.compile(r"https?://[^/?#]*(/[^?#]*)", re.IGNORECASE)
# A year of an earlier century is history; later ones are dates of publication.
_WORD = re.compile(r"[a-z]{2,}|\b1[5-9][0-9]{2}\b")
_MEMORY = (GROUPS.index("memory"),)


def word_counts(url: str) -> list[float]:
    """How often each group of GROUPS occurs in the path, at most 2. Host, query and ids say nothing."""
    counts = [0.0] * len(GROUPS)
    path = _PATH.match(url)
    for word in _WORD.findall(path[1].lower()) if path else ():
        for group in _groups(word):
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


@lru_cache(maxsize=1 << 15)
def _groups(word: str) -> tuple[int, ...]:
    if word.isdecimal():
        return _MEMORY
    found = set(_WHOLE.get(word, ()))
    for end in range(3, len(word) + 1):
        found.update(_BEGINNINGS.get(word[:end], ()))
    return tuple(sorted(found))
