"""What events and names say about a story: its category, its countries, its entities, how much it matters."""

from collections import Counter
from collections.abc import Sequence

from tollhouse.services.defense.events.event import Category, EventRecord
from tollhouse.services.defense.ingest.relevance import words_relevance
from tollhouse.services.defense.ingest.scores import significance
from tollhouse.services.defense.news.reported_article import Reported
from tollhouse.services.defense.stories.story import Context

MOST_ENTITIES = 30


def context_of(reports: Sequence[Reported], events: Sequence[EventRecord], heard: int) -> Context:
    """`events` are those the story's articles report, `heard` its independent voices."""
    names = Counter(named.id for report in reports for named in report.names)
    return Context(
        category=_category(events),
        countries=[country for country, _ in Counter(event.geo.country for event in events).most_common()],
        entities=[identity for identity, _ in names.most_common(MOST_ENTITIES)],
        event_ids=sorted(event.id for event in events),
        significance=_significance(reports, events, heard),
    )


def _category(events: Sequence[EventRecord]) -> Category | None:
    """The category that its events are surest of together; None for a story that no event was made from."""
    weight: Counter[Category] = Counter()
    for event in events:
        weight[event.category] += round(1_000 * event.confidence)
    return weight.most_common(1)[0][0] if weight else None


def _significance(reports: Sequence[Reported], events: Sequence[EventRecord], heard: int) -> float:
    """That of its most significant event; without one, what its voices and its words are worth."""
    if events:
        return max(significance(event.goldstein, event.fatalities, event.relevance, heard) for event in events)
    relevance = max(words_relevance(report.article.title) for report in reports)
    return significance(0.0, 0, relevance, heard)
