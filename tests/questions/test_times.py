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
        ("on the 14th?", MIDNIGHT - DAY, MIDNIGHT),
        ("on the fourteenth of November", MIDNIGHT - DAY, MIDNIGHT),
        ("since the fourteenth", MIDNIGHT - DAY, None),
        ("before 9 am today", None, MIDNIGHT + 9 * HOUR),
        ("since eight this morning", MIDNIGHT + 8 * HOUR, None),
        ("after 9 am on 14 November", MIDNIGHT - DAY + 9 * HOUR, None),
        ("between 8 and 10 this morning", MIDNIGHT + 8 * HOUR, MIDNIGHT + 10 * HOUR),
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


@pytest.mark.parametrize(
    "text", ["the 14th most significant event", "on the 99th?", "from two countries", "the second of the three"]
)
def test_number_is_no_time(text):
    assert find_times(fold(text), NOW, 48) == []


def test_whole_window_is_no_condition():
    (phrase,) = find_times("in the last 24 hours", NOW, 24)
    assert (phrase.since, phrase.until, phrase.outside) == (None, None, False)


def day(year, month=1, of=1):
    return datetime(year, month, of, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        pytest.param("en enero de 2024", day(2024), day(2024, 2), id="month with the year behind a preposition"),
        pytest.param("after 1 April 2024", day(2024, 4, 2), None, id="after a day: from the next"),
        pytest.param("since 1 April 2024", day(2024, 4), None, id="since a day: from it"),
        pytest.param("Möbel aus 2023", day(2023), day(2024), id="year behind a German preposition"),
        pytest.param("coches de 2019", day(2019), day(2020), id="year behind a Spanish preposition"),
        pytest.param("vor dem Jahr 2019", None, day(2019), id="before a year that is called one"),
        pytest.param("anteriores a 2021", None, day(2021), id="before, as an adjective in Spanish"),
        pytest.param("postérieures à 2012", day(2013), None, id="after, as an adjective in French"),
    ],
)
def test_dates_of_rows_are_read_without_an_end_of_the_data(text, since, until):
    (phrase,) = find_times(fold(text), NOW, None)
    assert (phrase.since, phrase.until) == (since, until)


@pytest.mark.parametrize("text", ["older than 50", "older than 5", "ab 20", "entre 6 et 9", "from 8 to 10"])
def test_numbers_are_no_hours_where_the_data_covers_no_certain_hours(text):
    assert find_times(fold(text), NOW, None) == []
