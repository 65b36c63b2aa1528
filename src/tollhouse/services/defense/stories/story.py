"""Stories."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice

from msgspec import Struct

from tollhouse.services.defense.article import Article
from tollhouse.services.defense.events.event import Category
from tollhouse.services.defense.stories.tokens import wording

ARTICLES = 64
SENTENCES = 3
# Headlines whose words overlap by this much (Jaccard) are the same headline again.
SAME = 0.6
# A sentence that repeats this share of what was said already adds nothing.
KNOWN = 0.5
SENTENCE_CHARS = (30, 320)

_PREFIX = re.compile(
    r"^(?:(?:UPDATE|WRAPUP|CORRECTED|FOCUS|BRIEF)(?:\s+\d+)?|VIDEO|PHOTOS?|WATCH|BREAKING)\s*[-:\u2013]\s*",
    re.IGNORECASE,
)
_CUT_OFF = re.compile(r"\s*(?:\.{2,}|…)$")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'\u201c\u2018(]?[A-Z0-9\u0400-\u04ff])|(?<=[\u3002\uff01\uff1f])")


def summarize(articles: Sequence[Article]) -> tuple[str, str]:
    """Title and summary of at least one article, from the newest ARTICLES of them; the summary may be empty."""
    voices = _voices(sorted(articles, key=lambda article: (article.published, article.id))[-ARTICLES:])
    if not voices:
        return _clean(articles[0].title), ""
    weights = _weights(voices)
    ranked = sorted(voices, key=lambda voice: (-_centrality(voice, weights), voice.published, voice.id))
    title = _clean(ranked[0].title)
    return title, " ".join(islice(_adding(title, _sentences(ranked)), SENTENCES))


def _voices(articles: Iterable[Article]) -> list[Article]:
    """The articles that have a headline, without a family's near-duplicates of its own."""
    said: dict[str, list[set[str]]] = {}
    voices = []
    for article in articles:
        terms = set(wording(article.title).terms)
        earlier = said.setdefault(article.family, [])
        if terms and not any(_jaccard(terms, other) >= SAME for other in earlier):
            earlier.append(terms)
            voices.append(article)
    return voices


def _weights(voices: Sequence[Article]) -> Counter[str]:
    """In how many families' headlines each term occurs."""
    pairs = {(voice.family, term) for voice in voices for term in wording(voice.title).terms}
    return Counter(term for _, term in pairs)


def _centrality(voice: Article, weights: Counter[str]) -> float:
    """The headline's agreement with the others, per word with two added; half for one that was cut off.

    Without the two, a headline of one word that everybody uses would win.
    """
    terms = wording(voice.title).terms
    agreement = sum(weights[term] - 1 for term in terms) / (len(terms) + 2)
    return agreement / 2 if _CUT_OFF.search(voice.title) else agreement


def _sentences(ranked: Iterable[Article]) -> Iterable[str]:
    """What the texts say, the most central article first; headlines stand in where nobody carries a text."""
    ranked = list(ranked)
    shortest, longest = SENTENCE_CHARS
    found = [s.strip() for article in ranked for s in _SENTENCE_END.split(article.text) if s.strip()]
    told = [sentence for sentence in found if shortest <= len(sentence) <= longest]
    return told or [_ended(_clean(a.title)) for a in ranked if not _CUT_OFF.search(a.title)]


def _adding(title: str, sentences: Iterable[str]) -> Iterable[str]:
    known = set(wording(title).terms)
    for sentence in sentences:
        terms = set(wording(sentence).terms)
        if terms and len(terms & known) / len(terms) <= KNOWN:
            known |= terms
            yield sentence


def _jaccard(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other)


def _clean(title: str) -> str:
    return _CUT_OFF.sub("", _PREFIX.sub("", " ".join(title.split())))


def _ended(headline: str) -> str:
    return headline if headline.endswith((".", "!", "?", "…")) else f"{headline}."


class LiveStory(Struct, frozen=True, gc=False):
    """A story inside the window: its articles' ids in the order of their arrival, and the span they were published in.

    `articles` never is empty; ids of articles that left the window are no longer in it.
    """

    id: str
    articles: list[str]
    first_seen: datetime
    last_seen: datetime


class Coverage(Struct, frozen=True, gc=False):
    title: str
    url: str
    publisher: str
    published: datetime


class Story(Struct, frozen=True, gc=False):
    """One story as the feed serves it. `source_count` counts publisher families, each once however often it writes.

    `tone` is the mean of GDELT's -100..100, each family once, None where no article has one; `significance` is 0..1.
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
    articles: list[Coverage]
    entities: list[str]
    event_ids: list[str]
    significance: float
    tone: float | None


class Context(Struct, frozen=True):
    """What others know about a story: its events, and the entities its articles name."""

    category: Category | None = None
    countries: Sequence[str] = ()
    entities: Sequence[str] = ()
    event_ids: Sequence[str] = ()
    significance: float = 0.0


def told(story_id: str, articles: Sequence[Article], context: Context) -> Story:
    """The story of these articles (at least one) as callers read it."""
    newest_first = sorted(articles, key=lambda article: (article.published, article.id), reverse=True)
    title, summary = summarize(articles)
    return Story(
        id=story_id,
        title=title,
        summary=summary,
        category=context.category,
        countries=list(context.countries),
        first_seen=newest_first[-1].published,
        last_seen=newest_first[0].published,
        article_count=len(articles),
        source_count=len({article.family for article in articles}),
        sources=sorted({article.publisher for article in articles}),
        articles=[Coverage(a.title, a.url, a.publisher, a.published) for a in newest_first],
        entities=list(context.entities),
        event_ids=list(context.event_ids),
        significance=context.significance,
        tone=_tone(articles),
    )


def _tone(articles: Sequence[Article]) -> float | None:
    tones: dict[str, list[float]] = {}
    for article in articles:
        if article.tone is not None:
            tones.setdefault(article.family, []).append(article.tone)
    if not tones:
        return None
    return round(sum(sum(family) / len(family) for family in tones.values()) / len(tones), 2)
