from datetime import UTC, datetime, timedelta

import pytest

from tests.questions.invented import NOW
from tollhouse.questions.normalise import fold
from tollhouse.questions.times import find_times

MIDNIGHT = datetime(2020, 11, 15, tzinfo=UTC)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("events since 10:00", MIDNIGHT + 10 * HOUR, None),
        ("in the last 3 hours", NOW - 3 * HOUR, None),
        ("during the last half hour of the recording", NOW - HOUR / 2, None),
        ("in den letzten drei Stunden", NOW - 3 * HOUR, None),
        ("en las últimas 3 horas", NOW - 3 * HOUR, None),
        ("ces 3 dernières heures", NOW - 3 * HOUR, None),
        ("yesterday", MIDNIGHT - DAY, MIDNIGHT),
        ("gestern", MIDNIGHT - DAY, MIDNIGHT),
        ("this morning", MIDNIGHT, MIDNIGHT + 12 * HOUR),
        ("between 6 and 9", MIDNIGHT + 6 * HOUR, MIDNIGHT + 9 * HOUR),
        ("after 3 pm", MIDNIGHT - DAY + 15 * HOUR, None),
        ("on 14 November", MIDNIGHT - DAY, MIDNIGHT),
        ("am 14. November", MIDNIGHT - DAY, MIDNIGHT),
        ("vor dem 14. November", None, MIDNIGHT - DAY),
        ("el 14 de noviembre", MIDNIGHT - DAY, MIDNIGHT),
        ("on Nov 14th", MIDNIGHT - DAY, MIDNIGHT),
        ("2020-11-14", MIDNIGHT - DAY, MIDNIGHT),
        ("on Saturday", MIDNIGHT - DAY, MIDNIGHT),
    ],
)
def test_times_are_read_from_the_end_of_the_data(text, since, until):
    (phrase,) = find_times(fold(text), NOW, 48)
    assert (phrase.since, phrase.until, phrase.outside) == (since, until, False)


@pytest.mark.parametrize(
    "text", ["last week", "in 2015", "in March 2019", "on 24 December 2020", "tomorrow", "last 60 hours"]
)
def test_time_that_the_data_does_not_cover_is_outside(text):
    assert [phrase.outside for phrase in find_times(fold(text), NOW, 48)] == [True]


def test_whole_window_is_no_condition():
    (phrase,) = find_times("in the last 24 hours", NOW, 24)
    assert (phrase.since, phrase.until, phrase.outside) == (None, None, False)
