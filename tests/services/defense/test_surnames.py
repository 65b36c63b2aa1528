"""What a name means over all articles."""

import pytest

from tests.services.defense.test_cluster import article
from tollhouse.services.defense.news.entity_names import resolve_entities
from tollhouse.services.defense.news.reported_article import NamedEntity, ReportedArticle


def named(name: str, text: str = "", kind="person") -> NamedEntity:
    return NamedEntity(f"entity_{name.replace(' ', '-').lower()}", name, kind, text or name)


JOE, JILL, BIDEN = named("Joe Biden"), named("Jill Biden"), named("Biden")


def told(*stories: list[list[NamedEntity]]):
    """The names of each article after resolution, for stories given as lists of articles' names, and what merged."""
    reports, story_of = [], {}
    for number, story in enumerate(stories):
        for names in story:
            report = ReportedArticle(article("A title", len(reports)), names)
            reports.append(report)
            story_of[report.article.id] = f"story_{number}"
    resolved, merged = resolve_entities(reports, story_of)
    return [[name.name for name in report.names] for report in resolved], merged, resolved


def test_surname_means_the_one_of_that_name_in_its_story():
    names, merged, resolved = told([[JOE], [BIDEN]])
    assert names == [["Joe Biden"], ["Joe Biden"]]
    assert resolved[1].names[0].text == "Biden"
    assert resolved[1].names[0].id == JOE.id
    assert merged == {}


def test_surname_of_two_people_of_a_story_means_nobody_in_particular():
    names, merged, _ = told([[JOE], [JILL], [BIDEN]])
    assert names[2] == ["Biden"]
    assert merged == {}


def test_surname_without_a_full_name_in_its_story_means_whom_everybody_means():
    names, merged, _ = told([[JOE], [JOE]], [[BIDEN]])
    assert names[2] == ["Joe Biden"]
    assert merged == {BIDEN.id: JOE.id}


def test_one_mention_elsewhere_is_not_everybody():
    assert told([[JOE]], [[BIDEN]])[0][1] == ["Biden"]


def test_twice_as_often_as_the_next_is_clear_and_less_is_not():
    assert told([[JOE]] * 4, [[JILL]] * 2, [[BIDEN]])[0][-1] == ["Joe Biden"]
    assert told([[JOE]] * 3, [[JILL]] * 2, [[BIDEN]])[0][-1] == ["Biden"]


def test_own_story_goes_before_what_everybody_means():
    names, _, _ = told([[JOE]] * 9, [[JILL], [BIDEN]])
    assert names[-1] == ["Jill Biden"]


def test_only_people_have_surnames():
    company = named("Joe Biden", kind="organization")
    names, merged, _ = told([[company], [company], [BIDEN]])
    assert names[-1] == ["Biden"]
    assert merged == {}


def test_surname_that_two_publishers_use_alone_needs_one_full_name():
    assert told([[named("Nikol Pashinyan")]], [[named("Pashinyan")]], [[named("Pashinyan")]])[0][1:] == [
        ["Nikol Pashinyan"],
        ["Nikol Pashinyan"],
    ]


def test_spellings_of_a_person_are_one():
    names, merged, _ = told(
        [[named("Alexander Lukashenko")], [named("Alexander Lukashenko")], [named("Alexander Lukashenka")]]
    )
    assert names[2] == ["Alexander Lukashenko"]
    assert merged == {named("Alexander Lukashenka").id: named("Alexander Lukashenko").id}


@pytest.mark.parametrize(
    ("one", "other"),
    [("Qasim Rahmani", "Kasim Rahmani"), ("Serhii Popko", "Serhiy Popko"), ("Mohammed Deif", "Mohamed Deif")],
)
def test_names_that_sound_alike_are_one_in_any_story(one, other):
    assert told([[named(one)], [named(one)]], [[named(other)]])[0][2] == [one]


def test_people_of_one_surname_and_other_given_names_stay_two():
    names, merged, _ = told([[named("Boris Johnson")], [named("Rachel Johnson")]])
    assert names == [["Boris Johnson"], ["Rachel Johnson"]]
    assert merged == {}


def test_abbreviation_means_the_long_form_in_its_story():
    bank, short = named("European Central Bank", kind="organization"), named("ECB", kind="organization")
    assert told([[bank], [bank], [short]])[0][2] == ["European Central Bank"]


def test_one_name_has_one_type():
    person, place = named("Viktor Kovac"), named("Viktor Kovac", kind="location")
    place = NamedEntity("entity_other", place.name, place.type, place.text)
    _, merged, resolved = told([[person], [person], [place]])
    assert resolved[2].names[0].type == "person"
    assert merged == {place.id: person.id}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Premium", "location"), ("Truth", "person"), ("Grandson Nazi", "person"), ("World New", "organization")],
)
def test_name_of_one_address_without_the_form_of_its_type_is_not_served(name, kind):
    assert told([[named(name, kind=kind)]])[0] == [[]]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Lagos", "location"),
        ("Tamara Okoye", "person"),
        ("Pulaski County", "location"),
        ("Peace Corps", "organization"),
    ],
)
def test_name_with_the_form_of_its_type_is_served_at_once(name, kind):
    assert told([[named(name, kind=kind)]])[0] == [[name]]


def test_case_does_not_part_a_person_from_the_surname():
    assert told([[named("Ursula von der Leyen")], [named("LEYEN")]])[0][1] == ["Ursula von der Leyen"]
