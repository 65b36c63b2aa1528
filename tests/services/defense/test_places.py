"""The place of an event: what a title says, what the rows say, and what several reports agree on."""

import msgspec
import pytest

from tollhouse.services.defense.events.place import (
    Location,
    PlaceEvidence,
    country_shares,
    decide_place,
    read_place,
)
from tollhouse.services.defense.gazetteer import country_of_point, outlet_country
from tollhouse.services.defense.ingest.export_parser import Row

NOWHERE = "https://example.com/a"


def row(
    name: str,
    fips: str,
    point: tuple[float, float],
    *,
    kind: int = 4,
    actors: tuple[str, str] = ("", ""),
    mentions: int = 5,
) -> Row:
    """A provider's row with a place and the CAMEO countries of its actors."""
    return Row(
        "1", "20200301", actors[0], actors[0], "", "", actors[1], actors[1], "", "", True, "190", "190", "19", 4, -10.0,
        mentions, 1, mentions, -3.0, kind, name, fips, "", point[0], point[1], "20200301120000", NOWHERE,
    )  # fmt: skip


LONDON = row("London, London, City of, United Kingdom", "UK", (51.5, -0.1167))
DAMASCUS = row("Damascus, Dimashq, Syria", "SY", (33.5, 36.3))


def place(title: str, *rows: Row, url: str = NOWHERE) -> Location:
    location = decide_place([read_place(title, rows, url)])
    assert location is not None
    return location


def country(title: str, *rows: Row, url: str = NOWHERE) -> str:
    return place(title, *rows, url=url).country_code


def test_title_outweighs_the_providers_place() -> None:
    assert country("Suicide bomber kills four in Mogadishu", LONDON) == "SO"


def test_town_that_the_title_names_gives_the_coordinates() -> None:
    served = place("Shelling near Kharkiv wounds two", row("Ukraine", "UP", (49.0, 32.0), kind=1))
    assert served.name == "Kharkiv, Ukraine"
    assert (round(served.geo.latitude), round(served.geo.longitude)) == (50, 36)


def test_titles_from_urls_need_neither_capitals_nor_punctuation() -> None:
    assert country("gunmen storm hotel in bamako") == "ML"
    assert country("irans parliament passes bill") == "IR"


def test_pronoun_us_is_not_the_country() -> None:
    assert decide_place([read_place("What the floods teach us", [], NOWHERE)]) is None
    assert country("US House passes spending bill") == "US"


@pytest.mark.parametrize(
    "title",
    [
        "A nice day for reading",
        "Parties split over bill of rights",
        "Best mobile plans of the year",
        "Man in the bath",
        "Most wanted list grows",
    ],
)
def test_everyday_words_are_not_towns(title: str) -> None:
    assert decide_place([read_place(title, [], NOWHERE)]) is None


def test_everyday_word_is_a_town_where_other_evidence_agrees() -> None:
    nice = row("Nice, Provence-Alpes-Côte d'Azur, France", "FR", (43.7, 7.25))
    assert place("Knife attack in Nice leaves three dead", nice).name == "Nice, France"


def test_outlet_tells_towns_of_one_name_apart() -> None:
    assert country("Police search home in Birmingham", url="https://www.al.com/news/police-search") == "US"
    assert country("Police search home in Birmingham", url="https://www.birminghammail.co.uk/police-search") == "GB"


def test_larger_town_is_meant_where_nothing_else_is_known() -> None:
    assert country("Thousands march through Paris") == "FR"


def test_capital_is_meant_before_other_towns_and_persons_of_its_name() -> None:
    assert place("Santiago under curfew").name == "Santiago, Chile"
    assert place("Fire guts warehouse in Philadelphia").country_code == "US"
    assert place("Washington braces for storm").name == "Washington, United States"
    assert place("Washington braces for storm").geo.latitude == pytest.approx(38.9, abs=0.1)


def test_former_names_of_towns_are_known() -> None:
    assert place("Train derails near Bombay").name == "Mumbai, India"


def test_given_name_beside_a_town_makes_a_person() -> None:
    assert country("Alex Muscat questioned by committee", url="https://timesofmalta.com/a") == "MT"


def test_acting_country_is_not_the_place_of_its_strike() -> None:
    assert country("Turkey strikes Kurdish positions in northern Syria") == "SY"
    assert country("Saudi jets bomb Sanaa") == "YE"


def test_attack_from_a_country_is_not_in_it() -> None:
    assert country("Rockets from Lebanon hit Israel") == "IL"


def test_country_after_by_is_a_place_more_than_one_after_from() -> None:
    assert country("Foreign aircraft shot down by Syria", LONDON) == "SY"


def test_name_before_state_is_the_state_and_not_its_town() -> None:
    assert place("Lagos state governor signs budget").geo.region == "Lagos"
    assert place("Vote count goes on in Washington state").geo.latitude > 45


def test_nationality_of_a_victim_is_not_the_place() -> None:
    assert country("Norwegian tourist shot dead in Nairobi") == "KE"


def test_capital_of_a_nationality_is_in_its_country() -> None:
    assert country("Bomb goes off in Afghan capital") == "AF"


def test_famous_persons_name_is_no_town_to_serve() -> None:
    served = place("Taylor Swift announces tour", url="https://www.nbcdfw.com/entertainment/taylor-swift")
    assert served.name == "United States"


def test_word_as_neither_locates_nor_excludes() -> None:
    served = place("Prices climb as Kenya votes")
    assert served.country_code == "KE"
    assert "origin" not in served.why


def test_single_weak_name_is_not_served_with_certainty() -> None:
    assert place("Chinese students win prize").confidence < 0.9


def test_embassy_is_not_in_the_country_it_represents() -> None:
    assert country("Protesters gather at Chinese embassy in London") == "GB"


def test_newspaper_is_not_the_place_of_its_news() -> None:
    assert country("Jerusalem Post journalist freed in Damascus") == "SY"


def test_meeting_is_where_it_is_held() -> None:
    assert country("US and Iran hold talks in Geneva on sanctions", DAMASCUS) == "CH"


def test_sea_is_no_country() -> None:
    assert decide_place([read_place("Drill held in South China Sea", [], NOWHERE)]) is None


def test_new_mexico_is_not_mexico_and_nigeria_is_not_niger() -> None:
    assert country("Wildfire forces evacuations in New Mexico") == "US"
    assert country("Farmers protest in northern Nigeria") == "NG"


def test_country_before_a_colon_is_the_place() -> None:
    assert country("Peru: Two ministers resign after talks with Chile") == "PE"


def test_county_says_its_state() -> None:
    assert place("Deputies search farm in Maricopa County").name == "Arizona, United States"


@pytest.mark.parametrize(
    ("title", "code"),
    [
        ("Strike on house in Khan Younis", "PS"),
        ("Raid in Nablus before dawn", "PS"),
        ("Rally in Pristina", "XK"),
        ("Ships dock in Kaohsiung", "TW"),
        ("Explosions heard in Sevastopol", "UA"),
        ("Truce holds in Nagorno-Karabakh", "AZ"),
        ("Shelling reported in South Ossetia", "GE"),
    ],
)
def test_disputed_places_count_to_the_documented_country(title: str, code: str) -> None:
    assert country(title) == code


def test_providers_place_beyond_a_disputed_border_counts_to_the_documented_country() -> None:
    assert country_of_point("IS", 31.34, 34.30) == "PS"
    assert country_of_point("IS", 32.08, 34.78) == "IL"
    assert country_of_point("RS", 44.95, 34.1) == "UA"
    assert country_of_point("RS", 51.19, 35.27) == "RU"
    assert not country_of_point("OS", 0.0, 0.0)


def test_national_outlet_counts_where_the_title_is_silent() -> None:
    url = "https://punchng.com/governor-swears-in-new-aide"
    assert country("Governor swears in new aide", url=url) == "NG"
    assert country("Governor meets mayor in Toronto", url=url) == "CA"


def test_outlet_of_world_news_has_no_country() -> None:
    assert not outlet_country("www.reuters.com")
    assert outlet_country("www.smh.com.au") == "AU"
    assert not outlet_country("dns.tv")


def test_outlet_counts_less_in_a_section_about_the_world() -> None:
    home = read_place("Minister resigns", [DAMASCUS], "https://www.smh.com.au/politics/minister-resigns")
    abroad = read_place("Minister resigns", [DAMASCUS], "https://www.smh.com.au/world/minister-resigns")
    assert country_shares([home])["AU"] > country_shares([abroad])["AU"]


def test_outlet_counts_less_where_the_rows_name_only_other_countries() -> None:
    url, title = "https://www.smh.com.au/a", "Brazil: Minister resigns"
    domestic = row("Sydney, New South Wales, Australia", "AS", (-33.9, 151.2), actors=("AUS", "BRA"))
    distant = row("Lisbon, Lisboa, Portugal", "PO", (38.7, -9.1), actors=("PRT", "BRA"))
    beside, alone = (country_shares([read_place(title, [rows], url)]) for rows in (domestic, distant))
    assert alone["AU"] < 0.5 * beside["AU"]


def test_page_without_a_title_is_where_its_rows_are() -> None:
    fighting = row("Mekele, Tigray, Ethiopia", "ET", (13.5, 39.5), actors=("ETH", "ETH"))
    assert country("", fighting, url="https://www.bbc.co.uk/news/world-africa-54904496") == "ET"
    assert country("", fighting, url="https://www.heraldscotland.com/18871236") == "ET"


def test_section_of_the_url_names_the_country() -> None:
    assert country("Minister resigns over budget", url="https://example.com/africa/ghana/minister-resigns") == "GH"


def test_rows_decide_where_nothing_else_speaks() -> None:
    served = place("Two soldiers die", DAMASCUS)
    assert (served.country_code, served.name, served.geo.region) == ("SY", "Damascus, Syria", "Dimashq")


def test_village_that_only_the_rows_know_is_served_where_the_title_names_it() -> None:
    village = row("Kafr Zubayda, Idlib, Syria", "SY", (36.12, 36.51), mentions=1)
    served = place("Clashes in Kafr Zubayda in Syria", DAMASCUS, village)
    assert served.name == "Kafr Zubayda, Syria"
    assert place("Clashes in Kafr Zubayda", village, LONDON).name == "Kafr Zubayda, Syria"


def test_point_lies_in_the_decided_country() -> None:
    served = place("Blast in Lebanon", DAMASCUS)
    assert (served.country_code, served.name) == ("LB", "Lebanon")
    assert (round(served.geo.latitude), round(served.geo.longitude)) == (34, 36)


def test_reports_of_one_event_decide_together() -> None:
    reports = [
        read_place("Security forces fire on crowd", [LONDON], "https://www.bbc.co.uk/a"),
        read_place("Crowd shot at in Khartoum", [], NOWHERE),
        read_place("Sudan protest ends in bloodshed", [LONDON], NOWHERE),
    ]
    assert decide_place(reports[:1]).country_code == "GB"  # type: ignore[union-attr]
    served = decide_place(reports)
    assert served is not None
    assert (served.country_code, served.name) == ("SD", "Khartoum, Sudan")
    assert served.why.startswith("3 reports: a title places it in 'Khartoum'")


def test_one_title_of_many_that_locates_does_not_place_the_event() -> None:
    probe = read_place("Trump declassifies documents related to FBI Russia probe", [], NOWHERE)
    moscow = read_place("Probe documents shown in Moscow", [], NOWHERE)
    assert decide_place([probe] * 20 + [moscow]).country_code == "US"  # type: ignore[union-attr]
    assert decide_place([probe, moscow]).country_code == "RU"  # type: ignore[union-attr]


def test_agreement_raises_the_confidence() -> None:
    one = read_place("Ethiopia fires minister", [], NOWHERE)
    alone, together = decide_place([one]), decide_place([one, one, one, one])
    assert alone is not None
    assert together is not None
    assert 0 < alone.confidence <= together.confidence < 1


def test_contradicting_evidence_lowers_the_confidence() -> None:
    assert place("Bus burns in Quito").confidence > place("Bus burns in Quito", LONDON).confidence


def test_reason_quotes_the_words_that_decided() -> None:
    served = place("Mortar attack near Donetsk", LONDON)
    assert "'Donetsk'" in served.why
    assert "London" not in served.why


def test_reason_lists_names_of_one_role_together() -> None:
    assert place("Iraq mourns Baghdad victims").why.startswith("the title names 'Iraq' and 'Baghdad'")


def test_reason_names_no_person_as_a_place() -> None:
    why = place("Agent Gary Shapley testifies to US House", url="https://www.npr.org/a").why
    assert "Gary" not in why
    assert "the outlet is one of the country" in why


def test_no_evidence_is_no_place() -> None:
    assert decide_place([]) is None
    assert decide_place([read_place("", [], "")]) is None


def test_evidence_survives_storage() -> None:
    evidence = read_place("Shelling near Kharkiv", [LONDON], "https://www.bbc.co.uk/news/world-europe-1")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(evidence), type=PlaceEvidence) == evidence
    assert evidence.places == ("Kharkiv",)


def test_shares_of_countries_never_exceed_one() -> None:
    shares = read_place("Iraq and Iran reopen border crossing", [DAMASCUS, LONDON], NOWHERE).countries
    assert 0.9 < sum(shares.values()) <= 1
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


@pytest.mark.parametrize("title", ["", "'s", "...", "in", "the US", "\x00", "é" * 400, "a " * 400, "नेपाल में चुनाव"])
def test_any_title_is_read(title: str) -> None:
    read_place(title, [], "http://[")
