"""Similarity of an article to a story: how much better the story explains the article's words than news in general.

Each story is a unigram model, mixed with the background (Jelinek-Mercer) and smoothed while the story is small
(Dirichlet): Zhai and Lafferty, "Two-stage language models for information retrieval", SIGIR 2002. The background counts
stories, not articles, so that a story with 300 articles does not make its own words look common. Words that occur
together in other stories too ("Joe Biden", "South China Sea") count as less evidence than independent words.
"""

import tomllib
from collections.abc import Container, Mapping
from importlib.resources import files
from itertools import islice
from math import exp, log

from msgspec import Struct

from tollhouse.services.defense.stories.cluster_set import Cluster, InvertedIndex
from tollhouse.services.defense.stories.tokens import Wording, wording

# Additional stories that a word counts as being in, for each headline per thousand above FEWEST.
STORIES = 4.0
FEWEST = 9


def _load_stopwords() -> Mapping[str, float]:
    path = files("tollhouse.services.defense").joinpath("data", "gazetteers", "everyday.toml")
    shares: dict[str, str] = tomllib.loads(path.read_text("utf-8"))["per_thousand"]
    return {
        term: STORIES * (int(share) - FEWEST)
        for share, words in shares.items()
        for word in words.split()
        for term in wording(word).terms
    }


# Prior document frequencies of common news words, because a small window has too few stories to estimate them.
STOPWORDS = _load_stopwords()


BACKGROUND = 0.4
SMOOTHING = 8.0
# A fixed size of the background, so that a quiet window needs no fewer shared words to join than a busy one.
UNSEEN_USES = 0.5
USES = 8_000.0
# Shorter headlines count as this long, so that one shared word is not half of the evidence.
FEWEST_WORDS = 6
SHORTLIST = 8
# Nats per unit of the logarithm of a story's size.
SIZE_PRIOR = 0.95
# The logarithm of the size from which the prior stays constant.
LARGEST = 5.0
# Log-probability of a word that the story does not use.
MISS_LOGPROB = log(BACKGROUND)
# The newest stories of the rarer word that are checked for the other word.
COLLOCATION_SAMPLE = 32
# Fewer stories with both words are chance, or fragments of this story.
CHANCE = 2
# The number of rarer words checked as collocates of a word.
COLLOCATES = 6
# Assumed collocation share of the words of one name.
NAME_COLLOCATION = 0.3

_ODDS = (1 - BACKGROUND) / BACKGROUND
_NO_NAMES: frozenset[str] = frozenset()
# By story size; the last applies to all larger stories.
_PRIORS = [0.0, *(SIZE_PRIOR * min(LARGEST, log(size)) for size in range(1, int(exp(LARGEST)) + 2))]

Stories = Mapping[str, dict[Cluster, None]]


class Query(Struct, frozen=True, gc=False):
    """An article prepared for comparison with stories, its terms ordered from the rarest.

    Each term has its number of stories, the term, its share of the article's words, and its maximum odds, reached if a
    story consists of this term. `collocations` caches the share of the first word's stories that use the second;
    `named` are words of full names.
    """

    terms: list[tuple[int, str, float, float]]
    words: int
    collocations: dict[tuple[str, str], float]
    named: frozenset[str]


def build_query(wording: Wording, index: InvertedIndex, only: Container[str] | None = None) -> Query:
    """Prepare an article; `only` limits its terms to those of a single story to compare with."""
    terms = wording.terms
    words = max(FEWEST_WORDS, sum(terms.values()))
    if only is not None:
        terms = {term: count for term, count in terms.items() if term in only}
    stories, common, uses = index.stories.get, STOPWORDS.get, _ODDS * USES
    ranked = [
        (spread := len(stories(term, ())), term, count / words, uses / (spread + common(term, 0.0) + UNSEEN_USES))
        for term, count in terms.items()
    ]
    ranked.sort()
    if not wording.names:
        return Query(ranked, words, {}, _NO_NAMES)
    collocations = {pair: NAME_COLLOCATION for one, other in wording.names for pair in ((one, other), (other, one))}
    return Query(ranked, words, collocations, frozenset(term for pair in wording.names for term in pair))


def similarity(query: Query, cluster: Cluster) -> float:
    """Nats per word with independent words: MISS_LOGPROB without shared words, above 0 if the story explains better."""
    counts, held = cluster.counts, cluster.total + SMOOTHING
    score = MISS_LOGPROB
    for _, term, share, odds in query.terms:
        if term in counts:
            score += share * log(1.0 + odds * counts[term] / held)
    return score


def collocation_penalty(query: Query, cluster: Cluster, stories: Stories) -> float:
    """Nats per word of similarity that is due to collocations; 0 if all shared words are independent.

    A word that often occurs with a rarer shared word is weighed by how often it does, not by how rare it is.
    """
    counts, held = cluster.counts, cluster.total + SMOOTHING
    penalty, rarer = 0.0, list[str]()
    for spread, term, share, odds in query.terms:
        if term not in counts:
            continue
        together = max([_collocation(query, one, term, stories) for one in rarer]) if rarer else 0.0
        expected = _ODDS * query.words / together if together else odds
        if expected < odds:
            used = counts[term] / held
            penalty += share * log((1.0 + odds * used) / (1.0 + expected * used))
        if (spread > CHANCE or term in query.named) and len(rarer) < COLLOCATES:
            rarer.append(term)
    return penalty


def size_prior(query: Query, cluster: Cluster) -> float:
    """Nats per word by story size: the larger of two stories is likelier a priori."""
    size = len(cluster.members)
    return (_PRIORS[size] if size < len(_PRIORS) else _PRIORS[-1]) / query.words


def shortlist(query: Query, index: InvertedIndex, least: float, without: Cluster | None = None) -> list[Cluster]:
    """At most SHORTLIST stories whose similarity and size prior may exceed `least`.

    Prefers stories that share most of the article's rare words; ties keep the order of discovery.
    """
    weights = [share * log(1.0 + odds) for _, _, share, odds in query.terms]
    overlap: dict[Cluster, float] = {}
    unread, needed, largest_prior = sum(weights), least - MISS_LOGPROB, SIZE_PRIOR * LARGEST / query.words
    for weight, users in zip(weights, index.users(query.terms), strict=False):
        # Stories that share only the remaining terms cannot reach `least`, and common terms take longest to read.
        if unread + largest_prior <= needed:
            break
        unread -= weight
        for cluster in users:
            if cluster in overlap:
                overlap[cluster] += weight
            else:
                overlap[cluster] = weight
    # The maximum similarity, reached by a story with no other words.
    needed -= unread
    least = needed - largest_prior
    if without is not None:
        overlap.pop(without, None)
    candidates = [
        cluster
        for cluster, read in overlap.items()
        if read > least and (read > needed or read + size_prior(query, cluster) > needed)
    ]
    if len(candidates) <= SHORTLIST:
        return candidates
    return sorted(candidates, key=overlap.__getitem__, reverse=True)[:SHORTLIST]


def _collocation(query: Query, one: str, other: str, stories: Stories) -> float:
    """The share of one word's stories that also use the other, discounting a few by chance."""
    pair = one, other
    if pair in query.collocations:
        return query.collocations[pair]
    users, others = stories[one], stories[other]
    size = min(len(users), COLLOCATION_SAMPLE)
    both = sum(map(others.__contains__, islice(reversed(users), size)))
    query.collocations[pair] = together = max(0, both - CHANCE) / (size + CHANCE)
    return together
