"""Dates in headlines: what lies in the past of the report's day, and which period is named."""

from datetime import date

import pytest

from tollhouse.services.defense.events.classifier import read_address, read_date, without_dates

TODAY = date(2022, 10, 18)


@pytest.mark.parametrize(
    ("path", "first_day"),
    [
        ("news/2022/09/30/raid", date(2022, 9, 30)),
        ("2021/1/5/raid", date(2021, 1, 5)),
        ("news/2022/10/14/raid", None),
        ("news/2022/13/40/raid", None),
        ("world/2022101/raid", None),
    ],
)
def test_address_dates_an_old_page(path, first_day) -> None:
    named = read_address(f"https://a.example/{path}", TODAY)
    assert (named.first_day, named.is_past) == (first_day, first_day is not None)


@pytest.mark.parametrize(
    ("title", "first_day"),
    [
        ("Rebel leader killed in August", date(2022, 8, 1)),
        ("Colonel died in December raid, inquiry finds", date(2021, 12, 1)),
        ("Police name gunman of 3 May 2015 attack", date(2015, 5, 3)),
        ("March 14, 1994: army leaves the island", date(1994, 3, 14)),
        ("Bombing on October 2nd was work of separatists", date(2022, 10, 2)),
        ("Minister admits arms deal in 2011", date(2011, 1, 1)),
        ("1950s plan to mine the strait revealed", date(1950, 1, 1)),
        ("Ten years ago the wall fell", None),
        ("Village remembers massacre, decades later", None),
        ("Fleet marks 200th anniversary of the battle", None),
        ("This day in history: the treaty is signed", None),
        ("General dismissed last year returns", None),
    ],
)
def test_older_dates_are_the_past(title, first_day) -> None:
    named = read_date(title, TODAY)
    assert named.is_past
    assert named.first_day == first_day
    assert named.words
    assert named.words in title.lower()


@pytest.mark.parametrize(
    "title",
    [
        "Two soldiers killed on Monday",
        "Rebels shell the port on October 16",
        "Talks to resume in December",
        "Elections will be held in January",
        "Unemployment rises in October",
        "Worst clashes since 2014",
        "Fighting goes on for the first time since May 2019",
        "Troops may 5 times exceed the limit",
        "March on the capital continues",
        "2020 election results confirmed",
        "Jan. 6 panel to hear witnesses",
        "A 1970's band returns",
        "Army buys 2030 missiles",
        "Soldier wounded 3 hours ago",
        "",
    ],
)
def test_recent_and_future_dates_and_other_numbers_are_not(title) -> None:
    assert not read_date(title, TODAY).is_past


def test_recent_day_is_named_without_being_past() -> None:
    assert read_date("Rebels shell the port on October 16", TODAY).first_day == date(2022, 10, 16)
    assert read_date("Bases attacked on December 31", date(2023, 1, 2)).first_day == date(2022, 12, 31)


@pytest.mark.parametrize("title", ["On 31 February the war began", "31 June: a treaty", "in 2999", "on may 0"])
def test_impossible_dates_name_nothing(title) -> None:
    assert read_date(title, TODAY).first_day is None


@pytest.mark.parametrize(
    ("title", "rest"),
    [
        ("TV listings for March 12", "TV listings for"),
        ("March 12th, 2014: what to watch", ": what to watch"),
        ("Shares to watch on 11 march 2014", "Shares to watch on"),
        ("Court hears case from May 2019", "Court hears case from"),
        ("Thousands march in 12 cities", "Thousands march in 12 cities"),
        ("Women's march 100 years on", "Women's march 100 years on"),
    ],
)
def test_dates_are_cut_out_of_titles(title, rest) -> None:
    assert " ".join(without_dates(title).split()) == rest
