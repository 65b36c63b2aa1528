"""Order of the best matches: products before their accessories.

The last word of a compound, its head, says what a thing is: a mouse pad is a pad. The head of a searched text is its
last word, or the last before a preposition. An item whose title or keyword has the head is an accessory if an uncommon
word follows (`mouse pad`, but not `mouse black` or `mouse 800 dpi`), or if the head comes only after a preposition
(`case for a mouse`). An item that has the head in neither is treated the same.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache

from tollhouse.catalogue.index import View, stems_column
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.term_matching import WORD_BONUS
from tollhouse.catalogue.tokens import PREPOSITIONS, STOPWORDS, stem

# So many of the best matches are reordered.
RERANKED = 50
# The share of its score that an accessory loses. See tools/cross_validate_search.py.
ACCESSORY_LOSS = 0.2
# A word in this share of the titles, such as a colour, does not say what a product is.
COMMON_SHARE = 0.04
# A head in this share of the titles does not tell products apart.
MAX_HEAD_SHARE = 0.5
# Without this many products that are not accessories, nothing is reordered.
MIN_PRODUCTS = 5
# Longer texts count by their beginning.
TEXT_CHARS = 200

_END = ""
_TOKEN = re.compile(r"\w+|[,;:(|/\u2013\u2014]|(?<=\s)-(?=\s)")
_NO_WORD = re.compile(r"\W|.*\d")


def reranked(view: View, heads: frozenset[str], scores: Sequence[float], items: Sequence[Item]) -> list[Item]:
    """The best matches, given in order with their scores, in the new order. No item passes one that has more words."""
    degrees = _degrees(view, heads, items)
    if degrees.count(0.0) < MIN_PRODUCTS:
        return list(items)
    ranks = []
    for score, degree in zip(scores, degrees, strict=True):
        bonuses, words_score = divmod(score, WORD_BONUS)
        ranks.append((-bonuses, -words_score * (1 - ACCESSORY_LOSS * degree)))
    return [items[at] for at in sorted(range(len(items)), key=ranks.__getitem__)]


def accessory_degree(heads: frozenset[str], texts: Iterable[str], rarity: Callable[[str], float]) -> float:
    """How surely an item with these texts is no product of the head, 0 to 1."""
    degree = 1.0
    for text in texts:
        words, product_ends = _words(text)
        for at, word in enumerate(words[:product_ends]):
            if word in heads:
                following = words[at + 1]
                degree = min(degree, rarity(following) if following else 0.0)
    return degree


def _degrees(view: View, heads: frozenset[str], items: Sequence[Item]) -> list[float]:
    title = view.schema.title
    searched = view.schema.searched
    if title not in {field.name for field in searched}:
        return []
    names = [field.name for field in searched if field.name == title or field.type in ("keyword", "keywords")]

    @cache
    def share(word: str) -> float:
        return view.row_count(stems_column(title), word) / max(1, len(view))

    if any(share(head) > MAX_HEAD_SHARE for head in heads):
        return []
    return [
        accessory_degree(heads, _texts(item, names), lambda word: max(0.0, 1 - share(word) / COMMON_SHARE))
        for item in items
    ]


def _texts(item: Item, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        value = item.get(name, ())
        yield from [value] if isinstance(value, str) else value


@lru_cache(maxsize=20_000)
def _words(text: str) -> tuple[tuple[str, ...], int]:
    """The stems of a text, with an end at stopwords, numbers and marks; and the place of the first preposition."""
    tokens = _TOKEN.findall(text[:TEXT_CHARS].lower())
    stems = [_END if token in STOPWORDS or _NO_WORD.match(token) else stem(token) for token in tokens]
    product_ends = next((at for at, token in enumerate(tokens) if token in PREPOSITIONS), len(tokens))
    return (*stems, _END), product_ends
