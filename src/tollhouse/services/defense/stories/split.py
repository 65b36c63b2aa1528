"""Whether a story is two stories: whether telling its articles apart explains their words better than one does.

Each half is scored on an article that it has not seen (leave one out), against the whole as the background: what both
halves share says nothing, what only one of them says speaks for two, and a word that nobody else uses for none.
"""

from collections.abc import Sequence
from math import log

from msgspec import Struct

Terms = dict[str, int]
Counts = tuple[Terms, int]

MIX = 0.5
SEEDS = 4
# Moving articles between the halves of a rough bisection has not been seen to gain more than this.
WITHIN_REACH = 1.0
ROUNDS = 3
SMALLEST = 2
# A word said ten times is one word, insisted upon.
INSISTED = 3
_NOTHING = -9.0


class ArticleCounts(Struct, frozen=True, gc=False):
    """An article against the rest of the whole: `background` is the rest's words, smoothed and mixed.

    `shared` has, of the terms that the rest uses too, how often the article does, how much that counts, and how often
    the rest does: what nobody else says speaks for no half.
    """

    words: int
    background: float
    shared: list[tuple[str, int, int, float]]


def bisect(articles: Sequence[Terms], wanted: float) -> list[int] | None:
    """The half, 0 or 1, of each article, if there is a bisection that gains more than `wanted` nats per article."""
    seeds = _seeds(articles)
    if not seeds:
        return None
    said = _said(articles, _counts(articles))
    begun = [[int(seed in terms) for terms in articles] for seed in seeds]
    gains = [_parted(said, parts) for parts in begun]
    if max(gains) < wanted - WITHIN_REACH:
        return None
    best = _settle(said, begun[gains.index(max(gains))])
    return best if _parted(said, best) > wanted else None


def split_gain(articles: Sequence[Terms], parts: Sequence[int]) -> float:
    """Nats per article gained by telling the two parts apart; strongly negative when a part is next to empty."""
    return _parted(_said(articles, _counts(articles)), parts)


def assign_sides(articles: Sequence[Terms], parted: Sequence[Terms], parts: Sequence[int]) -> list[int]:
    """Which half further articles belong to, when those in `parted` belong to `parts`."""
    whole = _counts([*parted, *articles])
    first, second = _sides(_said(parted, whole), parts)
    return [int(_gain(said, second) > _gain(said, first)) for said in _said(articles, whole)]


def _said(articles: Sequence[Terms], whole: Counts) -> list[ArticleCounts]:
    uses_of, total = whole
    smoothed = total + 0.5 * len(uses_of)
    told = []
    for terms in articles:
        words = sum(terms.values())
        shared = [
            (term, count, min(count, INSISTED), uses_of[term] - count + 0.5)
            for term, count in terms.items()
            if uses_of[term] > count
        ]
        told.append(ArticleCounts(words, (1 - MIX) * (smoothed - words), shared))
    return told


def _seeds(articles: Sequence[Terms]) -> list[str]:
    """The terms that come nearest to dividing the articles in the middle."""
    spread: dict[str, int] = {}
    for terms in articles:
        for term in terms:
            spread[term] = spread.get(term, 0) + 1
    n = len(articles)
    dividing = [term for term, uses in spread.items() if SMALLEST <= uses <= n - SMALLEST]
    return sorted(dividing, key=lambda term: (-spread[term] * (n - spread[term]), term))[:SEEDS]


def _parted(articles: Sequence[ArticleCounts], parts: Sequence[int]) -> float:
    if min(sum(parts), len(parts) - sum(parts)) < SMALLEST:
        return _NOTHING
    sides = _sides(articles, parts)
    return sum([_own_gain(said, sides[part]) for said, part in zip(articles, parts, strict=True)]) / len(parts)


def _settle(articles: Sequence[ArticleCounts], parts: list[int]) -> list[int]:
    """Two-means in words: each article goes to the half that explains it better, until nothing moves."""
    for _ in range(ROUNDS):
        first, second = _sides(articles, parts)
        moved = [
            int(_own_gain(said, second) > _gain(said, first) if part else _gain(said, second) > _own_gain(said, first))
            for said, part in zip(articles, parts, strict=True)
        ]
        if moved == parts:
            break
        parts = moved
    return parts


def _gain(said: ArticleCounts, side: Counts) -> float:
    """How much better a side that the article is not in explains it than the whole without it does."""
    counts, total = side
    if not total:
        return _NOTHING
    odds, gain = said.background / total, 0.0
    for term, _, weight, elsewhere in said.shared:
        gain += weight * log(MIX + odds * counts.get(term, 0) / elsewhere)
    return gain


def _own_gain(said: ArticleCounts, side: Counts) -> float:
    """The same of the side that the article is in, itself taken out of it."""
    counts, total = side
    if total <= said.words:
        return _NOTHING
    odds, gain = said.background / (total - said.words), 0.0
    for term, count, weight, elsewhere in said.shared:
        gain += weight * log(MIX + odds * (counts[term] - count) / elsewhere)
    return gain


def _sides(articles: Sequence[ArticleCounts], parts: Sequence[int]) -> tuple[Counts, Counts]:
    counts: tuple[Terms, Terms] = {}, {}
    totals = [0, 0]
    for said, part in zip(articles, parts, strict=True):
        side = counts[part]
        for term, count, _, _ in said.shared:
            side[term] = side.get(term, 0) + count
        totals[part] += said.words
    return (counts[0], totals[0]), (counts[1], totals[1])


def _counts(articles: Sequence[Terms]) -> Counts:
    counts: Terms = {}
    for terms in articles:
        for term, count in terms.items():
            counts[term] = counts.get(term, 0) + count
    return counts, sum(counts.values())
