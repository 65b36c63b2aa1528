"""The battle classifier as it serves, on URLs it has never seen; their rows are made up in GDELT's manner."""

from typing import Any

import msgspec
import pytest

from tollhouse.services.defense.ingest.conflict_model import (
    GROUPS,
    MODEL,
    NAMES,
    THRESHOLD,
    battle_probability,
    category_confidence,
    features,
    read_model,
    word_counts,
)
from tollhouse.services.defense.ingest.export_parser import Row


def row(url: str, code: str, place: str, actors: tuple[str, str, str, str] = ("", "", "", ""), **other: Any) -> Row:
    """`actors` are country and type of the first, country and type of the second; `place` is FIPS."""
    written = {
        "id": "1",
        "day": "20221018",
        "actor1_name": "",
        "actor1_country": actors[0],
        "actor1_group": "",
        "actor1_type": actors[1],
        "actor2_name": "",
        "actor2_country": actors[2],
        "actor2_group": "",
        "actor2_type": actors[3],
        "is_root": True,
        "code": code,
        "base_code": code[:3],
        "root_code": code[:2],
        "quad_class": 4,
        "goldstein": -10.0,
        "mentions": 4,
        "sources": 1,
        "articles": 4,
        "tone": -5.0,
        "geo_type": 4,
        "geo_name": "",
        "geo_country": place,
        "geo_adm1": "",
        "latitude": 1.0,
        "longitude": 1.0,
        "added": "20221018120000",
        "url": url,
    }
    return Row(**{**written, **other})


@pytest.mark.parametrize(
    ("path", "code", "place", "actors", "tone"),
    [
        ("sport/golf/scheffler-takes-four-shot-lead-at-open", "193", "UK", ("USA", "", "GBR", ""), 1.0),
        ("entertainment/taylor-swift-killed-it-at-the-grammys", "182", "US", ("USA", "", "", ""), 2.0),
        ("history/today-in-history-germany-invades-poland-1939", "192", "PL", ("DEU", "MIL", "POL", ""), -2.0),
        ("news/local/firefighters-battle-blaze-at-warehouse", "190", "US", ("USA", "", "", ""), -4.0),
        ("news/crime/man-charged-with-murder-after-fatal-shooting", "193", "US", ("USA", "COP", "", "CRM"), -9.0),
        ("football/city-fight-back-to-beat-united-in-derby", "190", "UK", ("GBR", "", "GBR", ""), 0.0),
        ("business/stocks-hit-as-trade-war-fears-return", "190", "US", ("USA", "", "CHN", ""), -2.0),
        ("news/veterans-remember-fallen-at-d-day-memorial", "190", "FR", ("USA", "MIL", "DEU", ""), 0.0),
        ("weather/hurricane-strikes-florida-coast", "190", "US", ("USA", "", "", ""), -3.0),
        ("health/fight-against-malaria-gains-new-vaccine", "190", "KE", ("KEN", "HLH", "GBR", ""), 1.0),
        ("opinion/columnists/why-the-war-on-terror-failed", "190", "US", ("USA", "", "AFG", ""), -4.0),
        ("news/uk/teenager-stabbed-to-death-outside-school", "1823", "UK", ("GBR", "", "", ""), -9.0),
    ],
)
def test_words_of_war_in_peaceful_news_are_no_battle(
    path: str, code: str, place: str, actors: tuple[str, str, str, str], tone: float
) -> None:
    url = f"https://news.example/{path}"
    assert battle_probability(url, [row(url, code, place, actors, tone=tone)] * 2) < THRESHOLD


@pytest.mark.parametrize(
    ("path", "code", "place", "actors"),
    [
        ("world/russian-missiles-strike-kharkiv-killing-three", "194", "UP", ("RUS", "MIL", "UKR", "")),
        ("africa/al-shabaab-militants-attack-army-base-in-somalia", "190", "SO", ("", "UAF", "SOM", "MIL")),
        ("asia/taliban-kill-12-soldiers-in-kunduz-ambush", "190", "AF", ("AFG", "INS", "AFG", "MIL")),
        ("middle-east/airstrike-hits-market-in-yemen-killing-dozens", "195", "YM", ("SAU", "MIL", "YEM", "")),
        ("news/gunmen-kill-40-villagers-in-mali-massacre", "202", "ML", ("", "UAF", "MLI", "CVL")),
        ("news/suicide-bomber-kills-20-at-kabul-mosque", "183", "AF", ("", "UAF", "AFG", "")),
        ("news/m23-rebels-seize-town-in-eastern-congo-after-clashes", "190", "CG", ("COD", "REB", "COD", "MIL")),
        ("asia/myanmar-army-shells-village-as-fighting-flares", "194", "BM", ("MMR", "MIL", "MMR", "")),
        ("article/idUSKBN1ABC2", "194", "SY", ("RUS", "MIL", "SYR", "REB")),
    ],
)
def test_reports_of_fighting_are_battles(path: str, code: str, place: str, actors: tuple[str, str, str, str]) -> None:
    url = f"https://news.example/{path}"
    assert battle_probability(url, [row(url, code, place, actors, tone=-7.0)] * 3) >= THRESHOLD


def test_same_words_weigh_more_where_there_is_war() -> None:
    url = "https://news.example/two-killed-in-attack"
    at_war = battle_probability(url, [row(url, "190", "SY", ("SYR", "", "", ""))])
    at_peace = battle_probability(url, [row(url, "190", "US", ("USA", "", "", ""))])
    assert at_war > THRESHOLD > at_peace


def test_words_of_the_host_and_the_query_say_nothing() -> None:
    assert not any(word_counts("https://war-missile-rebels.example/a1?ref=soldiers-killed#army"))


def test_a_word_counts_for_every_form_its_beginning_takes() -> None:
    counts = dict(zip(GROUPS, word_counts("https://n.example/insurgency/rebels-and-Insurgents-1944"), strict=True))
    assert counts["insurgent"] == 2  # three words, but more than two prove no more
    assert counts["memory"] == 1


@pytest.mark.parametrize("url", ["not a url", "https://n.example", "http://n.example/%D8%AA/١٢٣"])
def test_a_url_without_readable_words_still_gets_an_answer(url: str) -> None:
    assert 0 < battle_probability(url, [row(url, "190", "IZ")]) < 1


def test_rows_without_fights_are_refused() -> None:
    with pytest.raises(ValueError, match="no row of assault"):
        battle_probability("https://n.example/a", [row("https://n.example/a", "042", "US")])


def test_every_feature_is_a_small_number_with_a_weight() -> None:
    rows = [row("u", code, "SY", ("SYR", "MIL", "USA", "REB"), tone=-90.0) for code in ("190", "203", "1823", "141")]
    values = features("https://n.example/rocket-attack-kills-army-rebels-as-war-rages", rows * 50)
    assert len(values) == len(NAMES) == len(MODEL.weights.values) == len(set(NAMES))
    assert all(-1 <= value <= 6 for value in values)


def test_weights_for_other_features_are_refused() -> None:
    other = msgspec.structs.replace(MODEL, names=(*NAMES[1:], "moon_phase"))
    with pytest.raises(ValueError, match="train_conflict"):
        read_model(msgspec.json.encode(other))


def test_confidence_of_a_battle_is_its_probability() -> None:
    url = "https://n.example/rockets-hit-tripoli"
    rows = [row(url, "194", "LY", ("LBY", "MIL", "", ""))]
    assert category_confidence("Battles", rows) == battle_probability(url, rows)


def test_a_protest_named_in_the_url_is_more_certain_than_one_in_the_codes_alone() -> None:
    named, coded, sport = (
        category_confidence("Protests", [row(f"https://n.example/{path}", "141", "FR")])
        for path in ("thousands-join-protest-march", "residents-of-two-districts", "midfielder-wins-football-cup")
    )
    assert 1 > named > 0.5 > coded > sport > 0


def test_a_statement_is_more_surely_political_than_a_recipe() -> None:
    said, cooked = (
        category_confidence("Political", [row(f"https://n.example/{path}", "010", "FR")])
        for path in ("president-warns-parliament", "kitchen/garden-recipes")
    )
    assert said > 0.6
    assert cooked < 0.4
