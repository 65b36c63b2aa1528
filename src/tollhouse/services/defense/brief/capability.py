"""Where more is asked of a capability than its money grows by: a gap score per area.

    live_share    = battle events of the window that name the area / all battle events of the window
    unmet_request = 1 - FY2026 / FY2027 requested, at least 0: what a repeat of this year's money would leave open
    demand        = (live_share + unmet_request) / 2
    growth        = FY2026 / FY2025
    supply        = growth / (1 + growth): 0.5 when the money is flat, 0 when it stops, towards 1 as it multiplies
    gap_score     = sqrt(demand * (1 - supply))

The geometric mean keeps the score in 0..1, and low unless both parts are high: demand that money already follows is no
gap, and neither is flat money without demand. Money is compared only with the same area's money of another year, never
between areas, because a satellite and a rocket are not priced alike. The historic rates are a decade old: they are
shown and not scored.

The areas are 11 of the table's 15. Left out are those whose need no headline about fighting can name, so that half of
their demand would be missing: support_other and trainers_targets (not used in combat), tankers_airlift (not named when
used), bombers_nuclear_strike (bought so as not to be used).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from math import sqrt
from statistics import median

from msgspec import Struct

from tollhouse.services.defense.brief.production import (
    CATEGORIES,
    Line,
    Trend,
    billions,
    citation,
    funding_trend,
    read_rows,
    read_words,
)
from tollhouse.services.defense.events.event import Event

# One event more or less then moves a share by at most seven points.
FEWEST_BATTLES = 15
SHOWN_EVENTS = 3
SHOWN_WORDS = 5
BASIS = (
    "mean of live_share (battle events of the window whose title or subcategory names the area) and unmet_request "
    "(part of the FY2027 request that a repeat of the FY2026 money would not cover)"
)

_BREAKS = re.compile(r"[\W_]+")


class Demand(Struct, frozen=True):
    """`score` is the mean of `live_share` and `unmet_request`, each 0..1; null together with `live_share`.

    `live_share` is `matching_events` / `battle_events`, null for `reason`. `words` counts events by matching word.
    `newest_event` is the date of the last battle, null when there is none: a recording's may lie years back.
    """

    score: float | None
    reason: str | None
    live_share: float | None
    matching_events: int
    battle_events: int
    newest_event: date | None
    words: dict[str, int]
    unmet_request: float
    basis: str


@cache
def area_words() -> dict[str, tuple[str, ...]]:
    """The phrases that name each area, from data/production/capability_areas.toml, plain as `_plain` makes them."""
    listed = read_words("capability_areas.toml")
    return {area: tuple(_plain(phrase) for phrase in phrases.split(",")) for area, phrases in listed.items()}


class AreaNaming(Struct, frozen=True):
    """The battles that name an area: how many there are, how many have each phrase, and the most significant ones.

    Each of `shown` comes with its phrases.
    """

    events: int = 0
    words: Mapping[str, int] = {}
    shown: Sequence[tuple[Event, Sequence[str]]] = ()


class Battles(Struct, frozen=True):
    """The battles of a window, and those that name areas, by area. `newest` is the date of the last one."""

    events: int = 0
    newest: date | None = None
    naming: Mapping[str, AreaNaming] = {}


def named_areas(event: Event) -> dict[str, list[str]]:
    """The areas that the event names, each with the phrases it does so by."""
    text = f" {_plain(f'{event.title} {event.subcategory}')} "
    named = ((area, [word for word in words if f" {word} " in text]) for area, words in area_words().items())
    return {area: words for area, words in named if words}


def demand(naming: AreaNaming, battles: Battles, unmet: float) -> Demand:
    """What the `naming` events among `battles` and the `unmet` part of the request make together."""
    few = battles.events < FEWEST_BATTLES
    share = None if few else naming.events / battles.events
    return Demand(
        score=None if share is None else round((share + unmet) / 2, 4),
        reason=f"{battles.events} battle events are too few for a share; {FEWEST_BATTLES} are needed" if few else None,
        live_share=None if share is None else round(share, 4),
        matching_events=naming.events,
        battle_events=battles.events,
        newest_event=battles.newest,
        words=dict(sorted(naming.words.items(), key=lambda item: (-item[1], item[0]))[:SHOWN_WORDS]),
        unmet_request=round(unmet, 4),
        basis=BASIS,
    )


def unmet_request(granted_k: int, requested_k: int) -> float:
    """The part of the requested money that the granted would not cover, 0..1; 0 where no more is asked for."""
    return max(0.0, 1 - granted_k / requested_k) if requested_k > 0 else 0.0


def _plain(text: str) -> str:
    return _BREAKS.sub(" ", text.casefold()).strip()


NO_QUANTITIES = "no line of this area has an actual FY2015 quantity of the same item"


class HistoricRate(Struct, frozen=True):
    """One row of data/production/historic_rates.csv. `maximum_rate` is per year, of the exhibit it names."""

    account: str
    code: str
    quantity_fy2015: int
    basis: str
    licence: str
    source: str
    quantity_fy2012: int | None = None
    maximum_rate: int | None = None
    rate_exhibit: str = ""


class QuantityHistory(Struct, frozen=True):
    """Medians over an area's lines, since unlike things cannot be added; `…_lines` is how many stand behind one.

    `quantity_change` is FY2015 against FY2012 as a share. `headroom` is the part of the maximum yearly rate that the
    FY2015 quantity left unused, 0..1; foreign sales used some of it. A null has its reason.
    """

    is_historic: bool
    period: str
    quantity_change: float | None
    quantity_change_reason: str | None
    quantity_change_lines: int
    headroom: float | None
    headroom_reason: str | None
    headroom_lines: int


@cache
def _bundled_rates() -> dict[tuple[str, str], HistoricRate]:
    """The historic rows by account and code."""
    return {(row.account, row.code): row for row in read_rows("historic_rates.csv", HistoricRate)}


def historic_rates(lines: Sequence[Line]) -> list[tuple[Line, HistoricRate]]:
    """The lines whose past is known, each with it."""
    known = _bundled_rates()
    return [(line, known[key]) for line in lines if (key := (line.account, line.code)) in known]


def quantity_history(rates: Sequence[HistoricRate]) -> QuantityHistory:
    changes = [rate.quantity_fy2015 / rate.quantity_fy2012 - 1 for rate in rates if rate.quantity_fy2012]
    missing = "no line of this area has {}" if rates else NO_QUANTITIES
    unused = [max(0.0, 1 - rate.quantity_fy2015 / rate.maximum_rate) for rate in rates if rate.maximum_rate]
    return QuantityHistory(
        is_historic=True,
        period="FY2012 to FY2015",
        quantity_change=_median(changes),
        quantity_change_reason=None if changes else missing.format("both quantities"),
        quantity_change_lines=len(changes),
        headroom=_median(unused),
        headroom_reason=None if unused else missing.format("one yearly rate of its own"),
        headroom_lines=len(unused),
    )


def rate_citation(line: Line, rate: HistoricRate) -> str:
    before = "not known" if rate.quantity_fy2012 is None else str(rate.quantity_fy2012)
    most = f"; maximum rate {rate.maximum_rate} a year ({rate.rate_exhibit})" if rate.maximum_rate else ""
    return (
        f"Historic: {line.name} ({line.account} {line.code}), actual quantity FY2012 {before}, "
        f"FY2015 {rate.quantity_fy2015}{most}. {rate.source}"
    )


def _median(shares: Sequence[float]) -> float | None:
    return round(median(shares), 4) if shares else None


SHOWN_LINES = 3
SUPPLY_BASIS = (
    "growth / (1 + growth) of the area's US P-1 lines, FY2026 (enacted with reconciliation) over FY2025 (actual); "
    "the lines are a part of the exhibit, see production_summary"
)


class Supply(Struct, frozen=True):
    """`score` lies in 0..1, null for `reason`. Amounts are billions of dollars of the area's `lines`."""

    score: float | None
    reason: str | None
    fy2025_b: float
    fy2026_b: float
    lines: int
    basis: str
    history: QuantityHistory


class CapabilityGap(Struct, frozen=True):
    """`gap_score` lies in 0..1, null for `gap_score_reason`; `evidence` are citations of what the figures rest on."""

    area: str
    demand: Demand
    supply: Supply
    gap_score: float | None
    gap_score_reason: str | None
    trend: Trend
    evidence: list[str]
    explanation: str


def capability_gaps(lines: Sequence[Line], battles: Battles) -> list[CapabilityGap]:
    """Every area's gap, the widest first, those without a score last."""
    gaps = [_gap(area, [line for line in lines if line.area == area], battles) for area in area_words()]
    return sorted(gaps, key=lambda gap: (-1.0 if gap.gap_score is None else -gap.gap_score, gap.area))


def _gap(area: str, lines: Sequence[Line], battles: Battles) -> CapabilityGap:
    naming = battles.naming.get(area, AreaNaming())
    # Each year by itself: years are never added together.
    fy2025_k = sum(line.fy2025_k for line in lines)
    fy2026_k = sum(line.fy2026_k for line in lines)
    fy2027_k = sum(line.fy2027_k for line in lines)
    requested = demand(naming, battles, unmet_request(fy2026_k, fy2027_k))
    supply = _supply(lines, fy2025_k, fy2026_k)
    score = gap_score(requested.score, supply.score)
    trend = funding_trend(fy2025_k, fy2026_k, fy2027_k)
    null = "demand" if requested.score is None else "supply"
    return CapabilityGap(
        area=CATEGORIES[area],
        demand=requested,
        supply=supply,
        gap_score=score,
        gap_score_reason=None if score is not None else f"{null} is null, see {null}.reason",
        trend=trend,
        evidence=_evidence(lines, naming.shown),
        explanation=" ".join(
            [_explain_fighting(requested), _explain_money(requested, supply, trend), _explain_score(score)]
        ),
    )


def gap_score(demand_score: float | None, supply_score: float | None) -> float | None:
    """The formula of this file; None where either side was not measured."""
    if demand_score is None or supply_score is None:
        return None
    return round(sqrt(demand_score * (1 - supply_score)), 4)


def _supply(lines: Sequence[Line], fy2025_k: int, fy2026_k: int) -> Supply:
    growth = fy2026_k / fy2025_k if fy2025_k > 0 else None
    return Supply(
        score=None if growth is None else round(growth / (1 + growth), 4),
        reason="the area's lines hold no money in FY2025, so growth has no base" if growth is None else None,
        fy2025_b=billions(fy2025_k),
        fy2026_b=billions(fy2026_k),
        lines=len(lines),
        basis=SUPPLY_BASIS,
        history=quantity_history([rate for _, rate in historic_rates(lines)]),
    )


def _evidence(lines: Sequence[Line], shown: Sequence[tuple[Event, Sequence[str]]]) -> list[str]:
    """The area's largest lines, their past where it is known, and the most significant events that name it."""
    largest = sorted(lines, key=lambda line: (-max(line.fy2026_k, line.fy2027_k), line.code))
    rated = historic_rates(largest)[:SHOWN_LINES]
    return [
        *[citation(line) for line in largest[:SHOWN_LINES]],
        *[rate_citation(line, rate) for line, rate in rated],
        *[_event_citation(event, words) for event, words in shown],
    ]


def _event_citation(event: Event, words: Sequence[str]) -> str:
    where = f" {event.source_urls[0]}" if event.source_urls else ""
    return f'Event {event.id} names {", ".join(words)}: "{event.title}" ({event.event_date.isoformat()}).{where}'


def _explain_fighting(requested: Demand) -> str:
    if requested.live_share is None or requested.newest_event is None:
        return f"The fighting says nothing about it: {requested.reason}."
    battles = f"{requested.battle_events} battle events up to {requested.newest_event.isoformat()}"
    if requested.matching_events == 0:
        return f"None of {battles} names it, which is no proof that it was not needed."
    return f"{requested.matching_events} of {battles} ({requested.live_share:.1%}) name it."


def _explain_money(requested: Demand, supply: Supply, trend: Trend) -> str:
    short = f"this year's sum again would leave {requested.unmet_request:.0%} of it open"
    return (
        f"Its {supply.lines} procurement lines go from ${supply.fy2025_b:.2f} B in FY2025 to ${supply.fy2026_b:.2f} B "
        f"in FY2026. The FY2027 request, not yet money, is ${trend.fy2027_requested_b:.2f} B: "
        f"{short if requested.unmet_request else 'no more than this year'}."
    )


def _explain_score(score: float | None) -> str:
    if score is None:
        return "With a part missing there is no score."
    return (
        f"Gap score {score:.2f}: it ranks areas by what is asked and granted, and measures no shortfall in the field."
    )
