"""What a story is: what the clusterer knows of it, and the wire form that callers read."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from tollhouse.services.defense.article import Article
from tollhouse.services.defense.events.event import Category
from tollhouse.services.defense.stories.summary import summarised


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
    title, summary = summarised(articles)
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
