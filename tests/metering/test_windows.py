from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.metering.meter import SECONDS_PER_DAY, Windows, peek, release, reserve
from tollhouse.storage.counters import Tally

NOON = 20_000 * SECONDS_PER_DAY + SECONDS_PER_DAY / 2
MIDNIGHT = 20_001.0 * SECONDS_PER_DAY

limits = st.integers(1, 6)
# Sixteenths of a second: sums stay exact, so that a claim about a boundary is about the rule, not about rounding.
pauses = st.lists(st.integers(0, 40 * 16).map(lambda sixteenths: sixteenths / 16), max_size=60)
starts = st.sampled_from([NOON, MIDNIGHT - 100, MIDNIGHT - 1])


def admitted(tally, windows, moments):
    return [moment for moment in moments if reserve(tally, windows, moment).refused_by is None]


def moments_of(start, gaps):
    moments = [start]
    for gap in gaps:
        moments.append(moments[-1] + gap)
    return moments


@given(limits, st.integers(1, 30), starts, pauses)
def test_never_more_than_the_limit_in_any_minute_nor_day(per_minute, per_day, start, gaps):
    calls = admitted(Tally(), Windows(per_day, per_minute), moments_of(start, gaps))
    assert calls
    for last in calls:
        assert sum(last - 60 < call <= last for call in calls) <= per_minute
    assert max(Counter(call // SECONDS_PER_DAY for call in calls).values()) <= per_day


@given(limits, st.integers(1, 30), starts, pauses, st.sampled_from([60, 3_600]))
def test_call_is_refused_at_most_one_bucket_too_early(per_sliding, per_day, start, gaps, seconds):
    tally, windows, calls = Tally(), Windows(per_day, per_sliding, seconds), []
    for moment in moments_of(start, [gap * seconds / 60 for gap in gaps]):
        verdict = reserve(tally, windows, moment)
        today = sum(call // SECONDS_PER_DAY == moment // SECONDS_PER_DAY for call in calls)
        assert (verdict.refused_by is verdict.day) == (today >= per_day)
        if verdict.refused_by is verdict.sliding:
            assert sum(call > moment - seconds * 61 / 60 for call in calls) >= per_sliding
        if not verdict.refused_by:
            assert sum(call > moment - seconds for call in calls) < per_sliding
            calls.append(moment)


@given(st.integers(1, 6), starts, pauses)
def test_wait_is_never_longer_than_the_window(per_minute, start, gaps):
    tally, windows = Tally(), Windows(None, per_minute)
    for moment in moments_of(start, gaps):
        verdict = reserve(tally, windows, moment)
        assert not verdict.refused_by or 1 <= verdict.retry_after_seconds(moment) <= 60
        assert moment <= verdict.sliding.resets_at <= moment + 60


@given(limits, st.integers(1, 8), starts, pauses)
def test_retry_at_the_told_moment_succeeds(per_minute, per_day, start, gaps):
    windows = Windows(per_day, per_minute)
    tally = Tally()
    for moment in moments_of(start, gaps):
        verdict = reserve(tally, windows, moment)
        if verdict.refused_by:
            wait = verdict.retry_after_seconds(moment)
            assert wait >= 1
            again = Tally.from_packed(tally.day, tally.used, tally.packed_sliding())
            assert reserve(again, windows, moment + wait).refused_by is None


@given(limits, starts, pauses, st.integers(0, 59))
def test_release_gives_back_exactly_one(per_minute, start, gaps, chosen):
    windows = Windows(1_000, per_minute)
    tally = Tally()
    moments = moments_of(start, gaps)
    calls = admitted(tally, windows, moments)
    call = calls[chosen % len(calls)]
    now = moments[-1]
    before = peek(tally, windows, now)
    after = release(tally, windows, call, now)
    is_today = call // SECONDS_PER_DAY == now // SECONDS_PER_DAY
    assert after.day.used == before.day.used - is_today
    if not now - 61 < call <= now - 60:  # else its bucket may be past, or not yet
        assert after.sliding.used == before.sliding.used - (call > now - 60)


@given(limits, pauses)
def test_looking_counts_nothing(per_minute, gaps):
    windows = Windows(50, per_minute)
    looked, plain = Tally(), Tally()
    for moment in moments_of(NOON, gaps):
        peek(looked, windows, moment)
        assert reserve(looked, windows, moment).refused_by == reserve(plain, windows, moment).refused_by
    assert (looked.day, looked.used, looked.packed_sliding()) == (plain.day, plain.used, plain.packed_sliding())


@given(limits, st.lists(st.integers(-200 * 16, 200 * 16).map(lambda sixteenths: sixteenths / 16), max_size=60))
def test_clock_that_goes_back_admits_no_more_than_the_limit(per_minute, gaps):
    windows = Windows(None, per_minute)
    tally = Tally()
    for moment in moments_of(NOON, gaps):
        verdict = reserve(tally, windows, moment)
        assert verdict.sliding.used <= per_minute
        if verdict.refused_by:
            again = Tally.from_packed(tally.day, tally.used, tally.packed_sliding())
            assert reserve(again, windows, moment + verdict.retry_after_seconds(moment)).refused_by is None


def test_yesterday_does_not_come_back_with_the_clock():
    windows = Windows(2, None)
    tally = Tally()
    assert len(admitted(tally, windows, [MIDNIGHT + 1, MIDNIGHT + 2, MIDNIGHT - 1, MIDNIGHT + 3])) == 2


def test_day_begins_anew_at_midnight_utc():
    windows = Windows(2, None)
    tally = Tally()
    assert len(admitted(tally, windows, [MIDNIGHT - 3, MIDNIGHT - 2, MIDNIGHT - 0.001])) == 2
    refused = reserve(tally, windows, MIDNIGHT - 0.5)
    assert refused.refused_by == refused.day
    assert refused.day.resets_at == MIDNIGHT
    assert refused.retry_after_seconds(MIDNIGHT - 0.5) == 1
    fresh = reserve(tally, windows, MIDNIGHT)
    assert (fresh.refused_by, fresh.day.used, fresh.day.remaining) == (None, 1, 1)


def test_day_refuses_before_the_minute():
    verdicts = [reserve(tally, Windows(1, 1), NOON) for tally in [Tally()] * 2]
    assert verdicts[1].refused_by == verdicts[1].day


def test_wait_covers_both_windows_when_both_are_full():
    tally, windows = Tally(), Windows(1, 1)
    assert len(admitted(tally, windows, [MIDNIGHT - 10])) == 1
    refused = reserve(tally, windows, MIDNIGHT - 5)
    assert refused.retry_after_seconds(MIDNIGHT - 5) == 55


def test_refused_call_counts_in_neither_window():
    tally, windows = Tally(), Windows(5, 2)
    admitted(tally, windows, [NOON] * 4)
    verdict = peek(tally, windows, NOON)
    assert (verdict.day.used, verdict.sliding.used) == (2, 2)


def test_unlimited_day_still_counts():
    tally = Tally()
    verdict = [reserve(tally, Windows(None, 5), NOON) for _ in range(3)][-1]
    assert (verdict.day.limit, verdict.day.used, verdict.day.remaining) == (None, 3, None)


def test_unlimited_minute_still_counts():
    tally = Tally()
    verdict = [reserve(tally, Windows(5, None), NOON) for _ in range(3)][-1]
    assert (verdict.sliding.used, verdict.sliding.remaining) == (3, None)


def test_plan_that_shrinks_refuses_until_enough_calls_are_past():
    tally = Tally()
    admitted(tally, Windows(None, 100), [NOON + second for second in range(20)])
    smaller = Windows(None, 5)
    refused = reserve(tally, smaller, NOON + 20)
    assert refused.sliding.remaining == 0
    wait = refused.retry_after_seconds(NOON + 20)
    assert reserve(tally, smaller, NOON + 20 + wait - 1).refused_by
    assert reserve(tally, smaller, NOON + 20 + wait).refused_by is None


def test_released_call_of_yesterday_leaves_today_alone():
    tally, windows = Tally(), Windows(10, 10)
    reserve(tally, windows, MIDNIGHT - 1)
    reserve(tally, windows, MIDNIGHT + 1)
    verdict = release(tally, windows, MIDNIGHT - 1, MIDNIGHT + 2)
    assert (verdict.day.used, verdict.sliding.used) == (1, 1)


def test_release_twice_takes_nothing_below_zero():
    tally, windows = Tally(), Windows(10, 10)
    reserve(tally, windows, NOON)
    release(tally, windows, NOON, NOON)
    verdict = release(tally, windows, NOON, NOON)
    assert (verdict.day.used, verdict.sliding.used) == (0, 0)


def test_packed_tally_comes_back_whole():
    tally = Tally()
    admitted(tally, Windows(None, None), [NOON + 0.1, NOON + 0.2, NOON + 1 / 3])
    again = Tally.from_packed(tally.day, tally.used, tally.packed_sliding())
    assert (again.day, again.used, again.packed_sliding()) == (tally.day, tally.used, tally.packed_sliding())


@pytest.mark.parametrize(("seconds", "name"), [(60, "minute"), (3_600, "hour")])
def test_window_is_called_by_its_name(seconds, name):
    assert reserve(Tally(), Windows(None, 1, seconds), NOON).sliding.window == name
