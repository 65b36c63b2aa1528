"""Scores of an event: significance, severity tier, and the arithmetic behind them for readers."""

from math import log, log10

from tollhouse.services.defense.events.event import Event, EventRecord, Metrics, SeverityTier

_REACH, _HARM, _RELEVANCE = 0.45, 0.35, 0.20
# More publishers than this add nothing.
_SATURATED_AT = 50
# Significance of a report about the past is multiplied by this.
RETROSPECTIVE = 0.5


def significance(record: EventRecord) -> float:
    """Significance, 0..1, from publishers, harm and relevance."""
    weighed = weigh(record.goldstein, record.fatalities, record.relevance, record.source_count)
    return round(weighed * RETROSPECTIVE, 4) if record.is_retrospective else weighed


def weigh(goldstein: float, fatalities: int, relevance: float, publishers: int) -> float:
    """The significance of an event that is not in the past, 0..1."""
    harm = _harm(goldstein, fatalities, publishers)
    weighed = _REACH * _reach(publishers) + _HARM * harm + _RELEVANCE * relevance
    return round(min(1.0, weighed), 4)


def severity_tier(record: EventRecord) -> SeverityTier:
    """The first tier whose rule matches; at most medium if the category's confidence is below 0.5."""
    return _tier(record)[0]


def to_event(record: EventRecord) -> Event:
    """The event as served."""
    return Event(
        id=record.id,
        title=record.title,
        event_date=record.event_date,
        category=record.category,
        subcategory=record.subcategory,
        geo=record.geo,
        fatalities=record.fatalities,
        metrics=Metrics(significance(record), severity_tier(record), round(record.confidence, 4)),
        source_urls=record.source_urls,
        source_count=record.source_count,
        story_id=record.story_id,
        fatalities_basis=record.fatalities_basis,
        title_basis=record.title_basis,
    )


def reasons(record: EventRecord) -> dict[str, str]:
    """The record's reasons and those of its scores, with every number."""
    reach, harm = _reach(record.source_count), _harm(record.goldstein, record.fatalities, record.source_count)
    tier, why = _tier(record)
    total = (
        f"{_REACH} x {reach:.4f} (publishers {record.source_count}) + {_HARM} x {harm:.4f} (Goldstein value "
        f"{record.goldstein:g}, deaths {record.fatalities}) + {_RELEVANCE:.2f} x {record.relevance:.4f} (relevance)"
    )
    if record.is_retrospective:
        total = f"{RETROSPECTIVE} (it reports the past) x ({total})"
    return {
        **record.reasons,
        "significance": f"{total} = {significance(record):.4f}",
        "severity_tier": f"{tier}: {why}",
    }


def _reach(publishers: int) -> float:
    return min(1.0, log(1 + publishers) / log(1 + _SATURATED_AT))


def _harm(goldstein: float, fatalities: int, publishers: int) -> float:
    """From the toll, or the code's Goldstein value as far as further publishers confirm the first: codes often err."""
    return max(log10(1 + fatalities) / 2, -goldstein / 10 * _reach(max(0, publishers - 1)))


def _tier(record: EventRecord) -> tuple[SeverityTier, str]:
    """The tier and why. The reason claims no more than is known: what reports and codes say, not what happened."""
    publishers, is_battle = record.source_count, record.category == "Battles"
    deaths, reported = _count(record.fatalities, "death"), _count(publishers, "publisher")
    category = f"category {record.category} (confidence {record.confidence:.2f})"
    rules: tuple[tuple[bool, SeverityTier, str], ...] = (
        (record.fatalities >= 25, "critical", f"{deaths} reported, 25 or more"),
        (
            record.is_state_on_state and publishers >= 3,
            "critical",
            f"coded as a strike between two states, {reported}, 3 or more",
        ),
        (record.fatalities >= 5, "high", f"{deaths} reported, 5 or more"),
        (is_battle and publishers >= 3, "high", f"{category}, {reported}, 3 or more"),
        (is_battle and publishers >= 2, "medium", f"{category}, {reported}"),
        (record.category == "Protests" and record.is_violent, "medium", f"{category}, coded as violent"),
    )
    no_rule: tuple[SeverityTier, str] = (
        "low",
        f"{deaths} reported, {category}, {reported}: no rule of a higher tier matches",
    )
    tier, why = next(((tier, why) for holds, tier, why in rules if holds), no_rule)
    if record.is_retrospective and tier in {"critical", "high"}:
        return "medium", f"would be {tier} ({why}), but it reports the past"
    if record.confidence < 0.5 and tier in {"critical", "high"}:
        return "medium", f"would be {tier} ({why}), but confidence {record.confidence:.2f} is below 0.5"
    return tier, why


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
