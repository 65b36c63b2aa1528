from datetime import UTC, datetime

import pytest

from tollhouse.download import parse_retry_after
from tollhouse.webhooks.schedule import MAX_RETRY_AFTER, PAUSES, Capacity, Waiting, allocate, pause_after

NOW = 1_780_000_000.0
END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def waiting(name, *, is_suspect=False, is_proven=True, in_flight=0, since=0):
    return Waiting(name, is_suspect, is_proven, in_flight, since)


@pytest.mark.parametrize("tries", range(1, 10))
def test_pause_is_the_schedules_within_a_tenth(tries):
    drawn = {pause_after(tries, None) for _ in range(200)}
    assert len(drawn) > 100
    assert all(0.9 * PAUSES[tries - 1] <= pause <= 1.1 * PAUSES[tries - 1] for pause in drawn)


def test_after_the_tenth_try_there_is_no_pause():
    assert pause_after(10, None) is None
    assert pause_after(11, 60.0) is None


def test_asked_pause_lengthens_and_never_shortens():
    assert pause_after(1, 120.0) == 120.0
    assert pause_after(4, 30.0) > 6_000
    assert pause_after(1, 1e12) == MAX_RETRY_AFTER


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("120", 120.0), (" 7 ", 7.0), ("0", 0.0), ("99999999999999999999", 999_999_999.0), ("", None),
     ("soon", None), ("-5", None), ("1.5", None), ("\u0661", None),
     ("Thu, 28 May 2026 20:28:40 GMT", 1_000_120 - 1_000_000), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
     ("Fri, 31 Dec 9999 23:59:59 GMT", END_OF_TIME - NOW), ("Thu, 99 May 2026 20:28:40 GMT", None)],
)  # fmt: skip
def test_retry_after_is_read_as_seconds_or_a_date(header, seconds):
    assert parse_retry_after(header, NOW) == seconds


def test_line_is_served_one_by_one_the_longest_unserved_first():
    line = [waiting("a", since=3), waiting("b", since=1), waiting("c", since=2)]
    assert allocate(line, Capacity(overall=2), 0, 0) == {"b": 1, "c": 1}
    assert allocate(line, Capacity(overall=4), 0, 0) == {"b": 2, "c": 1, "a": 1}


def test_no_endpoint_gets_more_than_its_share():
    assert allocate([waiting("a", in_flight=3)], Capacity(each=8), 3, 0) == {"a": 5}
    assert allocate([waiting("a", in_flight=8)], Capacity(each=8), 8, 0) == {}
    assert allocate([waiting("a", is_proven=False)], Capacity(), 0, 0) == {"a": 2}
    assert allocate([waiting("a", is_suspect=True)], Capacity(), 0, 0) == {"a": 2}


def test_suspects_together_leave_room_for_the_others():
    line = [waiting(f"dead{number}", is_suspect=True) for number in range(500)] + [waiting("well", since=9)]
    given = allocate(line, Capacity(overall=20, suspects=10, each=8), 0, 0)
    assert given.pop("well") == 8
    assert sum(given.values()) == 10
    assert allocate(line, Capacity(overall=20, suspects=10, each=8), 10, 10) == {"well": 8}


def test_nothing_is_given_beyond_the_whole():
    assert allocate([waiting("a"), waiting("b")], Capacity(overall=5), 5, 0) == {}
    assert sum(allocate([waiting(str(n)) for n in range(9)], Capacity(overall=5), 2, 0).values()) == 3
