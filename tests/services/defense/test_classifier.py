"""The classifier as it serves, on titles it has never seen; their rows are made up in GDELT's manner."""

from datetime import date

import msgspec
import pytest

from tollhouse.services.defense.events import classifier
from tollhouse.services.defense.events.classifier import (
    CATEGORIES,
    Classified,
    ClassifierInput,
    classify_reports,
    combine,
    row_features,
)
from tollhouse.services.defense.ingest.export_parser import Row

DAY = date(2022, 10, 18)


def row(code: str = "190", quad: int = 4, actors: tuple[str, str] = ("", ""), sources: int = 1) -> Row:
    return Row(
        "1", "20221018", "", "", "", actors[0], "", "", "", actors[1], True, code, code[:3], code[:2], quad, -10.0,
        1, sources, 1, -5.0, 0, "", "", "", None, None, "20221018120000", "https://news.example/a",
    )  # fmt: skip


def judge(title: str, *rows: Row, url: str = "https://news.example/a", has_headline: bool = True) -> Classified:
    return classify_reports([ClassifierInput(title, url, rows, has_headline, DAY)])[0]


@pytest.mark.parametrize(
    ("title", "category"),
    [
        ("Rebels ambush army convoy in northern province, 12 soldiers killed", "Battles"),
        ("Air strikes and shelling hit rebel positions near the capital", "Battles"),
        ("suicide bomber kills dozens at military base", "Battles"),
        ("Thousands march through the capital to demand the president's resignation", "Protests"),
        ("rail workers begin three day strike over pay", "Protests"),
        ("Foreign ministers meet for talks on border dispute", "Political"),
        ("parliament approves new election law", "Political"),
        ("Washington imposes tariffs on steel imports", "Economic"),
    ],
)
def test_title_decides_the_category(title, category) -> None:
    answer = judge(title)
    assert answer.category == category
    assert answer.is_relevant
    assert answer.confidence == answer.probabilities[category] > 0.4


@pytest.mark.parametrize(
    "title",
    [
        "Striker scores twice as the hosts win the cup final",
        "Man charged with murder after shooting outside nightclub",
        "Strong earthquake kills dozens and destroys homes",
        "Singer announces world tour and new album",
        "Hospital reports three new coronavirus cases",
        "Husband of missing woman arrested in decades-old murder case",
    ],
)
def test_crime_sport_and_disasters_are_not_served_by_default(title) -> None:
    answer = judge(title, row("190"), row("180"))
    assert not answer.is_relevant
    assert answer.category != "Battles"
    assert "too low to be served by default" in answer.why


def test_name_of_the_month_is_no_march() -> None:
    assert judge("TV listings for Wednesday, March 12").category != "Protests"
    assert judge("Farmers march on parliament over prices").category == "Protests"


def test_codes_of_fighting_alone_make_no_battle() -> None:
    assert judge("Bakery wins award for its bread", *[row("193")] * 5).category != "Battles"


def test_composed_title_is_not_served_and_says_why() -> None:
    answer = judge("Fighting in Kabul, Afghanistan (news.example)", row(), has_headline=False)
    assert answer.relevance == 0
    assert not answer.is_relevant
    assert "composed" in answer.why


def test_title_in_other_letters_is_not_judged() -> None:
    answer = judge("सेना ने आतंकियों को मार गिराया", row())
    assert not answer.is_relevant
    assert "letters other than Latin" in answer.why
    assert judge("Soldiers killed in clash near सेना", row()).is_relevant


def test_probabilities_and_relevance_are_shares_of_one() -> None:
    for title in ("Soldiers killed in clash", "Recipe for soup", "", "0 1 2"):
        answer = judge(title, row())
        assert set(answer.probabilities) == set(CATEGORIES)
        assert answer.relevance == pytest.approx(sum(answer.probabilities.values()), abs=1e-4)
        assert 0 <= answer.relevance <= 1


def test_reason_counts_the_rows_that_agree() -> None:
    answer = judge("Rebels attack army base, ten soldiers killed", row("190"), row("193"), row("042", 1))
    assert answer.why.startswith("the title reads like a report of fighting (probability 0.")
    assert "2 of 3 provider rows are coded as violence" in answer.why


def test_old_events_are_marked_with_the_time_that_the_title_names() -> None:
    answer = judge("Militant leader was killed by commandos in May 2019")
    assert answer.is_retrospective
    assert answer.named_day == date(2019, 5, 1)
    assert '"in may 2019" dates it in the past' in answer.why
    assert not judge("Militant leader killed by commandos on Sunday").is_retrospective


def test_march_on_an_anniversary_takes_place_today() -> None:
    assert not judge("Thousands of protesters march against government on anniversary of uprising").is_retrospective
    assert judge("Nation marks 50th anniversary of the battle").is_retrospective


def test_reports_in_one_batch_are_judged_as_alone() -> None:
    titles = ["Soldiers killed in clash with rebels", "Team wins the league", "Parliament dissolved before election"]
    together = classify_reports([ClassifierInput(title, "https://news.example/a", [row()]) for title in titles])
    alone = [classify_reports([ClassifierInput(title, "https://news.example/a", [row()])])[0] for title in titles]
    assert [answer.category for answer in together] == [answer.category for answer in alone]
    assert [answer.relevance for answer in together] == pytest.approx([answer.relevance for answer in alone], abs=1e-5)
    assert classify_reports([]) == []


def test_classification_survives_storage() -> None:
    answer = judge("Militant leader was killed in May 2019", row())
    assert msgspec.json.decode(msgspec.json.encode(answer), type=Classified) == answer


def said(family: str, battle: float, *, past: bool = False, has_headline: bool = True) -> Classified:
    probabilities = {"Battles": battle, "Protests": 0.01, "Economic": 0.01, "Political": 0.9 - battle * 0.9}
    relevance = sum(probabilities.values()) if has_headline else 0.0
    day = date(2019, 5, 1) if past else None
    return Classified(
        probabilities, relevance, (family,), f"says {family}",
        has_headline=has_headline, is_retrospective=past, named_day=day,
    )  # fmt: skip


def test_copies_of_one_source_family_count_once() -> None:
    copies = [said("wire", 0.9)] * 9
    with_copies = combine([*copies, said("paper", 0.1), said("radio", 0.1)])
    assert with_copies.probabilities == combine([copies[0], said("paper", 0.1), said("radio", 0.1)]).probabilities
    assert with_copies.category == "Political"


def test_agreement_of_publishers_lies_between_their_probabilities() -> None:
    answer = combine([said("wire", 0.95), said("paper", 0.7)])
    assert answer.category == "Battles"
    assert 0.7 < answer.probabilities["Battles"] < 0.95
    assert "2 of 2 reports by 2 source families" in answer.why
    assert answer.families == ("paper", "wire")


def test_one_extreme_report_is_bounded() -> None:
    assert combine([said("wire", 1.0), said("paper", 0.2), said("radio", 0.2)]).probabilities["Battles"] < 0.9


def test_composed_titles_count_only_without_headlines() -> None:
    composed = said("wire", 0.1, has_headline=False)
    answer = combine([composed, said("paper", 0.9), said("radio", 0.8)])
    assert answer.category == "Battles"
    assert answer.relevance > 0.8
    assert combine([composed, composed]).relevance == 0


def test_old_date_named_by_one_of_five_publishers_dates_the_event() -> None:
    reports = [said("wire", 0.9, past=True), *(said(f"paper{n}", 0.9) for n in range(4))]
    assert combine(reports).is_retrospective
    assert combine(reports).named_day == date(2019, 5, 1)
    assert not combine([*reports, *(said(f"more{n}", 0.9) for n in range(3))]).is_retrospective


def test_one_report_combines_to_itself_and_none_is_an_error() -> None:
    only = judge("Soldiers killed in clash", row())
    assert combine([only]) == only
    with pytest.raises(ValueError, match="no report"):
        combine([])


def test_row_features_are_shares() -> None:
    features = row_features([row("190", 4, ("MIL", "REB"), 3), row("141", 3, ("CVL", ""), 1)])
    named = dict(zip(classifier.ROW_FEATURES, features, strict=True))
    assert (named["violence_codes"], named["protest_codes"], named["material_conflict"]) == (0.5, 0.5, 0.5)
    assert (named["verbal_cooperation"], named["tone"]) == (0, -0.5)


def test_codes_of_violence_raise_a_battle_and_never_decide_it() -> None:
    title = "Rebels attack army base, ten soldiers killed"
    coded, calm = judge(title, *[row("190")] * 3), judge(title, *[row("042", 1)] * 3)
    assert coded.probabilities["Battles"] > calm.probabilities["Battles"] > 0.45
