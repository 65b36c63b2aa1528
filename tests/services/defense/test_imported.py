"""An operator's own exhibit, read into the lines we know."""

import pytest
from msgspec.structs import replace

from tollhouse.services.defense.brief.p1_import import imported, read_exhibit
from tollhouse.services.defense.brief.production import bundled_lines, production_summary

HEADER = (
    "Account,Account Title,Organization,Budget Line Item,Budget Line Item (BLI) Title,Add/Non-Add,"
    "FY 2025 Actuals Amount,FY 2026 Total Amount,FY 2027 Total Amount"
)
RAIDER = "3010F,Aircraft,F,B02100,B-21 Raider,Add,100,200,300"
LINES = bundled_lines()


def exhibit(*rows: str, header=HEADER):
    return read_exhibit("\n".join([header, *rows]).encode())


def raider(lines):
    return next(line for line in lines if (line.account, line.code) == ("3010F", "B02100"))


def test_known_line_takes_the_exhibits_amounts_and_says_where_they_stand():
    read = imported(exhibit(RAIDER), "p1.csv", LINES)
    line = raider(read.lines)
    assert read.matched == 1
    assert (line.fy2025_k, line.fy2026_k, line.fy2027_k) == (100, 200, 300)
    assert line.source == "p1.csv, account 3010F, line B02100"
    assert line.is_net_complete
    assert line.name == raider(LINES).name


def test_every_other_line_stays_as_it_was_in_its_place():
    read = imported(exhibit(RAIDER), "p1.csv", LINES)
    assert len(read.lines) == len(LINES)
    assert [new for new in read.lines if new != raider(read.lines)] == [old for old in LINES if old != raider(LINES)]


def test_brief_adds_the_exhibits_amounts_up():
    before = production_summary(LINES).total_market_value_b
    after = production_summary(imported(exhibit(RAIDER), "p1.csv", LINES).lines).total_market_value_b
    assert after - before == pytest.approx((200 - raider(LINES).fy2026_k) / 1e6, abs=1e-6)


def test_code_of_another_account_is_another_line():
    other = RAIDER.replace("3010F", "1506N")
    with pytest.raises(ValueError, match="none of the known lines"):
        imported(exhibit(other), "p1.csv", LINES)


def test_line_without_an_amount_in_one_year_keeps_what_we_know():
    rest = next(line for line in LINES if line != raider(LINES))
    complete = f"{rest.account},A,F,{rest.code},Another,Add,1,2,3"
    read = imported(exhibit(RAIDER.replace("300", ""), complete), "p1.csv", LINES)
    assert read.matched == 1
    assert raider(read.lines) == raider(LINES)


def test_rows_that_do_not_add_do_not_count():
    read = imported(exhibit(RAIDER, RAIDER.replace("Add", "Non-Add").replace("200", "999")), "p1.csv", LINES)
    assert raider(read.lines).fy2026_k == 200


def test_exhibit_that_lacks_a_year_is_refused():
    short = exhibit(RAIDER.rpartition(",")[0], header=HEADER.rpartition(",")[0])
    with pytest.raises(ValueError, match="FY2027"):
        imported(short, "p1.csv", LINES)


def test_importing_twice_is_importing_once():
    once = imported(exhibit(RAIDER), "p1.csv", LINES)
    assert imported(exhibit(RAIDER), "p1.csv", once.lines) == once


def test_caution_about_a_line_survives():
    cautious = [replace(line, caution="moved") if line == raider(LINES) else line for line in LINES]
    assert raider(imported(exhibit(RAIDER), "p1.csv", cautious).lines).caution == "moved"
