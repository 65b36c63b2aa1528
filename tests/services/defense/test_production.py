import re

import pytest

from tollhouse.services.defense.brief.production import bundled_lines, funding_trend, production_summary


def summary():
    return production_summary(bundled_lines())


def line(account, code):
    return next(line for line in bundled_lines() if (line.account, line.code) == (account, code))


def test_total_is_the_hand_checked_sum_of_one_year():
    # 72,275,611 thousand dollars: the FY2026 column of the table, added up with a spreadsheet's SUM.
    assert summary().total_market_value_b == 72.275611
    assert summary().fiscal_year == "FY2026"


def test_total_is_what_its_programs_add_up_to():
    read = summary()
    assert len(read.programs) == 188
    assert sum(program.value_b for program in read.programs) == pytest.approx(read.total_market_value_b, abs=1e-9)


@pytest.mark.parametrize(
    ("category", "value_b"),
    [
        # 7332016 + 3151712 + 341372 + 176000 + 158234 + 119376 + 76906 + 73893 + 41393 + 37282 + 14604 thousands.
        ("Bombers and nuclear strike", 11.522788),
        # 680725 + 593593 + 301858 + 134713 + 100352 + 69913 thousands.
        ("Air-to-air missiles", 1.881154),
    ],
)
def test_category_adds_up_as_by_hand(category, value_b):
    of_category = [program.value_b for program in summary().programs if program.category == category]
    assert sum(of_category) == pytest.approx(value_b, abs=1e-9)


def test_years_are_never_added_together():
    every_year = sum(line.fy2025_k + line.fy2026_k + line.fy2027_k for line in bundled_lines()) / 1_000_000
    figures = re.findall(r"\d+\.\d+", summary().basis)
    assert summary().total_market_value_b < every_year / 3
    assert figures == []


def test_basis_says_what_the_sum_covers_and_that_it_is_a_floor():
    basis = summary().basis
    for claim in ("188 US P-1 procurement lines", "FY2026", "net", "floor", "inferred", "Not a market size"):
        assert claim in basis


def test_every_program_is_cited_to_its_line():
    raider = summary().programs[0]
    assert (raider.name, raider.value_b) == ("B-21 Raider", 7.332016)
    assert raider.source.startswith('Exhibit P-1, account 3010F (Aircraft Procurement, Air Force), line B02100 "B-21')
    assert "2600468, 7332016, 3236282" in raider.source
    assert all("rows P-1-" in program.source for program in summary().programs)


def test_quantity_is_null_with_a_reason():
    assert all(program.quantity is None and program.quantity_reason for program in summary().programs)


def test_every_line_carries_its_licence_and_its_basis():
    for known in bundled_lines():
        assert "public domain" in known.licence
        assert "transcribed" in known.basis
        assert "stage labels inferred" in known.basis


def test_no_line_is_there_twice():
    keys = [(known.account, known.code) for known in bundled_lines()]
    assert (len(keys), len(set(keys))) == (228, 228)


def test_line_that_moves_between_accounts_has_no_trend_of_its_own():
    thaad = next(program for program in summary().programs if program.name == "THAAD")
    assert thaad.trend.direction is None
    assert "2032A C20200" in thaad.trend.reason
    assert thaad.trend.fy2027_requested_b == 0


def test_incomplete_net_is_named_in_the_cautions():
    assert not line("1507N", "2327").is_net_complete
    assert any("AARGM-ER" in caution for caution in summary().cautions)


def test_no_lines_make_an_empty_summary_with_a_number():
    empty = production_summary([])
    assert (empty.total_market_value_b, empty.programs) == (0.0, [])


@pytest.mark.parametrize(
    ("amounts", "direction"),
    [
        ((100, 110, 110), "rising"),
        ((100, 109, 109), "steady"),
        ((100, 91, 91), "steady"),
        ((100, 90, 90), "falling"),
        ((100, 200, 100), "mixed"),
        ((100, 50, 100), "mixed"),
        ((0, 100, 100), "new"),
        ((0, 0, 100), "new"),
        ((-37, 100, 100), "new"),
        ((100, 0, 100), "mixed"),
        ((100, 100, 0), "lapsing"),
        ((0, 100, 0), "lapsing"),
    ],
)
def test_trend_follows_the_documented_thresholds(amounts, direction):
    assert funding_trend(*amounts).direction == direction
