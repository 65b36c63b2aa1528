"""A story: what the clusterer knows, the form that callers read, and its title and summary.

The title is the headline that agrees most with the others and is whole: titles from URLs are often cut off. Of each
source family's near-duplicate headlines only the first counts, so that a syndicated or repeated text does not outvote
the rest.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from math import sqrt

from msgspec import Struct

from tollhouse.services.defense.article import Article, has_foreign_letters
from tollhouse.services.defense.events.event import Category
from tollhouse.services.defense.stories.cluster import term_counts, words

ARTICLES = 64
SENTENCES = 3
# Headlines with this Jaccard similarity or more are duplicates.
SAME = 0.6
# Sentences with this share of known terms add nothing.
KNOWN = 0.5
SENTENCE_CHARS = (30, 320)

_PREFIX = re.compile(
    r"^(?:(?:UPDATE|WRAPUP|CORRECTED|FOCUS|BRIEF)(?:\s+\d+)?|VIDEO|PHOTOS?|WATCH|BREAKING)\s*[-:\u2013]\s*",
    re.IGNORECASE,
)
_CUT_OFF = re.compile(r"\s*(?:\.{2,}|…)$")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'\u201c\u2018(]?[A-Z0-9\u0400-\u04ff])|(?<=[\u3002\uff01\uff1f])")


# No whole headline ends in one of these, or hardly any.
_UNFINISHED = frozenset(
    {"a", "an", "the", "and", "or", "as", "at", "but", "by", "for", "from", "in", "of", "than", "to", "with"}
)
# A headline of this many words that begins another one is that one, cut off.
_BEGINNING_WORDS = 3

# A language that is not known counts as English, which most sources are.
_ENGLISH = frozenset({"en", ""})


def summarize(articles: Sequence[Article]) -> tuple[str, str]:
    """Title and summary of articles (at least one), from the newest ARTICLES; the summary may be empty.

    Both are of one language: English if any of the articles is, as far as it is known.
    """
    articles = [it for it in articles if it.language in _ENGLISH and not has_foreign_letters(it.title)] or articles
    headlined = _distinct_headlines(sorted(articles, key=lambda article: (article.published, article.id))[-ARTICLES:])
    if not headlined:
        return _clean(articles[0].title), ""
    weights = _weights(headlined)
    plain = sorted({" ".join(words(article.title.casefold())) for article in articles})

    def rank(article: Article) -> tuple[float, datetime, str]:
        agreement = _centrality(article, weights)
        return -agreement / 2 if _is_cut_off(article.title, plain) else -agreement, article.published, article.id

    ranked = sorted(headlined, key=rank)
    title = _clean(ranked[0].title)
    return title, " ".join(islice(_adding(title, _sentences(ranked)), SENTENCES))


def _distinct_headlines(articles: Iterable[Article]) -> list[Article]:
    """The articles with a headline, without near-duplicates from the same family."""
    seen: dict[str, list[set[str]]] = {}
    headlined = []
    for article in articles:
        terms = set(term_counts(article.title))
        earlier = seen.setdefault(article.family, [])
        if terms and not any(len(terms & other) / len(terms | other) >= SAME for other in earlier):
            earlier.append(terms)
            headlined.append(article)
    return headlined


def _weights(headlined: Sequence[Article]) -> Counter[str]:
    """The number of families whose headlines contain each term."""
    pairs = {(article.family, term) for article in headlined for term in term_counts(article.title)}
    return Counter(term for _, term in pairs)


def _centrality(article: Article, weights: Counter[str]) -> float:
    """A headline's agreement with the others, for the root of its length.

    Per word, the barest headline would win; in sum, the longest. Two words are added to the length, so that a headline
    of one common word does not win.
    """
    terms = term_counts(article.title)
    return sum(weights[term] - 1 for term in terms) / sqrt(len(terms) + 2)


def _is_cut_off(title: str, titles: Sequence[str]) -> bool:
    """Whether the headline ends as no whole one does, or begins a longer one of these, which are sorted and plain."""
    known = words(title.casefold())
    begun = f"{' '.join(known)} "
    longer = islice(titles, bisect_left(titles, begun), None) if len(known) >= _BEGINNING_WORDS else iter(())
    is_unfinished = bool(known) and known[-1] in _UNFINISHED
    return is_unfinished or next(longer, "").startswith(begun) or _CUT_OFF.search(title) is not None


def _sentences(ranked: Iterable[Article]) -> Iterable[str]:
    """Sentences of the texts, most central article first; headlines if no article has a text."""
    ranked = list(ranked)
    shortest, longest = SENTENCE_CHARS
    sentences = [s.strip() for article in ranked for s in _SENTENCE_END.split(article.text)]
    fitting = [sentence for sentence in sentences if shortest <= len(sentence) <= longest]
    if fitting:
        return fitting
    headlines = [_clean(article.title) for article in ranked if not _CUT_OFF.search(article.title)]
    return [line if line.endswith((".", "!", "?", "…")) else f"{line}." for line in headlines]


def _adding(title: str, sentences: Iterable[str]) -> Iterable[str]:
    known = set(term_counts(title))
    for sentence in sentences:
        terms = set(term_counts(sentence))
        if terms and len(terms & known) / len(terms) <= KNOWN:
            known |= terms
            yield sentence


def _clean(title: str) -> str:
    return _CUT_OFF.sub("", _PREFIX.sub("", " ".join(title.split())))


class LiveStory(Struct, frozen=True, gc=False):
    """A story in the window: its article ids in order of arrival (at least one), and their first and last time."""

    id: str
    articles: list[str]
    first_seen: datetime
    last_seen: datetime


class StoryReport(Struct, frozen=True, gc=False):
    """An article of a story in a list."""

    title: str
    url: str
    publisher: str
    published: datetime


class Story(Struct, frozen=True, gc=False):
    """A story as served. `source_count` counts source families, each once.

    `tone` is the mean of GDELT's -100..100, each family once, None if no article has one; `significance` is 0..1.
    `countries` are names, `entities` and `event_ids` ids; `articles` come newest first.
    """

    id: str
    title: str
    summary: str
    category: Category | None
    countries: list[str]
    first_seen: datetime
    last_seen: datetime
    article_count: int
    source_count: int
    sources: list[str]
    articles: list[StoryReport]
    entities: list[str]
    event_ids: list[str]
    significance: float
    tone: float | None


def mean_tone(articles: Sequence[Article]) -> float | None:
    """The mean of GDELT's tone, each source family once; None if no article has one."""
    tones: dict[str, list[float]] = {}
    for article in articles:
        if article.tone is not None:
            tones.setdefault(article.family, []).append(article.tone)
    if not tones:
        return None
    return round(sum(sum(family) / len(family) for family in tones.values()) / len(tones), 2)
