import pytest

from tollhouse.services.defense.entities.lexicon import Mention
from tollhouse.services.defense.entities.merge import entity_id, identify


def mention(text, type_="person"):
    return Mention(text, type_, 0, len(text))


def called(*mentions: Mention):
    return [identity and identity.name for identity in identify(mentions)]


@pytest.mark.parametrize("alias", ["Lockheed", "Lockheed Martin Corp.", "LMT", "the Lockheed Martin Corporation"])
def test_a_company_and_its_aliases_are_one(alias):
    first, second = identify([mention("Lockheed Martin", "organization"), mention(alias, "organization")])
    assert first.id == second.id
    assert second.name == "Lockheed Martin"


def test_a_title_and_a_surname_mean_the_person_named_in_full():
    assert called(mention("President Biden"), mention("Joe Biden"), mention("Biden")) == ["Joe Biden"] * 3


def test_a_long_title_is_no_part_of_the_name():
    assert called(mention("Secretary of Defense Lloyd Austin")) == ["Lloyd Austin"]
    assert called(mention("Pentagon Press Secretary John Kirby")) == ["John Kirby"]
    assert called(mention("U.S. Army Gen. Lloyd J. Austin III"))[0].endswith("Lloyd Austin")


def test_two_people_of_one_surname_stay_two():
    joe, hunter, either = identify([mention("Joe Biden"), mention("Hunter Biden"), mention("Biden")])
    assert joe.id != hunter.id
    assert either is None


def test_a_surname_without_a_full_name_is_itself():
    assert called(mention("Gen. Surovikin")) == ["Surovikin"]


def test_a_country_is_one_place_however_it_is_called():
    identities = identify([mention("the U.S.", "location"), mention("United States", "location")])
    assert {identity.id for identity in identities} == {entity_id("location", "United States")}


def test_a_state_as_an_actor_is_its_government():
    state = entity_id("organization", "Government of the United States")
    identities = identify([mention("the U.S.", "organization"), mention("America", "organization")])
    assert {identity.id for identity in identities} == {state}
    assert called(mention("Government of Peru", "organization"), mention("Peru", "organization")) == [
        "Government of Peru",
        "Government of Peru",
    ]


def test_abbreviations_of_known_bodies_are_the_body():
    assert called(mention("IDF", "organization"), mention("CENTCOM", "organization")) == [
        "Israel Defense Forces",
        "US Central Command",
    ]


def test_initials_mean_the_body_the_article_spells_out():
    assert called(mention("Baltic Naval Institute", "organization"), mention("BNI", "organization")) == [
        "Baltic Naval Institute",
        "Baltic Naval Institute",
    ]


@pytest.mark.parametrize(
    ("written", "name"),
    [("T-90s", "T-90"), ("KINZHAL", "Kinzhal"), ("Tomahawk cruise missiles", "Tomahawk"), ("F - 35A", "F-35A")],
)
def test_a_platform_has_one_name(written, name):
    assert called(mention(written, "platform")) == [name]


def test_a_place_in_capitals_is_the_place():
    assert called(mention("KYIV", "location")) == ["Kyiv"]


def test_an_id_is_of_the_type_and_the_name_alone():
    assert entity_id("person", "Joe Biden") == entity_id("person", "JOE BIDEN")
    assert entity_id("person", "Jordan") != entity_id("location", "Jordan")
    assert entity_id("location", "Kyiv").startswith("entity_")
    assert len(entity_id("location", "Kyiv")) == len("entity_") + 16


@pytest.mark.parametrize("written", ["S Africa", "S. Africa", "South Africa"])
def test_a_country_shortened_by_a_headline_is_the_country(written):
    assert called(mention(written, "location")) == ["South Africa"]


def test_a_given_name_alone_is_nobody():
    assert identify([mention("George", "person")]) == [None]
    assert called(mention("Prince George", "person")) == ["George"]
    assert called(mention("George", "person"), mention("George Barros", "person"))[1] == "George Barros"
