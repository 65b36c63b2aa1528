"""Whom a surname alone means."""

from tests.services.defense.test_cluster import article
from tollhouse.services.defense.news.reported_article import NamedEntity, ReportedArticle
from tollhouse.services.defense.news.story_builder import resolve_surnames


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
    resolved, merged = resolve_surnames(reports, story_of)
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
    company, place = named("Joe Biden", kind="organization"), named("Biden", kind="location")
    names, merged, resolved = told([[company], [company], [place], [BIDEN]])
    assert names == [["Joe Biden"], ["Joe Biden"], ["Biden"], ["Biden"]]
    assert resolved[2].names == [place]
    assert merged == {}


def test_case_does_not_part_a_person_from_the_surname():
    assert told([[named("Ursula von der Leyen")], [named("LEYEN")]])[0][1] == ["Ursula von der Leyen"]
