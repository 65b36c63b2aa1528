"""Years of a number: the figures of the year that is named, and differences between two years."""

import pytest

from tollhouse.services.defense.chat.snapshot import ask


@pytest.mark.parametrize(
    ("question", "attribute"),
    [
        ("How much money did the B-21 get in FY25?", "money_2025"),
        ("What was the 2025 budget of the F-35A?", "money_2025"),
        ("How much did the B-21 get in 2026?", "money"),
        ("Wie viel Geld bekommt die B-21 im Haushaltsjahr 2027?", "money_2027"),
    ],
)
async def test_year_names_the_figures_of_that_year(question, attribute):
    query = (await ask([question])).query
    assert attribute in (getattr(query, "attribute", None), getattr(getattr(query, "measure", None), "attribute", None))


@pytest.mark.parametrize(
    ("question", "measure"),
    [
        ("How much more money did the B-21 get in 2026 than in 2025?", ("more", "money", "money_2025")),
        ("How much less did the F-35A get in FY26 than in FY25?", ("less", "money", "money_2025")),
        ("By how much did the F-35A's money fall from FY2025 to FY2026?", ("less", "money", "money_2025")),
        ("By what percentage did the money for the B-21 rise from 2025 to 2026?", ("increase", "money", "money_2025")),
    ],
)
async def test_two_years_are_compared(question, measure):
    answer = await ask([question])
    read = answer.query.measure
    assert (read.function, read.attribute, read.base) == measure
    assert answer.value > 0


async def test_year_of_rows_without_figures_of_years_is_a_time():
    answer = await ask(["how many events were there in 2025"])
    assert answer.refusal.reason == "outside_time"
