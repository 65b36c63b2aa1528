"""Whether a story is two stories: whether telling its articles apart explains their words better than one does.

Each half is scored on an article that it has not seen (leave one out), against the whole as the background: what both
halves share says nothing, what only one of them says speaks for two, and a word that nobody else uses for none.
"""

from collections.abc import Sequence
from math import log

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
_UNSAID = log(MIX)


def halves(articles: Sequence[Terms], wanted: float) -> list[int] | None:
    """The half, 0 or 1, of each article, if there is a bisection that gains more than `wanted` nats per article."""
    whole = _counts(articles)
    begun = [[int(seed in terms) for terms in articles] for seed in _seeds(articles)]
    gains = [_parted(articles, parts, whole) for parts in begun]
    if not gains or max(gains) < wanted - WITHIN_REACH:
        return None
    best = _settle(articles, begun[gains.index(max(gains))], whole)
    return best if _parted(articles, best, whole) > wanted else None


def parting(articles: Sequence[Terms], parts: Sequence[int]) -> float:
    """Nats per article gained by telling the two parts apart; strongly negative when a part is next to empty."""
    return _parted(articles, parts, _counts(articles))


def allotted(articles: Sequence[Terms], parted: Sequence[Terms], parts: Sequence[int]) -> list[int]:
    """Which half further articles belong to, when those in `parted` belong to `parts`."""
    whole, sides = _counts([*parted, *articles]), _sides(parted, parts)
    return [
        int(_gain(terms, sides[1], whole, own=False) > _gain(terms, sides[0], whole, own=False)) for terms in articles
    ]


def _seeds(articles: Sequence[Terms]) -> list[str]:
    """The terms that come nearest to dividing the articles in the middle."""
    spread: dict[str, int] = {}
    for terms in articles:
        for term in terms:
            spread[term] = spread.get(term, 0) + 1
    n = len(articles)
    dividing = [term for term, uses in spread.items() if SMALLEST <= uses <= n - SMALLEST]
    return sorted(dividing, key=lambda term: (-spread[term] * (n - spread[term]), term))[:SEEDS]


def _parted(articles: Sequence[Terms], parts: Sequence[int], whole: Counts) -> float:
    if min(sum(parts), len(parts) - sum(parts)) < SMALLEST:
        return _NOTHING
    sides = _sides(articles, parts)
    gains = [_gain(terms, sides[part], whole, own=True) for terms, part in zip(articles, parts, strict=True)]
    return sum(gains) / len(gains)


def _settle(articles: Sequence[Terms], parts: list[int], whole: Counts) -> list[int]:
    """Two-means in words: each article goes to the half that explains it better, until nothing moves."""
    for _ in range(ROUNDS):
        first, second = _sides(articles, parts)
        moved = [
            int(_gain(terms, second, whole, own=part == 1) > _gain(terms, first, whole, own=part == 0))
            for terms, part in zip(articles, parts, strict=True)
        ]
        if moved == parts:
            break
        parts = moved
    return parts


def _gain(terms: Terms, side: Counts, whole: Counts, *, own: bool) -> float:
    """How much better the side explains the article than the whole does, the article itself taken out of both."""
    words = sum(terms.values())
    counts, total = side
    total -= words if own else 0
    if total <= 0:
        return _NOTHING
    uses_of = whole[0]
    odds = (1 - MIX) * (whole[1] - words + 0.5 * len(uses_of)) / total
    gain = 0.0
    for term, count in terms.items():
        uses = counts.get(term, 0)
        if own:
            uses -= count
        elsewhere = uses_of[term] - count
        # What nobody else says speaks for no half.
        if elsewhere:
            said = log(MIX + odds * uses / (elsewhere + 0.5)) if uses else _UNSAID
            gain += min(count, INSISTED) * said
    return gain


def _sides(articles: Sequence[Terms], parts: Sequence[int]) -> tuple[Counts, Counts]:
    paired = list(zip(articles, parts, strict=True))
    return _counts([terms for terms, part in paired if not part]), _counts([terms for terms, part in paired if part])


def _counts(articles: Sequence[Terms]) -> Counts:
    counts: Terms = {}
    for terms in articles:
        for term, count in terms.items():
            counts[term] = counts.get(term, 0) + count
    return counts, sum(counts.values())
