"""Split a story in two if two unigram models explain its articles' words better than one.

Each half is scored on an article that is left out of it, against the whole story as the background: words that both
halves share are no evidence, words of one half are evidence for two stories, and words of one article are none.
"""

from collections.abc import Sequence
from math import log

from msgspec import Struct

Terms = dict[str, int]
Counts = tuple[Terms, int]

MIX = 0.5
SEEDS = 4
# Refining a rough bisection has not been observed to gain more than this.
REFINEMENT_GAIN = 1.0
ROUNDS = 3
SMALLEST = 2
# Maximum weight of a term that an article repeats.
LARGEST_WEIGHT = 3
_NOTHING = -9.0


class ArticleCounts(Struct, frozen=True, gc=False):
    """An article compared with the rest of the story: `background` is the rest's word count, smoothed and mixed.

    `shared` has each term that the rest also uses: its count in the article, its weight, and its count in the rest.
    """

    words: int
    background: float
    shared: list[tuple[str, int, int, float]]


def bisect(articles: Sequence[Terms], minimum: float) -> list[int] | None:
    """The half, 0 or 1, of each article if a bisection gains more than `minimum` nats per article, else None."""
    seeds = _seeds(articles)
    if not seeds:
        return None
    article = _compare(articles, _counts(articles))
    begun = [[int(seed in terms) for terms in articles] for seed in seeds]
    gains = [_split_gain(article, parts) for parts in begun]
    if max(gains) < minimum - REFINEMENT_GAIN:
        return None
    best = _refine(article, begun[gains.index(max(gains))])
    return best if _split_gain(article, best) > minimum else None


def split_gain(articles: Sequence[Terms], parts: Sequence[int]) -> float:
    """Nats per article gained by a split into these parts; strongly negative if a part is nearly empty."""
    return _split_gain(_compare(articles, _counts(articles)), parts)


def assign_sides(articles: Sequence[Terms], sample: Sequence[Terms], parts: Sequence[int]) -> list[int]:
    """Assign further articles to the halves of a sample, given by `parts`."""
    whole = _counts([*sample, *articles])
    first, second = _sides(_compare(sample, whole), parts)
    return [int(_gain(article, second) > _gain(article, first)) for article in _compare(articles, whole)]


def _compare(articles: Sequence[Terms], whole: Counts) -> list[ArticleCounts]:
    uses_of, total = whole
    smoothed = total + 0.5 * len(uses_of)
    compared = []
    for terms in articles:
        words = sum(terms.values())
        shared = [
            (term, count, min(count, LARGEST_WEIGHT), uses_of[term] - count + 0.5)
            for term, count in terms.items()
            if uses_of[term] > count
        ]
        compared.append(ArticleCounts(words, (1 - MIX) * (smoothed - words), shared))
    return compared


def _seeds(articles: Sequence[Terms]) -> list[str]:
    """The terms that divide the articles most evenly."""
    spread: dict[str, int] = {}
    for terms in articles:
        for term in terms:
            spread[term] = spread.get(term, 0) + 1
    n = len(articles)
    dividing = [term for term, uses in spread.items() if SMALLEST <= uses <= n - SMALLEST]
    return sorted(dividing, key=lambda term: (-spread[term] * (n - spread[term]), term))[:SEEDS]


def _split_gain(articles: Sequence[ArticleCounts], parts: Sequence[int]) -> float:
    if min(sum(parts), len(parts) - sum(parts)) < SMALLEST:
        return _NOTHING
    sides = _sides(articles, parts)
    return sum([_own_gain(article, sides[part]) for article, part in zip(articles, parts, strict=True)]) / len(parts)


def _refine(articles: Sequence[ArticleCounts], parts: list[int]) -> list[int]:
    """Two-means: move each article to the half that explains it better, until nothing changes."""
    for _ in range(ROUNDS):
        first, second = _sides(articles, parts)
        moved = [
            int(
                _own_gain(article, second) > _gain(article, first)
                if part
                else _gain(article, second) > _own_gain(article, first)
            )
            for article, part in zip(articles, parts, strict=True)
        ]
        if moved == parts:
            break
        parts = moved
    return parts


def _gain(article: ArticleCounts, side: Counts) -> float:
    """How much better than the rest of the story a half without the article explains it."""
    counts, total = side
    if not total:
        return _NOTHING
    odds, gain = article.background / total, 0.0
    for term, _, weight, elsewhere in article.shared:
        gain += weight * log(MIX + odds * counts.get(term, 0) / elsewhere)
    return gain


def _own_gain(article: ArticleCounts, side: Counts) -> float:
    """The same for the half that contains the article, with the article removed from it."""
    counts, total = side
    if total <= article.words:
        return _NOTHING
    odds, gain = article.background / (total - article.words), 0.0
    for term, count, weight, elsewhere in article.shared:
        gain += weight * log(MIX + odds * (counts[term] - count) / elsewhere)
    return gain


def _sides(articles: Sequence[ArticleCounts], parts: Sequence[int]) -> tuple[Counts, Counts]:
    counts: tuple[Terms, Terms] = {}, {}
    totals = [0, 0]
    for article, part in zip(articles, parts, strict=True):
        side = counts[part]
        for term, count, _, _ in article.shared:
            side[term] = side.get(term, 0) + count
        totals[part] += article.words
    return (counts[0], totals[0]), (counts[1], totals[1])


def _counts(articles: Sequence[Terms]) -> Counts:
    counts: Terms = {}
    for terms in articles:
        for term, count in terms.items():
            counts[term] = counts.get(term, 0) + count
    return counts, sum(counts.values())
