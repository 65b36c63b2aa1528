"""Similarity."""

import tomllib
from collections.abc import Container, Mapping
from importlib.resources import files
from itertools import islice
from math import exp, log

from msgspec import Struct

from tollhouse.services.defense.stories.cluster_set import Cluster, InvertedIndex
from tollhouse.services.defense.stories.tokens import Wording, wording

# How many stories a word is taken to be in, beyond those we see, for each headline in a thousand above FEWEST.
STORIES = 4.0
FEWEST = 9


def _everyday() -> Mapping[str, float]:
    path = files("tollhouse.services.defense").joinpath("data", "gazetteers", "everyday.toml")
    shares: dict[str, str] = tomllib.loads(path.read_text("utf-8"))["per_thousand"]
    return {
        term: STORIES * (int(share) - FEWEST)
        for share, words in shares.items()
        for word in words.split()
        for term in wording(word).terms
    }


# A quiet window, or one that has just begun, knows too few stories to tell that everybody names China.
EVERYDAY = _everyday()


BACKGROUND = 0.4
HELD_BACK = 8.0
# The background is as large at any time: in a busy window it takes more shared words to join, in a quiet one no fewer.
UNSEEN_USES = 0.5
USES = 8_000.0
# A shorter headline is taken to have left words out: one shared word must not be half of it.
FEWEST_WORDS = 6
SHORTLIST = 8
# Nats that a story gains with the logarithm of its size.
CROWD = 0.95
# The logarithm of the size from which a larger story draws no more.
LARGEST = 5.0
# A word of the article that the story does not use.
MISS_LOGPROB = log(BACKGROUND)
# Of how many of the rarer word's stories, the newest, we ask whether they use the other word too.
ASKED_STORIES = 32
# Fewer stories with both words are chance, or this story's own fragments.
CHANCE = 2
# How many rarer words may foretell a word.
FORETELLING = 6
# The share of the stories with one word of a name that use its next word too, where we know too few to tell.
NAMED = 0.3

_ODDS = (1 - BACKGROUND) / BACKGROUND
_NAMELESS: frozenset[str] = frozenset()
# By the size of a story; the last holds for all larger ones.
_DRAWN = [0.0, *(CROWD * min(LARGEST, log(size)) for size in range(1, int(exp(LARGEST)) + 2))]

Stories = Mapping[str, dict[Cluster, None]]


class Query(Struct, frozen=True, gc=False):
    """What an article asks of the stories, its terms the rarest first.

    Of each: how many stories use it, the term, its share of the article's words, and what it says when every word of a
    story is this term. `company` remembers in what share of the first word's stories the second is too; `named` are
    words of full names.
    """

    terms: list[tuple[int, str, float, float]]
    words: int
    company: dict[tuple[str, str], float]
    named: frozenset[str]


def query(wording: Wording, postings: InvertedIndex, only: Container[str] | None = None) -> Query:
    """What the article asks of the stories; where it is held against one story alone, `only` of that one's words."""
    terms = wording.terms
    words = max(FEWEST_WORDS, sum(terms.values()))
    if only is not None:
        terms = {term: count for term, count in terms.items() if term in only}
    stories, everyday, uses = postings.stories.get, EVERYDAY.get, _ODDS * USES
    asked = [
        (spread := len(stories(term, ())), term, count / words, uses / (spread + everyday(term, 0.0) + UNSEEN_USES))
        for term, count in terms.items()
    ]
    asked.sort()
    if not wording.names:
        return Query(asked, words, {}, _NAMELESS)
    company = {pair: NAMED for one, other in wording.names for pair in ((one, other), (other, one))}
    return Query(asked, words, company, frozenset(term for pair in wording.names for term in pair))


def similarity(asked: Query, cluster: Cluster) -> float:
    """Nats per word, each word taken for itself: MISS when none is shared, above 0 when the story explains better."""
    counts, held = cluster.counts, cluster.total + HELD_BACK
    score = MISS_LOGPROB
    for _, term, share, speaks in asked.terms:
        if term in counts:
            score += share * log(1.0 + speaks * counts[term] / held)
    return score


def collocation_penalty(asked: Query, cluster: Cluster, stories: Stories) -> float:
    """Nats per word that the likeness owes to words that keep company anyway; 0 when each speaks for itself.

    A word that a rarer shared word foretells is held against how often it follows, not against how rare it is.
    """
    counts, held = cluster.counts, cluster.total + HELD_BACK
    owed, rarer = 0.0, list[str]()
    for spread, term, share, speaks in asked.terms:
        if term not in counts:
            continue
        together = max([_company(asked, one, term, stories) for one in rarer]) if rarer else 0.0
        foreseen = _ODDS * asked.words / together if together else speaks
        if foreseen < speaks:
            used = counts[term] / held
            owed += share * log((1.0 + speaks * used) / (1.0 + foreseen * used))
        if (spread > CHANCE or term in asked.named) and len(rarer) < FORETELLING:
            rarer.append(term)
    return owed


def draw(asked: Query, cluster: Cluster) -> float:
    """Nats per word that a story gains by its size: of two stories the larger is likelier to be meant."""
    size = len(cluster.members)
    return (_DRAWN[size] if size < len(_DRAWN) else _DRAWN[-1]) / asked.words


def shortlist(asked: Query, postings: InvertedIndex, least: float, without: Cluster | None = None) -> list[Cluster]:
    """The stories whose likeness and draw may exceed `least`, at most SHORTLIST of them.

    Those that share most of the article's rare words are kept; ties go to the one met first.
    """
    weights = [share * log(1.0 + speaks) for _, _, share, speaks in asked.terms]
    overlap: dict[Cluster, float] = {}
    unread, needed, most_drawn = sum(weights), least - MISS_LOGPROB, CROWD * LARGEST / asked.words
    for weight, users in zip(weights, postings.users(asked.terms), strict=False):
        # Who shares only what is left cannot be near enough, and what is left is the longest to read.
        if unread + most_drawn <= needed:
            break
        unread -= weight
        for cluster in users:
            if cluster in overlap:
                overlap[cluster] += weight
            else:
                overlap[cluster] = weight
    # A word counts in full only where a story says nothing else, so that this is the most that a likeness can be.
    needed -= unread
    least = needed - most_drawn
    if without is not None:
        overlap.pop(without, None)
    able = [
        cluster
        for cluster, read in overlap.items()
        if read > least and (read > needed or read + draw(asked, cluster) > needed)
    ]
    return able if len(able) <= SHORTLIST else sorted(able, key=overlap.__getitem__, reverse=True)[:SHORTLIST]


def _company(asked: Query, one: str, other: str, stories: Stories) -> float:
    """The share of the first word's stories that use the other too, but for a few that may do so by chance."""
    pair = one, other
    if pair in asked.company:
        return asked.company[pair]
    users, others = stories[one], stories[other]
    size = min(len(users), ASKED_STORIES)
    both = sum(map(others.__contains__, islice(reversed(users), size)))
    asked.company[pair] = together = max(0, both - CHANCE) / (size + CHANCE)
    return together
