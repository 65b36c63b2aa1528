from tollhouse.services.defense.entities.lexicon import Mention
from tollhouse.services.defense.news.reported_article import add_gkg_names


def test_name_that_both_found_is_kept_once_with_our_type():
    ours = [Mention("President Petro Poroshenko", "person", 0, 26)]
    names = add_gkg_names(ours, ["Viktor Orban"], ["Petro Poroshenko"])
    assert names == [*ours, Mention("Viktor Orban", "person", 0, 0)]


def test_single_word_that_only_gkg_found_is_left_out():
    assert add_gkg_names([], ["Turks"], ["Party"]) == []


def test_name_that_gkg_lists_as_person_and_organization_is_left_out():
    assert add_gkg_names([], ["Azov Battalion"], ["Azov Battalion"]) == []


def test_agency_that_gkg_lists_is_a_credit_and_no_entity():
    assert add_gkg_names([], [], ["Associated Press", "World Bank"]) == [Mention("World Bank", "organization", 0, 0)]
