"""How much better a story explains an article's words than news at large does.

A unigram model per story, mixed with the background (Jelinek-Mercer) and held back while the story is small
(Dirichlet): Zhai and Lafferty, "Two-stage language models for information retrieval", SIGIR 2002. The background
counts stories, not articles, so that a story with 300 articles does not make its own words look common.
"""

from heapq import nlargest
from math import log

from msgspec import Struct

from tollhouse.services.defense.stories.postings import Cluster, Postings

BACKGROUND = 0.4
HELD_BACK = 4.0
# The background is as large at any time: in a busy window it takes more shared words to join, in a quiet one no fewer.
UNSEEN_USES = 0.5
USES = 8_000.0
# A shorter headline is taken to have left words out: one shared word must not be half of it.
FEWEST_WORDS = 6
SHORTLIST = 8
# Nats that a story gains with the logarithm of its size.
CROWD = 0.75
# The logarithm of the size from which a larger story draws no more.
LARGEST = 5.0
# A word of the article that the story does not use.
MISS = log(BACKGROUND)


class Query(Struct, frozen=True, gc=False):
    """Of each term its share of the article's words, and what it says when every word of a story is this term."""

    terms: list[tuple[str, float, float]]
    words: int


def query(terms: dict[str, int], postings: Postings) -> Query:
    words = max(FEWEST_WORDS, sum(terms.values()))
    stories = postings.stories
    uses = (1 - BACKGROUND) / BACKGROUND * USES
    return Query(
        [(term, count / words, uses / (len(stories.get(term, ())) + UNSEEN_USES)) for term, count in terms.items()],
        words,
    )


def likeness(asked: Query, cluster: Cluster) -> float:
    """Nats per word: MISS when no word is shared, above 0 when the story explains the article better."""
    counts, held = cluster.counts, cluster.total + HELD_BACK
    score = MISS
    for term, share, speaks in asked.terms:
        if term in counts:
            score += share * log(1.0 + speaks * counts[term] / held)
    return score


def draw(asked: Query, cluster: Cluster) -> float:
    """Nats per word that a story gains by its size: of two stories the larger is likelier to be meant."""
    return CROWD * min(LARGEST, log(len(cluster.members))) / asked.words


def shortlist(asked: Query, postings: Postings, least: float, without: Cluster | None = None) -> list[Cluster]:
    """The stories whose likeness and draw may exceed `least`, at most SHORTLIST of them.

    Those that share most of the article's rare words are kept; ties go to the one met first.
    """
    weights = {term: share * log(1 + speaks) for term, share, speaks in asked.terms}
    overlap: dict[Cluster, float] = {}
    unread, needed = sum(weights.values()), least - MISS
    for term, users in postings.users(weights):
        # Who shares only what is left cannot be near enough, and what is left is the longest to read.
        if unread + CROWD * LARGEST / asked.words <= needed:
            break
        weight = weights[term]
        unread -= weight
        for cluster in users:
            overlap[cluster] = overlap.get(cluster, 0.0) + weight
    # A word counts in full only where a story says nothing else, so that this is the most that a likeness can be.
    needed -= unread
    able = [
        cluster
        for cluster, read in overlap.items()
        if (read > needed or (len(cluster.members) > 1 and read + draw(asked, cluster) > needed))
        and cluster is not without
    ]
    return able if len(able) <= SHORTLIST else nlargest(SHORTLIST, able, key=overlap.__getitem__)
