from datetime import date

import pytest

from tests.services.defense.served import count_events
from tollhouse.services.defense.brief.live_events import (
    NO_PREVIOUS,
    NONE_BEFORE,
    WHOLE,
    Change,
    Coverage,
    events_live,
)
from tollhouse.services.defense.events.event import Event, Geo, Metrics


def event(number=0, category="Battles", country="Ukraine", severity="low"):
    return Event(
        id=f"conflict_{number:016x}",
        title="Rockets hit the town",
        event_date=date(2026, 11, 20),
        category=category,
        subcategory="Armed clash",
        geo=Geo(country, "", 49.0, 32.0),
        fatalities=0,
        metrics=Metrics(0.5, severity, 0.9),
        source_urls=[],
        source_count=1,
        story_id=None,
        fatalities_basis="not_reported",
        title_basis="url",
    )


def live_of(window, previous, coverage=WHOLE):
    return events_live(count_events(window), count_events(previous).by_category, "GDELT", coverage)


def test_events_are_counted_by_category_severity_and_country():
    window = [event(), event(country="Sudan", severity="high"), event(category="Protests"), event(country="")]
    live = live_of(window, [])
    assert (live.battle_events_24h, live.events_24h) == (3, 4)
    assert live.by_category == {"Battles": 3, "Protests": 1, "Political": 0, "Economic": 0}
    assert live.by_severity == {"critical": 0, "high": 1, "medium": 0, "low": 3}
    assert list(live.by_country.items()) == [("Ukraine", 2), ("Sudan", 1)]
    assert (live.without_country, live.provider) == (1, "GDELT")


def test_change_is_absolute_and_a_share_of_the_day_before():
    live = live_of([event(), event(), event()], [event(), event()])
    assert live.change["Battles"] == Change(1, 0.5, None)
    assert live.change["events"] == Change(1, 0.5, None)


def test_fall_is_negative():
    assert live_of([event()], [event()] * 4).change["Battles"] == Change(-3, -0.75, None)


def test_change_is_null_with_a_reason_when_nothing_is_stored_of_the_day_before():
    live = live_of([event()], [])
    assert live.change["Battles"] == Change(None, None, NO_PREVIOUS)
    assert set(live.change) == {"events", "Battles", "Protests", "Political", "Economic"}


def test_share_is_null_with_a_reason_when_there_was_none_before():
    live = live_of([event()], [event(category="Political")])
    assert live.change["Battles"] == Change(1, None, NONE_BEFORE)
    assert live.change["Political"] == Change(-1, -1.0, None)


@pytest.mark.parametrize(("previous", "is_comparable"), [(0.99, True), (0.5, False), (0.06, False)])
def test_days_read_in_unequal_parts_are_not_compared(previous, is_comparable):
    change = live_of([event()] * 2, [event()], Coverage(1.0, previous)).change["Battles"]
    assert (change.absolute == 1) is is_comparable
    assert (change.reason is None) is is_comparable


def test_day_of_which_nothing_was_read_is_not_compared():
    change = live_of([event()] * 2, [event()], Coverage(0.01, 0.0)).change["Battles"]
    assert (change.absolute, change.share) == (None, None)
    assert "1% of these 24 hours" in change.reason


def test_empty_window_is_zero_and_says_that_zero_may_mean_unread():
    live = live_of([], [])
    assert (live.battle_events_24h, live.events_24h, live.by_country) == (0, 0, {})
    assert "nothing was read" in live.basis
