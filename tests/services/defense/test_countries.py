import pytest

from tollhouse.services.defense.gazetteer import (
    COUNTRIES,
    NOWHERE,
    country_by_cameo,
    country_by_fips,
    find_country,
    near_matches,
)


@pytest.mark.parametrize(
    ("code", "alpha2"),
    [("UP", "UA"), ("CH", "CN"), ("GZ", "PS"), ("WE", "PS"), ("KV", "XK"), ("TW", "TW"), ("HK", "HK"), ("MC", "MO"),
     ("RB", "RS"), ("RS", "RU"), ("OD", "SS"), ("AS", "AU"), ("SN", "SG"), ("GM", "DE")],
)  # fmt: skip
def test_fips_code_names_its_own_country_not_the_iso_one(code: str, alpha2: str) -> None:
    country = country_by_fips(code)
    assert country is not None
    assert country.alpha2 == alpha2


@pytest.mark.parametrize("code", [*sorted(NOWHERE), "", "ZZ"])
def test_seas_and_unknown_codes_are_nowhere(code: str) -> None:
    assert country_by_fips(code) is None


@pytest.mark.parametrize(
    ("code", "alpha2"), [("ROM", "RO"), ("ROU", "RO"), ("ZAR", "CD"), ("TMP", "TL"), ("USA", "US")]
)
def test_actor_codes_may_differ_from_iso(code: str, alpha2: str) -> None:
    country = country_by_cameo(code)
    assert country is not None
    assert country.alpha2 == alpha2


@pytest.mark.parametrize("code", ["AFR", "EUR", "SEA", "WST", ""])
def test_regions_are_no_countries(code: str) -> None:
    assert country_by_cameo(code) is None


@pytest.mark.parametrize(
    ("text", "alpha2"),
    [("ukraine", "UA"), ("UKR", "UA"), ("ua", "UA"), ("USA", "US"), ("u.s.", "US"), ("UK", "GB"), ("Ivory Coast", "CI"),
     ("Côte d\u2019Ivoire", "CI"), ("cote divoire", "CI"), ("Burma", "MM"), ("DRC", "CD"), ("Palestine", "PS"),
     ("Gaza", "PS"), ("South Korea", "KR"), ("the Gambia", "GM"), ("The Netherlands", "NL"), ("Türkiye", "TR"),
     ("St. Lucia", "LC"), ("Saint Lucia", "LC"), ("Antigua & Barbuda", "AG"), ("sao tome and principe", "ST"),
     ("  north   korea ", "KP"), ("Macau", "MO"), ("Kosovo", "XK")],
)  # fmt: skip
def test_country_is_found_by_what_people_type(text: str, alpha2: str) -> None:
    country = find_country(text)
    assert country is not None
    assert country.alpha2 == alpha2


@pytest.mark.parametrize("text", ["", "the", "Atlantis", "x" * 5000])
def test_text_that_names_no_country_finds_none(text: str) -> None:
    assert find_country(text) is None


@pytest.mark.parametrize(("text", "name"), [("Ukrane", "Ukraine"), ("Frence", "France"), ("nigera", "Nigeria")])
def test_misspelt_country_comes_first_among_the_near_matches(text: str, name: str) -> None:
    assert near_matches(text)[0] == name


def test_near_matches_stay_within_the_limit() -> None:
    assert len(near_matches("guinea", limit=2)) == 2
    assert near_matches("qqqqqq") == []


def test_every_country_is_found_by_each_of_its_names_and_codes() -> None:
    for country in COUNTRIES:
        for text in (country.name, country.alpha2, country.alpha3, *country.aliases):
            assert find_country(text) == country, text


def test_no_code_belongs_to_two_countries() -> None:
    for codes in (
        [country.alpha2 for country in COUNTRIES],
        [country.alpha3 for country in COUNTRIES],
        [code for country in COUNTRIES for code in country.fips],
    ):
        assert len(codes) == len(set(codes))
