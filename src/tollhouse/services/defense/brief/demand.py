"""What is asked of a capability: by the fighting of a day, whose words name it, and by the buyer's next request."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from functools import cache

from msgspec import Struct

from tollhouse.services.defense.brief.tables import read_words
from tollhouse.services.defense.events.event import Event

# One event more or less then moves a share by at most five points.
FEWEST_BATTLES = 20
BASIS = (
    "mean of live_share (battle events of the window whose title or subcategory names the area) and unmet_request "
    "(part of the FY2027 request that a repeat of the FY2026 money would not cover)"
)

_BREAKS = re.compile(r"[\W_]+")


class Demand(Struct, frozen=True):
    """`score` is the mean of `live_share` and `unmet_request`, each 0..1; null together with `live_share`.

    `live_share` is `matching_events` / `battle_events`, null for `reason`. `words` counts events by the words found.
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


def naming_events(area: str, battles: Sequence[Event]) -> list[tuple[Event, list[str]]]:
    """The events that name the area, each with the phrases it does so by."""
    texts = ((event, f" {_plain(f'{event.title} {event.subcategory}')} ") for event in battles)
    found = ((event, [word for word in area_words()[area] if f" {word} " in text]) for event, text in texts)
    return [(event, words) for event, words in found if words]


def demand(naming: Sequence[tuple[Event, list[str]]], battles: Sequence[Event], unmet: float) -> Demand:
    """What the `naming` events among `battles` and the `unmet` part of the request make together."""
    words = Counter(word for _, found in naming for word in found)
    few = len(battles) < FEWEST_BATTLES
    share = None if few else len(naming) / len(battles)
    return Demand(
        score=None if share is None else round((share + unmet) / 2, 4),
        reason=f"{len(battles)} battle events are too few for a share; {FEWEST_BATTLES} are needed" if few else None,
        live_share=None if share is None else round(share, 4),
        matching_events=len(naming),
        battle_events=len(battles),
        newest_event=max((event.event_date for event in battles), default=None),
        words=dict(words.most_common(5)),
        unmet_request=round(unmet, 4),
        basis=BASIS,
    )


def unmet_request(granted_k: int, requested_k: int) -> float:
    """The part of the requested money that the granted would not cover, 0..1; 0 where no more is asked for."""
    return max(0.0, 1 - granted_k / requested_k) if requested_k > 0 else 0.0


def _plain(text: str) -> str:
    return _BREAKS.sub(" ", text.casefold()).strip()
