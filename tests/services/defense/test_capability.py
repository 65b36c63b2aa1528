from datetime import date
from math import sqrt

import msgspec
import pytest

from tests.services.defense.served import survey
from tollhouse.services.defense.brief.capability import (
    area_words,
    capability_gaps,
    gap_score,
    named_areas,
    unmet_request,
)
from tollhouse.services.defense.brief.production import CATEGORIES, bundled_lines
from tollhouse.services.defense.events.event import Event, Geo, Metrics


def battle(title="Troops clash near the border", subcategory="Armed clash", category="Battles", number=0):
    return Event(
        id=f"conflict_{number:016x}",
        title=title,
        event_date=date(2026, 11, 20),
        category=category,
        subcategory=subcategory,
        geo=Geo("Ukraine", "", 49.0, 32.0),
        fatalities=0,
        metrics=Metrics(0.5, "low", 0.9),
        source_urls=["https://example.com/story"],
        source_count=1,
        story_id=None,
        fatalities_basis="not_reported",
        title_basis="url",
    )


def gap(area, window, lines=None):
    gaps = capability_gaps(bundled_lines() if lines is None else lines, survey(window))
    return next(gap for gap in gaps if gap.area == CATEGORIES[area])


def named(area, title):
    return area in named_areas(battle(title))


def test_gap_of_air_defense_is_the_formula_worked_by_hand():
    # FY2025 7,064,137, FY2026 10,030,162, FY2027 42,602,229 thousands; 10 of 40 battles name it.
    window = [battle("Missiles hit the port")] * 10 + [battle()] * 30
    read = gap("air_missile_defense", window)
    growth = 10_030_162 / 7_064_137
    demand = (0.25 + (1 - 10_030_162 / 42_602_229)) / 2
    assert read.demand.live_share == 0.25
    assert read.demand.score == pytest.approx(demand, abs=1e-4)
    assert read.supply.score == pytest.approx(growth / (1 + growth), abs=1e-4)
    assert read.gap_score == pytest.approx(sqrt(demand * (1 - growth / (1 + growth))), abs=1e-4)


def test_area_that_nobody_asks_more_of_has_no_gap():
    assert gap("rotary_tiltrotor", [battle()] * 20).gap_score == 0
    assert gap("rotary_tiltrotor", [battle("Helicopter hit")] * 20).gap_score > 0.4


def test_more_fighting_that_names_an_area_widens_its_gap():
    scores = [gap("uas_cca", [battle("Drone hits depot")] * n + [battle()] * (40 - n)).gap_score for n in (0, 10, 40)]
    assert scores == sorted(set(scores))


def test_only_battles_are_asked():
    window = [battle()] * 20 + [battle("Drone sale signed", category="Economic")] * 20
    assert gap("uas_cca", window).demand.matching_events == 0


def test_without_battles_the_demand_and_the_score_are_null_with_reasons():
    for read in capability_gaps(bundled_lines(), survey([])):
        assert (read.demand.score, read.demand.live_share, read.gap_score) == (None, None, None)
        assert "0 battle events are too few" in read.demand.reason
        assert read.gap_score_reason
        assert read.supply.score is not None


@pytest.mark.parametrize(("battles", "is_stated"), [(14, False), (15, True)])
def test_share_of_a_handful_is_not_stated(battles, is_stated):
    assert (gap("space", [battle()] * battles).demand.live_share is not None) is is_stated


def test_lines_without_money_before_give_no_growth_and_no_score():
    lines = [msgspec.structs.replace(line, fy2025_k=0) for line in bundled_lines()]
    read = gap("space", [battle()] * 20, lines)
    assert (read.supply.score, read.gap_score) == (None, None)
    assert "no money in FY2025" in read.supply.reason
    assert "supply" in read.gap_score_reason


def test_area_whose_lines_are_missing_has_no_score():
    read = gap("space", [battle()] * 20, [])
    assert (read.gap_score, read.supply.lines, read.trend.fy2026_b) == (None, 0, 0)


@pytest.mark.parametrize(
    ("area", "title"),
    [
        ("air_missile_defense", "Iron Dome intercepts rockets over Ashkelon"),
        ("fighters", "Two F-16s? No: an F-16 and a Su-35 collide"),
        ("uas_cca", "Bayraktar strikes a column"),
        ("counter_uas", "DRONES over the airfield"),
        ("tactical_precision_munitions", "Anti-tank squads halt the advance"),
        ("air_to_air_missiles", "First air-to-air kill of the war"),
        ("electronic_warfare_survivability", "GPS spoofing grounds flights"),
        ("space", "Satellite images show the damage"),
        ("long_range_strike_missiles", "Ballistic missile hits Kyiv"),
        ("rotary_tiltrotor", "Black Hawk down in the valley"),
        ("airborne_isr_c2_maritime_patrol", "Spy plane intercepted"),
    ],
)
def test_headline_names_the_area(area, title):
    assert named(area, title)


@pytest.mark.parametrize(
    ("area", "title"),
    [
        ("uas_cca", "The droner band tours Donetsk"),
        ("air_missile_defense", "Skyrocketing prices"),
        ("tactical_precision_munitions", "Artillery duel on the border"),
        ("fighters", "Rebel fighters storm the town"),
        ("space", "A town loses its place"),
    ],
)
def test_headline_does_not_name_the_area(area, title):
    assert not named(area, title)


def test_subcategory_can_name_an_area():
    assert "fighters" in named_areas(battle("Eight killed in the north", subcategory="Air strike"))


@pytest.mark.parametrize(
    ("granted", "requested", "unmet"), [(25, 100, 0.75), (100, 100, 0), (200, 100, 0), (10, 0, 0), (0, 10, 1)]
)
def test_unmet_request_is_what_a_repeat_would_leave_open(granted, requested, unmet):
    assert unmet_request(granted, requested) == unmet


@pytest.mark.parametrize(
    ("demand", "supply", "score"),
    [(1, 0, 1), (0, 0, 0), (1, 1, 0), (0.5, 0.5, 0.5), (None, 0.5, None), (0.5, None, None)],
)
def test_gap_score_stays_within_its_bounds(demand, supply, score):
    assert gap_score(demand, supply) == score


def test_areas_are_eleven_known_categories_in_order_of_their_gaps():
    gaps = capability_gaps(bundled_lines(), survey([battle()] * 20))
    scores = [gap.gap_score for gap in gaps]
    assert len(area_words()) == len(gaps) == 11
    assert set(area_words()) < set(CATEGORIES)
    assert scores == sorted(scores, reverse=True)


def test_account_move_does_not_show_in_the_area():
    # THAAD leaves 0300D MD07 for 2032A C20200 in FY2027; both stand in this area.
    thaad = [line for line in bundled_lines() if (line.account, line.code) in {("0300D", "MD07"), ("2032A", "C20200")}]
    assert {line.area for line in thaad} == {"air_missile_defense"}
    assert gap("air_missile_defense", [], thaad).trend.direction == "mixed"


def test_every_figure_is_cited_and_the_past_is_stamped():
    read = gap("air_missile_defense", [battle("Missiles hit the port", number=7)] * 20)
    assert any(text.startswith("Exhibit P-1, account 2032A") for text in read.evidence)
    assert any("conflict_0000000000000007 names missiles" in text for text in read.evidence)
    past = [text for text in read.evidence if "P-40" in text]
    assert past
    assert all(text.startswith("Historic: ") for text in past)


def test_history_is_a_median_of_lines_worked_by_hand():
    # Headroom of MSE 1 - 108/360, Standard Missile 1 - 100/200 and RAM 1 - 90/480.
    past = gap("air_missile_defense", []).supply.history
    assert past.is_historic
    assert (past.headroom, past.headroom_lines) == (0.7, 3)
    # THAAD 38/44, Aegis BMD 67/28, Standard Missile 100/89, RAM 90/61 and ESSM 104/35.
    assert (past.quantity_change, past.quantity_change_lines) == (round(90 / 61 - 1, 4), 5)


def test_unknown_past_is_null_with_a_reason():
    past = gap("space", []).supply.history
    assert (past.quantity_change, past.headroom) == (None, None)
    assert past.quantity_change_reason
    assert past.headroom_reason


def test_history_moves_no_score():
    window = [battle()] * 20
    read = gap("airborne_isr_c2_maritime_patrol", window)
    without = [msgspec.structs.replace(line, code=f"{line.code}x") for line in bundled_lines()]
    unknown = gap("airborne_isr_c2_maritime_patrol", window, without)
    assert read.supply.history != unknown.supply.history
    assert read.gap_score == unknown.gap_score


def test_explanation_says_that_silence_is_no_proof():
    assert "no proof" in gap("space", [battle()] * 20).explanation


def test_explanation_dates_the_fighting():
    assert "up to 2026-11-20" in gap("space", [battle()] * 20).explanation
