import pytest

from tollhouse.services.defense.gazetteer import COUNTRIES
from tollhouse.services.defense.news.entity import Geocode, geocode
from tollhouse.services.defense.news.reported_article import Place

HERE = Place("Qala Zzyx", 34.98, 63.12)


def test_known_place_lies_where_the_gazetteer_says():
    found = geocode(["Israel"], [Place("Israel", 1.0, 1.0)])
    assert found is not None
    assert found.latitude == pytest.approx(31.5, abs=1)
    assert found.longitude == pytest.approx(34.75, abs=1)
    assert geocode(["ISRAEL"], []) == found


def test_unknown_place_lies_where_the_articles_provider_says():
    assert geocode(["Qala Zzyx"], [Place("Kabul", 34.5, 69.2), HERE]) == Geocode(34.98, 63.12)
    assert geocode(["qala zzyx"], [HERE]) == Geocode(34.98, 63.12)


def test_alias_serves_where_the_name_is_unknown():
    assert geocode(["Qala Zzyx", "Israel"], [HERE]) == geocode(["Israel"], [])


def test_first_known_name_wins():
    assert geocode(["Ethiopia", "Israel"], []) == geocode(["Ethiopia"], [])
    assert geocode(["Ethiopia"], []) != geocode(["Israel"], [])


def test_part_of_a_country_lies_apart_from_its_centre():
    gaza, kyiv = geocode(["Gaza"], []), geocode(["Kiev"], [])
    assert gaza is not None
    assert kyiv is not None
    assert (round(gaza.latitude), round(gaza.longitude)) == (31, 34)
    assert (round(kyiv.latitude), round(kyiv.longitude)) == (50, 31)


def test_every_country_has_a_centre():
    assert [country.name for country in COUNTRIES if geocode([country.name], []) is None] == []


def test_place_nobody_knows_lies_nowhere():
    assert geocode(["Qala Zzyx"], [Place("Kabul", 34.5, 69.2)]) is None
    assert geocode([], []) is None
